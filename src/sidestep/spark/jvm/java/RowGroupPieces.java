package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.*;

/**
 * Cuts files into pieces that hold only the row groups to be read. Which row group a piece is read with depends on where
 * the row group's middle lies (RowGroupPlaces), so that one whose middle is in no piece is not read, whatever its columns
 * and the query's conditions are. A file is cut only if it is the very file that the index knows and has as many row
 * groups as its entry says; any other is read whole.
 */
final class RowGroupPieces {
  /** Footers that are read for one scan at most, beyond those that are known: others would wait for them too long. */
  private static final int MOST_READ = 2000;
  /** From how many on they are read on several threads. */
  private static final int MANY = 8;

  private final PrunedFiles files;
  /** One for each index of the files; null: nothing is left out by it. */
  private final KeptGroups[] planned;
  /** Of type KeptGroups: what was chosen when the query ran, by the first index. */
  private final List chosen;

  RowGroupPieces(PrunedFiles files, List chosen) {
    this.files = files;
    this.planned = files.keptGroups();
    this.chosen = chosen;
  }

  boolean isEmpty() {
    for (int i = 0; i < planned.length; i++) if (planned[i] != null) return false;
    return chosen.isEmpty();
  }

  /** A file that is read in part. */
  static final class Part {
    final int index;
    final int entry;
    private final int groups;
    private final BitSet kept;
    private RowGroupPlaces places = null;

    private Part(int index, int entry, int groups, BitSet kept) {
      this.index = index;
      this.entry = entry;
      this.groups = groups;
      this.kept = kept;
    }
  }

  /** For each of some files how it is read in part; null: whole. */
  Part[] parts(final FileStatus[] statuses) throws Exception {
    final Part[] parts = new Part[statuses.length];
    FileKeys.Candidates candidates = files.candidates();
    for (int i = 0; i < parts.length; i++) {
      parts[i] = part(statuses[i]);
      if (parts[i] != null) candidates.add(i, statuses[i], keys(parts[i]), parts[i].entry);
    }
    BitSet sure = files.unchanged(candidates);
    ArrayList running = new ArrayList();
    int toRead = 0;
    for (int i = 0; i < parts.length; i++) {
      if (parts[i] != null && !keys(parts[i]).hasPlaces(parts[i].entry) && sure.get(i) && ++toRead > MOST_READ) sure.clear(i);
    }
    for (int i = sure.nextSetBit(0); i >= 0; i = sure.nextSetBit(i + 1)) {
      final int at = i;
      Runnable look = new Runnable() {
        public void run() {
          parts[at].places = keys(parts[at]).places(statuses[at], parts[at].entry);
        }
      };
      if (toRead < MANY) look.run();
      else running.add(java.util.concurrent.ForkJoinPool.commonPool().submit(look));
    }
    for (int i = 0; i < running.size(); i++) ((java.util.concurrent.Future) running.get(i)).get();
    for (int i = 0; i < parts.length; i++) {
      if (parts[i] == null) continue;
      if (parts[i].places == null || parts[i].places.groups() != parts[i].groups) parts[i] = null;
    }
    return parts;
  }

  private FileKeys keys(Part part) {
    return ((PrunedFiles.Skip) files.skips.get(part.index)).keys;
  }

  private Part part(FileStatus file) {
    for (int s = 0; s < planned.length; s++) {
      int entry = ((PrunedFiles.Skip) files.skips.get(s)).keys.position(file);
      if (entry < 0) continue;
      int groups = planned[s] == null ? 0 : planned[s].groups(entry);
      BitSet kept = groups == 0 ? null : planned[s].kept(entry);
      for (int c = 0; s == 0 && c < chosen.size(); c++) {
        KeptGroups more = (KeptGroups) chosen.get(c);
        int counted = more.groups(entry);
        if (counted == 0) continue;
        // Both speak of the same entry: they cannot differ, and if they do, neither is believed.
        if (groups != 0 && groups != counted) return null;
        groups = counted;
        if (kept == null) kept = more.kept(entry);
        else kept.and(more.kept(entry));
      }
      return kept == null ? null : new Part(s, entry, groups, kept);
    }
    return null;
  }

  /** The pieces to be read in place of what a scan would read; null if that is the same. */
  scala.collection.immutable.Seq cut(FileScanRDD whole, org.apache.spark.sql.SparkSession session) throws Exception {
    List before = Scala.list(whole.filePartitions());
    HashMap numbers = new HashMap();
    ArrayList statuses = new ArrayList();
    for (int p = 0; p < before.size(); p++) {
      PartitionedFile[] splits = ((FilePartition) before.get(p)).files();
      for (int f = 0; f < splits.length; f++) {
        if (numbers.containsKey(splits[f].filePath())) continue;
        numbers.put(splits[f].filePath(), Integer.valueOf(statuses.size()));
        statuses.add(new FileStatus(splits[f].fileSize(), false, 0, 0, splits[f].modificationTime(), splits[f].toPath()));
      }
    }
    Part[] parts = parts((FileStatus[]) statuses.toArray(new FileStatus[statuses.size()]));
    ArrayList units = new ArrayList();
    boolean same = true;
    for (int p = 0; p < before.size(); p++) {
      PartitionedFile[] splits = ((FilePartition) before.get(p)).files();
      for (int f = 0; f < splits.length; f++) {
        Part part = parts[((Integer) numbers.get(splits[f].filePath())).intValue()];
        same &= part == null;
        Unit unit = new Unit(p);
        if (part == null) unit.add(splits[f]);
        else cut(splits[f], part, unit);
        if (!unit.pieces.isEmpty()) units.add(unit);
      }
    }
    return same ? null : pack(units, before.size(), session);
  }

  /** The pieces of a split that hold the middles of the row groups to be read, and of no others. */
  private static void cut(PartitionedFile split, Part part, Unit into) throws Exception {
    long from = split.start();
    long to = from + split.length();
    RowGroupPlaces places = part.places;
    int first = 0;
    while (first < part.groups && places.middle(first) < from) first++;
    int end = first;
    while (end < part.groups && places.middle(end) < to) end++;
    for (int low = part.kept.nextSetBit(first); low >= 0 && low < end;) {
      int next = Math.min(end, part.kept.nextClearBit(low));
      // As wide as the row groups, so that tasks can be weighed; never as wide as the middle of a neighbour.
      long least = low == first ? from : places.middle(low - 1) + 1;
      long most = next == end ? to : places.middle(next);
      long start = Math.max(least, Math.min(places.starts[low], places.middle(low)));
      long stop = Math.min(most, Math.max(places.starts[next - 1] + places.sizes[next - 1], places.middle(next - 1) + 1));
      Object piece = Replacement.copyWith(split, "start", Long.valueOf(start));
      into.add((PartitionedFile) Replacement.copyWith(piece, "length", Long.valueOf(stop - start)));
      low = part.kept.nextSetBit(next);
    }
  }

  /** Pieces that were one split: they stay together, as they are of one file, and count as one file to be opened. */
  private static final class Unit implements Comparable {
    final int partition;
    final ArrayList pieces = new ArrayList();
    long length = 0;

    Unit(int partition) {
      this.partition = partition;
    }

    void add(PartitionedFile piece) {
      pieces.add(piece);
      length += piece.length();
    }

    public int compareTo(Object other) {
      return Long.compare(((Unit) other).length, length);
    }
  }

  /** Tasks of about the same size, made as Spark makes them, and never more of them. */
  private static scala.collection.immutable.Seq pack(List units, int most, org.apache.spark.sql.SparkSession session) {
    org.apache.spark.sql.internal.SQLConf conf =
        ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    long open = conf.filesOpenCostInBytes();
    long sum = 0;
    for (int i = 0; i < units.size(); i++) sum += ((Unit) units.get(i)).length + open;
    final Long total = Long.valueOf(sum);
    long limit = FilePartition$.MODULE$.maxSplitBytes(session, new scala.runtime.AbstractFunction0() {
      public Object apply() {
        return total;
      }
    });
    ArrayList sorted = new ArrayList(units);
    java.util.Collections.sort(sorted);
    ArrayList packed = new ArrayList();
    long size = 0;
    for (int i = 0; i < sorted.size(); i++) {
      Unit unit = (Unit) sorted.get(i);
      if (packed.isEmpty() || size + unit.length > limit) {
        packed.add(new ArrayList());
        size = 0;
      }
      ((List) packed.get(packed.size() - 1)).addAll(unit.pieces);
      size += unit.length + open;
    }
    if (packed.size() > most) {
      packed.clear();
      int last = -1;
      for (int i = 0; i < units.size(); i++) {
        Unit unit = (Unit) units.get(i);
        if (unit.partition != last) packed.add(new ArrayList());
        last = unit.partition;
        ((List) packed.get(packed.size() - 1)).addAll(unit.pieces);
      }
    }
    Object[] partitions = new Object[packed.size()];
    for (int i = 0; i < partitions.length; i++) {
      List pieces = (List) packed.get(i);
      partitions[i] = FilePartition$.MODULE$.apply(i, (PartitionedFile[]) pieces.toArray(new PartitionedFile[pieces.size()]));
    }
    return Scala.seq(partitions);
  }
}
