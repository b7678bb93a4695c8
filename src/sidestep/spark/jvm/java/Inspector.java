package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.types.StructType;

/** What Python asks of the JVM outside the rule: make a rule or a relation, look at plans, scans and their metrics. */
public final class Inspector {

  public Inspector() {}

  public PruneRule rule(java.util.function.Function python) {
    return new PruneRule(python);
  }

  /** The extra optimizations of a session with the rule in the place of any other, or without it; so for what plans scans. */
  public static void install(SparkSession session, PruneRule rule, boolean on) {
    synchronized (session.experimental()) {
      ArrayList rules = new ArrayList(Scala.list(session.experimental().extraOptimizations()));
      ArrayList strategies = new ArrayList(Scala.list(session.experimental().extraStrategies()));
      for (int i = rules.size() - 1; i >= 0; i--) {
        if (!(rules.get(i) instanceof PruneRule) || !on && rules.get(i) != rule) continue;
        strategies.remove(((PruneRule) rules.remove(i)).strategy);
      }
      if (on) {
        rules.add(rule);
        strategies.add(rule.strategy);
      }
      session.experimental().extraOptimizations_$eq(Scala.seq(rules.toArray()));
      session.experimental().extraStrategies_$eq(Scala.seq(strategies.toArray()));
    }
  }

  /** Whether a session has this rule. */
  static boolean hasRule(SparkSession session, PruneRule rule) {
    List rules = Scala.list(session.experimental().extraOptimizations());
    for (int i = 0; i < rules.size(); i++) if (rules.get(i) == rule) return true;
    return false;
  }

  /** The rule that is at work in a session; null if there is none. */
  static PruneRule ownRule(SparkSession session) {
    List rules = Scala.list(session.experimental().extraOptimizations());
    for (int i = 0; i < rules.size(); i++) {
      if (rules.get(i) instanceof PruneRule && ((PruneRule) rules.get(i)).isEnabled()) return (PruneRule) rules.get(i);
    }
    return null;
  }

  /** Bring the rule to the sessions that are made from now on, and have the recorder, or null, note their queries. */
  public void bringEverywhere(SparkSession session, PruneRule rule, Recorder recorder) {
    EverySession.start(session, rule, recorder);
  }

  /** The reverse. */
  public void takeFromEverywhere(PruneRule rule) {
    EverySession.stop(rule);
  }

  /** Whether a session has the rule because it is brought everywhere. */
  public boolean isBroughtTo(SparkSession session, PruneRule rule) {
    return EverySession.covers(session, rule);
  }

  /** Bring nothing to this session. */
  public void leaveOut(SparkSession session) {
    EverySession.leaveOut(session);
  }

  /** Have a session know the function that views of laid-out tables are made of. */
  public void addTableFunction(SparkSession session, java.util.function.Function python) {
    TableFunction.addTo(session, python);
  }

  /** Have a view of the catalog read the table at a path. */
  public void turnView(SparkSession session, String database, String name, String path) throws Exception {
    TableFunction.turn(session, database, name, path);
  }

  /** Has a session put together tables in column groups, those of jobs that change them as well. */
  public void putTogether(SparkSession session) {
    ArrayList rules = new ArrayList(Scala.list(session.experimental().extraOptimizations()));
    rules.add(new ReconstructionRule());
    session.experimental().extraOptimizations_$eq(Scala.seq(rules.toArray()));
    ArrayList strategies = new ArrayList(Scala.list(session.experimental().extraStrategies()));
    strategies.add(new RowGroupStrategy());
    session.experimental().extraStrategies_$eq(Scala.seq(strategies.toArray()));
  }

  /**
   * The settings of a session's Hadoop configuration that begin so and end in one of these names, a line each: names and
   * values by turns, each with NUL after it. Secrets may be in a store of their own, which Hadoop looks into.
   */
  public String storeSettings(SparkSession session, String prefix, String names) throws Exception {
    org.apache.hadoop.conf.Configuration conf = session.sessionState().newHadoopConf();
    java.util.HashSet wanted = new java.util.HashSet(java.util.Arrays.asList(names.split("\n")));
    java.util.TreeSet found = new java.util.TreeSet();
    for (java.util.Iterator it = wanted.iterator(); it.hasNext();) found.add(prefix + it.next());
    for (java.util.Iterator it = conf.getPropsWithPrefix(prefix + "bucket.").keySet().iterator(); it.hasNext();) {
      String name = (String) it.next();
      for (java.util.Iterator w = wanted.iterator(); w.hasNext();) {
        if (name.endsWith("." + w.next())) found.add(prefix + "bucket." + name);
      }
    }
    StringBuilder text = new StringBuilder();
    for (java.util.Iterator it = found.iterator(); it.hasNext();) {
      String name = (String) it.next();
      char[] value = conf.getPassword(name);
      if (value != null && value.length > 0) text.append(name).append('\0').append(value).append('\0');
    }
    return text.toString();
  }

  /** The settings of a session that decide what the rows of a Parquet file are. */
  public String reading(SparkSession session) {
    return ValueSettings.ofReading(session.sessionState().conf());
  }

  public String describe(LogicalPlan plan) {
    return new PlanWriter(plan).text();
  }

  /** The Iceberg table that an analyzed plan reads; see IcebergTable. */
  public String icebergTable(LogicalPlan plan) throws Exception {
    return IcebergTable.describe(plan);
  }

  /** SQL as a plan, unless it is a command: explaining must not run anything. */
  public LogicalPlan parsed(SparkSession session, String sql) throws Exception {
    return session.sessionState().sqlParser().parsePlan(sql);
  }

  /** How Spark would run a plan, planned anew and never run. */
  public org.apache.spark.sql.execution.QueryExecution execution(
      SparkSession session, LogicalPlan plan) {
    return session.sessionState().executePlan(plan, org.apache.spark.sql.execution.CommandExecutionMode.SKIP());
  }

  /** Whether a plan has run: its scans have been given files, or it has none. */
  public boolean hasRun(SparkPlan plan) {
    if (plan instanceof org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec) {
      return ((org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec) plan).isFinalPlan();
    }
    List found = scans(plan);
    for (int i = 0; i < found.size(); i++) {
      if (found.get(i) instanceof BatchScanExec) {
        if (IcebergRead.hasRun((BatchScanExec) found.get(i))) return true;
        continue;
      }
      Object value = ((org.apache.spark.util.AccumulatorV2) ((FileSourceScanExec) found.get(i)).metrics()
          .apply("numFiles")).value();
      if (((Long) value).longValue() > 0) return true;
    }
    List inMemory = memoryScans(plan);
    for (int i = 0; i < inMemory.size(); i++) if (memoryRows((InMemoryTableScanExec) inMemory.get(i)) > 0) return true;
    return found.isEmpty() && inMemory.isEmpty();
  }

  /** A relation over exactly these files, as a logical plan. Values: one text or null per file and partition column. */
  public LogicalPlan snapshot(SparkSession session, String identity, String root,
      String schemaJson, List partitionColumns, String paths, String numbers, List values) {
    StructType schema = (StructType) org.apache.spark.sql.types.DataType$.MODULE$.fromJson(schemaJson);
    StructType partitionSchema = new StructType();
    for (int i = 0; i < partitionColumns.size(); i++) {
      partitionSchema = partitionSchema.add(schema.apply((String) partitionColumns.get(i)));
    }
    String zone = session.sessionState().conf().sessionLocalTimeZone();
    return SnapshotFiles.of(identity, new Path(root), partitionSchema, new Wire.Files(paths, numbers), values, zone)
        .relation(session, schema);
  }

  /**
   * A table in column groups as a logical plan; see GroupedFiles. schemaJson: what it is to give; groups: of each file;
   * byJob: only a session with ReconstructionRule puts it together.
   */
  public LogicalPlan groups(SparkSession session, String identity, String root, String inner,
      String schemaJson, List columns, String rowsOf, int buckets, String block, String paths, String numbers, String groups,
      boolean byJob) {
    GroupedFiles files = new GroupedFiles(identity, new Path(root), new Path(inner), new Wire.Files(paths, numbers),
        Wire.ints(groups), columns, Wire.ints(rowsOf), buckets, block, byJob);
    return files.relation(session, (StructType) org.apache.spark.sql.types.DataType$.MODULE$.fromJson(schemaJson));
  }

  /** A relation whose files are read by another session's settings: every file, as it is, or an error. */
  public LogicalPlan readBy(LogicalPlan plan, SparkSession reader) {
    LogicalRelation leaf = (LogicalRelation) plan;
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    scala.collection.immutable.Map options = relation.options();
    // These two are looked up in the session that runs the query, unless the relation itself has them.
    options = (scala.collection.immutable.Map) options.updated("ignoreCorruptFiles", "false");
    options = (scala.collection.immutable.Map) options.updated("ignoreMissingFiles", "false");
    return LogicalRelation$.MODULE$.apply(new HadoopFsRelation(relation.location(), relation.partitionSchema(),
        relation.dataSchema(), relation.bucketSpec(), relation.fileFormat(), options, reader), false);
  }

  /** The scans of files in a physical plan, and of Iceberg tables, those of adaptive stages and subqueries included, each once. */
  public List scans(SparkPlan plan) {
    ArrayList found = new ArrayList();
    collect(plan, FileSourceScanExec.class, found, new java.util.IdentityHashMap());
    ArrayList others = new ArrayList();
    collect(plan, BatchScanExec.class, others, new java.util.IdentityHashMap());
    for (int i = 0; i < others.size(); i++) if (IcebergRead.is(others.get(i))) found.add(others.get(i));
    return found;
  }

  /** The same of what is read from memory; how that came there is no part of the plan. */
  public List memoryScans(SparkPlan plan) {
    ArrayList found = new ArrayList();
    collect(plan, InMemoryTableScanExec.class, found, new java.util.IdentityHashMap());
    return found;
  }

  /** The rows of the batches that a scan of memory has read. */
  public long memoryRows(InMemoryTableScanExec scan) {
    return ((Long) ((org.apache.spark.util.AccumulatorV2) scan.metrics().apply("numOutputRows")).value()).longValue();
  }

  /** The name by which a table was cached; empty if it has none. */
  public String memoryName(InMemoryTableScanExec scan) {
    scala.Option name = scan.relation().cacheBuilder().tableName();
    return name.isDefined() ? (String) name.get() : "";
  }

  private static void collect(SparkPlan plan, Class kind, List found, java.util.Map seen) {
    if (seen.put(plan, Boolean.TRUE) != null) return;
    if (kind.isInstance(plan)) found.add(plan);
    if (plan instanceof org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec) {
      collect(((org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec) plan).executedPlan(), kind, found, seen);
    }
    if (plan instanceof org.apache.spark.sql.execution.adaptive.QueryStageExec) {
      collect(((org.apache.spark.sql.execution.adaptive.QueryStageExec) plan).plan(), kind, found, seen);
    }
    // A reused exchange reads nothing again: its scan is met where it is first used.
    if (plan instanceof org.apache.spark.sql.execution.exchange.ReusedExchangeExec) return;
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) collect((SparkPlan) children.get(i), kind, found, seen);
    List inner = Scala.list(plan.subqueries());
    for (int i = 0; i < inner.size(); i++) {
      if (inner.get(i) instanceof SparkPlan) collect((SparkPlan) inner.get(i), kind, found, seen);
    }
  }

  /** Make every scan of a plan list its files, as it would before it runs. */
  public int listAll(SparkPlan plan) {
    int files = 0;
    List found = scans(plan);
    for (int i = 0; i < found.size(); i++) {
      if (found.get(i) instanceof BatchScanExec) files += IcebergRead.read((BatchScanExec) found.get(i)).tasks().size();
      else files += ((FileSourceScanExec) found.get(i)).selectedPartitions().totalNumberOfFiles();
    }
    return files;
  }

  /** Output ids of a scan's relation, so that it can be told to which logical leaf it belongs. */
  public String outputIds(FileSourceScanExec scan) {
    return PlanWriter.ids(scan.output());
  }

  // What is asked of scans of files is asked of those of Iceberg tables as well.

  public String outputIds(BatchScanExec scan) {
    return PlanWriter.ids(scan.output());
  }

  public String metrics(BatchScanExec scan) {
    return IcebergRead.metrics(scan);
  }

  public String selectors(BatchScanExec scan) {
    return "";
  }

  public String tableName(BatchScanExec scan) {
    return scan.table().name();
  }

  public int group(BatchScanExec scan) {
    return -1;
  }

  public String rootPath(BatchScanExec scan) {
    return IcebergFiles.location(IcebergScan.original(scan.scan()));
  }

  public String filesRead(BatchScanExec scan) {
    return IcebergRead.paths(scan);
  }

  public String coverage(PruneRule rule, BatchScanExec scan, String keysIds) {
    String[] ids = keysIds.isEmpty() ? new String[0] : keysIds.split(",");
    FileKeys[] keys = new FileKeys[ids.length];
    for (int i = 0; i < ids.length; i++) keys[i] = rule.keysOf(ids[i]);
    return IcebergRead.coverage(scan, keys);
  }

  /** Metrics of a scan that has run, one "name=value" a line. */
  public String metrics(FileSourceScanExec scan) {
    StringBuilder text = new StringBuilder();
    java.util.Iterator it = scala.jdk.javaapi.CollectionConverters.asJava(scan.metrics()).entrySet().iterator();
    while (it.hasNext()) {
      java.util.Map.Entry entry = (java.util.Map.Entry) it.next();
      // The sum as the executors report it; AccumulatorV2.value() is boxed and bridged, which Janino cannot call.
      text.append(entry.getKey()).append('=')
          .append(((org.apache.spark.util.AccumulatorV2) entry.getValue()).value()).append('\n');
    }
    return text.toString();
  }

  /** What chooses files of a scan when it runs, a line each: by what, from what, and how many values there were. */
  public String selectors(FileSourceScanExec scan) {
    StringBuilder text = new StringBuilder();
    List filters = Scala.list(scan.partitionFilters());
    for (int i = 0; i < filters.size(); i++) {
      ArrayList open = new ArrayList();
      open.add(filters.get(i));
      while (!open.isEmpty()) {
        Expression next = (Expression) open.remove(open.size() - 1);
        if (!(next instanceof PartitionSelector)) {
          open.addAll(Scala.list(next.children()));
          continue;
        }
        PartitionSelector.Choice choice = ((PartitionSelector) next).choice;
        text.append(text.length() == 0 ? "" : "\n").append(choice.by).append('\t').append(((PartitionSelector) next).source());
        text.append('\t').append(choice.outcome == null ? "" : choice.outcome);
      }
    }
    return text.toString();
  }

  public String tableName(FileSourceScanExec scan) {
    return scan.tableIdentifier().isDefined()
        ? ((org.apache.spark.sql.catalyst.TableIdentifier) scan.tableIdentifier().get()).unquotedString()
        : "";
  }

  /** Whether delta-spark reads the files of a scan. */
  public boolean isDelta(FileSourceScanExec scan) {
    return DeltaReader.reads(scan.relation());
  }

  /** The number of the column group that a scan reads; -1 if it reads whole rows. */
  public int group(FileSourceScanExec scan) {
    FileIndex base = PrunedFiles.unwrap(scan.relation().location());
    return base instanceof SnapshotFiles ? ((SnapshotFiles) base).group : -1;
  }

  public String rootPath(FileSourceScanExec scan) {
    List roots = Scala.list(scan.relation().location().rootPaths());
    return roots.isEmpty() ? "" : ((Path) roots.get(0)).toString();
  }

  /** Paths of the files that a scan was given to read, dynamic pruning included, separated by NUL. */
  public String filesRead(FileSourceScanExec scan) {
    StringBuilder text = new StringBuilder();
    java.util.TreeSet paths = new java.util.TreeSet();
    List rdds = Scala.list(scan.inputRDDs());
    for (int r = 0; r < rdds.size(); r++) {
      if (!(rdds.get(r) instanceof FileScanRDD)) continue;
      List partitions = Scala.list(((FileScanRDD) rdds.get(r)).filePartitions());
      for (int p = 0; p < partitions.size(); p++) {
        PartitionedFile[] files = ((FilePartition) partitions.get(p)).files();
        for (int f = 0; f < files.length; f++) paths.add(files[f].toPath().toUri().getPath());
      }
    }
    for (java.util.Iterator it = paths.iterator(); it.hasNext();) {
      text.append(text.length() == 0 ? "" : "\0").append(it.next());
    }
    return text.toString();
  }

  /**
   * How a scan's files relate to an index: lines "listed files bytes", "selected files bytes" (after partition filters),
   * "unknown files bytes" (listed, with no entry), "read files bytes by_block" (after skipping; whether blocks are told by
   * id), then for each index base64 bits over its entries: listed, selected, and of those that are read the ones that are
   * read in part.
   */
  public String coverage(PruneRule rule, FileSourceScanExec scan, String keysIds) {
    String[] ids = keysIds.isEmpty() ? new String[0] : keysIds.split(",");
    FileKeys[] keys = new FileKeys[ids.length];
    BitSet[] listed = new BitSet[ids.length];
    BitSet[] selected = new BitSet[ids.length];
    for (int i = 0; i < ids.length; i++) {
      keys[i] = rule.keysOf(ids[i]);
      listed[i] = new BitSet();
      selected[i] = new BitSet();
    }
    FileIndex location = scan.relation().location();
    FileIndex base = PrunedFiles.unwrap(location);
    scala.collection.immutable.Seq none = Scala.seq(new Object[0]);
    scala.collection.immutable.Seq partitionFilters = Scala.seq(staticOnly(scan.partitionFilters()));
    boolean byFooter = !PrunedFiles.isFixed(base) && Footers.wanted(scan.conf());
    long[] all = count(base.listFiles(none, none), keys, listed, byFooter);
    // Delta passes over files by its own statistics when it is given the conditions.
    scala.collection.immutable.Seq others = isDelta(scan) ? Scala.seq(staticOnly(scan.dataFilters())) : none;
    long[] some = count(base.listFiles(partitionFilters, others), keys, selected, byFooter);
    scala.collection.immutable.Seq left = location.listFiles(partitionFilters, others);
    long[] read = count(left, new FileKeys[0], new BitSet[0], false);
    BitSet[] inPart = inPart(scan, left, keys);
    StringBuilder text = new StringBuilder();
    text.append(all[0]).append(' ').append(all[1]).append('\n').append(some[0]).append(' ').append(some[1]);
    text.append('\n').append(all[2]).append(' ').append(all[3]).append('\n').append(read[0]).append(' ').append(read[1]);
    PrunedFiles pruned = PrunedFiles.in(location);
    text.append(pruned != null && pruned.byBlock() ? " 1" : " 0");
    for (int i = 0; i < ids.length; i++) {
      text.append('\n').append(Wire.text(listed[i])).append('\n').append(Wire.text(selected[i]));
      text.append('\n').append(Wire.text(inPart[i]));
    }
    return text.toString();
  }

  /** Which files of a listing a scan reads only some row groups of, by the entries of indexes. */
  private static BitSet[] inPart(FileSourceScanExec scan, scala.collection.immutable.Seq directories, FileKeys[] keys) {
    BitSet[] entries = new BitSet[keys.length];
    for (int i = 0; i < entries.length; i++) entries[i] = new BitSet();
    if (!(scan instanceof RowGroupScan)) return entries;
    PrunedFiles location = PrunedFiles.in(scan.relation().location());
    ArrayList statuses = new ArrayList();
    for (java.util.Iterator d = Scala.list(directories).iterator(); d.hasNext();) {
      java.util.Iterator files = Scala.list(((PartitionDirectory) d.next()).files()).iterator();
      while (files.hasNext()) statuses.add(((FileStatusWithMetadata) files.next()).fileStatus());
    }
    try {
      RowGroupPieces.Part[] parts = new RowGroupPieces(location, new ArrayList())
          .parts((FileStatus[]) statuses.toArray(new FileStatus[statuses.size()]));
      for (int p = 0; p < parts.length; p++) {
        if (parts[p] == null) continue;
        FileKeys its = ((PrunedFiles.Skip) location.skips.get(parts[p].index)).keys;
        for (int i = 0; i < keys.length; i++) if (keys[i] == its) entries[i].set(parts[p].entry);
      }
    } catch (Exception problem) {
      for (int i = 0; i < entries.length; i++) entries[i].clear(); // as the scan would then
    }
    return entries;
  }

  private static Object[] staticOnly(scala.collection.Seq filters) {
    ArrayList kept = new ArrayList();
    List all = Scala.list(filters);
    for (int i = 0; i < all.size(); i++) {
      if (!hasPlan((Expression) all.get(i))) kept.add(all.get(i));
    }
    return kept.toArray();
  }

  private static boolean hasPlan(Expression e) {
    if (e instanceof PlanExpression || e instanceof DynamicPruning) return true;
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) if (hasPlan((Expression) children.get(i))) return true;
    return false;
  }

  private static long[] count(scala.collection.immutable.Seq directories, FileKeys[] keys, BitSet[] entries,
      boolean byFooter) {
    long[] totals = new long[4];
    for (java.util.Iterator d = Scala.list(directories).iterator(); d.hasNext();) {
      java.util.Iterator files = Scala.list(((PartitionDirectory) d.next()).files()).iterator();
      while (files.hasNext()) {
        FileStatus file = ((FileStatusWithMetadata) files.next()).fileStatus();
        totals[0]++;
        totals[1] += file.getLen();
        boolean known = false;
        for (int i = 0; i < keys.length; i++) {
          int position = keys[i].position(file);
          if (position < 0 || byFooter && !keys[i].sameFooter(file, position)) continue;
          entries[i].set(position);
          known = true;
        }
        if (!known) {
          totals[2]++;
          totals[3] += file.getLen();
        }
      }
    }
    return totals;
  }
}
