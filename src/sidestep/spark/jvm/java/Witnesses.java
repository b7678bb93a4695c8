package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.execution.datasources.FileIndex;

/**
 * What the induced skips of one plan rest on: listings of joined tables, and the indexes whose entries spoke for every
 * file of these. A file may be rewritten between planning and running; what it induced then no longer holds. All scans
 * of a plan share one of these. Equal by value, as what it belongs to.
 */
final class Witnesses {
  /** The longest that one look serves the other scans of a plan, for each file that was looked at. */
  private static final long HOLDS_NANOS_PER_FILE = 100 * 1000;

  /** Of type FileIndex, and of type FileKeys[] for each. */
  private final List bases = new ArrayList();
  private final List indexes = new ArrayList();
  private final boolean byFooter;
  private int files = 0;
  /** Whether nothing speaks for some of the files any more. */
  private boolean missing = false;
  private boolean broken = false;
  private long looked = 0;

  Witnesses(boolean byFooter) {
    this.byFooter = byFooter;
  }

  /** keys: null if one of the indexes is known no longer. */
  void add(FileIndex base, FileKeys[] keys) {
    // What a table's log lists never changes, and what an older snapshot induced is right for a query that reads it.
    if (PrunedFiles.isFixed(base)) return;
    FileKeys.Match match = keys == null || keys.length == 0 ? null : keys[0].match(base);
    if (match == null) {
      missing = true;
      return;
    }
    for (int i = 0; i < bases.size(); i++) {
      if (bases.get(i) == base && java.util.Arrays.equals((FileKeys[]) indexes.get(i), keys)) return;
    }
    bases.add(base);
    indexes.add(keys);
    files += match.files.length;
  }

  /** Whether there is nothing that could change: what the skips rest on is read as it was, whenever the query runs. */
  boolean areFixed() {
    return !missing && bases.isEmpty();
  }

  /** Whether each file that the skips rest on is still the one that was indexed. Once it is not, it never is again. */
  synchronized boolean hold() {
    if (missing || broken) return false;
    if (looked != 0 && System.nanoTime() - looked < files * HOLDS_NANOS_PER_FILE) return true;
    long now = System.nanoTime();
    for (int i = 0; !broken && i < bases.size(); i++) {
      broken = !FileKeys.cover((FileIndex) bases.get(i), (FileKeys[]) indexes.get(i), byFooter);
    }
    looked = now;
    return !broken;
  }

  /** Files to be skipped, of which those need no second look that were looked at when these last held. */
  synchronized FileKeys.Candidates candidates() {
    return new FileKeys.Candidates(byFooter, looked == 0 ? System.nanoTime() : looked);
  }

  public boolean equals(Object other) {
    if (!(other instanceof Witnesses)) return false;
    Witnesses that = (Witnesses) other;
    if (that == this) return true;
    if (byFooter != that.byFooter || !bases.equals(that.bases)) return false;
    for (int i = 0; i < bases.size(); i++) {
      if (!java.util.Arrays.equals((FileKeys[]) indexes.get(i), (FileKeys[]) that.indexes.get(i))) return false;
    }
    return missing == that.missing;
  }

  public int hashCode() {
    return bases.hashCode();
  }
}
