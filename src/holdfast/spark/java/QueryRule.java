package holdfast;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.unsafe.Platform;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Asks what to run in the place of each query of a session, those inside of commands included. */
public final class QueryRule extends Rule {
    final SessionState state;
    volatile BiFunction asked;
    final SparkContext context;
    final ThreadLocal alone = new ThreadLocal();

    public QueryRule(SparkSession session) {
        this.state = session.sessionState();
        this.context = session.sparkContext();
    }

    /**
     * Becomes a rule of the session.
     *
     * @param asked given a query's analyzed plan, and how it is run; gives the plan to run in its
     *     place, or what is to be thrown
     */
    public void start(BiFunction asked) throws Exception {
        this.asked = asked;
        set(this);
    }

    public TreeNode apply(TreeNode node) {
        if (asked == null || alone.get() != null || !(node instanceof LogicalPlan)) {
            return node;
        }
        LogicalPlan plan = (LogicalPlan) node;
        if (!(plan instanceof Command)) {
            return replaced(plan, false);
        }
        boolean isExecuted = !isExplained();
        boolean isChanged = false;
        List queries = new ArrayList();
        Iterator each = plan.children().iterator();
        while (each.hasNext()) {
            LogicalPlan query = (LogicalPlan) each.next();
            LogicalPlan instead = replaced(query, isExecuted);
            isChanged |= instead != query;
            queries.add(instead);
        }
        if (!isChanged) {
            return plan;
        }
        LogicalPlan command =
                (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(queries).toSeq());
        command.setAnalyzed();
        return command;
    }

    LogicalPlan replaced(LogicalPlan query, boolean isExecuted) {
        Object found;
        leaveAlone();
        try {
            found = asked.apply(query, new Run(this, isExecuted, context.getLocalProperties()));
        } catch (RuntimeException error) {
            // Python is about to end, or doesn't answer: the query runs as it is.
            return query;
        } finally {
            lookAgain();
        }
        if (found instanceof Throwable) {
            Platform.throwException((Throwable) found);
        }
        return (LogicalPlan) found;
    }

    /** From now on queries of this thread run as they are, until as many calls of `lookAgain`. */
    public void leaveAlone() {
        Integer depth = (Integer) alone.get();
        alone.set(Integer.valueOf(depth == null ? 1 : depth.intValue() + 1));
    }

    public void lookAgain() {
        Integer depth = (Integer) alone.get();
        if (depth == null || depth.intValue() == 1) {
            alone.remove();
        } else {
            alone.set(Integer.valueOf(depth.intValue() - 1));
        }
    }

    /** Takes the rule out of the session. */
    public void remove() throws Exception {
        asked = null;
        set(null);
    }

    /** Replaces this rule among those of the session. */
    void set(QueryRule instead) throws Exception {
        Field field = SessionState.class.getDeclaredField("planNormalizationRules");
        field.setAccessible(true);
        List rules = new ArrayList();
        Iterator each = ((Seq) field.get(state)).iterator();
        while (each.hasNext()) {
            Object rule = each.next();
            if (rule != this) {
                rules.add(rule);
            }
        }
        if (instead != null) {
            rules.add(instead);
        }
        field.set(state, CollectionConverters.asScala(rules).toSeq());
    }

    /** How a query is run that Python is asked about, in a thread of its own. */
    public static final class Run {
        final QueryRule rule;
        final boolean isExecuted;
        final Properties properties;
        Properties before;

        Run(QueryRule rule, boolean isExecuted, Properties properties) {
            this.rule = rule;
            this.isExecuted = isExecuted;
            this.properties = properties;
        }

        /** Whether a command runs it now; otherwise somebody may, or may not. */
        public boolean isExecuted() {
            return isExecuted;
        }

        /** Jobs of this thread are of the groups and tags that the query's are of. */
        public void enter() {
            rule.leaveAlone();
            before = rule.context.getLocalProperties();
            rule.context.setLocalProperties((Properties) properties.clone());
        }

        public void leave() {
            rule.context.setLocalProperties(before);
            rule.lookAgain();
        }
    }

    /** Whether the query is only shown, which nothing but the callers tell. */
    static boolean isExplained() {
        StackTraceElement[] callers = Thread.currentThread().getStackTrace();
        for (int index = 0; index < callers.length; index++) {
            if (callers[index].getClassName().endsWith(".ExplainCommand")) {
                return true;
            }
        }
        return false;
    }
}
