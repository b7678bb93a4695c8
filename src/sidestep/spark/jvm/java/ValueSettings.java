package sidestep;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.internal.config.ConfigEntry;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * The settings of a session that the value of an expression may depend on. Expressions read settings when they are made
 * and when they run, and nothing in a plan says which: so every setting counts that has another value than Spark gives
 * it by itself, unless it is known to decide only where, when and how fast work is done, or what is written and shown.
 * A setting that nobody here knows counts.
 */
final class ValueSettings {
  /** Names of settings begin so, after the prefix, that say how tables are found, how work is cut up, what is shown. */
  private static final String[] HARMLESS_FAMILIES = {
    "adaptive.", "artifact.", "broadcastExchange.", "bucketing.", "cartesianProductExec.", "catalog.", "cbo.",
    "classic.shuffleDependency.", "connect.", "debug.", "execution.arrow.compression.", "execution.arrow.sparkr.",
    "execution.rangeExchange.", "hive.metastore", "hive.thriftServer.", "inMemoryColumnarStorage.", "join.prefer",
    "limit.", "maven.", "optimizer.dynamicPartitionPruning.", "optimizer.runtime.", "optimizer.runtimeFilter.",
    "orc.", "parquet.filterPushdown", "pipelines.", "planChangeLog.", "pyspark.plotting.", "redaction.", "repl.",
    "session.localRelation", "sessionWindow.buffer.", "shuffle.", "shuffleDependency.", "sortMergeJoinExec.",
    "sources.bucketing.", "sources.parallelPartitionDiscovery.", "sources.v2.bucketing.", "statistics.",
    "streaming.", "thriftserver.", "thriftServer.", "ui.", "windowExec."
  };
  private static final HashSet HARMLESS = new HashSet(Arrays.asList(new String[] {
    // Written in words of their own, always.
    "session.timeZone", "ansi.enabled", "caseSensitive", "legacy.timeParserPolicy",
    // Where and how tables are found.
    "catalogImplementation", "defaultCatalog", "warehouse.dir", "globalTempDatabase",
    "filesourceTableRelationCacheSize", "metadataCacheTTLSeconds", "hive.filesourcePartitionFileCacheSize",
    "hive.manageFilesourcePartitions", "sources.ignoreDataLocality", "sources.useListFilesFileSystemList",
    "sources.fileCompressionFactor",
    // How columns are found: where field ids decide that, nothing is skipped (PlanWriter).
    "parquet.fieldId.read.enabled", "parquet.fieldId.read.ignoreMissing",
    // How work is cut up and spread.
    "autoBroadcastJoinThreshold", "broadcastTimeout", "maxBroadcastTableSize", "maxSinglePartitionBytes",
    "exchange.reuse", "execution.reuseSubquery", "execution.removeRedundantProjects",
    "execution.removeRedundantSorts", "execution.topKSortFallbackThreshold", "execution.replaceHashWithSortAgg",
    "execution.useHashAggregateExec", "execution.useObjectHashAggregateExec",
    "objectHashAggregate.sortBased.fallbackThreshold", "sort.enableRadixSort", "files.maxPartitionBytes",
    "files.maxPartitionNum", "files.minPartitionNum", "files.openCostInBytes", "subquery.maxThreadThreshold",
    "resultQueryStage.maxThreadThreshold", "crossJoin.enabled", "requireAllClusterKeysForCoPartition",
    "requireAllClusterKeysForDistribution",
    // Which conditions are inferred, and which are pushed down: a row that meets the filter meets them too.
    "constraintPropagation.enabled", "parquet.aggregatePushdown", "parquet.pushdown.inFilterThreshold",
    "parquet.recordLevelFilter.enabled",
    // Whether rows are read at all, and how many at once.
    "files.ignoreCorruptFiles", "files.ignoreMissingFiles", "parquet.columnarReaderBatchSize",
    // What is written.
    "files.maxRecordsPerFile", "maxConcurrentOutputFileWriters", "parquet.compression.codec",
    "parquet.writeLegacyFormat", "parquet.output.committer.class", "parquet.outputTimestampType",
    "parquet.datetimeRebaseModeInWrite", "parquet.int96RebaseModeInWrite", "parquet.fieldId.write.enabled",
    "sources.commitProtocolClass", "sources.outputCommitterClass", "sources.partitionOverwriteMode",
    "sources.default", "storeAssignmentPolicy",
    // What is cached, shown, logged and watched.
    "defaultCacheStorageLevel", "dataframeCache.logLevel", "cli.print.header", "error.messageFormat",
    "event.truncate.length", "maxMetadataStringLength", "maxPlanStringLength", "queryExecutionListeners",
    "codegen.cache.maxEntries", "codegen.comments", "codegen.logLevel", "codegen.logging.maxLines",
    "execution.arrow.pyspark.enabled", "execution.arrow.pyspark.fallback.enabled", "execution.arrow.enabled",
    "execution.arrow.fallback.enabled", "execution.arrow.pyspark.selfDestruct.enabled",
    "execution.arrow.maxBytesPerBatch", "execution.arrow.maxRecordsPerBatch",
    "execution.interruptOnCancel", "execution.pyspark.udf.faulthandler.enabled",
    "execution.pyspark.udf.hideTraceback.enabled", "execution.pyspark.udf.simplifiedTraceback.enabled",
    "execution.pyspark.udf.tracebackWithLocals.enabled", "pyspark.jvmStacktrace.enabled", "pyspark.udf.profiler",
    "pyspark.dataSource.profiler", "dataFrameQueryContext.enabled", "stackTracesInDataFrameContext"
  }));
  /** Extensions that add commands and tables, and leave the values of expressions alone. */
  private static final HashSet HARMLESS_EXTENSIONS = new HashSet(Arrays.asList(new String[] {
    "io.delta.sql.DeltaSparkSessionExtension", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
  }));
  /** The Spark whose functions and defaults are meant where no version is written. */
  private static final String SPARK = "4.3.";
  private static final String PREFIX = "spark.sql.";
  private static final String EXTENSIONS = "spark.sql.extensions";
  private static final String PLUGINS = "spark.plugins";

  private ValueSettings() {}

  /** What the value of an expression depends on beside itself: four settings in any case, and those that differ. */
  static String text(SQLConf conf) {
    StringBuilder text = new StringBuilder(conf.sessionLocalTimeZone()).append("|ansi=").append(conf.ansiEnabled())
        .append("|case=").append(conf.caseSensitiveAnalysis())
        .append("|parser=").append(conf.getConfString("spark.sql.legacy.timeParserPolicy"));
    TreeMap counting = new TreeMap();
    Map settings = conf.settings();
    synchronized (settings) {
      for (Iterator it = settings.entrySet().iterator(); it.hasNext();) {
        Map.Entry setting = (Map.Entry) it.next();
        if (counts((String) setting.getKey())) counting.put(setting.getKey(), setting.getValue());
      }
    }
    for (Iterator it = counting.entrySet().iterator(); it.hasNext();) {
      Map.Entry setting = (Map.Entry) it.next();
      String value = differing((String) setting.getKey(), (String) setting.getValue(), conf);
      if (value == null) continue;
      text.append('|').append(setting.getKey()).append('=').append(value.replace("\\", "\\\\").replace("|", "\\p"));
    }
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    if (!version.startsWith(SPARK)) text.append("|spark=").append(version);
    // Upper and lower case, numbers and names of days are another language's where the JVM speaks one.
    String language = java.util.Locale.getDefault().getLanguage();
    if (!language.isEmpty() && !language.equals("en")) text.append("|locale=").append(java.util.Locale.getDefault());
    return text.toString();
  }

  /** The settings that decide what the rows of a Parquet file are, where they differ from Spark's own. */
  static String ofReading(SQLConf conf) {
    TreeMap differing = new TreeMap();
    Map settings = conf.settings();
    synchronized (settings) {
      for (Iterator it = settings.entrySet().iterator(); it.hasNext();) {
        Map.Entry setting = (Map.Entry) it.next();
        String key = (String) setting.getKey();
        boolean reads = key.startsWith("spark.sql.files.ignore") || key.equals("spark.sql.caseSensitive")
            || counts(key) && (key.startsWith("spark.sql.parquet.") || key.startsWith("spark.sql.legacy.parquet."));
        String value = reads ? differing(key, (String) setting.getValue(), conf) : null;
        if (value != null) differing.put(key, value);
      }
    }
    return differing.isEmpty() ? "" : differing.toString();
  }

  private static boolean counts(String key) {
    if (!key.startsWith(PREFIX)) return key.equals(PLUGINS);
    String name = key.substring(PREFIX.length());
    if (HARMLESS.contains(name)) return false;
    for (int i = 0; i < HARMLESS_FAMILIES.length; i++) if (name.startsWith(HARMLESS_FAMILIES[i])) return false;
    return true;
  }

  /** The value as Spark spells it, or null where it is the one that Spark has by itself. */
  private static String differing(String key, String raw, SQLConf conf) {
    if (key.equals(EXTENSIONS)) return otherExtensions(raw);
    ConfigEntry entry = SQLConf$.MODULE$.getConfigEntry(key);
    if (entry == null) return raw;
    try {
      String value = spelled(entry, entry.readFrom(conf.reader()));
      String usual = entry.defaultValue().isDefined() ? spelled(entry, entry.defaultValue().get()) : null;
      return value == null || value.equals(usual) ? null : value;
    } catch (RuntimeException unreadable) {
      return raw;
    }
  }

  private static String spelled(ConfigEntry entry, Object value) {
    return (String) entry.stringConverter().apply(value);
  }

  private static String otherExtensions(String raw) {
    StringBuilder others = new StringBuilder();
    String[] names = raw.split(",");
    for (int i = 0; i < names.length; i++) {
      String name = names[i].trim();
      if (name.isEmpty() || HARMLESS_EXTENSIONS.contains(name)) continue;
      others.append(others.length() > 0 ? "," : "").append(name);
    }
    return others.length() == 0 ? null : others.toString();
  }
}
