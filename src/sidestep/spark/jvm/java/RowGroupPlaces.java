package sidestep;

import java.util.List;
import org.apache.parquet.format.ColumnChunk;
import org.apache.parquet.format.ColumnMetaData;
import org.apache.parquet.format.RowGroup;

/**
 * Where the row groups of a Parquet file lie. A reader that is given a piece of a file reads the row groups whose middle
 * lies in it, as Parquet's ParquetMetadataConverter.filterFileMetaDataByMidpoint works it out; so does this.
 */
final class RowGroupPlaces {
  final long[] starts;
  final long[] sizes;

  private RowGroupPlaces(long[] starts, long[] sizes) {
    this.starts = starts;
    this.sizes = sizes;
  }

  int groups() {
    return starts.length;
  }

  long middle(int group) {
    return starts[group] + sizes[group] / 2;
  }

  /** By a footer with the length and the magic number that follow it; null if they cannot be told, or are not in order. */
  static RowGroupPlaces of(byte[] footer) throws Exception {
    int end = footer.length;
    // Anything but PAR1 is an encrypted footer.
    if (footer[end - 4] != 'P' || footer[end - 3] != 'A' || footer[end - 2] != 'R' || footer[end - 1] != '1') return null;
    List groups = org.apache.parquet.format.Util
        .readFileMetaData(new java.io.ByteArrayInputStream(footer, 0, end - 8)).getRow_groups();
    RowGroupPlaces places = new RowGroupPlaces(new long[groups.size()], new long[groups.size()]);
    for (int i = 0; i < groups.size(); i++) {
      if (!places.set(i, (RowGroup) groups.get(i))) return null;
      // Where they do not follow each other, a piece that holds two may hold a third.
      if (i > 0 && places.middle(i) <= places.middle(i - 1)) return null;
    }
    return places;
  }

  private boolean set(int i, RowGroup group) {
    List columns = group.getColumns();
    for (int c = 0; c < columns.size(); c++) {
      // Encrypted columns: Parquet then reckons otherwise.
      if (!((ColumnChunk) columns.get(c)).isSetMeta_data()) return false;
      sizes[i] += ((ColumnChunk) columns.get(c)).getMeta_data().getTotal_compressed_size();
    }
    if (group.isSetTotal_compressed_size()) sizes[i] = group.getTotal_compressed_size();
    ColumnMetaData first = ((ColumnChunk) columns.get(0)).getMeta_data();
    starts[i] = first.getData_page_offset();
    if (first.isSetDictionary_page_offset()) starts[i] = Math.min(starts[i], first.getDictionary_page_offset());
    return starts[i] >= 0 && sizes[i] >= 0;
  }
}
