package sidestep;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A fixed list of files with their partition values: what a Delta log says a version of a table consists of. */
public final class SnapshotFiles implements FixedFiles {
  private final String identity;
  /** The folder of the table that the files are of. */
  private final Path root;
  /** The column group that they are of, or -1. */
  final int group;
  private final StructType partitionSchema;
  /** Of type PartitionDirectory. */
  private final List directories;
  private final long size;
  /** What must still be as it was when the files are listed; null if they stand for themselves. */
  private Witnesses guard = null;

  SnapshotFiles(
      String identity, Path root, int group, StructType partitionSchema, List directories, long size) {
    this.identity = identity;
    this.root = root;
    this.group = group;
    this.partitionSchema = partitionSchema;
    this.directories = directories;
    this.size = size;
  }

  /** A version of a table. Values: for each file, the text (or null) of each partition column. */
  static SnapshotFiles of(String identity, Path root, StructType partitionSchema, Wire.Files files, List values,
      String zone) {
    LinkedHashMap groups = new LinkedHashMap();
    long size = 0;
    int width = partitionSchema.length();
    for (int f = 0; f < files.paths.length; f++) {
      size += files.sizes[f];
      List key = new ArrayList(values.subList(f * width, (f + 1) * width));
      if (!groups.containsKey(key)) groups.put(key, new ArrayList());
      Path path = path(root, files.paths[f]);
      ((List) groups.get(key)).add(new FileStatus(files.sizes[f], false, 0, 0, files.times[f], path));
    }
    ArrayList directories = new ArrayList();
    for (java.util.Iterator it = groups.keySet().iterator(); it.hasNext();) {
      List key = (List) it.next();
      Object[] row = new Object[width];
      for (int c = 0; c < width; c++) {
        row[c] = partitionValue((String) key.get(c), partitionSchema.fields()[c].dataType(), zone);
      }
      directories.add(PartitionDirectory$.MODULE$.apply(new GenericInternalRow(row),
          (FileStatus[]) ((List) groups.get(key)).toArray(new FileStatus[0])));
    }
    return new SnapshotFiles(identity, root, -1, partitionSchema, directories, size);
  }

  /**
   * Files of a table in column groups: those of one group, or all of them if it is -1. groups: of each file; partner: a
   * group whose files are read with those of this one, or less than 0.
   */
  static SnapshotFiles ofGroup(
      String identity, Path root, Path inner, Wire.Files files, int[] groups, int group, int partner) {
    ArrayList chosen = new ArrayList();
    long size = 0;
    for (int f = 0; f < files.paths.length; f++) {
      if (group >= 0 && groups[f] != group && (partner < 0 || groups[f] != partner)) continue;
      size += files.sizes[f];
      chosen.add(new FileStatus(files.sizes[f], false, 0, 0, files.times[f], path(inner, files.paths[f])));
    }
    ArrayList directories = new ArrayList();
    directories.add(PartitionDirectory$.MODULE$.apply(new GenericInternalRow(new Object[0]),
        (FileStatus[]) chosen.toArray(new FileStatus[0])));
    return new SnapshotFiles(identity, root, group, new StructType(), directories, size);
  }

  /** The same files, of which nothing is read once what they were made of has changed. */
  SnapshotFiles guarded(Witnesses fresh) {
    SnapshotFiles copy = new SnapshotFiles(identity, root, group, partitionSchema, directories, size);
    copy.guard = fresh;
    return copy;
  }

  private static Path path(Path root, String name) {
    return name.startsWith("/") || name.contains(":/") ? new Path(name) : new Path(root, new Path(null, null, name));
  }

  private static Object partitionValue(String text, DataType type, String zone) {
    if (text == null) return null;
    Cast cast = new Cast(Literal$.MODULE$.apply(text), type, scala.Option.apply(zone), EvalMode$.MODULE$.ANSI());
    return cast.eval(InternalRow.empty());
  }

  /** A Parquet relation over the files. The schema names partition columns too, so that columns keep their order. */
  LogicalRelation relation(org.apache.spark.sql.classic.SparkSession session, StructType schema) {
    HadoopFsRelation relation = new HadoopFsRelation(this, partitionSchema, schema, scala.Option.empty(),
        new org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(), session);
    return LogicalRelation$.MODULE$.apply(relation, false);
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    if (guard != null && !guard.hold()) {
      throw new IllegalStateException("A table that this query joins has changed since the query was planned, and was "
          + "to be read from the denormalized table " + root + ", which has its old rows: make the query anew.");
    }
    ArrayList conditions = new ArrayList();
    for (java.util.Iterator it = Scala.list(partitionFilters).iterator(); it.hasNext();) {
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
    return Scala.seq(kept.toArray());
  }

  public scala.collection.immutable.Seq rootPaths() {
    return Scala.seq(new Object[] {root});
  }

  public String[] inputFiles() {
    ArrayList names = new ArrayList();
    for (int d = 0; d < directories.size(); d++) {
      for (java.util.Iterator it = Scala.list(((PartitionDirectory) directories.get(d)).files()).iterator(); it.hasNext();) {
        names.add(((FileStatusWithMetadata) it.next()).getPath().toUri().toString());
      }
    }
    return (String[]) names.toArray(new String[0]);
  }

  /** The files of all folders, in the order in which listFiles gives them when nothing is filtered. */
  public List allFiles() {
    ArrayList files = new ArrayList();
    for (int d = 0; d < directories.size(); d++) {
      for (java.util.Iterator it = Scala.list(((PartitionDirectory) directories.get(d)).files()).iterator(); it.hasNext();) {
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
