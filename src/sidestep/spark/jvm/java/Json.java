package sidestep;

/** Compact ASCII JSON, written from left to right; commas come by themselves. */
final class Json {
  private final StringBuilder out = new StringBuilder(4096);
  /** What ids are written as, by id, and hashes by hash; null if as they are. */
  private final java.util.HashMap ids;
  private final java.util.HashMap hashes;

  Json() {
    this(false);
  }

  /**
   * renumber: write ids, and hashes apart from them, as -1, -2, ... in the order in which they come up, so that equal plans have equal texts. Spark
   * never gives a negative one: should such a number be taken for an id, it is the id of nothing.
   */
  Json(boolean renumber) {
    ids = renumber ? new java.util.HashMap() : null;
    hashes = renumber ? new java.util.HashMap() : null;
  }

  /** The id of a column. */
  Json id(long id) {
    return numbered(ids, id);
  }

  /** What equal things have in common. */
  Json hash(long hash) {
    return numbered(hashes, hash);
  }

  private Json numbered(java.util.HashMap known, long number) {
    if (known == null) return number(number);
    Long written = (Long) known.get(Long.valueOf(number));
    if (written == null) known.put(Long.valueOf(number), written = Long.valueOf(-1 - known.size()));
    return number(written.longValue());
  }

  /** Begins an object or an array: '{' or '['. */
  Json open(char bracket) {
    comma();
    out.append(bracket);
    return this;
  }

  Json close(char bracket) {
    out.append(bracket);
    return this;
  }

  /** The name of the next value; names are the writer's own and need no escape. */
  Json key(String name) {
    comma();
    out.append('"').append(name).append("\":");
    return this;
  }

  Json text(String text) {
    comma();
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c >= 32 && c < 127) out.append(c);
      else out.append("\\u").append(Integer.toHexString(0x10000 | c).substring(1));
    }
    out.append('"');
    return this;
  }

  Json number(long number) {
    comma();
    out.append(number);
    return this;
  }

  /** A number with so many digits after the point. */
  Json number(double number, int digits) {
    return raw(String.format(java.util.Locale.ROOT, "%." + digits + "f", new Object[] {Double.valueOf(number)}));
  }

  Json bool(boolean value) {
    return raw(value ? "true" : "false");
  }

  Json nothing() {
    return raw("null");
  }

  /** A value that is JSON already. */
  Json raw(String json) {
    comma();
    out.append(json);
    return this;
  }

  /** Where the text ends now; see cut. */
  int length() {
    return out.length();
  }

  /** Takes back all that was written since the text had this length. */
  void cut(int length) {
    out.setLength(length);
  }

  public String toString() {
    return out.toString();
  }

  private void comma() {
    int length = out.length();
    if (length == 0) return;
    char last = out.charAt(length - 1);
    if (last != '{' && last != '[' && last != ':') out.append(',');
  }
}
