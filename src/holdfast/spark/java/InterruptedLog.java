package holdfast;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Marker;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.logging.log4j.core.filter.CompositeFilter;
import org.apache.logging.log4j.message.Message;
import org.apache.spark.TaskContext;

/** Leaves out what Spark logs of the end of what was interrupted in Python, or has given way. */
public final class InterruptedLog extends AbstractFilter {
    static final int DEPTH = 8;
    static final String CALLS = "py4j.";
    final String why;

    /** @param why the reason that jobs are cancelled for, which their errors say */
    public InterruptedLog(String why) {
        this.why = why;
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        Configuration configuration = context.getConfiguration();
        Filter there = configuration.getFilter();
        // A Spark context of before has left one behind.
        Filter[] filters =
                there instanceof CompositeFilter
                        ? ((CompositeFilter) there).getFiltersArray()
                        : new Filter[] {there};
        for (int index = 0; index < filters.length; index++) {
            Filter each = filters[index];
            if (each != null && each.getClass().getSimpleName().equals(getClass().getSimpleName())) {
                configuration.removeFilter(each);
            }
        }
        configuration.addFilter(this);
        context.updateLoggers();
    }

    public Filter.Result filter(
            Logger logger, Level level, Marker marker, Object message, Throwable error) {
        return result(level, message, error);
    }

    public Filter.Result filter(
            Logger logger, Level level, Marker marker, Message message, Throwable error) {
        return result(level, message, error);
    }

    public Filter.Result filter(
            Logger logger, Level level, Marker marker, String message, Object[] values) {
        return result(level, message, null);
    }

    Filter.Result result(Level level, Object message, Throwable error) {
        // What isn't logged anyhow is asked about, too, and often: texts are made of the rest only.
        boolean isSeen = level.isMoreSpecificThan(Level.WARN);
        boolean isUnseen = isInterrupt(error) || isSeen
            && (text(message).contains(why) || isOfKilledTask());
        return isUnseen ? Filter.Result.DENY : Filter.Result.NEUTRAL;
    }

    static String text(Object message) {
        return message instanceof Message
            ? ((Message) message).getFormattedMessage() : String.valueOf(message);
    }

    /** Whether this thread's task has been killed: what it then logs are its files' ends. */
    boolean isOfKilledTask() {
        TaskContext task = TaskContext.get();
        return task != null && task.getKillReason().isDefined()
            && String.valueOf(task.getKillReason().get()).contains(why);
    }

    boolean isInterrupt(Throwable error) {
        Throwable each = error;
        for (int depth = 0; each != null && depth < DEPTH; depth++) {
            // A killed task's has no message, and yet shows the reason; who waits for it has none.
            if (each.toString().contains(why)
                    || each instanceof InterruptedException && isCall(each)) {
                return true;
            }
            each = each.getCause();
        }
        return false;
    }

    /** Whether it has ended a call from Python: Py4J interrupts those that Python gives up. */
    boolean isCall(Throwable interrupt) {
        StackTraceElement[] stack = interrupt.getStackTrace();
        boolean found = false;
        for (int index = 0; index < stack.length && !found; index++) {
            found = stack[index].getClassName().startsWith(CALLS);
        }
        return found;
    }
}
