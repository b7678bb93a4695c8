package sidestep;

import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Calls of Python that end in time, whatever Python does: each is made on a thread of its own, which is left behind at
 * the deadline. A query may then go on without an answer.
 *
 * Python may be slow for many reasons (a store that hangs while an index is opened, a lock, an interpreter that is busy
 * with something else), and a call that waits on a socket cannot be taken back. So that threads do not pile up where
 * Python never answers, it is not asked anything while MOST_LATE calls are overdue.
 */
final class TimedCall {
  static final double SECONDS = 10;
  private static final int MOST_LATE = 4;
  private static final AtomicInteger late = new AtomicInteger();
  private static final ThreadPoolExecutor threads = newThreads();

  private TimedCall() {}

  /** Python was not asked, or did not answer in time. */
  static final class Late extends RuntimeException {
    Late(String message) {
      super(message);
    }
  }

  /** The answer to one question. */
  static String apply(final java.util.function.Function python, final String question, double seconds) {
    return ask(python, "", question, seconds, false);
  }

  /** The answer to a verb and a text, which goes in pieces. */
  static String ask(java.util.function.Function python, String verb, String text, double seconds) {
    return ask(python, verb, text, seconds, true);
  }

  private static String ask(final java.util.function.Function python, final String verb, final String text,
      double seconds, final boolean inPieces) {
    if (late.get() >= MOST_LATE) {
      throw new Late("Python has yet to answer " + late.get() + " earlier questions that are overdue");
    }
    Call call = new Call() {
      String answer() {
        return inPieces ? Wire.ask(python, verb, text) : (String) python.apply(text);
      }
    };
    threads.execute(call);
    return call.await(seconds);
  }

  /** How many calls are overdue. */
  static int late() {
    return late.get();
  }

  private abstract static class Call implements Runnable {
    private boolean done = false;
    private boolean left = false;
    private String answer;
    private Throwable problem;

    abstract String answer();

    public void run() {
      String said = null;
      Throwable thrown = null;
      try {
        said = answer();
      } catch (Throwable cause) {
        thrown = cause;
      }
      synchronized (this) {
        answer = said;
        problem = thrown;
        done = true;
        if (left) late.decrementAndGet();
        notifyAll();
      }
    }

    synchronized String await(double seconds) {
      long deadline = System.nanoTime() + (long) (seconds * 1e9);
      try {
        while (!done) {
          long rest = deadline - System.nanoTime();
          if (rest <= 0) {
            leave();
            throw new Late("Python did not answer within " + seconds + " seconds (spark.sidestep.seconds)");
          }
          TimeUnit.NANOSECONDS.timedWait(this, rest);
        }
      } catch (InterruptedException cancelled) {
        leave();
        // Who cancels the query will want to know that it was told.
        Thread.currentThread().interrupt();
        throw new Late("the query was interrupted while Python was being asked");
      }
      if (problem instanceof RuntimeException) throw (RuntimeException) problem;
      if (problem != null) throw new IllegalStateException(problem);
      return answer;
    }

    private void leave() {
      left = true;
      late.incrementAndGet();
    }
  }

  private static ThreadPoolExecutor newThreads() {
    final AtomicInteger number = new AtomicInteger();
    return new ThreadPoolExecutor(0, Integer.MAX_VALUE, 60, TimeUnit.SECONDS, new SynchronousQueue(),
        new java.util.concurrent.ThreadFactory() {
          public Thread newThread(Runnable work) {
            // Inherits nothing: the session and the properties of the query's thread would live as long as this one.
            Thread thread = new Thread(null, work, "sidestep-asks-python-" + number.incrementAndGet(), 0, false);
            thread.setDaemon(true);
            return thread;
          }
        });
  }
}
