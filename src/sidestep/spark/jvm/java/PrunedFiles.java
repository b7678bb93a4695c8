package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The original file index less the files proven irrelevant. Only what is listed can be removed, so partition filters
 * stay the original's business. Equal by value: exchange reuse and subquery merging depend on it.
 */
public final class PrunedFiles implements FileIndex {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  final FileIndex base;
  /** Of type Skip, one for each index that knows some of the files. */
  final List skips;
  /** What skips rest on beyond the files themselves. */
  private final Witnesses witnesses;
  /** An induced predicate that the reader is given besides, as text; null if there is none. */
  private final String bound;
  /** Whether files are told apart by their footers, too. */
  private final boolean byFooter;
  /** The hidden column that numbers files, for those who choose among them at run time; null if there is none. */
  final String part;
  /** Whether files that are read must be read whole: the query tells splits apart, or someone wishes so. */
  private final boolean wholeFiles;
  /** Of a table in column groups, those that it is read from: see Wire.Answer. */
  final int[] path;
  /** About how many rows are to be read of each of its groups: see Wire.Answer. */
  private final int[] rows;
  private long size = -1;
  private Boolean byBlock = null;

  PrunedFiles(FileIndex base, List skips, Witnesses witnesses, String bound, boolean byFooter, String part,
      boolean wholeFiles, int[] path, int[] rows) {
    this.base = base;
    this.skips = skips;
    this.witnesses = witnesses;
    this.bound = bound;
    this.byFooter = byFooter;
    this.part = part;
    this.wholeFiles = wholeFiles;
    this.path = path;
    this.rows = rows;
  }

  /** Whether what joined tables induced still holds: none of their files has changed since. */
  boolean inducedHold() {
    try {
      return witnesses.hold();
    } catch (Throwable problem) {
      LOG.warn("sidestep could not tell whether joined tables are as they were; what they induced is not used", problem);
      return false;
    }
  }

  /** Whether some files are skipped for what joined tables hold. */
  private boolean induced() {
    for (int s = 0; s < skips.size(); s++) if (((Skip) skips.get(s)).own != null) return true;
    return false;
  }

  /** The index that Spark or a snapshot made, whether or not sidestep has decorated it. */
  static FileIndex unwrap(FileIndex index) {
    PrunedFiles pruned = in(index);
    FileIndex base = pruned == null ? index : pruned.base;
    return base instanceof GroupedFiles ? ((GroupedFiles) base).files : base;
  }

  /** The same of one column group of the table; numbered: with the column that numbers files, if there is one. */
  PrunedFiles of(SnapshotFiles group, boolean numbered) {
    return new PrunedFiles(group, skips, witnesses, bound, byFooter, numbered ? part : null, true, null, null);
  }

  /** About how many rows are to be read of a column group; -1 where that is not known. */
  int rowsOf(int group) {
    return rows == null || group >= rows.length ? -1 : rows[group];
  }

  /** What leaves out files of a relation; null if all are read. */
  static PrunedFiles in(FileIndex location) {
    if (location instanceof DeltaReader.Pruned) return ((DeltaReader.Pruned) location).pruned();
    return location instanceof PrunedFiles ? (PrunedFiles) location : null;
  }

  /** Delta never writes a file twice under one name: what its log lists needs no second look. */
  static boolean isFixed(FileIndex base) {
    return base instanceof FixedFiles || DeltaReader.isPrepared(base);
  }

  private boolean immutable() {
    return isFixed(base);
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    scala.collection.immutable.Seq listed = base.listFiles(onBase(partitionFilters), dataFilters);
    scala.collection.immutable.Seq left = listed;
    try {
      left = prune(listed);
    } catch (Throwable problem) {
      LOG.warn("sidestep could not prune a file listing; the query reads all of it", problem);
    }
    return part == null ? left : numbered(left);
  }

  /** Partition filters less those on the hidden column, of which the base knows nothing. */
  private scala.collection.immutable.Seq onBase(scala.collection.immutable.Seq filters) {
    if (part == null) return filters;
    ArrayList own = new ArrayList();
    for (java.util.Iterator it = Scala.list(filters).iterator(); it.hasNext();) {
      org.apache.spark.sql.catalyst.expressions.Expression filter =
          (org.apache.spark.sql.catalyst.expressions.Expression) it.next();
      boolean about = false;
      java.util.Iterator columns = Scala.list(filter.references().toSeq()).iterator();
      while (columns.hasNext()) {
        about |= ((org.apache.spark.sql.catalyst.expressions.Attribute) columns.next()).name().equals(part);
      }
      if (!about) own.add(filter);
    }
    return Scala.seq(own.toArray());
  }

  /** Each file in a directory of its own, whose last value is the position of the file's entry, or -1. */
  private scala.collection.immutable.Seq numbered(scala.collection.immutable.Seq listed) {
    FileKeys keys = ((Skip) skips.get(0)).keys;
    FileKeys.Match match = DeltaReader.isPrepared(base) ? null : keys.match(base);
    StructField[] fields = base.partitionSchema().fields();
    ArrayList single = new ArrayList();
    List directories = Scala.list(listed);
    int expected = 0;
    for (int d = 0; d < directories.size(); d++) {
      PartitionDirectory directory = (PartitionDirectory) directories.get(d);
      for (java.util.Iterator it = Scala.list(directory.files()).iterator(); it.hasNext();) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) it.next();
        int ordinal = match == null ? -1 : match.ordinal(file.fileStatus(), expected);
        expected = ordinal + 1;
        Object[] values = new Object[fields.length + 1];
        for (int f = 0; f < fields.length; f++) values[f] = directory.values().get(f, fields[f].dataType());
        int position = ordinal < 0 ? keys.position(file.fileStatus()) : match.positions[ordinal];
        values[fields.length] = Integer.valueOf(position);
        single.add(PartitionDirectory$.MODULE$.apply(
            new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values), Scala.seq(new Object[] {file})));
      }
    }
    return Scala.seq(single.toArray());
  }

  /** Entries that were chosen, and those whose files have changed since; null if that cannot be told. */
  BitSet withChanged(BitSet chosen) throws Exception {
    if (immutable()) return chosen;
    FileKeys keys = ((Skip) skips.get(0)).keys;
    FileKeys.Match match = keys.match(base);
    if (match == null) return null;
    FileKeys.Candidates candidates = candidates();
    for (int i = 0; i < match.files.length; i++) {
      int position = match.positions[i];
      if (position >= 0 && !chosen.get(position)) candidates.add(position, match.files[i], keys, position);
    }
    BitSet changed = candidates.all();
    changed.andNot(candidates.unchanged());
    changed.or(chosen);
    return changed;
  }

  private scala.collection.immutable.Seq prune(scala.collection.immutable.Seq listed) throws Exception {
    List directories = Scala.list(listed);
    boolean induced = induced();
    boolean all = !induced || inducedHold();
    FileKeys.Candidates candidates = induced && all ? witnesses.candidates() : candidates();
    for (int s = 0; s < skips.size(); s++) {
      Skip skip = (Skip) skips.get(s);
      BitSet skipped = all || skip.own == null ? skip.files : skip.own;
      // Delta makes the files of a listing anew each time: none of them is known again but by its path.
      FileKeys.Match match = DeltaReader.isPrepared(base) ? null : skip.keys.match(base);
      int expected = 0;
      int number = 0;
      for (int d = 0; d < directories.size(); d++) {
        java.util.Iterator files = Scala.list(((PartitionDirectory) directories.get(d)).files()).iterator();
        for (; files.hasNext(); number++) {
          FileStatus file = ((FileStatusWithMetadata) files.next()).fileStatus();
          int ordinal = match == null ? -1 : match.ordinal(file, expected);
          int position = ordinal < 0 ? skip.keys.position(file) : match.positions[ordinal];
          expected = ordinal + 1;
          if (position >= 0 && skipped.get(position)) candidates.add(number, file, skip.keys, position);
        }
      }
    }
    BitSet drop = unchanged(candidates);
    if (drop.isEmpty()) return listed;
    ArrayList kept = new ArrayList();
    int number = 0;
    for (int d = 0; d < directories.size(); d++) {
      PartitionDirectory directory = (PartitionDirectory) directories.get(d);
      List before = Scala.list(directory.files());
      ArrayList files = new ArrayList();
      for (java.util.Iterator it = before.iterator(); it.hasNext(); number++) {
        Object file = it.next();
        if (!drop.get(number)) files.add(file);
      }
      if (files.size() == before.size()) kept.add(directory);
      else if (!files.isEmpty()) {
        kept.add(PartitionDirectory$.MODULE$.apply(directory.values(), Scala.seq(files.toArray())));
      }
    }
    return Scala.seq(kept.toArray());
  }

  /**
   * Whether the blocks to be read can be told by their ids. Only in a listing that never changes, and only if each of
   * its files that is read has them: a foreign writer copies the ids of old blocks, or leaves them out.
   */
  synchronized boolean byBlock() {
    if (byBlock == null) byBlock = Boolean.valueOf(keptBlocks() != null);
    return byBlock.booleanValue();
  }

  /** The blocks to be read, as things stand; null if they cannot be told by their ids, or all are to be read. */
  KeptBlocks keptBlocks() {
    // Conditions on ids are for SkippingParquet, and Delta has a reader of its own: there, row groups are told by place.
    if (!(base instanceof SnapshotFiles) || skips.size() != 1) return null;
    Skip skip = (Skip) skips.get(0);
    boolean all = skip.own == null || inducedHold();
    KeptBlocks blocks = all ? skip.blocks : skip.ownBlocks;
    if (blocks == null) return null;
    BitSet read = new BitSet();
    read.set(0, skip.keys.sizes.length);
    read.andNot(all ? skip.files : skip.own);
    return allHaveIds(blocks, read) ? blocks : null;
  }

  /** Whether each file of a listing that never changes has an entry, and block ids if the entry is to be read. */
  boolean allHaveIds(KeptBlocks blocks, BitSet read) {
    if (!(base instanceof SnapshotFiles) || skips.size() != 1) return false;
    Skip skip = (Skip) skips.get(0);
    int[] positions = skip.keys.match(base).positions;
    // What is skipped already is not read, whatever else is chosen.
    BitSet skipped = skip.own == null ? skip.files : skip.own;
    for (int i = 0; i < positions.length; i++) {
      if (positions[i] < 0) return false;
      if (read.get(positions[i]) && !skipped.get(positions[i]) && !blocks.files.get(positions[i])) return false;
    }
    return true;
  }

  /** Whether some files are read in part, as far as is known before the query runs. */
  boolean readsPieces() {
    if (wholeFiles || byBlock()) return false;
    for (int s = 0; s < skips.size(); s++) if (((Skip) skips.get(s)).groups != null) return true;
    return part != null;
  }

  /** Which row groups are to be read, as things stand, by each of the indexes; null: all. */
  KeptGroups[] keptGroups() {
    KeptGroups[] groups = new KeptGroups[skips.size()];
    boolean all = !induced() || inducedHold();
    for (int s = 0; s < groups.length; s++) {
      Skip skip = (Skip) skips.get(s);
      groups[s] = all || skip.own == null ? skip.groups : skip.ownGroups;
    }
    return groups;
  }

  FileKeys.Candidates candidates() {
    return new FileKeys.Candidates(byFooter, System.nanoTime());
  }

  /** Those of some files that are as they were listed. */
  BitSet unchanged(FileKeys.Candidates candidates) throws Exception {
    return immutable() ? candidates.all() : candidates.unchanged();
  }

  /** What is left to read, so that Spark can choose a broadcast join; counted once, when first asked for. */
  public synchronized long sizeInBytes() {
    if (size < 0) size = Math.max(0, countBytes());
    return size;
  }

  private long countBytes() {
    try {
      FileKeys.Match match = skips.size() == 1 ? ((Skip) skips.get(0)).keys.match(base) : null;
      if (match != null) {
        Skip skip = (Skip) skips.get(0);
        long kept = 0;
        for (int i = 0; i < match.files.length; i++) {
          int position = match.positions[i];
          if (position < 0) kept += match.files[i].getLen();
          else if (!skip.files.get(position)) kept += skip.keys.sizes[position];
        }
        if (byBlock()) return Math.min(kept, skip.blocks.bytes);
        return readsPieces() && skip.groups != null ? kept - skip.groups.spared : kept;
      }
      double share = 1.0;
      for (int s = 0; s < skips.size(); s++) {
        Skip skip = (Skip) skips.get(s);
        if (skip.keys.totalBytes > 0) share -= (double) skip.keys.bytesOf(skip.files) / skip.keys.totalBytes;
      }
      return (long) (base.sizeInBytes() * Math.max(0.0, share));
    } catch (Throwable problem) {
      return base.sizeInBytes();
    }
  }

  public scala.collection.immutable.Seq rootPaths() {
    return base.rootPaths();
  }

  public String[] inputFiles() {
    return base.inputFiles();
  }

  public void refresh() {
    base.refresh();
  }

  public StructType partitionSchema() {
    return part == null ? base.partitionSchema() : base.partitionSchema().add(part, DataTypes.IntegerType);
  }

  public boolean isTimeTravel() {
    return Versions.isTimeTravel(base);
  }

  public scala.Option metadataOpsTimeNs() {
    return base.metadataOpsTimeNs();
  }

  public boolean equals(Object other) {
    if (!(other instanceof PrunedFiles)) return false;
    PrunedFiles that = (PrunedFiles) other;
    return base.equals(that.base) && skips.equals(that.skips) && java.util.Objects.equals(bound, that.bound)
        && byFooter == that.byFooter && wholeFiles == that.wholeFiles && java.util.Arrays.equals(path, that.path)
        && java.util.Objects.equals(part, that.part) && (!restsOnOthers() || witnesses.equals(that.witnesses));
  }

  private boolean restsOnOthers() {
    return bound != null || induced();
  }

  public int hashCode() {
    return base.hashCode() * 31 + skips.hashCode();
  }

  public String toString() {
    int files = 0;
    for (int s = 0; s < skips.size(); s++) files += ((Skip) skips.get(s)).files.cardinality();
    return "sidestep[" + files + " files skipped] of " + base;
  }

  /** Which files of one index are proven irrelevant to a scan, and which blocks of the others (null: none). */
  static final class Skip {
    final FileKeys keys;
    final BitSet files;
    /** Those among the files that the query's own predicates rule out; null if all are. */
    final BitSet own;
    final KeptBlocks blocks;
    /** The same by the query's own predicates alone. */
    final KeptBlocks ownBlocks;
    /** The row groups to be read of files that are read in part, where blocks have no ids; null: all. */
    final KeptGroups groups;
    final KeptGroups ownGroups;

    Skip(FileKeys keys, BitSet files, BitSet own, KeptBlocks blocks, KeptBlocks ownBlocks, KeptGroups groups,
        KeptGroups ownGroups) {
      this.keys = keys;
      this.files = files;
      this.own = own;
      this.blocks = blocks;
      this.ownBlocks = ownBlocks;
      this.groups = groups;
      this.ownGroups = ownGroups;
    }

    public boolean equals(Object other) {
      if (!(other instanceof Skip)) return false;
      Skip that = (Skip) other;
      return keys.id.equals(that.keys.id) && files.equals(that.files) && java.util.Objects.equals(own, that.own)
          && java.util.Objects.equals(blocks, that.blocks) && java.util.Objects.equals(ownBlocks, that.ownBlocks)
          && java.util.Objects.equals(groups, that.groups) && java.util.Objects.equals(ownGroups, that.ownGroups);
    }

    public int hashCode() {
      return keys.id.hashCode() * 31 + files.hashCode();
    }
  }

  /** Which blocks are to be read of the files that are, by the ids in the hidden column. */
  static final class KeptBlocks {
    /** The files in which each row group is a block with a known id: of no other may a row be left out by its id. */
    final BitSet files;
    /** Low and high ends in turn, ascending, that hold all ids to be read, and perhaps more. */
    final int[] ranges;
    /** What the kept blocks take on disk. */
    final long bytes;

    KeptBlocks(BitSet files, int[] ranges, long bytes) {
      this.files = files;
      this.ranges = ranges;
      this.bytes = bytes;
    }

    public boolean equals(Object other) {
      return other instanceof KeptBlocks && java.util.Arrays.equals(ranges, ((KeptBlocks) other).ranges)
          && files.equals(((KeptBlocks) other).files);
    }

    public int hashCode() {
      return java.util.Arrays.hashCode(ranges);
    }
  }
}
