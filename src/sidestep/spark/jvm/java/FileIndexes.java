package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/** The file indexes that sidestep puts in a relation: an original one less what is proven irrelevant, and a fixed list. */
public final class FileIndexes {
  public static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  public static scala.collection.immutable.Seq seq(Object[] items) {
    return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  public static List list(Object scalaSeq) {
    return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) scalaSeq);
  }

  /** The files that an index knows: their positions by path, and the size and time that its entries are for. */
  public static final class Keys {
    public final String id;
    private final String[] paths;
    private final HashMap positions;
    private final ArrayList matches = new ArrayList();
    final long[] sizes;
    final long[] times;
    /** When each file was last seen to be unchanged on disk; see Freshness. */
    final long[] lookedAt;
    long totalBytes = 0;

    /** paths: relative to root, separated by NUL; numbers: size and time of each, big-endian, base64. */
    public Keys(String id, String root, String relativePaths, String numbers) {
      this.id = id;
      java.nio.ByteBuffer data = java.nio.ByteBuffer.wrap(java.util.Base64.getDecoder().decode(numbers));
      int count = data.capacity() / 16;
      sizes = new long[count];
      times = new long[count];
      lookedAt = new long[count];
      paths = new String[count];
      positions = new HashMap(count * 2);
      String prefix = root.endsWith("/") ? root : root + "/";
      int start = 0;
      for (int i = 0; i < count; i++) {
        int end = relativePaths.indexOf('\0', start);
        if (end < 0) end = relativePaths.length();
        String relative = relativePaths.substring(start, end);
        paths[i] = relative.isEmpty() ? root : prefix + relative;
        positions.put(paths[i], Integer.valueOf(i));
        start = end + 1;
        sizes[i] = data.getLong();
        times[i] = data.getLong();
        totalBytes += sizes[i];
      }
    }

    /** The position of the entry that is for this very version of the file, or -1. */
    public int position(FileStatus file) {
      return position(file, -1);
    }

    /** The same, trying one entry first: listings of a folder follow each other in the same order. */
    private int position(FileStatus file, int guess) {
      String path = file.getPath().toUri().getPath();
      int i = guess;
      if (i < 0 || !paths[i].equals(path)) {
        Integer found = (Integer) positions.get(path);
        if (found == null) return -1;
        i = found.intValue();
      }
      return sizes[i] == file.getLen() && times[i] == file.getModificationTime() ? i : -1;
    }

    /** Which entry each file of a listing has, worked out once per listing; null where listings do not keep files. */
    public Match match(FileIndex base) {
      if (!(base instanceof PartitioningAwareFileIndex) && !(base instanceof SnapshotFiles)) return null;
      synchronized (matches) {
        Match newest = null;
        for (int i = matches.size() - 1; i >= 0; i--) {
          Match match = (Match) matches.get(i);
          if (match.base.get() == base) return match;
          if (match.base.get() == null) matches.remove(i);
          if (newest == null) newest = match;
        }
        List listed = base instanceof SnapshotFiles
            ? ((SnapshotFiles) base).allFiles()
            : list(((PartitioningAwareFileIndex) base).allFiles());
        FileStatus[] files = (FileStatus[]) listed.toArray(new FileStatus[listed.size()]);
        int[] found = new int[files.length];
        boolean follow = newest != null && newest.positions.length == files.length;
        for (int i = 0; i < files.length; i++) found[i] = position(files[i], follow ? newest.positions[i] : -1);
        Match match = new Match(base, files, found);
        matches.add(match);
        if (matches.size() > 16) matches.remove(0);
        return match;
      }
    }

    public long bytesOf(BitSet files) {
      long total = 0;
      for (int i = files.nextSetBit(0); i >= 0; i = files.nextSetBit(i + 1)) total += sizes[i];
      return total;
    }
  }

  /** The files of one listing with the positions of their entries (-1: none), in the listing's order. */
  public static final class Match {
    final java.lang.ref.WeakReference base;
    final FileStatus[] files;
    public final int[] positions;
    private java.util.IdentityHashMap ordinals;

    Match(FileIndex base, FileStatus[] files, int[] positions) {
      this.base = new java.lang.ref.WeakReference(base);
      this.files = files;
      this.positions = positions;
    }

    /** Where a file stands in the listing, given where it is expected; -1 if it is not of this listing. */
    int ordinal(FileStatus file, int expected) {
      if (expected < files.length && files[expected] == file) return expected;
      synchronized (this) {
        if (ordinals == null) {
          ordinals = new java.util.IdentityHashMap(files.length * 2);
          for (int i = 0; i < files.length; i++) ordinals.put(files[i], Integer.valueOf(i));
        }
        Integer found = (Integer) ordinals.get(file);
        return found == null ? -1 : found.intValue();
      }
    }
  }

  /** Which files of one index are proven irrelevant to a scan, and which blocks of the others (null: none). */
  public static final class Skip {
    public final Keys keys;
    public final BitSet files;
    public final KeptBlocks blocks;

    public Skip(Keys keys, BitSet files, KeptBlocks blocks) {
      this.keys = keys;
      this.files = files;
      this.blocks = blocks;
    }

    public boolean equals(Object other) {
      if (!(other instanceof Skip)) return false;
      Skip that = (Skip) other;
      return keys.id.equals(that.keys.id) && files.equals(that.files);
    }

    public int hashCode() {
      return keys.id.hashCode() * 31 + files.hashCode();
    }
  }

  /**
   * Which blocks are to be read of the files that are, by the ids in the hidden column _block. The ranges hold all of
   * them; ids (empty if the ranges hold nothing else) are exact.
   */
  public static final class KeptBlocks {
    /** The files in which each row group is a block with a known id: of no other may a row be left out by its id. */
    public final BitSet files;
    /** Low and high ends in turn, ascending. */
    public final int[] ranges;
    public final int[] ids;
    /** What the kept blocks take on disk. */
    public final long bytes;

    private KeptBlocks(BitSet files, int[] ranges, int[] ids, long bytes) {
      this.files = files;
      this.ranges = ranges;
      this.ids = ids;
      this.bytes = bytes;
    }

    /** files as base64 bits, ranges and ids as base64 of little-endian ints, bytes; separated by colons. */
    public static KeptBlocks parse(String text) {
      if (text.isEmpty()) return null;
      String[] parts = text.split(":", -1);
      BitSet files = BitSet.valueOf(java.util.Base64.getDecoder().decode(parts[0]));
      return new KeptBlocks(files, ints(parts[1]), ints(parts[2]), Long.parseLong(parts[3]));
    }

    private static int[] ints(String text) {
      java.nio.ByteBuffer data = java.nio.ByteBuffer.wrap(java.util.Base64.getDecoder().decode(text));
      int[] found = new int[data.capacity() / 4];
      data.order(java.nio.ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(found);
      return found;
    }
  }

  /**
   * The original file index less the files proven irrelevant. Only what is listed can be removed, so partition filters
   * stay the original's business. Equal by value: exchange reuse and subquery merging depend on it.
   */
  public static final class PrunedFiles implements FileIndex {
    public final FileIndex base;
    public final List skips;
    private long size = -1;
    private Boolean byBlock = null;

    public PrunedFiles(FileIndex base, List skips) {
      this.base = base;
      this.skips = skips;
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
      List directories = list(listed);
      Candidates candidates = new Candidates();
      for (int s = 0; s < skips.size(); s++) {
        Skip skip = (Skip) skips.get(s);
        Match match = skip.keys.match(base);
        int expected = 0;
        int number = 0;
        for (int d = 0; d < directories.size(); d++) {
          java.util.Iterator files = list(((PartitionDirectory) directories.get(d)).files()).iterator();
          for (; files.hasNext(); number++) {
            FileStatus file = ((FileStatusWithMetadata) files.next()).fileStatus();
            int ordinal = match == null ? -1 : match.ordinal(file, expected);
            int position = ordinal < 0 ? skip.keys.position(file) : match.positions[ordinal];
            expected = ordinal + 1;
            if (position >= 0 && skip.files.get(position)) candidates.add(number, file, skip.keys, position);
          }
        }
      }
      BitSet drop = immutable() ? candidates.all() : candidates.unchanged();
      if (drop.isEmpty()) return listed;
      ArrayList kept = new ArrayList();
      int number = 0;
      for (int d = 0; d < directories.size(); d++) {
        PartitionDirectory directory = (PartitionDirectory) directories.get(d);
        List before = list(directory.files());
        ArrayList files = new ArrayList();
        for (java.util.Iterator it = before.iterator(); it.hasNext(); number++) {
          Object file = it.next();
          if (!drop.get(number)) files.add(file);
        }
        if (files.size() == before.size()) kept.add(directory);
        else if (!files.isEmpty()) kept.add(PartitionDirectory$.MODULE$.apply(directory.values(), seq(files.toArray())));
      }
      return seq(kept.toArray());
    }

    /**
     * Whether the blocks to be read can be told by their ids. Only in a listing that never changes, and only if each of
     * its files that is read has them: a foreign writer copies the ids of old blocks, or leaves them out.
     */
    public synchronized boolean byBlock() {
      if (byBlock == null) byBlock = Boolean.valueOf(allHaveIds());
      return byBlock.booleanValue();
    }

    private boolean allHaveIds() {
      if (!immutable() || skips.size() != 1 || ((Skip) skips.get(0)).blocks == null) return false;
      Skip skip = (Skip) skips.get(0);
      int[] positions = skip.keys.match(base).positions;
      for (int i = 0; i < positions.length; i++) {
        if (positions[i] < 0) return false;
        if (!skip.files.get(positions[i]) && !skip.blocks.files.get(positions[i])) return false;
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
        Match match = skips.size() == 1 ? ((Skip) skips.get(0)).keys.match(base) : null;
        if (match != null) {
          Skip skip = (Skip) skips.get(0);
          if (byBlock()) return skip.blocks.bytes;
          long kept = 0;
          for (int i = 0; i < match.files.length; i++) {
            int position = match.positions[i];
            if (position < 0) kept += match.files[i].getLen();
            else if (!skip.files.get(position)) kept += skip.keys.sizes[position];
          }
          return kept;
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
      return base.equals(that.base) && skips.equals(that.skips);
    }

    public int hashCode() {
      return base.hashCode() * 31 + skips.hashCode();
    }

    public String toString() {
      int files = 0;
      for (int s = 0; s < skips.size(); s++) files += ((Skip) skips.get(s)).files.cardinality();
      return "sidestep[" + files + " files skipped] of " + base;
    }
  }

  /**
   * Files that are about to be skipped, and whether they are still what the listing says. Spark reads a path, whatever is
   * there now; its listing may be from long ago, so a file rewritten in place since then must not be skipped on the word
   * of an entry for the old one.
   *
   * Each local file is looked at before it is skipped. Where there are more than MANY of them, a look holds for a while,
   * longer the more there are: listing so many files takes Spark a while too, and it cannot tell a change within that
   * time from one before.
   * Remote files are taken as listed: stores that keep such tables replace whole objects, and a look at each would cost
   * more than reading does.
   */
  static final class Candidates {
    static final int SLICE = 2048;
    static final int MANY = 2048;
    static final long HOLDS_NANOS_PER_FILE = 100 * 1000;

    private final long since = System.nanoTime();
    private int size = 0;
    private int[] numbers = new int[64];
    private int[] positions = new int[64];
    private FileStatus[] files = new FileStatus[64];
    private Keys[] keys = new Keys[64];

    /** number: where the file stands in what was listed; position: where its entry stands in the index. */
    void add(int number, FileStatus file, Keys index, int position) {
      if (size == files.length) {
        numbers = java.util.Arrays.copyOf(numbers, size * 2);
        positions = java.util.Arrays.copyOf(positions, size * 2);
        files = (FileStatus[]) java.util.Arrays.copyOf(files, size * 2);
        keys = (Keys[]) java.util.Arrays.copyOf(keys, size * 2);
      }
      numbers[size] = number;
      positions[size] = position;
      files[size] = file;
      keys[size++] = index;
    }

    BitSet all() {
      BitSet found = new BitSet();
      for (int i = 0; i < size; i++) found.set(numbers[i]);
      return found;
    }

    BitSet unchanged() throws Exception {
      ArrayList running = new ArrayList();
      final byte[] changed = new byte[size];
      for (int start = 0; start < size; start += SLICE) {
        final int from = start;
        final int to = Math.min(size, start + SLICE);
        Runnable look = new Runnable() {
          public void run() {
            look(from, to, changed);
          }
        };
        if (size <= SLICE) look.run();
        else running.add(java.util.concurrent.ForkJoinPool.commonPool().submit(look));
      }
      for (int i = 0; i < running.size(); i++) ((java.util.concurrent.Future) running.get(i)).get();
      BitSet found = all();
      for (int i = 0; i < size; i++) if (changed[i] != 0) found.clear(numbers[i]);
      return found;
    }

    void look(int from, int to, byte[] changed) {
      long now = System.nanoTime();
      for (int i = from; i < to; i++) {
        long[] lookedAt = keys[i].lookedAt;
        long looked = lookedAt[positions[i]];
        // Another query may have looked since this one began; among many at once, one look serves them all.
        if (looked != 0 && (looked - since >= 0 || size > MANY && now - looked < size * HOLDS_NANOS_PER_FILE)) continue;
        java.net.URI uri = files[i].getPath().toUri();
        if (uri.getScheme() != null && !uri.getScheme().equals("file")) continue;
        long modified = new java.io.File(uri.getPath()).lastModified();
        // 0: gone. A file that is not there holds no rows that matter, so it stays skipped.
        if (modified != 0 && modified != files[i].getModificationTime()) changed[i] = 1;
        else lookedAt[positions[i]] = now;
      }
    }
  }

  /**
   * Whether every file of a listing has an entry in one of these indexes and is, as far as a look tells, still the file
   * that the entry was made from. Files that will be skipped count too: one that was rewritten is read after all, and
   * may hold what no entry speaks of.
   */
  public static boolean complete(FileIndex base, Keys[] indexes) {
    try {
      Match[] matches = new Match[indexes.length];
      int count = -1;
      for (int k = 0; k < indexes.length; k++) {
        matches[k] = indexes[k].match(base);
        if (matches[k] == null) return false;
        count = matches[k].files.length;
      }
      if (count < 0) return false;
      Candidates all = new Candidates();
      for (int i = 0; i < count; i++) {
        int owner = 0;
        while (owner < indexes.length && matches[owner].positions[i] < 0) owner++;
        if (owner == indexes.length) return false;
        all.add(i, matches[owner].files[i], indexes[owner], matches[owner].positions[i]);
      }
      return base instanceof SnapshotFiles || all.unchanged().cardinality() == count;
    } catch (Throwable problem) {
      LOG.warn("sidestep could not tell whether all files of a table are indexed", problem);
      return false;
    }
  }

  /** The index that Spark or a snapshot made, whether or not sidestep has decorated it. */
  public static FileIndex unwrap(FileIndex index) {
    return index instanceof PrunedFiles ? ((PrunedFiles) index).base : index;
  }

  /** A fixed list of files with their partition values: what a Delta log says a version of a table consists of. */
  public static final class SnapshotFiles implements FileIndex {
    final String identity;
    final Path root;
    final StructType partitionSchema;
    final List directories;
    final long size;

    public SnapshotFiles(String identity, Path root, StructType partitionSchema, List directories, long size) {
      this.identity = identity;
      this.root = root;
      this.partitionSchema = partitionSchema;
      this.directories = directories;
      this.size = size;
    }

    public scala.collection.immutable.Seq listFiles(
        scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
      ArrayList conditions = new ArrayList();
      for (java.util.Iterator it = list(partitionFilters).iterator(); it.hasNext();) {
        final StructType schema = partitionSchema;
        Expression bound = (Expression) ((TreeNode) it.next()).transform(new scala.runtime.AbstractPartialFunction() {
          public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
          }

          public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof AttributeReference)) return otherwise.apply(node);
            int field = schema.fieldIndex(((AttributeReference) node).name());
            return new BoundReference(field, schema.fields()[field].dataType(), true);
          }
        });
        conditions.add(Predicate$.MODULE$.createInterpreted(bound));
      }
      FilePruningRunner runner = new FilePruningRunner(dataFilters);
      ArrayList kept = new ArrayList();
      for (int d = 0; d < directories.size(); d++) {
        PartitionDirectory directory = (PartitionDirectory) directories.get(d);
        boolean keep = true;
        for (int c = 0; keep && c < conditions.size(); c++) {
          keep = ((BasePredicate) conditions.get(c)).eval(directory.values());
        }
        if (keep) kept.add(runner.prune(directory));
      }
      return seq(kept.toArray());
    }

    public scala.collection.immutable.Seq rootPaths() {
      return seq(new Object[] {root});
    }

    public String[] inputFiles() {
      ArrayList names = new ArrayList();
      for (int d = 0; d < directories.size(); d++) {
        for (java.util.Iterator it = list(((PartitionDirectory) directories.get(d)).files()).iterator(); it.hasNext();) {
          names.add(((FileStatusWithMetadata) it.next()).getPath().toUri().toString());
        }
      }
      return (String[]) names.toArray(new String[0]);
    }

    /** The files of all folders, in the order in which listFiles gives them when nothing is filtered. */
    public List allFiles() {
      ArrayList files = new ArrayList();
      for (int d = 0; d < directories.size(); d++) {
        for (java.util.Iterator it = list(((PartitionDirectory) directories.get(d)).files()).iterator(); it.hasNext();) {
          files.add(((FileStatusWithMetadata) it.next()).fileStatus());
        }
      }
      return files;
    }

    public void refresh() {}

    public long sizeInBytes() {
      return size;
    }

    public StructType partitionSchema() {
      return partitionSchema;
    }

    public boolean isTimeTravel() {
      return false;
    }

    public scala.Option metadataOpsTimeNs() {
      return scala.Option.empty();
    }

    public boolean equals(Object other) {
      return other instanceof SnapshotFiles && identity.equals(((SnapshotFiles) other).identity);
    }

    public int hashCode() {
      return identity.hashCode();
    }

    public String toString() {
      return "sidestep snapshot " + identity;
    }
  }
}
