package sidestep;

import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;

/** Which row groups are to be read of the files that are read in part, by the entries of one index. */
final class KeptGroups {
  /** For each file its entry, its row groups and how many runs of them are read; then the first of each and the next after it. */
  private final int[] packed;
  /** What the row groups take on disk that are not read. */
  final long spared;
  /** Where in packed each entry is. */
  private final HashMap entries = new HashMap();

  KeptGroups(int[] packed, long spared) {
    this.packed = packed;
    this.spared = spared;
    for (int at = 0; at < packed.length; at += 3 + 2 * packed[at + 2]) entries.put(Integer.valueOf(packed[at]), Integer.valueOf(at));
  }

  /** How many row groups a file has; 0 if it is not read in part. */
  int groups(int entry) {
    Integer at = (Integer) entries.get(Integer.valueOf(entry));
    return at == null ? 0 : packed[at.intValue() + 1];
  }

  /** Which of them are to be read. */
  BitSet kept(int entry) {
    int at = ((Integer) entries.get(Integer.valueOf(entry))).intValue();
    BitSet kept = new BitSet();
    for (int r = 0; r < packed[at + 2]; r++) kept.set(packed[at + 3 + 2 * r], packed[at + 4 + 2 * r]);
    return kept;
  }

  public boolean equals(Object other) {
    return other instanceof KeptGroups && Arrays.equals(packed, ((KeptGroups) other).packed);
  }

  public int hashCode() {
    return Arrays.hashCode(packed);
  }
}
