package sidestep;

import java.util.List;
import org.apache.spark.sql.execution.datasources.FileIndex;

/** A listing that never changes, of files that are never written twice under one name: it needs no second look. */
interface FixedFiles extends FileIndex {
  /** Of type FileStatus: the same ones in the same order, whenever asked. */
  List allFiles();
}
