package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;

/** What a physical scan of an Iceberg table lists and reads, for those who explain and measure. */
final class IcebergRead {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  private IcebergRead() {}

  static boolean is(Object node) {
    return node instanceof BatchScanExec && IcebergScan.isQuery(((BatchScanExec) node).scan());
  }

  /** The files that are read: of those that were planned what is left, runtime filters included. */
  static IcebergFiles read(BatchScanExec scan) {
    return new IcebergFiles(IcebergScan.running(scan.scan()));
  }

  /** The files that Iceberg planned by its own means. */
  static IcebergFiles selected(BatchScanExec scan) {
    return new IcebergFiles(IcebergScan.original(scan.scan()));
  }

  /** Of type FileStatus: all files of the snapshot that is read; those that were planned if that cannot be told. */
  static List listed(BatchScanExec scan) {
    Object original = IcebergScan.original(scan.scan());
    try {
      Object inner = Reflected.call(original, "scan");
      if (!Reflected.has(inner.getClass(), "snapshot")) return selected(scan).allFiles();
      Object snapshot = Reflected.call(inner, "snapshot");
      Object every = Reflected.call(IcebergFiles.table(original), "newScan");
      java.lang.reflect.Method at = Reflected.declared(every.getClass(), "useSnapshot", new Class[] {long.class});
      every = at.invoke(every, new Object[] {Reflected.call(snapshot, "snapshotId")});
      Object tasks = Reflected.call(every, "planFiles");
      ArrayList files = new ArrayList();
      try {
        for (Iterator it = ((Iterable) tasks).iterator(); it.hasNext();) {
          files.add(IcebergFiles.status(Reflected.call(it.next(), "file")));
        }
      } finally {
        ((java.io.Closeable) tasks).close();
      }
      return files;
    } catch (Exception problem) {
      LOG.debug("sidestep could not list all files of an Iceberg table", problem);
      return selected(scan).allFiles();
    }
  }

  static boolean hasRun(BatchScanExec scan) {
    return value(scan, "numOutputRows") > 0 || value(scan, "numSplits") > 0;
  }

  private static long value(BatchScanExec scan, String metric) {
    scala.Option found = scan.metrics().get(metric);
    if (found.isEmpty()) return 0;
    return ((Long) ((org.apache.spark.util.AccumulatorV2) found.get()).value()).longValue();
  }

  /** As Inspector.metrics has them for scans of files. */
  static String metrics(BatchScanExec scan) {
    IcebergFiles read = read(scan);
    int planned = IcebergScan.planned(scan.scan());
    return "numFiles=" + read.tasks().size() + "\nfilesSize=" + read.sizeInBytes() + "\nnumOutputRows="
        + value(scan, "numOutputRows") + "\nstaticFilesNum=" + planned + "\n";
  }

  static String paths(BatchScanExec scan) {
    java.util.TreeSet paths = new java.util.TreeSet();
    for (Iterator it = read(scan).allFiles().iterator(); it.hasNext();) {
      paths.add(((FileStatus) it.next()).getPath().toUri().getPath());
    }
    StringBuilder text = new StringBuilder();
    for (Iterator it = paths.iterator(); it.hasNext();) text.append(text.length() == 0 ? "" : "\0").append(it.next());
    return text.toString();
  }

  /** As Inspector.coverage has it for scans of files; Iceberg's own choice stands for partition filters. */
  static String coverage(BatchScanExec scan, FileKeys[] keys) {
    BitSet[] listed = bits(keys.length);
    BitSet[] selected = bits(keys.length);
    long[] all = count(listed(scan), keys, listed);
    long[] some = count(selected(scan).allFiles(), keys, selected);
    long[] read = count(read(scan).allFiles(), new FileKeys[0], new BitSet[0]);
    StringBuilder text = new StringBuilder();
    text.append(all[0]).append(' ').append(all[1]).append('\n').append(some[0]).append(' ').append(some[1]);
    text.append('\n').append(all[2]).append(' ').append(all[3]).append('\n').append(read[0]).append(' ').append(read[1]);
    text.append(" 0");
    for (int i = 0; i < keys.length; i++) {
      text.append('\n').append(Wire.text(listed[i])).append('\n').append(Wire.text(selected[i]));
      text.append('\n').append(Wire.text(new BitSet()));
    }
    return text.toString();
  }

  private static BitSet[] bits(int count) {
    BitSet[] bits = new BitSet[count];
    for (int i = 0; i < count; i++) bits[i] = new BitSet();
    return bits;
  }

  /** Files, their bytes, and the same of those without an entry; entries: those that there are. */
  private static long[] count(List files, FileKeys[] keys, BitSet[] entries) {
    long[] totals = new long[4];
    for (Iterator it = files.iterator(); it.hasNext();) {
      FileStatus file = (FileStatus) it.next();
      totals[0]++;
      totals[1] += file.getLen();
      boolean known = false;
      for (int i = 0; i < keys.length; i++) {
        int position = keys[i].position(file);
        if (position < 0) continue;
        entries[i].set(position);
        known = true;
      }
      if (!known) {
        totals[2]++;
        totals[3] += file.getLen();
      }
    }
    return totals;
  }
}
