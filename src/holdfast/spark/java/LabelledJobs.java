package holdfast;

import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * Knows jobs and tasks by a label that threads start them under: which of them run, and what they
 * took. Stops those of a label.
 */
public final class LabelledJobs extends SparkListener {
    static final String WHY = "interrupted in Python";
    static final long PAUSE_MS = 20;
    static final long PLANNING_MS = 500;
    final SparkContext context;
    final String key;
    final Map labels = new HashMap();
    final Map jobs = new HashMap();
    final Map stages = new HashMap();

    /** @param key the local property of Spark's that has the label of a thread's jobs */
    public LabelledJobs(SparkContext context, String key) {
        this.context = context;
        this.key = key;
        // A queue of its own, so that nobody else's listener holds it up.
        context.listenerBus().addToQueue(this, "holdfast");
    }

    /** The reason that jobs are cancelled for. */
    public String why() {
        return WHY;
    }

    /** From now on this thread's jobs have the label; `over`: labels that nobody asks for again. */
    public synchronized void begin(String label, String over) {
        forget(over);
        // A command's query is looked at in another thread, which has what the command's is told.
        Object around = labels.get(context.getLocalProperty(key));
        labels.put(label, new Work((Work) around));
        context.setLocalProperty(key, label);
    }

    /** From now on this thread's jobs have a label that has begun before, or none. */
    public synchronized void resume(String label, String over) {
        forget(over);
        context.setLocalProperty(key, label);
    }

    /** Somebody will ask once what the label's tasks took, be it over or not. */
    public synchronized void keep(String label) {
        Work work = (Work) labels.get(label);
        if (work != null) {
            work.isAsked = true;
        }
    }

    /**
     * What the label's tasks took, and those of labels inside of it: nanoseconds of CPU time,
     * milliseconds, bytes read, bytes shuffled; empty where Spark hasn't told of all of them in
     * time.
     */
    public String taken(String label, long patienceMs) throws InterruptedException {
        boolean told = isTold(patienceMs);
        synchronized (this) {
            Work work = (Work) labels.get(label);
            if (work == null) {
                return "";
            }
            work.isAsked = false;
            if (work.isForgotten) {
                forget(label);
            }
            return told
                ? work.cpu + " " + work.milliseconds + " " + work.read + " " + work.shuffled : "";
        }
    }

    /** Waits until none of the tasks runs, also of jobs that have failed; whether none does. */
    public boolean awaitTasks(String label, long patienceMs) throws InterruptedException {
        return isOver((Work) known(label), System.nanoTime(), patienceMs, false);
    }

    /** How many of the label's tasks run, once Spark has told of all that has happened by now. */
    public long runningTasks(String label, long patienceMs) throws InterruptedException {
        isTold(patienceMs);
        synchronized (this) {
            Work work = (Work) labels.get(label);
            return work == null ? 0 : work.tasks;
        }
    }

    /** Cancels all jobs of the label and of those inside of it, and later ones when they start. */
    public synchronized void cancel(String label) {
        Work stopped = (Work) labels.get(label);
        if (stopped != null) {
            cancel(stopped);
        }
    }

    /** From now on the label's jobs are cancelled as soon as another job starts. */
    public synchronized void giveWay(String label) {
        Work work = (Work) labels.get(label);
        if (work != null) {
            work.givesWay = true;
        }
    }

    /** Whether any job runs, whoever has started it. */
    public boolean isBusy() {
        return context.statusTracker().getActiveJobIds().length > 0;
    }

    void cancel(Work stopped) {
        Iterator each = labels.values().iterator();
        while (each.hasNext()) {
            Work work = (Work) each.next();
            if (work.isWithin(stopped)) {
                work.isStopped = true;
                Iterator running = work.jobs.iterator();
                while (running.hasNext()) {
                    context.cancelJob(((Integer) running.next()).intValue(), WHY);
                }
            }
        }
    }

    /** Cancels all jobs of the label, and waits until nothing of them goes on; whether it is so. */
    public boolean stop(String label, long patienceMs) throws InterruptedException {
        cancel(label);
        return isOver((Work) known(label), System.nanoTime(), patienceMs, true);
    }

    synchronized Object known(String label) {
        return labels.get(label);
    }

    boolean isOver(Work work, long began, long patienceMs, boolean withItsThread)
            throws InterruptedException {
        if (work == null) {
            return true;
        }
        while (true) {
            // What plans has nothing to clear away, and can't be stopped before it starts a job.
            long patience = withItsThread && !work.hasRun ? PLANNING_MS : patienceMs;
            long passed = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
            long left = patience - passed;
            if (left <= 0 || !isTold(left)) {
                return !work.hasRun;
            }
            synchronized (this) {
                if (!goesOn(work, withItsThread) && !(withItsThread && work.isInCall())) {
                    return true;
                }
                wait(Math.min(left, PAUSE_MS));
            }
        }
    }

    /** Whether tasks of the work run, or of what is inside of it; or jobs, if these count. */
    boolean goesOn(Work work, boolean withJobs) {
        Iterator each = labels.values().iterator();
        while (each.hasNext()) {
            Work inside = (Work) each.next();
            if (inside.isWithin(work)
                    && (inside.tasks > 0 || withJobs && !inside.jobs.isEmpty())) {
                return true;
            }
        }
        return false;
    }

    /** Whether Spark has told of all that had happened by now. */
    boolean isTold(long patienceMs) throws InterruptedException {
        Marker marker = new Marker();
        // All that was told before it is ahead of it in the queue.
        context.listenerBus().post(marker);
        return marker.reached.await(patienceMs, TimeUnit.MILLISECONDS);
    }

    synchronized void forget(String over) {
        String[] each = over.isEmpty() ? new String[0] : over.split(" ");
        for (int index = 0; index < each.length; index++) {
            Work work = (Work) labels.get(each[index]);
            if (work != null && work.isAsked) {
                work.isForgotten = true;
                continue;
            }
            // What was stopped may still start a job, which is stopped as well.
            if (work != null && !work.isStopped) {
                labels.remove(each[index]);
                Collection counted = stages.values();
                counted.removeAll(Collections.singleton(work));
                Collection started = jobs.values();
                started.removeAll(Collections.singleton(work));
            }
        }
    }

    public synchronized void onJobStart(SparkListenerJobStart event) {
        String label = event.properties() == null ? null : event.properties().getProperty(key);
        Work work = label == null ? null : (Work) labels.get(label);
        Iterator each = labels.values().iterator();
        while (each.hasNext()) {
            Work other = (Work) each.next();
            if (other.givesWay && !other.isStopped && (work == null || !work.isWithin(other))) {
                cancel(other);
            }
        }
        if (work != null) {
            Integer job = Integer.valueOf(event.jobId());
            jobs.put(job, work);
            work.jobs.add(job);
            for (Work outer = work; outer != null; outer = outer.around) {
                outer.hasRun = true;
            }
            if (work.isStopped) {
                context.cancelJob(event.jobId(), WHY);
            }
        }
    }

    public synchronized void onJobEnd(SparkListenerJobEnd event) {
        Integer job = Integer.valueOf(event.jobId());
        Work work = (Work) jobs.remove(job);
        if (work != null) {
            work.jobs.remove(job);
            notifyAll();
        }
    }

    public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
        String label = event.properties() == null ? null : event.properties().getProperty(key);
        Work work = label == null ? null : (Work) labels.get(label);
        if (work != null) {
            stages.put(Integer.valueOf(event.stageInfo().stageId()), work);
        }
    }

    public synchronized void onTaskStart(SparkListenerTaskStart event) {
        Work work = (Work) stages.get(Integer.valueOf(event.stageId()));
        if (work != null) {
            work.tasks += 1;
        }
    }

    public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
        Work work = (Work) stages.get(Integer.valueOf(event.stageId()));
        if (work == null) {
            return;
        }
        work.tasks -= 1;
        notifyAll();
        for (Work each = work; each != null; each = each.around) {
            each.took(event);
        }
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof Marker) {
            ((Marker) event).reached.countDown();
        }
    }

    /** What goes on under a label. */
    static final class Work {
        final Thread thread = Thread.currentThread();
        final Set jobs = new HashSet();
        long tasks;
        long cpu;
        long milliseconds;
        long read;
        long shuffled;
        boolean isAsked;
        boolean isForgotten;
        volatile boolean hasRun;
        boolean isStopped;
        boolean givesWay;
        final Work around;

        Work(Work around) {
            this.around = around;
        }

        void took(SparkListenerTaskEnd event) {
            milliseconds += event.taskInfo().duration();
            TaskMetrics metrics = event.taskMetrics();
            // A task that was lost has none.
            if (metrics != null) {
                cpu += metrics.executorCpuTime();
                read += metrics.inputMetrics().bytesRead();
                shuffled += metrics.shuffleWriteMetrics().bytesWritten();
            }
        }

        boolean isWithin(Work other) {
            Work work = this;
            while (work != null && work != other) {
                work = work.around;
            }
            return work != null;
        }

        /** Whether the thread still does what Python has called it for, and no longer waits for. */
        boolean isInCall() {
            if (thread == Thread.currentThread() || !thread.isAlive()) {
                return false;
            }
            StackTraceElement[] stack = thread.getStackTrace();
            for (int index = 0; index < stack.length; index++) {
                if (stack[index].getClassName().startsWith("py4j.commands.")) {
                    return true;
                }
            }
            return false;
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
