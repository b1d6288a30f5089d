package holdfast;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.net.Socket;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.TruncateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.unsafe.Platform;
import org.slf4j.LoggerFactory;
import py4j.ClientServerConnection;
import py4j.Gateway;
import py4j.PythonClient;
import scala.Function2;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * Asks what to run in the place of each query of a session, those inside of commands included, and
 * of the copies of the session in which Spark runs its streams.
 */
public final class QueryRule extends Rule {
    /** What a query is planned by, whatever for. */
    static final String[] PLANNING = {
        "holdfast.",
        "java.",
        "org.apache.spark.JobArtifactSet",
        "org.apache.spark.sql.SparkSession",
        "org.apache.spark.sql.artifact.",
        "org.apache.spark.sql.catalyst.QueryPlanningTracker",
        "org.apache.spark.sql.catalyst.rules.",
        "org.apache.spark.sql.classic.SparkSession",
        "org.apache.spark.sql.execution.QueryExecution",
        "org.apache.spark.sql.execution.SQLExecution",
        "org.apache.spark.sql.execution.streaming.",
        "org.apache.spark.sql.internal.SQLConf",
        "org.apache.spark.util.",
        "scala.",
    };

    final SparkSession session;
    final SessionState state;
    /** Of the session that this one's is a copy of; this one itself where it is none. */
    final QueryRule first;
    volatile BiFunction asked;
    /** What calls Python, each thread over another connection; null if unknown. */
    PythonClient client;
    final SparkContext context;
    final Consumer written;
    final int patience;
    final int patienceWithCommands;
    final ThreadLocal alone;

    /** How many answers are late: until they have come, nothing is asked. */
    final AtomicInteger late;

    /** Connections to threads of Python's that wait to be asked. */
    final ConcurrentLinkedDeque idle;

    /**
     * @param session whose queries are looked at
     * @param written given the names of tables that are about to be written
     * @param patience for how many milliseconds Python may be silent that is asked
     * @param patienceWithCommands the same, where what is missing is produced meanwhile
     */
    public QueryRule(
            SparkSession session, Consumer written, int patience, int patienceWithCommands) {
        this.written = written;
        this.patience = patience;
        this.patienceWithCommands = patienceWithCommands;
        this.session = session;
        this.state = session.sessionState();
        this.context = session.sparkContext();
        this.first = this;
        this.alone = new ThreadLocal();
        this.late = new AtomicInteger();
        this.idle = new ConcurrentLinkedDeque();
    }

    QueryRule(QueryRule first, SparkSession copy, SessionState state) {
        this.written = first.written;
        this.patience = first.patience;
        this.patienceWithCommands = first.patienceWithCommands;
        this.session = copy;
        this.state = state;
        this.context = first.context;
        this.first = first;
        this.alone = first.alone;
        this.late = first.late;
        this.idle = first.idle;
    }

    /**
     * Becomes a rule of the session.
     *
     * @param asked given a query's analyzed plan, and how it is run; gives the plan to run in its
     *     place, or what is to be thrown
     */
    public void start(BiFunction asked) throws Exception {
        this.client = client(asked);
        this.asked = asked;
        set(this);
    }

    public TreeNode apply(TreeNode node) {
        if (first.asked == null || !(node instanceof LogicalPlan)) {
            return node;
        }
        LogicalPlan plan = (LogicalPlan) node;
        LogicalPlan instead = alone.get() == null ? instead(plan) : plan;
        String target = target(plan);
        if (target != null && !isExplained()) {
            // What it reads itself is of before.
            written.accept(target);
        }
        return instead;
    }

    LogicalPlan instead(LogicalPlan plan) {
        if (!(plan instanceof Command)) {
            // What Spark's cache looks up, it knows as it was written.
            return isBelow(".CacheManager") ? plan : replaced(plan, isRun());
        }
        boolean isExecuted = !isExplained();
        if (plan instanceof RowLevelWrite) {
            return rowLevel((RowLevelWrite) plan, isExecuted);
        }
        return withQueries(plan, isExecuted);
    }

    /** The name of the catalog's table that a command writes; null for other commands. */
    static String target(LogicalPlan plan) {
        if (plan instanceof V2WriteCommand) {
            return ((V2WriteCommand) plan).table().name();
        }
        if (plan instanceof DeleteFromTable || plan instanceof TruncateTable) {
            Object table = ((LogicalPlan) plan.children().head()).collectLeaves().head();
            if (table instanceof NamedRelation) {
                return ((NamedRelation) table).name();
            }
            if (table instanceof ResolvedTable) {
                ResolvedTable resolved = (ResolvedTable) table;
                return DataSourceV2Relation.create(
                                resolved.table(),
                                Option.apply(resolved.catalog()),
                                Option.apply(resolved.identifier()))
                        .name();
            }
        }
        return null;
    }

    LogicalPlan withQueries(LogicalPlan plan, boolean isExecuted) {
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
        return withChildren(plan, queries);
    }

    static LogicalPlan withChildren(LogicalPlan plan, List children) {
        LogicalPlan command = (LogicalPlan) plan.withNewChildren(seq(children));
        command.setAnalyzed();
        return command;
    }

    static Seq seq(List all) {
        return CollectionConverters.asScala(all).toSeq();
    }

    /**
     * What changes rows of a table, such as MERGE. It has its source twice: in its query, and in
     * conditions on the table by which Spark finds the files that are concerned. Both have to read
     * the same, so they are asked about as one plan, which nobody runs.
     */
    LogicalPlan rowLevel(RowLevelWrite write, boolean isExecuted) {
        LogicalPlan plan = (LogicalPlan) write;
        List conditions = new ArrayList();
        LogicalPlan table = (LogicalPlan) write.originalTable();
        Iterator each = plan.expressions().iterator();
        while (each.hasNext()) {
            Expression condition = (Expression) each.next();
            if (SubqueryExpression.hasSubquery(condition)) {
                conditions.add(condition);
                table = new Filter(condition, table);
            }
        }
        if (conditions.isEmpty()) {
            return withQueries(plan, isExecuted);
        }
        LogicalPlan noColumns = new Project(seq(new ArrayList()), table);
        LogicalPlan both =
                new Join(
                        write.query(), noColumns, LeftSemi$.MODULE$, Option.empty(),
                        JoinHint.NONE());
        both.setAnalyzed();
        LogicalPlan instead = replaced(both, isExecuted);
        if (instead == both) {
            return plan;
        }
        Map replacements = replacements(conditions, instead);
        if (replacements == null) {
            return plan;
        }
        List queries = new ArrayList();
        queries.add(((Join) instead).left());
        return withChildren(
                (LogicalPlan) plan.mapExpressions(new Replacements(replacements)), queries);
    }

    /** The conditions of a plan by those that they stand for; null where it hasn't all of them. */
    static Map replacements(List conditions, LogicalPlan plan) {
        Map found = new IdentityHashMap();
        LogicalPlan node = plan instanceof Join ? ((Join) plan).right() : plan;
        for (int index = conditions.size() - 1; index >= 0; index--) {
            node = (LogicalPlan) node.children().head();
            if (!(node instanceof Filter)) {
                return null;
            }
            found.put(conditions.get(index), ((Filter) node).condition());
        }
        return found;
    }

    /** What stands in the place of some expressions. */
    static final class Replacements extends AbstractFunction1 {
        final Map replacements;

        Replacements(Map replacements) {
            this.replacements = replacements;
        }

        public Object apply(Object expression) {
            Object instead = replacements.get(expression);
            return instead == null ? expression : instead;
        }
    }

    LogicalPlan replaced(LogicalPlan query, boolean isExecuted) {
        if (late.get() > 0) {
            return query;
        }
        Object found;
        Run run = new Run(this, isExecuted, context.getLocalProperties());
        leaveAlone();
        try {
            found = answer(query, run);
        } catch (RuntimeException error) {
            // Python is about to end, or doesn't answer in time: the query runs as it is.
            run.giveUp();
            return query;
        } finally {
            lookAgain();
        }
        if (found instanceof Throwable) {
            Platform.throwException((Throwable) found);
        }
        return (LogicalPlan) found;
    }

    /** Queries of this thread run as they are, until as many calls of `lookAgain`. */
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

    /**
     * What Python says in another thread than the one that waits for the query. Py4J asks that one
     * itself where it has been interrupted before, or began after others: an interrupt would end
     * its answer, and a late answer its connection, over which the query's rows are to come.
     */
    Object answer(LogicalPlan query, Run run) {
        PythonClient client = first.client;
        if (client == null) {
            return first.asked.apply(query, run);
        }
        ClientServerConnection before = client.getPerThreadConnection();
        client.setPerThreadConnection((ClientServerConnection) idle.pollLast());
        try {
            return first.asked.apply(query, run);
        } finally {
            ClientServerConnection used = client.getPerThreadConnection();
            client.setPerThreadConnection(before);
            if (used != null && used.getSocket() != null) {
                idle.addLast(used);
            }
            if (first.asked == null) {
                closeIdle();
            }
        }
    }

    void closeIdle() {
        ClientServerConnection each = (ClientServerConnection) idle.pollLast();
        while (each != null) {
            each.shutdown();
            first.client.connectionStopped(each);
            each = (ClientServerConnection) idle.pollLast();
        }
    }

    static PythonClient client(BiFunction asked) {
        try {
            Object handler = Proxy.getInvocationHandler(asked);
            Field field = handler.getClass().getDeclaredField("gateway");
            field.setAccessible(true);
            Object client = ((Gateway) field.get(handler)).getCallbackClient();
            if (client instanceof PythonClient) {
                return (PythonClient) client;
            }
        } catch (Exception error) {
            LoggerFactory.getLogger("holdfast").debug("Python may be silent for ever", error);
        }
        return null;
    }

    /** Takes the rule out of the session, and leaves its copies alone. */
    public void remove() throws Exception {
        asked = null;
        set(null);
        closeIdle();
    }

    /** Replaces the rule of the session, or of the one that it is a copy of. */
    void set(QueryRule instead) throws Exception {
        List rules = new ArrayList();
        Iterator each = state.planNormalizationRules().iterator();
        while (each.hasNext()) {
            Object rule = each.next();
            if (!(rule instanceof QueryRule)) {
                rules.add(rule);
            }
        }
        if (instead != null) {
            rules.add(instead);
        }
        field("planNormalizationRules").set(state, seq(rules));
        Field copies = field("createClone");
        Function2 copied = (Function2) copies.get(state);
        if (copied instanceof Copied) {
            copied = ((Copied) copied).bySpark;
        }
        copies.set(state, instead == null ? copied : new Copied(copied, instead));
    }

    static Field field(String name) throws Exception {
        Field field = SessionState.class.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /** From a new session, and the state of the one that it is a copy of, to its own state. */
    static final class Copied extends AbstractFunction2 {
        final Function2 bySpark;
        final QueryRule rule;

        Copied(Function2 bySpark, QueryRule rule) {
            this.bySpark = bySpark;
            this.rule = rule;
        }

        public Object apply(Object session, Object state) {
            SessionState copy = (SessionState) bySpark.apply(session, state);
            // Others are made by those who see to what their queries read.
            if (rule.alone.get() == null && isBelow(".StreamExecution")) {
                QueryRule ofCopy = new QueryRule(rule.first, (SparkSession) session, copy);
                try {
                    ofCopy.set(ofCopy);
                } catch (Exception error) {
                    LoggerFactory.getLogger("holdfast").debug("a stream runs as it is", error);
                }
            }
            return copy;
        }
    }

    /** How a query is run that Python is asked about, in a thread of Python's. */
    public static final class Run {
        final QueryRule rule;
        final boolean isExecuted;
        final Properties properties;
        Properties before;
        Socket connection;
        boolean isUnderWay;
        boolean isLate;

        Run(QueryRule rule, boolean isExecuted, Properties properties) {
            this.rule = rule;
            this.isExecuted = isExecuted;
            this.properties = properties;
        }

        /** Whether it runs now; otherwise somebody may run it, or may not. */
        public boolean isExecuted() {
            return isExecuted;
        }

        /** Where it runs: in the session that is looked at, or in a copy of it. */
        public SparkSession session() {
            return rule.session;
        }

        /** Jobs of this thread are of the groups and tags that the query's are of. */
        public void enter() throws SocketException {
            rule.leaveAlone();
            before = rule.context.getLocalProperties();
            rule.context.setLocalProperties((Properties) properties.clone());
            PythonClient client = rule.first.client;
            connection = client == null ? null : client.getPerThreadConnection().getSocket();
            if (connection != null) {
                // Of this thread's time nothing counts that it spends on calls of Python's.
                connection.setSoTimeout(isExecuted ? rule.patienceWithCommands : rule.patience);
            }
            isUnderWay = true;
        }

        /** Called again, over another connection, where the answer is late. */
        public void leave() throws SocketException {
            synchronized (this) {
                isUnderWay = false;
                if (isLate) {
                    isLate = false;
                    rule.late.decrementAndGet();
                    return;
                }
            }
            if (connection != null) {
                connection.setSoTimeout(0);
            }
            rule.context.setLocalProperties(before);
            rule.lookAgain();
        }

        /** The answer isn't waited for any more. */
        void giveUp() {
            synchronized (this) {
                if (!isUnderWay) {
                    return;
                }
                isLate = true;
                rule.late.incrementAndGet();
            }
            rule.context.setLocalProperties(before);
            rule.lookAgain();
            LoggerFactory.getLogger("holdfast").warn(
                    "a query runs as it is written, without kept results: there was no answer in"
                        + " time as to which there are");
        }
    }

    /** Whether Spark plans the query of this thread to run it, which nothing but the callers says. */
    static boolean isRun() {
        StackTraceElement[] callers = Thread.currentThread().getStackTrace();
        for (int index = 0; index < callers.length; index++) {
            String name = callers[index].getClassName();
            String method = callers[index].getMethodName();
            if (method.startsWith("withNewExecutionId")
                    || method.equals("toRdd")
                    || name.endsWith(".MicroBatchExecution")
                    || name.endsWith(".ContinuousExecution")) {
                return true;
            }
            if (!isOfPlanning(name)) {
                return false;
            }
        }
        return false;
    }

    static boolean isOfPlanning(String name) {
        for (int index = 0; index < PLANNING.length; index++) {
            if (name.startsWith(PLANNING[index])) {
                return true;
            }
        }
        return false;
    }

    /** Whether the query is only shown, which nothing but the callers says. */
    static boolean isExplained() {
        return isBelow(".ExplainCommand");
    }

    /** Whether a method of a class whose name ends like this is among the callers. */
    static boolean isBelow(String name) {
        StackTraceElement[] callers = Thread.currentThread().getStackTrace();
        for (int index = 0; index < callers.length; index++) {
            if (callers[index].getClassName().endsWith(name)) {
                return true;
            }
        }
        return false;
    }
}
