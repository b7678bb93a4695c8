package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.DeltaParquetFileFormat;
import org.apache.spark.sql.delta.PreprocessTableWithDVsStrategy;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/** What sidestep asks of delta-spark; compiled only where that is there. */
public final class DeltaAccess implements DeltaReader.Access {

  public DeltaAccess() {}

  public List files(FileIndex prepared) {
    PreparedDeltaFileIndex index = (PreparedDeltaFileIndex) prepared;
    List added = Scala.list(index.preparedScan().files());
    ArrayList files = new ArrayList(added.size());
    for (int i = 0; i < added.size(); i++) {
      files.add(index.fileStatusWithMetadataFromAddFile((AddFile) added.get(i)).fileStatus());
    }
    return files;
  }

  public FileIndex without(PrunedFiles skipped) {
    return new DeltaFiles((PreparedDeltaFileIndex) skipped.base, skipped);
  }

  public scala.collection.immutable.Seq plan(org.apache.spark.sql.SparkSession session, LogicalPlan plan) {
    return new PreprocessTableWithDVsStrategy(session).apply(plan);
  }

  public StructType mappedSchema(FileFormat format) {
    DeltaParquetFileFormat delta = (DeltaParquetFileFormat) format;
    return delta.columnMappingMode().name().equals("none") ? null : delta.referenceSchema();
  }

  public boolean readsChanges(FileFormat format) {
    return ((DeltaParquetFileFormat) format).isCDCRead();
  }
}
