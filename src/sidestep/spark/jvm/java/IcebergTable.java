package sidestep;

import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** What an Iceberg table says of itself: its columns with their ids, and the files of its snapshot. */
final class IcebergTable {
  private static final String TABLE = "org.apache.iceberg.spark.source.SparkTable";

  private IcebergTable() {}

  /** The table that an analyzed plan reads, as JSON; empty if it is not a table of Iceberg's. */
  static String describe(LogicalPlan plan) throws Exception {
    LogicalPlan leaf = plan;
    while (Scala.list(leaf.children()).size() == 1) leaf = (LogicalPlan) Scala.list(leaf.children()).get(0);
    if (!(leaf instanceof DataSourceV2Relation)) return "";
    DataSourceV2Relation relation = (DataSourceV2Relation) leaf;
    if (!Reflected.isA(relation.table(), TABLE)) return "";
    Object table = Reflected.call(relation.table(), "table");
    Json out = new Json(false);
    out.open('{').key("location").text((String) Reflected.call(table, "location"));
    out.key("metadata").bool(Reflected.isA(table, IcebergScan.METADATA));
    Object snapshot = Reflected.call(table, "currentSnapshot");
    out.key("snapshot");
    if (snapshot == null) out.nothing();
    else out.text(Reflected.call(snapshot, "snapshotId").toString());
    fields(out, relation, table);
    files(out, snapshot == null ? null : Reflected.call(Reflected.call(table, "newScan"), "planFiles"));
    return out.close('}').toString();
  }

  /** Columns: [id, name, type in Spark's words, whether a file without it has NULL there, whether the file's own count]. */
  private static void fields(Json out, DataSourceV2Relation relation, Object table) {
    HashSet constant = new HashSet();
    for (Iterator specs = ((java.util.Map) Reflected.call(table, "specs")).values().iterator(); specs.hasNext();) {
      Iterator parts = ((List) Reflected.call(specs.next(), "fields")).iterator();
      while (parts.hasNext()) {
        Object part = parts.next();
        // A value of the partition, and not what is in the file, is what a reader is given.
        if (Reflected.call(part, "transform").toString().equals("identity")) constant.add(Reflected.call(part, "sourceId"));
      }
    }
    out.key("fields").open('[');
    for (Iterator it = ((List) Reflected.call(Reflected.call(table, "schema"), "columns")).iterator(); it.hasNext();) {
      Object field = it.next();
      String name = (String) Reflected.call(field, "name");
      String type = typeOf(relation, name);
      if (type == null) continue;
      boolean hasDefault = Reflected.has(field.getClass(), "initialDefault")
          && Reflected.call(field, "initialDefault") != null;
      out.open('[').number(((Integer) Reflected.call(field, "fieldId")).intValue()).text(name).text(type);
      out.bool(!hasDefault).bool(!constant.contains(Reflected.call(field, "fieldId"))).close(']');
    }
    out.close(']');
  }

  private static String typeOf(DataSourceV2Relation relation, String name) {
    for (Iterator it = Scala.list(relation.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (column.name().equals(name)) return column.dataType().catalogString();
    }
    return null;
  }

  /** Files: [path, size, sequence number], the last -1 if nothing can be said of a file. */
  private static void files(Json out, Object tasks) throws Exception {
    out.key("files").open('[');
    if (tasks != null) {
      try {
        for (Iterator it = ((Iterable) tasks).iterator(); it.hasNext();) {
          Object file = Reflected.call(it.next(), "file");
          String path = new org.apache.hadoop.fs.Path(IcebergFiles.path(file)).toUri().getPath();
          out.open('[').text(path).number(IcebergFiles.size(file)).number(IcebergFiles.sequence(file)).close(']');
        }
      } finally {
        ((java.io.Closeable) tasks).close();
      }
    }
    out.close(']');
  }
}
