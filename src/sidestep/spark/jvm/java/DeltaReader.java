package sidestep;

import java.util.TreeMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Scans that delta-spark reads by itself. Delta lists the files of a scan before sidestep is asked: its rule puts a
 * PreparedDeltaFileIndex in the place of the table, which holds the version that is read and the files that are left by
 * the statistics of the log. Deleted rows (deletion vectors) are taken out later, by a strategy that knows a scan of its
 * own by the class of that index. So what leaves out files must be of that class (with_delta/DeltaFiles.java): an index of
 * another class would give deleted rows back.
 *
 * Delta's classes may not be there, and a source that names one does not compile then. This one names none.
 */
final class DeltaReader {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");
  private static final String PACKAGE = "org.apache.spark.sql.delta.";
  private static final String PREPARED = PACKAGE + "stats.PreparedDeltaFileIndex";
  private static final String BY_LOG = PACKAGE + "files.TahoeLogFileIndex";
  private static final String FORMAT = PACKAGE + "DeltaParquetFileFormat";
  private static final String PHYSICAL_NAME = "delta.columnMapping.physicalName";

  /** What this delta-spark is used through: null before it was tried, and if there is a problem. */
  private static volatile Access access = null;
  private static volatile String problem = null;

  private DeltaReader() {}

  /** What needs Delta's classes. */
  interface Access {
    /** Of type FileStatus: the files of a prepared scan. */
    List files(FileIndex prepared);

    /** The prepared scan less what is skipped. */
    FileIndex without(PrunedFiles skipped);

    /** How Delta would have Spark run the scan of a plan. */
    scala.collection.immutable.Seq plan(org.apache.spark.sql.SparkSession session, LogicalPlan plan);

    /** The table's schema, with what Delta notes of each column; null if files call columns as the table does. */
    StructType mappedSchema(FileFormat format);

    /** Whether a format reads changes of a table rather than its rows. */
    boolean readsChanges(FileFormat format);
  }

  /** An index of Delta's own class that leaves out files. */
  interface Pruned {
    PrunedFiles pruned();
  }

  /** Whether a relation is Delta's to read, whatever for. */
  static boolean reads(HadoopFsRelation relation) {
    return relation.location() instanceof Pruned || relation.location().getClass().getName().startsWith(PACKAGE)
        || relation.fileFormat().getClass().getName().startsWith(PACKAGE);
  }

  /** Whether these are the files of a version of a table, as Delta has listed them for a query. */
  static boolean isPrepared(FileIndex files) {
    return files.getClass().getName().equals(PREPARED);
  }

  /** Why nothing can be skipped of what Delta reads; null if it can. */
  static String whyNot(LogicalRelation leaf, HadoopFsRelation relation) {
    FileIndex files = PrunedFiles.unwrap(relation.location());
    String kind = files.getClass().getSimpleName();
    if (leaf.isStreaming()) return "it is a stream";
    if (files.getClass().getName().equals(BY_LOG)) {
      return "Delta has not listed its files for this query: spark.databricks.delta.stats.skipping is off, or the session has "
          + "no DeltaSparkSessionExtension, or the query is part of a write, which is planned once more";
    }
    // A change of a table finds the files to be written anew through such scans: they must see every file.
    if (!isPrepared(files)) return "Delta reads it for purposes of its own (" + kind + ")";
    if (!relation.fileFormat().getClass().getName().equals(FORMAT)) {
      return "it is read by " + relation.fileFormat().getClass().getSimpleName() + ", which may read more than its files";
    }
    Access delta = access();
    if (delta == null) return "this version of delta-spark is not one that sidestep knows: " + problem;
    return delta.readsChanges(relation.fileFormat()) ? "it reads changes of the table" : null;
  }

  static List files(FileIndex prepared) {
    return access().files(prepared);
  }

  static FileIndex without(PrunedFiles skipped) {
    return access().without(skipped);
  }

  static scala.collection.immutable.Seq plan(org.apache.spark.sql.SparkSession session, LogicalPlan plan) {
    return access().plan(session, plan);
  }

  /** Whether a query asks for what is known of files; Delta does so itself, to find the rows that are deleted. */
  static boolean givesMetadata(LogicalRelation leaf) {
    for (java.util.Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      if (((Attribute) it.next()).name().equals("_metadata")) return true;
    }
    return false;
  }

  /** Whether columns are called otherwise in the files, so that Delta reads only those that it knows. */
  static boolean isMapped(HadoopFsRelation relation) {
    return access().mappedSchema(relation.fileFormat()) != null;
  }

  /** By the name of a column the one that its files have, where these differ; null if none does. */
  static Map storedNames(HadoopFsRelation relation) {
    StructType schema = access().mappedSchema(relation.fileFormat());
    if (schema == null) return null;
    StructField[] fields = schema.fields();
    TreeMap names = null;
    for (int i = 0; i < fields.length; i++) {
      Metadata notes = fields[i].metadata();
      if (!notes.contains(PHYSICAL_NAME) || notes.getString(PHYSICAL_NAME).equals(fields[i].name())) continue;
      if (names == null) names = new TreeMap();
      names.put(fields[i].name(), notes.getString(PHYSICAL_NAME));
    }
    return names;
  }

  private static Access access() {
    if (access == null && problem == null) {
      synchronized (DeltaReader.class) {
        if (access == null && problem == null) {
          try {
            access = (Access) DeltaReader.class.getClassLoader().loadClass("sidestep.DeltaAccess")
                .getConstructors()[0].newInstance(new Object[0]);
          } catch (Throwable cause) {
            problem = String.valueOf(cause.getCause() == null ? cause : cause.getCause());
            LOG.warn("sidestep skips nothing of Delta tables that delta-spark reads, because it could not compile", cause);
          }
        }
      }
    }
    return access;
  }
}
