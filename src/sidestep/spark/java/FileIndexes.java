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
    /** Whether files at these paths never change (Delta): then they need no second look before they are skipped. */
    public final boolean immutable;
    final HashMap positions;
    final long[] sizes;
    final long[] times;
    long totalBytes = 0;

    /** paths: relative to root, separated by NUL; numbers: size and time of each, big-endian, base64. */
    public Keys(String id, String root, boolean immutable, String paths, String numbers) {
      this.id = id;
      this.immutable = immutable;
      java.nio.ByteBuffer data = java.nio.ByteBuffer.wrap(java.util.Base64.getDecoder().decode(numbers));
      int count = data.capacity() / 16;
      sizes = new long[count];
      times = new long[count];
      positions = new HashMap(count * 2);
      String prefix = root.endsWith("/") ? root : root + "/";
      int start = 0;
      for (int i = 0; i < count; i++) {
        int end = paths.indexOf('\0', start);
        if (end < 0) end = paths.length();
        String relative = paths.substring(start, end);
        positions.put(relative.isEmpty() ? root : prefix + relative, Integer.valueOf(i));
        start = end + 1;
        sizes[i] = data.getLong();
        times[i] = data.getLong();
        totalBytes += sizes[i];
      }
    }

    /** The position of the entry that is for this very version of the file, or -1. */
    public int position(FileStatus file) {
      Integer found = (Integer) positions.get(file.getPath().toUri().getPath());
      if (found == null) return -1;
      int i = found.intValue();
      return sizes[i] == file.getLen() && times[i] == file.getModificationTime() ? i : -1;
    }

    public long bytesOf(BitSet files) {
      long total = 0;
      for (int i = files.nextSetBit(0); i >= 0; i = files.nextSetBit(i + 1)) total += sizes[i];
      return total;
    }
  }

  /** Which files of one index are proven irrelevant to a scan. */
  public static final class Skip {
    public final Keys keys;
    public final BitSet files;

    public Skip(Keys keys, BitSet files) {
      this.keys = keys;
      this.files = files;
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
   * The original file index less the files proven irrelevant. Only what is listed can be removed, so partition filters
   * stay the original's business. Equal by value: exchange reuse and subquery merging depend on it.
   */
  public static final class PrunedFiles implements FileIndex {
    public final FileIndex base;
    public final List skips;
    private long size = -1;

    public PrunedFiles(FileIndex base, List skips) {
      this.base = base;
      this.skips = skips;
    }

    boolean skippable(FileStatus file, boolean[] needsCheck) {
      for (int s = 0; s < skips.size(); s++) {
        Skip skip = (Skip) skips.get(s);
        int position = skip.keys.position(file);
        if (position >= 0) {
          needsCheck[0] = !skip.keys.immutable;
          return skip.files.get(position);
        }
      }
      return false;
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
      ArrayList doubtful = new ArrayList();
      boolean[] needsCheck = new boolean[1];
      ArrayList flagged = new ArrayList();
      for (int d = 0; d < directories.size(); d++) {
        List files = list(((PartitionDirectory) directories.get(d)).files());
        BitSet drop = new BitSet(files.size());
        int f = 0;
        for (java.util.Iterator it = files.iterator(); it.hasNext(); f++) {
          FileStatus file = ((FileStatusWithMetadata) it.next()).fileStatus();
          if (skippable(file, needsCheck)) {
            drop.set(f);
            if (needsCheck[0]) doubtful.add(file);
          }
        }
        flagged.add(drop);
      }
      java.util.Set changed = Freshness.changed(doubtful);
      ArrayList kept = new ArrayList();
      for (int d = 0; d < directories.size(); d++) {
        PartitionDirectory directory = (PartitionDirectory) directories.get(d);
        BitSet drop = (BitSet) flagged.get(d);
        if (drop.isEmpty()) {
          kept.add(directory);
          continue;
        }
        ArrayList files = new ArrayList();
        int f = 0;
        for (java.util.Iterator it = list(directory.files()).iterator(); it.hasNext(); f++) {
          FileStatusWithMetadata file = (FileStatusWithMetadata) it.next();
          if (!drop.get(f) || changed.contains(file.fileStatus())) files.add(file);
        }
        if (!files.isEmpty()) kept.add(PartitionDirectory$.MODULE$.apply(directory.values(), seq(files.toArray())));
      }
      return seq(kept.toArray());
    }

    /** What is left to read, so that Spark can choose a broadcast join; counted once, when first asked for. */
    public synchronized long sizeInBytes() {
      if (size < 0) size = Math.max(0, countBytes());
      return size;
    }

    private long countBytes() {
      try {
        if (base instanceof PartitioningAwareFileIndex) {
          long kept = 0;
          boolean[] unused = new boolean[1];
          for (java.util.Iterator it = list(((PartitioningAwareFileIndex) base).allFiles()).iterator(); it.hasNext();) {
            FileStatus file = (FileStatus) it.next();
            if (!skippable(file, unused)) kept += file.getLen();
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
   * Whether files are still what the listing says. Spark reads a path, whatever is there now; its listing may be from
   * long ago, so a file rewritten in place since then must not be skipped on the word of an entry for the old one.
   */
  static final class Freshness {
    static final int SLICE = 2048;

    static java.util.Set changed(List files) throws Exception {
      java.util.Set found = java.util.Collections.newSetFromMap(new java.util.concurrent.ConcurrentHashMap());
      if (files.size() <= SLICE) {
        check(files, found);
        return found;
      }
      ArrayList running = new ArrayList();
      for (int start = 0; start < files.size(); start += SLICE) {
        final List slice = files.subList(start, Math.min(files.size(), start + SLICE));
        final java.util.Set into = found;
        running.add(java.util.concurrent.ForkJoinPool.commonPool().submit(new Runnable() {
          public void run() {
            check(slice, into);
          }
        }));
      }
      for (int i = 0; i < running.size(); i++) ((java.util.concurrent.Future) running.get(i)).get();
      return found;
    }

    static void check(List files, java.util.Set into) {
      for (int i = 0; i < files.size(); i++) {
        FileStatus file = (FileStatus) files.get(i);
        java.net.URI uri = file.getPath().toUri();
        if (uri.getScheme() != null && !uri.getScheme().equals("file")) continue;
        long now = new java.io.File(uri.getPath()).lastModified();
        // 0: gone. A file that is not there holds no rows that matter, so it stays skipped.
        if (now != 0 && now != file.getModificationTime()) into.add(file);
      }
    }
  }

  /** The index that Spark itself made, whether or not sidestep has decorated it. */
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
