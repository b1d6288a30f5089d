package holdfast;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReturnAnswer;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Finds out by which command a writer would write, without writing. */
public final class PlannedWrites {
    private final ThreadLocal asking = new ThreadLocal();

    public PlannedWrites() {}

    /** What a writer's method plans; null where it plans no command. */
    public LogicalPlan command(SparkSession session, Object writer, String name, Object[] arguments)
            throws Throwable {
        Seq before;
        Seq mine;
        synchronized (this) {
            before = session.experimental().extraStrategies();
            mine = (Seq) before.$plus$colon(new Taking(asking));
            session.experimental().extraStrategies_$eq(mine);
        }
        LogicalPlan[] found = new LogicalPlan[1];
        asking.set(found);
        try {
            method(writer, name, arguments.length).invoke(writer, arguments);
        } catch (InvocationTargetException thrown) {
            if (found[0] == null) {
                throw thrown.getCause();
            }
        } finally {
            asking.remove();
            synchronized (this) {
                Seq now = session.experimental().extraStrategies();
                session.experimental().extraStrategies_$eq(
                    (Seq) now.filterNot(new Same(mine.head())));
            }
        }
        return found[0];
    }

    private static Method method(Object writer, String name, int arguments) {
        Method[] all = writer.getClass().getMethods();
        for (int index = 0; index < all.length; index++) {
            Method each = all[index];
            if (each.getName().equals(name) && each.getParameterCount() == arguments
                    && !each.isBridge()) {
                return each;
            }
        }
        throw new IllegalArgumentException(name);
    }

    /** Is asked how to run a plan before Spark's own planner is. */
    static final class Taking extends SparkStrategy {
        private final ThreadLocal asking;

        Taking(ThreadLocal asking) {
            this.asking = asking;
        }

        public Seq apply(LogicalPlan plan) {
            LogicalPlan[] found = (LogicalPlan[]) asking.get();
            if (found != null) {
                QueryPlan root = plan;
                if (plan instanceof ReturnAnswer) {
                    root = ((ReturnAnswer) plan).child();
                }
                if (root instanceof Command) {
                    found[0] = (LogicalPlan) root;
                    throw new IllegalStateException("a write is planned only");
                }
            }
            return (Seq) (Object) Nil$.MODULE$;
        }
    }

    static final class Same extends scala.runtime.AbstractFunction1 {
        private final Object one;

        Same(Object one) {
            this.one = one;
        }

        public Object apply(Object other) {
            return Boolean.valueOf(one == other);
        }
    }
}
