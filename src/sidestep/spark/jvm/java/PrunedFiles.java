package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.*;
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
  private long size = -1;
  private Boolean byBlock = null;

  PrunedFiles(FileIndex base, List skips, Witnesses witnesses, String bound, boolean byFooter) {
    this.base = base;
    this.skips = skips;
    this.witnesses = witnesses;
    this.bound = bound;
    this.byFooter = byFooter;
  }

  /** The same with an induced predicate for the reader. */
  PrunedFiles with(String bound) {
    return new PrunedFiles(base, skips, witnesses, bound, byFooter);
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
    return index instanceof PrunedFiles ? ((PrunedFiles) index).base : index;
  }

  /** Delta never writes a file twice under one name: what its log lists needs no second look. */
  private boolean immutable() {
    return base instanceof SnapshotFiles;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    scala.collection.immutable.Seq listed = base.listFiles(partitionFilters, dataFilters);
    try {
      return prune(listed);
    } catch (Throwable problem) {
      LOG.warn("sidestep could not prune a file listing; the query reads all of it", problem);
      return listed;
    }
  }

  private scala.collection.immutable.Seq prune(scala.collection.immutable.Seq listed) throws Exception {
    List directories = Scala.list(listed);
    boolean all = !induced() || inducedHold();
    FileKeys.Candidates candidates = new FileKeys.Candidates(byFooter);
    for (int s = 0; s < skips.size(); s++) {
      Skip skip = (Skip) skips.get(s);
      BitSet skipped = all || skip.own == null ? skip.files : skip.own;
      FileKeys.Match match = skip.keys.match(base);
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
    BitSet drop = immutable() ? candidates.all() : candidates.unchanged();
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
    if (byBlock == null) byBlock = Boolean.valueOf(allHaveIds());
    return byBlock.booleanValue();
  }

  private boolean allHaveIds() {
    if (!immutable() || skips.size() != 1 || ((Skip) skips.get(0)).blocks == null) return false;
    Skip skip = (Skip) skips.get(0);
    int[] positions = skip.keys.match(base).positions;
    // Where joined tables may change, so may the choice of files, but not a condition on ids.
    BitSet certain = skip.own == null || witnesses.fixed() ? skip.files : skip.own;
    for (int i = 0; i < positions.length; i++) {
      if (positions[i] < 0) return false;
      if (!certain.get(positions[i]) && !skip.blocks.files.get(positions[i])) return false;
    }
    return true;
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
        return byBlock() ? Math.min(kept, skip.blocks.bytes) : kept;
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
    return base.partitionSchema();
  }

  public boolean isTimeTravel() {
    return base.isTimeTravel();
  }

  public scala.Option metadataOpsTimeNs() {
    return base.metadataOpsTimeNs();
  }

  public boolean equals(Object other) {
    if (!(other instanceof PrunedFiles)) return false;
    PrunedFiles that = (PrunedFiles) other;
    return base.equals(that.base) && skips.equals(that.skips) && java.util.Objects.equals(bound, that.bound)
        && byFooter == that.byFooter && (!restsOnOthers() || witnesses.equals(that.witnesses));
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

    Skip(FileKeys keys, BitSet files, BitSet own, KeptBlocks blocks) {
      this.keys = keys;
      this.files = files;
      this.own = own;
      this.blocks = blocks;
    }

    public boolean equals(Object other) {
      if (!(other instanceof Skip)) return false;
      Skip that = (Skip) other;
      return keys.id.equals(that.keys.id) && files.equals(that.files) && java.util.Objects.equals(own, that.own);
    }

    public int hashCode() {
      return keys.id.hashCode() * 31 + files.hashCode();
    }
  }

  /**
   * Which blocks are to be read of the files that are, by the ids in the hidden column. The ranges hold all of
   * them; ids (empty if the ranges hold nothing else) are exact.
   */
  static final class KeptBlocks {
    /** The files in which each row group is a block with a known id: of no other may a row be left out by its id. */
    final BitSet files;
    /** Low and high ends in turn, ascending. */
    final int[] ranges;
    final int[] ids;
    /** What the kept blocks take on disk. */
    final long bytes;

    KeptBlocks(BitSet files, int[] ranges, int[] ids, long bytes) {
      this.files = files;
      this.ranges = ranges;
      this.ids = ids;
      this.bytes = bytes;
    }
  }
}
