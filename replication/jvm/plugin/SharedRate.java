package replication.plugin;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** One rate of a limit, and what each executor has and makes of it. */
final class SharedRate {
  private static final double NONE = -1;

  /** Seconds over which the rate is averaged that people see. */
  private static final double SHOWN_SECONDS = 3;

  private final double limit;
  private final Map<String, Use> uses = new TreeMap<>(); // by executor

  private static final class Use {
    private double reported = NONE; // the share that it says it has; until it is heard, none
    private double granted; // the most since then, as it may have that by now
    private double demand; // a second
    private double shown;

    Use(double limit) {
      demand = limit; // until it is known
    }

    double inForce() {
      return Math.max(reported, granted);
    }
  }

  /** A rate of {@code limit} a second; -1 for one that is only measured. */
  SharedRate(double limit) {
    this.limit = limit;
  }

  /**
   * Takes what an executor reports.
   *
   * @param share that it has
   * @param passed since its last report
   * @param waited for how many nanoseconds some record has waited since then
   * @param nanos since then
   */
  void heard(String id, String share, String passed, double waited, double nanos) {
    Use use = use(id);
    double seconds = Math.max(nanos, 1) / 1e9;
    double free = 1 - waited / Math.max(nanos, 1); // the part of the time without a wait
    double rate = Double.parseDouble(passed) / seconds;
    use.reported = Double.parseDouble(share);
    use.granted = 0;
    // One that has waited for most of the time wants whatever it gets. Who pauses for a moment, as
    // for its memory, wants less by and by: it would wait for its share again afterwards.
    use.demand = Math.max(use.demand / 2, free < 0.5 ? limit : rate / free);
    use.shown += (rate - use.shown) * Math.min(1, seconds / SHOWN_SECONDS);
  }

  /**
   * The share of executor {@code id} from now on.
   *
   * @param living the executors that live, {@code id} among them
   * @param lost those that may still live, and have what they had
   */
  double grant(String id, Set<String> living, Set<String> lost) {
    if (limit == NONE) {
      return NONE;
    }
    double left = limit - lost.stream().mapToDouble(other -> use(other).inForce()).sum();
    double[] demands = living.stream().mapToDouble(each -> use(each).demand).toArray();
    double[] wanted = Shares.of(Math.max(0, left), demands);
    double own = 0;
    int i = 0;
    for (String each : living) {
      if (each.equals(id)) {
        own = wanted[i];
      } else { // one that has not heard of this limit yet will soon have its share
        double soon = use(each).reported == NONE ? wanted[i] : 0;
        left -= Math.max(soon, use(each).inForce());
      }
      i++;
    }
    double granted = Math.max(0, Math.min(own, left));
    use(id).granted = Math.max(use(id).granted, granted);
    return granted;
  }

  /** What is used of it a second. */
  double used() {
    return uses.values().stream().mapToDouble(use -> use.shown).sum();
  }

  /** Forgets all other executors. */
  void keep(Set<String> executors) {
    uses.keySet().retainAll(executors);
  }

  private Use use(String id) {
    return uses.computeIfAbsent(id, unused -> new Use(limit));
  }
}
