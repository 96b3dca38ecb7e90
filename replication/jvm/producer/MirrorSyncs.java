package replication.producer;

import java.util.Arrays;

/**
 * The pairs of offsets that MirrorMaker 2 would translate by: which records it writes an offset
 * sync for, and which 64 of those {@code OffsetSyncStore} keeps. The map keeps a border at each, so
 * that no group is ever sent further back than by MirrorMaker 2. Not thread-safe.
 */
final class MirrorSyncs {
  private static final int SLOTS = 64;

  private final long[] slots = new long[SLOTS]; // source offsets, the newest first
  private final long[] older = new long[SLOTS];
  private boolean isEmpty = true;
  private long lastSync = -1;
  private long seenUntil = -1;

  /** Forgets where the last run ended: the next one follows a restart. */
  void restart() {
    seenUntil = -1;
  }

  /** Takes a dense run of acknowledged records; what an earlier call has taken of it is skipped. */
  void add(long source, long target, long count, long lagMax) {
    long end = target + count;
    if (end <= seenUntil) {
      return;
    }
    if (target >= seenUntil) { // a new run: there is a gap before it, or it is the first
      sync(source, target);
    }
    long next = lastSync + 1 + Math.max(0, lagMax);
    for (; next < end; next += Math.max(0, lagMax) + 1) {
      sync(source + next - target, next);
    }
    seenUntil = end;
  }

  /** The source offsets that the store keeps, in order, each once. */
  long[] kept() {
    return isEmpty ? new long[0] : Arrays.stream(slots).sorted().distinct().toArray();
  }

  private void sync(long source, long target) {
    lastSync = target;
    if (isEmpty || source < slots[0]) {
      Arrays.fill(slots, source);
      isEmpty = false;
      return;
    }
    System.arraycopy(slots, 0, older, 0, SLOTS);
    slots[0] = source;
    long filler = source;
    int at = 0;
    for (int i = 1; i < SLOTS; i++) {
      boolean skips = true;
      while (skips && at < i) {
        long found = older[at];
        boolean isApart = isApart(slots[i - 1], found, i - 1);
        boolean isBefore = i == SLOTS - 1 || isApart(found, slots[i + 1], i);
        boolean isTaken = isClose(slots[i - 1], found, i - 1, i) && isApart && isBefore;
        if (isTaken) {
          filler = found;
        }
        skips = found == older[at + 1] || !isApart;
        if (isTaken || skips) {
          at++;
        }
      }
      if (isClose(slots[i - 1], slots[i], i - 1, i)) {
        return; // the rest stays as it is
      }
      slots[i] = filler;
    }
  }

  private static boolean isClose(long newer, long found, int i, int j) {
    long bound = found + (1L << j) - (1L << i);
    return bound < 0 || newer <= bound; // an overflow is beyond every offset
  }

  private static boolean isApart(long newer, long found, int i) {
    if (newer == found) {
      return true;
    }
    long bound = found + (1L << Math.max(i - 2, 0));
    return bound >= 0 && newer >= bound;
  }
}
