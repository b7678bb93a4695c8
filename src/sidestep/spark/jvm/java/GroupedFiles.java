package sidestep;

import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/**
 * The files of a table in column groups: no file holds whole rows. To the optimizer the table is one relation; in its
 * last step the rule puts a join of the groups that are needed in its place (Reconstruction). Whoever lists the files
 * as those of a table has no such rule.
 */
public final class GroupedFiles implements FileIndex {
  private final String identity;
  private final Path root;
  /** The files of all groups. */
  final SnapshotFiles files;
  /** Those of each group, its partner's included if it has one, and the names of its columns. */
  final SnapshotFiles[] groups;
  private final java.util.Set[] columns;
  /** The groups that have some rows only: they are read where Python says that these are all that the query needs. */
  private final java.util.BitSet partial;
  /** What the names of files tell the bucket of their unit by. */
  final int buckets;
  /** What the column of block ids is called; null if there is none. */
  final String block;
  /** Whether a job that changes the table reads it, which puts rows together itself: the rule leaves it alone. */
  final boolean byJob;

  /** What rowsOf says of a group that has all rows, and of one that has some. */
  private static final int ALL = -1;
  private static final int SOME = -2;

  /**
   * inner: what the paths of files are relative to; groupOf: the group of each; columns: the List of each group's; rowsOf:
   * ALL, SOME, or the group that has the rows which this one lacks, and is read with it.
   */
  GroupedFiles(String identity, Path root, Path inner, Wire.Files files, int[] groupOf, List columns, int[] rowsOf,
      int buckets, String block, boolean byJob) {
    this.identity = identity;
    this.root = root;
    this.buckets = buckets;
    this.block = block;
    this.byJob = byJob;
    partial = new java.util.BitSet();
    groups = new SnapshotFiles[columns.size()];
    this.columns = new java.util.Set[groups.length];
    for (int g = 0; g < groups.length; g++) {
      this.columns[g] = new java.util.HashSet((List) columns.get(g));
      groups[g] = SnapshotFiles.ofGroup(identity + "/" + g, root, inner, files, groupOf, g, rowsOf[g]);
      if (rowsOf[g] == SOME) partial.set(g);
    }
    this.files = SnapshotFiles.ofGroup(identity + "/", root, inner, files, groupOf, -1, ALL);
  }

  private GroupedFiles(GroupedFiles before, Witnesses fresh) {
    identity = before.identity;
    root = before.root;
    buckets = before.buckets;
    block = before.block;
    columns = before.columns;
    partial = before.partial;
    files = before.files.guarded(fresh);
    groups = new SnapshotFiles[before.groups.length];
    for (int g = 0; g < groups.length; g++) groups[g] = before.groups[g].guarded(fresh);
  }

  /** The same files, of which nothing is read once what they were made of has changed. */
  GroupedFiles guarded(Witnesses fresh) {
    return new GroupedFiles(this, fresh);
  }

  LogicalRelation relation(org.apache.spark.sql.classic.SparkSession session, StructType schema) {
    HadoopFsRelation relation = new HadoopFsRelation(this, new StructType(), schema, scala.Option.empty(), new Format(),
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(), session);
    return LogicalRelation$.MODULE$.apply(relation, false);
  }

  /** The files of the table that a relation reads, pruned or not; null if it is not in column groups. */
  static GroupedFiles of(Object plan) {
    if (!PlanWriter.isFileRelation(plan)) return null;
    FileIndex location = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
    if (location instanceof PrunedFiles) location = ((PrunedFiles) location).base;
    return location instanceof GroupedFiles ? (GroupedFiles) location : null;
  }

  boolean holds(int group, String column) {
    return columns[group].contains(column);
  }

  /** The groups that have some rows only and are part of the table; null if it has none. */
  int[] partial() {
    if (partial.isEmpty()) return null;
    java.util.BitSet there = new java.util.BitSet();
    for (int g = partial.nextSetBit(0); g >= 0; g = partial.nextSetBit(g + 1)) if (!columns[g].isEmpty()) there.set(g);
    return there.stream().toArray();
  }

  /**
   * The groups that these columns are read from, in the order in which they are asked for them: those of a path, as far
   * as they hold any, and what covers the others. Without columns, the first of the path.
   */
  int[] through(int[] path, java.util.Collection names) {
    java.util.LinkedHashSet chosen = new java.util.LinkedHashSet();
    java.util.HashSet missing = new java.util.HashSet(names);
    for (int p = 0; path != null && p < path.length; p++) {
      boolean gives = names.isEmpty() && chosen.isEmpty();
      for (java.util.Iterator it = missing.iterator(); it.hasNext();) {
        if (!holds(path[p], (String) it.next())) continue;
        it.remove();
        gives = true;
      }
      if (gives) chosen.add(Integer.valueOf(path[p]));
    }
    if (chosen.isEmpty() || !missing.isEmpty()) {
      java.util.BitSet cover = cover(missing);
      for (int g = cover.nextSetBit(0); g >= 0; g = cover.nextSetBit(g + 1)) chosen.add(Integer.valueOf(g));
    }
    int[] groups = new int[chosen.size()];
    int at = 0;
    for (java.util.Iterator it = chosen.iterator(); it.hasNext();) groups[at++] = ((Integer) it.next()).intValue();
    return groups;
  }

  /**
   * Groups of all rows that hold these columns between them: as few as can be had by taking, each time, the one that holds most of
   * those still missing; of equals the smaller one. Without columns, the smallest group: it has as many rows as any. Groups
   * that hold nothing are no longer part of the table.
   */
  java.util.BitSet cover(java.util.Collection names) {
    java.util.BitSet chosen = new java.util.BitSet();
    java.util.HashSet missing = new java.util.HashSet(names);
    do {
      int best = -1;
      int most = 0;
      for (int g = 0; g < groups.length; g++) {
        if (columns[g].isEmpty() || partial.get(g)) continue;
        int held = 0;
        for (java.util.Iterator it = missing.iterator(); it.hasNext();) if (holds(g, (String) it.next())) held++;
        boolean smaller = best >= 0 && groups[g].sizeInBytes() < groups[best].sizeInBytes();
        if (best < 0 || held > most || held == most && smaller) {
          best = g;
          most = held;
        }
      }
      if (!missing.isEmpty() && most == 0) throw new IllegalStateException("no column group holds " + missing);
      chosen.set(best);
      for (java.util.Iterator it = missing.iterator(); it.hasNext();) if (holds(best, (String) it.next())) it.remove();
    } while (!missing.isEmpty());
    return chosen;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    throw new UnsupportedOperationException("The table " + root + " is in column groups, which only sidestep can put "
        + "together, and in this session it does not: call sidestep.enable(spark). If it is enabled, its warnings in the "
        + "log say what went wrong.");
  }

  public scala.collection.immutable.Seq rootPaths() {
    return Scala.seq(new Object[] {root});
  }

  public String[] inputFiles() {
    return files.inputFiles();
  }

  public void refresh() {}

  public long sizeInBytes() {
    return files.sizeInBytes();
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

  public boolean equals(Object other) {
    return other instanceof GroupedFiles && identity.equals(((GroupedFiles) other).identity);
  }

  public int hashCode() {
    return identity.hashCode();
  }

  public String toString() {
    return "sidestep column groups " + identity;
  }

  /** Parquet without columns that tell of files: a row is in several. */
  public static final class Format extends ParquetFileFormat {
    public scala.collection.immutable.Seq metadataSchemaFields() {
      return Scala.seq(new Object[0]);
    }
  }
}
