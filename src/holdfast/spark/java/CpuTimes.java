package holdfast;

import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * Adds up the CPU time of tasks, and counts those that run, by a label that the jobs they belong to
 * were started with.
 */
public final class CpuTimes extends SparkListener {
    static final int CPU = 0;
    static final int RUNNING = 1;
    final SparkContext context;
    final String key;
    final Map totals = new HashMap();
    final Map stages = new HashMap();

    /** @param key the local property of Spark's that has the label of a thread's jobs */
    public CpuTimes(SparkContext context, String key) {
        this.context = context;
        this.key = key;
        // A queue of its own, so that nobody else's listener holds it up.
        context.listenerBus().addToQueue(this, "holdfast");
    }

    public synchronized void begin(String label) {
        totals.put(label, new long[2]);
    }

    /**
     * The nanoseconds of the tasks that have ended since `begin`, and ends that; -1 where Spark
     * hasn't told of all of them in time.
     */
    public long end(String label, long patienceMs) throws InterruptedException {
        boolean told = isTold(patienceMs);
        long[] total = forget(label);
        return told && total != null ? total[CPU] : -1L;
    }

    /** Waits until none of the tasks runs, also of jobs that have failed; whether none does. */
    public boolean awaitTasks(String label, long patienceMs) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMs);
        return isTold(patienceMs) && areOver(label, end);
    }

    synchronized boolean areOver(String label, long end) throws InterruptedException {
        long[] total = (long[]) totals.get(label);
        while (total != null && total[RUNNING] > 0) {
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (left <= 0) {
                return false;
            }
            wait(left);
        }
        return true;
    }

    /** Whether Spark has told of all that had happened by now. */
    boolean isTold(long patienceMs) throws InterruptedException {
        Marker marker = new Marker();
        // All that was told before it is ahead of it in the queue.
        context.listenerBus().post(marker);
        return marker.reached.await(patienceMs, TimeUnit.MILLISECONDS);
    }

    public synchronized long[] forget(String label) {
        long[] total = (long[]) totals.remove(label);
        Collection counted = stages.values();
        counted.removeAll(Collections.singleton(total));
        return total;
    }

    public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
        if (event.properties() != null) {
            String label = event.properties().getProperty(key);
            Object total = label == null ? null : totals.get(label);
            if (total != null) {
                stages.put(Integer.valueOf(event.stageInfo().stageId()), total);
            }
        }
    }

    public synchronized void onTaskStart(SparkListenerTaskStart event) {
        long[] total = (long[]) stages.get(Integer.valueOf(event.stageId()));
        if (total != null) {
            total[RUNNING] += 1;
        }
    }

    public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
        long[] total = (long[]) stages.get(Integer.valueOf(event.stageId()));
        if (total == null) {
            return;
        }
        total[RUNNING] -= 1;
        notifyAll();
        // A task that was lost has none.
        if (event.taskMetrics() != null) {
            total[CPU] += event.taskMetrics().executorCpuTime();
        }
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof Marker) {
            ((Marker) event).reached.countDown();
        }
    }

    /** Comes behind everything that Spark has told before. */
    static final class Marker implements SparkListenerEvent {
        final CountDownLatch reached = new CountDownLatch(1);

        public boolean logEvent() {
            return false;
        }
    }
}
