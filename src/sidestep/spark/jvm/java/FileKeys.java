package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.*;

/** The files that an index knows: their positions by path, and the size and time that its entries are for. */
public final class FileKeys {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  final String id;
  private final String[] paths;
  /** Of type java.io.File, made when first looked at. */
  private final java.io.File[] files;
  private final HashMap positions;
  private final ArrayList matches = new ArrayList();
  final long[] sizes;
  final long[] times;
  /** When each file was last seen to be unchanged on disk; see Candidates. */
  final long[] lookedAt;
  /** The same, when its footer was found to be the one that its entry was made from. */
  final long[] footerSeenAt;
  /** Whether the last look at each file found another one in its place. */
  final boolean[] rewritten;
  /** The digest of each file's footer one after the other, zeros for one that has none; empty if none has. */
  private final byte[] footers;
  /** Where the row groups of each file lie, for those of which that was asked. */
  private final RowGroupPlaces[] places;
  /** Of type String: what Footers.stamp said of each file when its footer was last found right. */
  private final Object[] stamps;
  private final String root;
  /** Whether these are all files of a table as it was: a listing without one of them is not that table's. */
  boolean all = false;
  /** By which settings these were read, as ValueSettings has them; to be the same rows, they must be the same. */
  String reading = "";
  private volatile boolean warned = false;
  long totalBytes = 0;

  /** files: with paths relative to the root; an empty one is the root itself. footers: as above. */
  FileKeys(String id, String root, Wire.Files files, byte[] footers) {
    this.id = id;
    this.root = root;
    this.footers = footers;
    stamps = new Object[files.paths.length];
    places = new RowGroupPlaces[files.paths.length];
    footerSeenAt = new long[files.paths.length];
    paths = files.paths;
    this.files = new java.io.File[paths.length];
    sizes = files.sizes;
    times = files.times;
    lookedAt = new long[paths.length];
    rewritten = new boolean[paths.length];
    positions = new HashMap(paths.length * 2);
    String prefix = root.endsWith("/") ? root : root + "/";
    for (int i = 0; i < paths.length; i++) {
      paths[i] = paths[i].isEmpty() ? root : prefix + paths[i];
      positions.put(paths[i], Integer.valueOf(i));
      totalBytes += sizes[i];
    }
  }

  /** The position of the entry that is for this very version of the file, or -1. */
  int position(FileStatus file) {
    return position(file, -1);
  }

  /** The same, trying one entry first: listings of a folder follow each other in the same order. */
  private int position(FileStatus file, int guess) {
    String path = file.getPath().toUri().getPath();
    int i = guess;
    if (i < 0 || !paths[i].equals(path)) {
      Integer entry = (Integer) positions.get(path);
      if (entry == null) return -1;
      i = entry.intValue();
    }
    return sizes[i] == file.getLen() && times[i] == file.getModificationTime() ? i : -1;
  }

  /** When a local file was last modified, in milliseconds; 0 if it is gone. */
  long modified(int position) {
    java.io.File file = files[position];
    if (file == null) files[position] = file = new java.io.File(paths[position]);
    return file.lastModified();
  }

  /** The digest of the footer that an entry was made from; null if it has none. */
  private byte[] footer(int position) {
    if (footers.length == 0) return null;
    byte[] digest = java.util.Arrays.copyOfRange(footers, position * Footers.LENGTH, (position + 1) * Footers.LENGTH);
    return java.util.Arrays.equals(digest, new byte[Footers.LENGTH]) ? null : digest;
  }

  /** Where the row groups of a file lie that its entry is for; null if that cannot be told. */
  RowGroupPlaces places(FileStatus file, int position) {
    if (places[position] != null) return places[position];
    try {
      byte[] read = Footers.read(file);
      byte[] expected = footer(position);
      if (read == null || expected != null && !java.util.Arrays.equals(expected, Footers.digest(read))) return null;
      return places[position] = RowGroupPlaces.of(read);
    } catch (Throwable unreadable) {
      return null; // whoever reads the file will say so
    }
  }

  boolean hasPlaces(int position) {
    return places[position] != null;
  }

  /** Whether a file's footer is the one that its entry was made from; it is read once for each change of the file. */
  boolean sameFooter(FileStatus file, int position) {
    byte[] expected = footer(position);
    if (expected == null) {
      if (!warned) {
        warned = true;
        LOG.warn("sidestep reads files of " + root + " that it could skip: spark.sidestep.fileKeys is footer, and they were "
            + "indexed without a digest of their footers. Run sidestep.index on the table with that setting.");
      }
      return false;
    }
    try {
      String stamp = Footers.stamp(file);
      if (stamp != null && stamp.equals(stamps[position])) return true;
      byte[] read = Footers.read(file);
      if (read == null || !java.util.Arrays.equals(expected, Footers.digest(read))) return false;
      stamps[position] = stamp;
      return true;
    } catch (Throwable unreadable) {
      return false;
    }
  }

  /** Which entry each file of a listing has, worked out once per listing; null where listings do not keep files. */
  Match match(FileIndex given) {
    FileIndex base = given instanceof GroupedFiles ? ((GroupedFiles) given).files : given;
    if (!(base instanceof PartitioningAwareFileIndex) && !PrunedFiles.isFixed(base)) return null;
    // A refresh gives the same object another listing.
    Object listing = PrunedFiles.isFixed(base) ? (Object) base : ((PartitioningAwareFileIndex) base).leafFiles();
    synchronized (matches) {
      Match newest = null;
      for (int i = matches.size() - 1; i >= 0; i--) {
        Match match = (Match) matches.get(i);
        if (match.base.get() == base && match.listing.get() == listing) return match;
        if (match.base.get() == null || match.base.get() == base) matches.remove(i);
        if (newest == null) newest = match;
      }
      List listed = base instanceof FixedFiles ? ((FixedFiles) base).allFiles()
          : base instanceof PartitioningAwareFileIndex ? Scala.list(((PartitioningAwareFileIndex) base).allFiles())
          : DeltaReader.files(base);
      FileStatus[] files = (FileStatus[]) listed.toArray(new FileStatus[listed.size()]);
      int[] entries = new int[files.length];
      boolean follow = newest != null && newest.positions.length == files.length;
      for (int i = 0; i < files.length; i++) entries[i] = position(files[i], follow ? newest.positions[i] : -1);
      Match match = new Match(base, listing, files, entries);
      matches.add(match);
      if (matches.size() > 16) matches.remove(0);
      return match;
    }
  }

  long bytesOf(BitSet files) {
    long total = 0;
    for (int i = files.nextSetBit(0); i >= 0; i = files.nextSetBit(i + 1)) total += sizes[i];
    return total;
  }

  /**
   * Whether every file of a listing has an entry in one of these indexes and is, as far as a look tells, still the file
   * that the entry was made from. Files that will be skipped count too: one that was rewritten is read after all, and
   * may hold what no entry speaks of.
   */
  static boolean cover(FileIndex base, FileKeys[] indexes, boolean byFooter) {
    return cover(base, indexes, byFooter, true);
  }

  /**
   * The same as far as is known without a look at the files: for a query that is being planned, which takes that look
   * when it lists them.
   */
  static boolean coverAsKnown(FileIndex base, FileKeys[] indexes) {
    return cover(base, indexes, false, false);
  }

  private static boolean cover(FileIndex base, FileKeys[] indexes, boolean byFooter, boolean look) {
    try {
      Match[] matches = new Match[indexes.length];
      int count = -1;
      for (int k = 0; k < indexes.length; k++) {
        matches[k] = indexes[k].match(base);
        if (matches[k] == null) return false;
        count = matches[k].files.length;
      }
      if (count < 0) return false;
      // That all files are those of a table does not make all rows its rows: Delta deletes rows of files that it keeps.
      for (int k = 0; k < indexes.length; k++) if (indexes[k].all && DeltaReader.isPrepared(base)) return false;
      for (int k = 0; k < indexes.length; k++) if (indexes[k].all && count != indexes[k].paths.length) return false;
      Candidates all = new Candidates(byFooter, System.nanoTime());
      for (int i = 0; i < count; i++) {
        int owner = 0;
        while (owner < indexes.length && matches[owner].positions[i] < 0) owner++;
        if (owner == indexes.length) return false;
        if (!look && indexes[owner].rewritten[matches[owner].positions[i]]) return false;
        if (look) all.add(i, matches[owner].files[i], indexes[owner], matches[owner].positions[i]);
      }
      return !look || PrunedFiles.isFixed(base) || all.unchanged().cardinality() == count;
    } catch (Throwable problem) {
      LOG.warn("sidestep could not tell whether all files of a table are indexed", problem);
      return false;
    }
  }

  /** The files of one listing with the positions of their entries (-1: none), in the listing's order. */
  static final class Match {
    final java.lang.ref.WeakReference base;
    private final java.lang.ref.WeakReference listing;
    final FileStatus[] files;
    final int[] positions;
    private java.util.IdentityHashMap ordinals;

    Match(FileIndex base, Object listing, FileStatus[] files, int[] positions) {
      this.base = new java.lang.ref.WeakReference(base);
      this.listing = new java.lang.ref.WeakReference(listing);
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
        Integer ordinal = (Integer) ordinals.get(file);
        return ordinal == null ? -1 : ordinal.intValue();
      }
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
   *
   * By footer, a file is also held against the digest of the footer that its entry was made from, wherever it is.
   */
  static final class Candidates {
    static final int SLICE = 2048;
    static final int FOOTER_SLICE = 64;
    static final int MANY = 2048;
    static final long HOLDS_NANOS_PER_FILE = 100 * 1000;

    private final long since;
    private final boolean byFooter;
    private int size = 0;
    private int[] numbers = new int[64];
    private int[] positions = new int[64];
    private FileStatus[] files = new FileStatus[64];
    private FileKeys[] keys = new FileKeys[64];

    /** since: looks that were taken from then on serve here, too. */
    Candidates(boolean byFooter, long since) {
      this.byFooter = byFooter;
      this.since = since;
    }

    /** number: where the file stands in what was listed; position: where its entry stands in the index. */
    void add(int number, FileStatus file, FileKeys index, int position) {
      if (size == files.length) {
        numbers = java.util.Arrays.copyOf(numbers, size * 2);
        positions = java.util.Arrays.copyOf(positions, size * 2);
        files = (FileStatus[]) java.util.Arrays.copyOf(files, size * 2);
        keys = (FileKeys[]) java.util.Arrays.copyOf(keys, size * 2);
      }
      numbers[size] = number;
      positions[size] = position;
      files[size] = file;
      keys[size++] = index;
    }

    BitSet all() {
      BitSet all = new BitSet();
      for (int i = 0; i < size; i++) all.set(numbers[i]);
      return all;
    }

    BitSet unchanged() throws Exception {
      ArrayList running = new ArrayList();
      final byte[] changed = new byte[size];
      int slice = byFooter ? FOOTER_SLICE : SLICE;
      for (int start = 0; start < size; start += slice) {
        final int from = start;
        final int to = Math.min(size, start + slice);
        Runnable look = new Runnable() {
          public void run() {
            look(from, to, changed);
          }
        };
        if (size <= slice) look.run();
        else running.add(java.util.concurrent.ForkJoinPool.commonPool().submit(look));
      }
      for (int i = 0; i < running.size(); i++) ((java.util.concurrent.Future) running.get(i)).get();
      BitSet unchanged = all();
      for (int i = 0; i < size; i++) if (changed[i] != 0) unchanged.clear(numbers[i]);
      return unchanged;
    }

    void look(int from, int to, byte[] changed) {
      long now = System.nanoTime();
      for (int i = from; i < to; i++) {
        long[] lookedAt = byFooter ? keys[i].footerSeenAt : keys[i].lookedAt;
        long looked = lookedAt[positions[i]];
        // Someone else may have looked since this query began to; among many at once, one look serves them all.
        if (looked != 0 && (looked - since >= 0 || size > MANY && now - looked < size * HOLDS_NANOS_PER_FILE)) continue;
        long modified = files[i].getModificationTime();
        if (Footers.isLocal(files[i])) modified = keys[i].modified(positions[i]);
        else if (!byFooter) continue;
        // 0: gone. A file that is not there holds no rows that matter, so it stays skipped.
        boolean rewritten = modified != 0 && modified != files[i].getModificationTime();
        keys[i].rewritten[positions[i]] = rewritten;
        if (rewritten) changed[i] = 1;
        else if (byFooter && modified != 0 && !keys[i].sameFooter(files[i], positions[i])) changed[i] = 1;
        else lookedAt[positions[i]] = now;
      }
    }
  }
}
