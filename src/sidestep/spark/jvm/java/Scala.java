package sidestep;

import java.util.List;

/** Scala's sequences as Java's lists, and back. */
final class Scala {
  private Scala() {}

  static List list(Object sequence) {
    return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) sequence);
  }

  static scala.collection.immutable.Seq seq(Object[] items) {
    return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }
}
