package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/**
 * The data files that Iceberg has planned a scan of: those of one snapshot, less what its own statistics rule out. The
 * time of a file is the sequence number with which it came to the table: a path that went and came again has another.
 */
final class IcebergFiles implements FixedFiles {
  /** Iceberg's own scan. */
  final Object scan;
  /** Of type PartitionScanTask: a task for each file, with the delete files that go with it. */
  private List tasks = null;
  private List files = null;

  IcebergFiles(Object scan) {
    this.scan = scan;
  }

  synchronized List tasks() {
    if (tasks == null) tasks = new ArrayList((List) Reflected.call(scan, "tasks"));
    return tasks;
  }

  static Object table(Object scan) {
    return Reflected.call(scan, "table");
  }

  static String location(Object scan) {
    return (String) Reflected.call(table(scan), "location");
  }

  public synchronized List allFiles() {
    if (files == null) {
      ArrayList all = new ArrayList();
      for (int i = 0; i < tasks().size(); i++) all.add(status(file(tasks.get(i))));
      files = all;
    }
    return files;
  }

  static Object file(Object task) {
    return Reflected.call(Reflected.call(task, "asFileScanTask"), "file");
  }

  static String path(Object file) {
    return Reflected.call(file, "location", "path").toString();
  }

  static long size(Object file) {
    return ((Long) Reflected.call(file, "fileSizeInBytes")).longValue();
  }

  static long rows(Object file) {
    return ((Long) Reflected.call(file, "recordCount")).longValue();
  }

  /** The number with which a file came to its table; -1, which no entry has, if it has none or is not Parquet. */
  static long sequence(Object file) {
    Object number = Reflected.call(file, "fileSequenceNumber");
    boolean parquet = Reflected.call(file, "format").toString().equalsIgnoreCase("parquet");
    return parquet && number != null ? ((Long) number).longValue() : -1;
  }

  static FileStatus status(Object file) {
    return new FileStatus(size(file), false, 0, 0, sequence(file), new Path(path(file)));
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    PartitionDirectory all = PartitionDirectory$.MODULE$.apply(
        new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(new Object[0]),
        (FileStatus[]) allFiles().toArray(new FileStatus[0]));
    return Scala.seq(new Object[] {all});
  }

  public scala.collection.immutable.Seq rootPaths() {
    return Scala.seq(new Object[] {new Path(location(scan))});
  }

  public String[] inputFiles() {
    String[] names = new String[tasks().size()];
    for (int i = 0; i < names.length; i++) names[i] = path(file(tasks.get(i)));
    return names;
  }

  public void refresh() {}

  public long sizeInBytes() {
    long size = 0;
    for (int i = 0; i < tasks().size(); i++) size += size(file(tasks.get(i)));
    return size;
  }

  public StructType partitionSchema() {
    return new StructType();
  }

  public boolean isTimeTravel() {
    return false;
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }
}
