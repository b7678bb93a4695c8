package sidestep;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * A scan of an Iceberg table that reads fewer files: a copy of Iceberg's own scan that has been given fewer of the tasks
 * which that scan planned itself. Each task keeps its delete files, and Iceberg's reader does all the rest. Spark sees an
 * object with all interfaces of the original. It is equal to another one only if the same files are left out: Spark runs
 * equal scans once.
 *
 * Iceberg's classes are asked by name: most sessions do not have them.
 */
final class IcebergScan implements InvocationHandler {
  /** What an ordinary query reads by; changes of rows, streams and metadata have other scans. */
  private static final String QUERY = "org.apache.iceberg.spark.source.SparkBatchQueryScan";
  static final String METADATA = "org.apache.iceberg.BaseMetadataTable";

  private final IcebergFiles files;
  /** What answers: the copy of the scan, or the batch that it made. */
  private final Object target;
  /** Of type String: the files that are left out. */
  private final Set dropped;
  /** The rows of the files that are left. */
  private final long rows;

  private IcebergScan(IcebergFiles files, Object target, Set dropped, long rows) {
    this.files = files;
    this.target = target;
    this.dropped = dropped;
    this.rows = rows;
  }

  /** Whether a node of a plan is a scan of an Iceberg table. One that gives no column cannot be told from others. */
  static boolean is(Object node) {
    if (!(node instanceof DataSourceV2ScanRelation)) return false;
    DataSourceV2ScanRelation leaf = (DataSourceV2ScanRelation) node;
    return isQuery(leaf.scan()) && leaf.output().nonEmpty();
  }

  /** Whether a scan is what an ordinary query reads an Iceberg table by. */
  static boolean isQuery(Object scan) {
    return scan != null && original(scan).getClass().getName().equals(QUERY);
  }

  /** How many files were left when the query was planned. */
  static int planned(Object scan) {
    IcebergScan pruned = handler(scan);
    return pruned == null ? new IcebergFiles(scan).tasks().size() : pruned.files.tasks().size() - pruned.dropped.size();
  }

  /** Iceberg's own scan, whether or not it reads fewer files now. */
  static Object original(Object scan) {
    IcebergScan pruned = handler(scan);
    return pruned == null ? scan : pruned.files.scan;
  }

  /** The scan that runs: Iceberg's own, or the copy that reads less. */
  static Object running(Object scan) {
    IcebergScan pruned = handler(scan);
    return pruned == null ? scan : pruned.target;
  }

  static boolean isPruned(Object scan) {
    return handler(scan) != null;
  }

  private static IcebergScan handler(Object scan) {
    if (!Proxy.isProxyClass(scan.getClass())) return null;
    InvocationHandler handler = Proxy.getInvocationHandler(scan);
    return handler instanceof IcebergScan ? (IcebergScan) handler : null;
  }

  /** Why no file of a scan can be left out; null if that can be done. */
  static String whyNot(DataSourceV2ScanRelation leaf, boolean changesRows) {
    Object scan = original(leaf.scan());
    if (changesRows) return "Iceberg reads it to change its rows";
    if (Reflected.declared(scan.getClass(), "resetTasks", new Class[] {List.class}) == null
        || !Reflected.has(scan.getClass(), "tasks") || !Reflected.has(scan.getClass(), "specs")
        || !Reflected.has(scan.getClass(), "groupingKeyType") || schema(scan) == null) {
      return "this version of Iceberg plans its scans in a way that sidestep does not know";
    }
    return Reflected.isA(IcebergFiles.table(scan), METADATA) ? "it is a metadata table of Iceberg" : null;
  }

  /** The columns that a scan gives, with the ids by which files have them. */
  private static Object schema(Object scan) {
    boolean known = Reflected.has(scan.getClass(), "projection") || Reflected.has(scan.getClass(), "expectedSchema");
    return known ? Reflected.call(scan, "projection", "expectedSchema") : null;
  }

  /** Of type Integer, by name: the ids by which files have columns; -1 for a name that two of them have. */
  static Map fieldIds(DataSourceV2ScanRelation leaf) {
    HashMap ids = new HashMap();
    Object schema = schema(original(leaf.scan()));
    for (java.util.Iterator it = ((List) Reflected.call(schema, "columns")).iterator(); it.hasNext();) {
      Object field = it.next();
      Object name = Reflected.call(field, "name");
      ids.put(name, ids.containsKey(name) ? Integer.valueOf(-1) : Reflected.call(field, "fieldId"));
    }
    return ids;
  }

  /** A scan without some of the files that Iceberg has planned. */
  static Object without(IcebergFiles files, BitSet drop) throws Exception {
    ArrayList kept = new ArrayList();
    HashSet dropped = new HashSet();
    long rows = 0;
    for (int i = 0; i < files.tasks().size(); i++) {
      Object file = IcebergFiles.file(files.tasks().get(i));
      if (drop.get(i)) {
        dropped.add(IcebergFiles.path(file));
        continue;
      }
      kept.add(files.tasks().get(i));
      rows += IcebergFiles.rows(file);
    }
    // How tasks are grouped by partition is what Spark has been told of all of them, whichever are left.
    Reflected.call(files.scan, "specs");
    Reflected.call(files.scan, "groupingKeyType");
    Object copy = Reflected.copy(files.scan);
    Reflected.declared(copy.getClass(), "resetTasks", new Class[] {List.class}).invoke(copy, new Object[] {kept});
    return proxy(copy, new IcebergScan(files, copy, dropped, rows));
  }

  private static Object proxy(Object target, IcebergScan handler) {
    Set interfaces = Reflected.interfaces(target.getClass());
    return Proxy.newProxyInstance(target.getClass().getClassLoader(),
        (Class[]) interfaces.toArray(new Class[0]), handler);
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    if (method.getDeclaringClass() == Object.class) {
      if (name.equals("equals")) return Boolean.valueOf(isEqual(arguments[0]));
      if (name.equals("hashCode")) return Integer.valueOf(target.hashCode() * 31 + dropped.hashCode());
      return told();
    }
    Object result;
    try {
      result = method.invoke(target, arguments);
    } catch (InvocationTargetException problem) {
      throw problem.getCause();
    }
    if (result instanceof Batch) return proxy(result, new IcebergScan(files, result, dropped, rows));
    if (name.equals("estimateStatistics")) return new Remaining((Statistics) result, rows);
    return name.equals("description") ? told() : result;
  }

  private String told() {
    String about = target instanceof Scan ? ((Scan) target).description() : target.toString();
    return "sidestep[" + dropped.size() + " files skipped] of " + about;
  }

  private boolean isEqual(Object other) {
    IcebergScan that = other == null ? null : handler(other);
    return that != null && target.equals(that.target) && dropped.equals(that.dropped);
  }

  /** Statistics of the files that are left: Iceberg may know only those of the table. */
  static final class Remaining implements Statistics {
    private final Statistics all;
    private final long rows;

    Remaining(Statistics all, long rows) {
      this.all = all;
        this.rows = rows;
    }

    public java.util.OptionalLong sizeInBytes() {
      java.util.OptionalLong known = all.sizeInBytes();
      java.util.OptionalLong count = all.numRows();
      if (!known.isPresent() || !count.isPresent() || count.getAsLong() <= rows) return known;
      return java.util.OptionalLong.of((long) Math.ceil(known.getAsLong() * ((double) rows / count.getAsLong())));
    }

    public java.util.OptionalLong numRows() {
      java.util.OptionalLong known = all.numRows();
      return known.isPresent() ? java.util.OptionalLong.of(Math.min(known.getAsLong(), rows)) : known;
    }

    public java.util.Map columnStats() {
      return all.columnStats();
    }
  }
}
