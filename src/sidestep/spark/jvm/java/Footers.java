package sidestep;

import java.io.File;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Parquet footers, and their digests: these tell a file from another of the same size and time, which tools that keep
 * times (tar, rsync -t, images of containers) may have put in its place. Python makes the same ones
 * (store/parquet/footer.py).
 */
final class Footers {
  static final int LENGTH = 16;
  /** Nanoseconds: a change within the tick of the clock that stamps files would leave no trace. */
  private static final long TICK = 100L * 1000 * 1000;

  private Footers() {}

  /** Whether a session wants files told apart by their footers, too. */
  static boolean wanted(SQLConf conf) {
    return "footer".equalsIgnoreCase(conf.getConfString("spark.sidestep.fileKeys", "listing").trim());
  }

  static boolean isLocal(FileStatus file) {
    String scheme = file.getPath().toUri().getScheme();
    return scheme == null || scheme.equals("file");
  }

  /**
   * A text that changes whenever a file does, whatever was made of its time; null if there is none to rely on. Of remote
   * files nothing is known beyond what was listed.
   */
  static String stamp(FileStatus file) {
    if (!isLocal(file)) return "listed";
    try {
      Map known = java.nio.file.Files.readAttributes(new File(file.getPath().toUri().getPath()).toPath(),
          "unix:ctime,ino,dev,size", new java.nio.file.LinkOption[0]);
      java.nio.file.attribute.FileTime changed = (java.nio.file.attribute.FileTime) known.get("ctime");
      long nanos = changed.to(java.util.concurrent.TimeUnit.NANOSECONDS);
      long age = System.currentTimeMillis() * 1000 * 1000 - nanos;
      return age < TICK ? null : nanos + " " + known.get("ino") + " " + known.get("dev") + " " + known.get("size");
    } catch (Throwable unknown) {
      return null; // not a file system that keeps these
    }
  }

  /** A file's footer, with the length and the magic number that follow it; null if it has none. */
  static byte[] read(FileStatus file) throws Exception {
    if (isLocal(file)) {
      java.io.RandomAccessFile in = new java.io.RandomAccessFile(file.getPath().toUri().getPath(), "r");
      try {
        long size = in.length();
        byte[] end = new byte[8];
        if (size < 12) return null;
        in.seek(size - 8);
        in.readFully(end);
        int length = length(end, size);
        if (length < 0) return null;
        byte[] footer = new byte[length + 8];
        in.seek(size - footer.length);
        in.readFully(footer);
        return footer;
      } finally {
        in.close();
      }
    }
    org.apache.hadoop.conf.Configuration conf =
        org.apache.spark.sql.classic.SparkSession.active().sessionState().newHadoopConf();
    org.apache.hadoop.fs.FSDataInputStream in = file.getPath().getFileSystem(conf).open(file.getPath());
    try {
      byte[] end = new byte[8];
      if (file.getLen() < 12) return null;
      in.readFully(file.getLen() - 8, end);
      int length = length(end, file.getLen());
      if (length < 0) return null;
      byte[] footer = new byte[length + 8];
      in.readFully(file.getLen() - footer.length, footer);
      return footer;
    } finally {
      in.close();
    }
  }

  /** The length of a footer, from the last eight bytes of its file; -1 if it can't be. */
  private static int length(byte[] end, long size) {
    int length = java.nio.ByteBuffer.wrap(end).order(java.nio.ByteOrder.LITTLE_ENDIAN).getInt();
    return length < 0 || length > size - 12 ? -1 : length;
  }

  /** The digest of a footer, with the length and the magic number that follow it. */
  static byte[] digest(byte[] footer) throws Exception {
    byte[] whole = java.security.MessageDigest.getInstance("SHA-256").digest(footer);
    return java.util.Arrays.copyOf(whole, LENGTH);
  }
}
