package sidestep;

import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.List;

/** The Java end of the wire: packs and unpacks the messages that wire.py describes. */
final class Wire {
  /** The longest message in characters: a reply of py4j over 8,192 bytes would wait 40 ms for an acknowledgement. */
  private static final int PIECE = 7000;

  private Wire() {}

  /** Asks Python: a verb and a text, which goes in pieces if it is long. */
  static String ask(java.util.function.Function python, String verb, String text) {
    Object token = "";
    int start = 0;
    for (; start + PIECE < text.length(); start += PIECE) {
      token = python.apply("more\n" + token + "\n" + text.substring(start, start + PIECE));
    }
    return (String) python.apply(verb + "\n" + token + "\n" + text.substring(start));
  }

  /** Files by path, size in bytes and time in milliseconds. */
  static final class Files {
    final String[] paths;
    final long[] sizes;
    final long[] times;

    /** joined: paths separated by NUL; numbers: size and time of each, big-endian, base64. */
    Files(String joined, String numbers) {
      java.nio.ByteBuffer data = java.nio.ByteBuffer.wrap(Base64.getDecoder().decode(numbers));
      int count = data.capacity() / 16;
      paths = new String[count];
      sizes = new long[count];
      times = new long[count];
      int start = 0;
      for (int i = 0; i < count; i++) {
        int end = joined.indexOf('\0', start);
        if (end < 0) end = joined.length();
        paths[i] = joined.substring(start, end);
        start = end + 1;
        sizes[i] = data.getLong();
        times[i] = data.getLong();
      }
    }
  }

  static BitSet bits(String text) {
    return BitSet.valueOf(Base64.getDecoder().decode(text));
  }

  static String text(BitSet bits) {
    return Base64.getEncoder().encodeToString(bits.toByteArray());
  }

  static int[] ints(String text) {
    java.nio.ByteBuffer data = java.nio.ByteBuffer.wrap(Base64.getDecoder().decode(text));
    int[] ints = new int[data.capacity() / 4];
    data.order(java.nio.ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(ints);
    return ints;
  }

  /** 8-byte integers, little-endian. */
  static String text(long[] numbers) {
    java.nio.ByteBuffer data = java.nio.ByteBuffer.allocate(8 * numbers.length).order(java.nio.ByteOrder.LITTLE_ENDIAN);
    data.asLongBuffer().put(numbers);
    return Base64.getEncoder().encodeToString(data.array());
  }

  /** The scans of a question about coverage: for each the output ids of its leaf, then the ids of indexes. */
  static String[][] scans(String question) {
    String[] lines = question.split("\n");
    String[][] scans = new String[lines.length][];
    for (int i = 0; i < lines.length; i++) scans[i] = lines[i].split("\t");
    return scans;
  }

  /** What Python answers of one scan and one index. */
  static final class Skipped {
    final String keys;
    final BitSet files;
    /** The same by the query's own predicates alone; null where that is all. */
    final BitSet ownFiles;
    final PrunedFiles.KeptBlocks blocks;
    final PrunedFiles.KeptBlocks ownBlocks;
    final KeptGroups groups;
    final KeptGroups ownGroups;

    private Skipped(String[] parts, int at) {
      keys = parts[at];
      files = bits(parts[at + 1]);
      blocks = blocks(parts[at + 2]);
      groups = groups(parts[at + 3]);
      boolean induced = !parts[at + 4].equals("=");
      ownFiles = induced ? bits(parts[at + 4]) : null;
      ownBlocks = induced ? blocks(parts[at + 5]) : blocks;
      ownGroups = induced ? groups(parts[at + 6]) : groups;
    }
  }

  /** The answers to a plan. */
  static final class Answers {
    /** Of type Answer, by the output ids of the scan's leaf. */
    final java.util.Map byScan = new java.util.HashMap();
    /** Of type String[]: the scans that induced skips rest on, as in a question about coverage. */
    final List witnesses = new ArrayList();
    /** Of type Denormal: parts of the plan that denormalized tables stand for. If there are any, that is all. */
    final List denormalized = new ArrayList();
  }

  /** A part of a plan that a denormalized table stands for. */
  static final class Denormal {
    final String table;
    /** The number of the operator that it begins with, and those of its scans. */
    final int node;
    final int[] scans;
    /** What knows the files that each of these must have. */
    final String[] bases;
    /** Of type String by String: the columns of each in the table. */
    final java.util.Map[] columns;
    final java.util.Set neverNull;
    final String note;

    /** denormalized, table, node, note, columns never NULL, (scan, keys, columns)…; columns are separated by NUL. */
    private Denormal(String[] parts) {
      table = parts[1];
      node = Integer.parseInt(parts[2]);
      note = parts[3];
      neverNull = new java.util.HashSet(java.util.Arrays.asList(parts[4].split("\0")));
      int count = (parts.length - 5) / 3;
      scans = new int[count];
      bases = new String[count];
      columns = new java.util.Map[count];
      for (int i = 0; i < count; i++) {
        scans[i] = Integer.parseInt(parts[5 + 3 * i]);
        bases[i] = parts[6 + 3 * i];
        columns[i] = new java.util.HashMap();
        String[] names = parts[7 + 3 * i].split("\0");
        for (int n = 0; n + 1 < names.length; n += 2) columns[i].put(names[n], names[n + 1]);
      }
    }
  }

  /** What Python answers of one scan. */
  static final class Answer {
    final List skipped = new ArrayList();
    /** A column and the ranges that its values must lie in; null where nothing is said of that. */
    String boundColumn = null;
    String boundRanges = null;
    /** Of type Selector: what chooses more of its files when the query runs. */
    final List selectors = new ArrayList();
    /** The column groups that it is read from, those first that are asked first for a column; null: as they come. */
    int[] path = null;
    /** About how many rows are to be read of each column group, by its number, -1 where that is not known; or null. */
    int[] rows = null;
  }

  /** What chooses files of a scan when the query runs. */
  static final class Selector {
    /** Which of the copies of the scan it chooses for, in the order in which they are written. */
    final int copy;
    /** The index whose entries it chooses from. */
    final String keys;
    /** The join whose other input it chooses by, or -1 where it is the query's own subqueries. */
    final int join;
    /** Which input of the join that is, 0 or 1, and the conjuncts of the condition. */
    final int side;
    final int[] conjuncts;
    /** Whether it pays to run that input once more for its keys, if they cannot be had otherwise. */
    final boolean pays;
    /** A grid that keys may be counted by: where it begins and ends, and the bits of a cell; null if there is none. */
    final long[] grid;
    /** Numbers of the expressions with subqueries. */
    final int[] late;
    final String by;
    final String question;

    /** select, key, copy, index, join, side, conjuncts, pays, grid, late, by, question. */
    private Selector(String[] parts) {
      copy = Integer.parseInt(parts[2]);
      keys = parts[3];
      join = Integer.parseInt(parts[4]);
      side = Integer.parseInt(parts[5]);
      conjuncts = numbers(parts[6]);
      pays = parts[7].equals("1");
      String[] ends = parts[8].isEmpty() ? new String[0] : parts[8].split(":");
      grid = ends.length == 3
          ? new long[] {Long.parseLong(ends[0]), Long.parseLong(ends[1]), Long.parseLong(ends[2])} : null;
      late = numbers(parts[9]);
      by = parts[10];
      question = parts[11];
    }

    /** Whether it asks the same as another does of another copy, if what they choose by is the same. */
    boolean asksAs(Selector that) {
      return keys.equals(that.keys) && side == that.side && pays == that.pays && question.equals(that.question)
          && late.length == that.late.length && (join < 0) == (that.join < 0)
          && java.util.Arrays.equals(conjuncts, that.conjuncts) && java.util.Arrays.equals(grid, that.grid);
    }

    private static int[] numbers(String text) {
      String[] parts = text.isEmpty() ? new String[0] : text.split(",");
      int[] numbers = new int[parts.length];
      for (int i = 0; i < numbers.length; i++) numbers[i] = Integer.parseInt(parts[i]);
      return numbers;
    }
  }

  /** What Python chose at run time. */
  static final class Chosen {
    /** The entries of the index to be read. */
    final BitSet files;
    final PrunedFiles.KeptBlocks blocks;
    final KeptGroups groups;
    final String boundColumn;
    final String boundRanges;

    private Chosen(String[] parts) {
      files = bits(parts[0]);
      blocks = blocks(parts[1]);
      groups = groups(parts[2]);
      boundColumn = parts.length > 4 ? parts[3] : null;
      boundRanges = parts.length > 4 ? parts[4] : null;
    }
  }

  /** files TAB kept blocks TAB row groups, and TAB column TAB ranges if there is a bound; empty if nothing is known. */
  static Chosen chosen(String reply) {
    return reply == null || reply.isEmpty() ? null : new Chosen(reply.split("\t", -1));
  }

  static Answers answers(String reply) {
    Answers answers = new Answers();
    if (reply == null || reply.isEmpty()) return answers;
    String[] lines = reply.split("\n");
    for (int i = 0; i < lines.length; i++) {
      String[] parts = lines[i].split("\t", -1);
      if (parts[0].equals("rests")) {
        answers.witnesses.add(java.util.Arrays.copyOfRange(parts, 1, parts.length));
        continue;
      }
      if (parts[0].equals("denormalized")) {
        answers.denormalized.add(new Denormal(parts));
        continue;
      }
      boolean bound = parts[0].equals("bound");
      boolean select = parts[0].equals("select");
      boolean path = parts[0].equals("path");
      boolean rows = parts[0].equals("rows");
      String ids = parts[bound || select || path || rows ? 1 : 0];
      Answer answer = (Answer) answers.byScan.get(ids);
      if (answer == null) answers.byScan.put(ids, answer = new Answer());
      if (path) {
        answer.path = Selector.numbers(parts[2]);
        continue;
      }
      if (rows) {
        answer.rows = Selector.numbers(parts[2]);
        continue;
      }
      if (bound) {
        answer.boundColumn = parts[2];
        answer.boundRanges = parts[3];
        continue;
      }
      if (select) {
        answer.selectors.add(new Selector(parts));
        continue;
      }
      for (int p = 1; p + 6 < parts.length; p += 7) answer.skipped.add(new Skipped(parts, p));
    }
    return answers;
  }

  /** files as bits, ranges as ints, bytes; separated by colons. */
  private static PrunedFiles.KeptBlocks blocks(String text) {
    if (text.isEmpty()) return null;
    String[] parts = text.split(":", -1);
    return new PrunedFiles.KeptBlocks(bits(parts[0]), ints(parts[1]), Long.parseLong(parts[2]));
  }

  /** Files with runs of row groups as ints, bytes; separated by a colon. */
  private static KeptGroups groups(String text) {
    if (text.isEmpty()) return null;
    String[] parts = text.split(":", -1);
    return new KeptGroups(ints(parts[0]), Long.parseLong(parts[1]));
  }
}
