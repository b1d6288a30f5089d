package holdfast;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.MapOutputStatistics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveExecutionContext;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.ExchangeQueryStageExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands what exchanges of a session's earlier queries have left to queries with the same exchange.
 *
 * An adaptive plan looks for each exchange among the stages that its query has materialized. Here,
 * those of earlier queries are put among them: of the same session, under the same settings, of the
 * same files. Held stages hold their shuffle files, and Spark makes lost ones again.
 */
public final class LiveShuffles {
    /** Queries that have not run yet, or may still run, whose stages are looked for. */
    static final int MOST_QUERIES = 16;
    static final int MOST_TIMES = 1000;
    static final int MOST_FIELDS = 25;
    static final TreeNodeTag SET = new TreeNodeTag("holdfast.set");
    static final TreeNodeTag FRESH = new TreeNodeTag("holdfast.fresh");

    final SparkSession session;
    final BiFunction inputs;
    final Function settings;
    final BiFunction copied;
    final BiFunction changed;
    final Function steps;
    final Fresh fresh = new Fresh(this);
    final Hook hook = new Hook(new Planned(this));
    final Times times = new Times();
    final LinkedHashMap held = new LinkedHashMap();
    final ArrayList queries = new ArrayList();
    // Spark plans what Arrow or pandas is given in a thread of its own.
    final ThreadLocal alone = new InheritableThreadLocal();
    final ThreadLocal watched = new InheritableThreadLocal();
    long numbers = 0;
    long uses = 0;
    boolean isChanged = false;
    String failure = "";

    /**
     * @param session whose queries these are
     * @param inputs gives what a plan's rows depend on beside what Spark compares, or says what
     *     isn't known of it, see `StageInputs`
     * @param settings gives a text that changes with a session's settings
     * @param copied gives a copy of a plan, with nothing made of settings yet, for a session
     * @param changed gives the first of listed files that isn't as listed, for a configuration
     * @param steps gives how many rows the steps of a plan had that has run, see `RanSteps`
     */
    public LiveShuffles(
            SparkSession session,
            BiFunction inputs,
            Function settings,
            BiFunction copied,
            BiFunction changed,
            Function steps) {
        this.session = session;
        this.inputs = inputs;
        this.settings = settings;
        this.copied = copied;
        this.changed = changed;
        this.steps = steps;
    }

    /** Starts to look at the session's queries, as all other rules leave them. */
    public void start() throws Exception {
        replace("planNormalizationRules", fresh, true);
        replace("columnarRules", hook, true);
        session.sparkContext().removeSparkListener(times);
        session.sparkContext().addSparkListener(times);
    }

    /** Lets everything go; the session's queries aren't looked at any more. */
    public void stop() throws Exception {
        replace("planNormalizationRules", fresh, false);
        replace("columnarRules", hook, false);
        session.sparkContext().removeSparkListener(times);
        synchronized (this) {
            held.clear();
            queries.clear();
        }
    }

    /**
     * What has gone wrong, if anything has, and the bytes of the driver's heap, a line each; then
     * what is held, a line each: its number, whether it is on disk, its bytes, its tasks'
     * milliseconds, and when it was asked for, in milliseconds since the epoch.
     *
     * @param always or else empty where nothing has changed since this was asked
     */
    public synchronized String held(boolean always) {
        gather();
        if (!(always || isChanged)) {
            return "";
        }
        isChanged = false;
        StringBuilder lines = new StringBuilder();
        lines.append(failure.replace('\n', ' ')).append('\n');
        failure = "";
        lines.append(Runtime.getRuntime().maxMemory()).append('\n');
        java.util.Iterator each = held.values().iterator();
        while (each.hasNext()) {
            Held one = (Held) each.next();
            lines.append(one.number).append(' ')
                .append(one.stage instanceof ShuffleQueryStageExec).append(' ')
                .append(one.bytes).append(' ')
                .append(one.milliseconds(times)).append(' ').append(one.references).append('\n');
        }
        return lines.toString();
    }

    /** Lets some go. What reads them goes on reading. */
    public synchronized void release(String numbers) {
        String all = ' ' + numbers + ' ';
        java.util.Iterator each = held.values().iterator();
        while (each.hasNext()) {
            if (all.contains(" " + ((Held) each.next()).number + " ")) {
                each.remove();
            }
        }
    }

    /** How many held stages queries that have ended have read. */
    public synchronized long uses() {
        gather();
        return uses;
    }

    /** Starts to count what queries that this thread plans read. */
    public void watch() {
        watched.set(new Watch());
    }

    /**
     * What queries that have ended have read since this thread has called `watch`: how many
     * exchanges, how many milliseconds they took, with all that is below them, and their tasks.
     * Then how many rows the steps of the last one had, a line each.
     */
    public String watched() {
        Watch watch = (Watch) watched.get();
        watched.remove();
        long read = 0;
        long took = 0;
        long spent = 0;
        AdaptiveSparkPlanExec last = null;
        synchronized (this) {
            gather();
            List all = watch == null ? new ArrayList() : watch.ended();
            for (int index = 0; index < all.size(); index++) {
                last = ((Query) all.get(index)).plan;
                read += ((Query) all.get(index)).read;
                took += ((Query) all.get(index)).took;
                spent += ((Query) all.get(index)).spent;
            }
        }
        return read + " " + took + " " + spent + "\n" + steps(last);
    }

    String steps(AdaptiveSparkPlanExec plan) {
        return plan != null && plan.isFinalPlan() ? (String) steps.apply(plan) : "";
    }

    /** Queries that this thread plans are not looked at, or are again. */
    public void leaveAlone(boolean isAlone) {
        if (isAlone) {
            alone.set("");
        } else {
            alone.remove();
        }
    }

    void replace(String name, Object mine, boolean added) throws Exception {
        SessionState state = session.sessionState();
        Field field = SessionState.class.getDeclaredField(name);
        field.setAccessible(true);
        synchronized (state) {
            List rules = new ArrayList();
            Iterator each = ((Seq) field.get(state)).iterator();
            while (each.hasNext()) {
                Object rule = each.next();
                if (rule != mine) {
                    rules.add(rule);
                }
            }
            if (added) {
                rules.add(mine);
            }
            field.set(state, CollectionConverters.asScala(rules).toSeq());
        }
    }

    /**
     * The exchanges of a query, upper ones first, a line each: `reused`, `to be held`, or why it is
     * neither; its tasks' milliseconds; and what it is. What is below a reused one is left out.
     */
    public String outlooks(QueryExecution query) {
        TreeNode plan = adaptive(query.executedPlan());
        StringBuilder lines = new StringBuilder();
        if (plan instanceof AdaptiveSparkPlanExec) {
            synchronized (this) {
                outlooks((AdaptiveSparkPlanExec) plan, lines);
            }
        }
        return lines.toString();
    }

    void outlooks(AdaptiveSparkPlanExec query, StringBuilder lines) {
        java.util.ArrayDeque waiting = new java.util.ArrayDeque();
        waiting.push(query);
        while (!waiting.isEmpty()) {
            SparkPlan each = (SparkPlan) waiting.pop();
            Held one = each instanceof Exchange ? (Held) held.get(each.canonicalized()) : null;
            boolean isReused =
                one != null && query.context().stageCache().contains(one.key());
            if (each instanceof Exchange) {
                lines.append(isReused ? "reused" : outlook(query, each, one)).append('\t');
                lines.append(one == null ? 0 : one.milliseconds(times)).append('\t');
                lines.append(each.simpleString(MOST_FIELDS).replace('\n', ' ')).append('\n');
            }
            if (!isReused) {
                pushPlanned(each, waiting);
            }
        }
    }

    /** Whether an exchange is held when it has run, or why not, or why what is held isn't read. */
    String outlook(AdaptiveSparkPlanExec query, SparkPlan exchange, Held one) {
        Object found = inputs.apply(exchange, Boolean.TRUE);
        if (!(found instanceof Map)) {
            return ((String) found).replace('\n', ' ').replace('\t', ' ');
        }
        if (!query.context().qe().normalized().getTagValue(FRESH).isDefined()) {
            return "the query can't be copied";
        }
        if (one != null && !one.settings.equals(settings.apply(session))) {
            return "other settings than when an earlier query ran it";
        }
        Object other = one == null ? null : differing((Map) found, one.inputs);
        if (other == null) {
            return "to be held";
        }
        return (other instanceof String ? "other files" : "operands in another order")
            + " than when an earlier query ran it";
    }

    /** The plan below a command; or what is in its place. */
    static TreeNode adaptive(TreeNode plan) {
        while (!(plan instanceof AdaptiveSparkPlanExec) && plan.children().size() == 1) {
            plan = (TreeNode) plan.children().head();
        }
        return plan;
    }

    synchronized void failed(Throwable error) {
        failure = String.valueOf(error);
        isChanged = true;
    }

    /** A query's plan is about to be run, or shown. */
    void planned(AdaptiveSparkPlanExec plan) {
        AdaptiveExecutionContext context = plan.context();
        if (context.session() != session || alone.get() != null) {
            return;
        }
        Object set = set();
        String now = (String) settings.apply(session);
        synchronized (this) {
            gather();
            Query query = queryOf(context, now, set);
            query.isSteady &= query.settings.equals(now) && query.set.equals(set());
            query.add((Map) inputs.apply(plan, Boolean.FALSE));
            if (!plan.isSubquery()) {
                query.plan = plan;
                if (watched.get() != null) {
                    ((Watch) watched.get()).add(query);
                }
                if (query.isSteady) {
                    offer(query);
                }
            }
        }
    }

    Query queryOf(AdaptiveExecutionContext context, String now, Object set) {
        for (int index = 0; index < queries.size(); index++) {
            if (((Query) queries.get(index)).context == context) {
                return (Query) queries.get(index);
            }
        }
        if (queries.size() == MOST_QUERIES) {
            queries.remove(0);
        }
        Query query = new Query(context, now, set);
        queries.add(query);
        return query;
    }

    /** What is set in the session at this moment. */
    Object set() {
        return session.sessionState().conf().getAllConfs();
    }

    /** Puts among a query's stages those that its exchanges may be the same as. */
    void offer(Query query) {
        if (held.isEmpty() || !hasHeld(query.plan)) {
            return;
        }
        Map looked = new HashMap();
        java.util.Iterator each = held.values().iterator();
        while (each.hasNext()) {
            Held one = (Held) each.next();
            if (!one.settings.equals(query.settings)
                    || differing(query.inputs, one.inputs) != null) {
                continue;
            }
            if (!isThere(one.inputs, looked)) {
                each.remove();
                continue;
            }
            // Spark looks before it has made a stage of an exchange, and again when it has.
            query.context.stageCache().putIfAbsent(one.key(), one.stage);
            query.context.stageCache().putIfAbsent(one.planned, one.stage);
            query.known.add(one.stage);
            query.offered.put(one.stage.plan(), one);
        }
    }

    /** Whether any exchange of a plan, or of its subqueries, has been run before. */
    boolean hasHeld(SparkPlan plan) {
        java.util.ArrayDeque waiting = new java.util.ArrayDeque();
        waiting.push(plan);
        while (!waiting.isEmpty()) {
            SparkPlan each = (SparkPlan) waiting.pop();
            if (each instanceof Exchange && held.containsKey(each.canonicalized())) {
                return true;
            }
            pushPlanned(each, waiting);
        }
        return false;
    }

    /** Adds what is below a node of a query that has not run, its subqueries as well. */
    static void pushPlanned(SparkPlan node, java.util.ArrayDeque waiting) {
        if (node instanceof AdaptiveSparkPlanExec) {
            waiting.push(((AdaptiveSparkPlanExec) node).initialPlan());
        }
        push(node.children(), waiting);
        push(node.subqueries(), waiting);
    }

    static void push(scala.collection.Seq all, java.util.ArrayDeque waiting) {
        Iterator each = all.iterator();
        while (each.hasNext()) {
            waiting.push(each.next());
        }
    }

    /** What is the same to Spark and is there in two ways, or in another way; null for nothing. */
    static Object differing(Map inputs, Map others) {
        java.util.Iterator each = others.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry one = (Map.Entry) each.next();
            if ("".equals(one.getValue())
                    || !one.getValue().equals(inputs.get(one.getKey()))) {
                return one.getKey();
            }
        }
        return null;
    }

    /** Whether files are as they were listed. */
    boolean isThere(Map inputs, Map looked) {
        Configuration configuration = session.sparkContext().hadoopConfiguration();
        java.util.Iterator each = inputs.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry one = (Map.Entry) each.next();
            if (!(one.getKey() instanceof String)) {
                continue;
            }
            Object files = ((List) one.getValue()).get(0);
            Object found = looked.get(files);
            if (found == null) {
                found = changed.apply(files, configuration);
                looked.put(files, found);
            }
            if (!"".equals(found)) {
                return false;
            }
        }
        return true;
    }

    /** Takes the stages that queries have materialized by now. */
    void gather() {
        Map looked = new HashMap();
        for (int index = queries.size() - 1; index >= 0; index--) {
            Query query = (Query) queries.get(index);
            boolean hasEnded = query.plan != null && query.plan.isFinalPlan();
            Iterator stages = query.context.stageCache().iterator();
            while (stages.hasNext()) {
                Tuple2 entry = (Tuple2) stages.next();
                ExchangeQueryStageExec stage = (ExchangeQueryStageExec) entry._2();
                if (!stage.isMaterialized() || !query.known.add(stage)) {
                    continue;
                }
                Held one = held(query, (SparkPlan) entry._1(), stage, looked);
                if (one != null) {
                    held.put(one.key(), one);
                    isChanged = true;
                }
            }
            if (hasEnded) {
                queries.remove(index);
                countUses(query);
            }
        }
    }

    /** What may be held of a stage; null for nothing. */
    Held held(Query query, SparkPlan planned, ExchangeQueryStageExec stage, Map looked) {
        Option under = stage.plan().getTagValue(SET);
        boolean isSteady = query.isSteady && under.isDefined() && under.get().equals(query.set);
        if (!isSteady || !query.isFresh()) {
            return null;
        }
        Object found = inputs.apply(stage.plan(), Boolean.TRUE);
        if (!(found instanceof Map)) {
            return null;
        }
        Map its = (Map) found;
        // What is there in two ways Spark may have read in the other one.
        if (differing(query.inputs, its) != null || !isThere(its, looked)) {
            return null;
        }
        return new Held(++numbers, planned, stage, its, query.settings);
    }

    /** Notes which of the stages that a query was offered it has read. */
    void countUses(Query query) {
        if (query.offered.isEmpty()) {
            return;
        }
        Set seen = Collections.newSetFromMap(new IdentityHashMap());
        Set counted = new HashSet();
        java.util.ArrayDeque waiting = new java.util.ArrayDeque();
        waiting.push(query.plan);
        while (!waiting.isEmpty()) {
            SparkPlan node = (SparkPlan) waiting.pop();
            if (!seen.add(node)) {
                continue;
            }
            if (node instanceof ReusedExchangeExec) {
                Held one = (Held) query.offered.remove(((ReusedExchangeExec) node).child());
                if (one != null) {
                    one.isUsed();
                    query.read++;
                    one.addTo(query, times, counted);
                    uses++;
                    isChanged = true;
                }
            }
            pushRun(node, waiting);
        }
    }

    /** Adds what is below a node of a query that has run, its subqueries as well. */
    static void pushRun(SparkPlan node, java.util.ArrayDeque waiting) {
        if (node instanceof QueryStageExec) {
            waiting.push(((QueryStageExec) node).plan());
        } else if (node instanceof AdaptiveSparkPlanExec) {
            waiting.push(((AdaptiveSparkPlanExec) node).executedPlan());
        }
        push(node.children(), waiting);
        push(node.subqueries(), waiting);
    }

    /** Queries that are watched; threads may have it for longer than it is watched. */
    static final class Watch {
        List queries = new ArrayList();

        synchronized void add(Query query) {
            if (queries != null) {
                queries.add(query);
            }
        }

        synchronized List ended() {
            List all = queries;
            queries = null;
            return all;
        }
    }

    /** A query whose stages are looked for. */
    static final class Query {
        final AdaptiveExecutionContext context;
        final String settings;
        final Object set;
        final Map inputs = new HashMap();
        final Set known = Collections.newSetFromMap(new IdentityHashMap());
        final Map offered = new IdentityHashMap();
        AdaptiveSparkPlanExec plan;
        boolean isSteady = true;
        long read = 0;
        long took = 0;
        long spent = 0;

        Query(AdaptiveExecutionContext context, String settings, Object set) {
            this.context = context;
            this.settings = settings;
            this.set = set;
        }

        /** Notes what a part depends on; what is there in two ways is like nothing. */
        void add(Map more) {
            java.util.Iterator each = more.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry one = (Map.Entry) each.next();
                Object known = inputs.get(one.getKey());
                boolean isSame = known == null || known.equals(one.getValue());
                inputs.put(one.getKey(), isSame ? one.getValue() : "");
            }
        }

        boolean isFresh() {
            return context.qe().normalized().getTagValue(FRESH).isDefined();
        }
    }

    /** A stage that is there for later queries. */
    static final class Held {
        final long number;
        final SparkPlan planned;
        final ExchangeQueryStageExec stage;
        final Map inputs;
        final String settings;
        final long bytes;
        String references;

        Held(
                long number,
                SparkPlan planned,
                ExchangeQueryStageExec stage,
                Map inputs,
                String settings) {
            this.number = number;
            this.planned = planned;
            this.stage = stage;
            this.inputs = inputs;
            this.settings = settings;
            this.bytes = bytes();
            this.references = String.valueOf(System.currentTimeMillis());
        }

        /** The exchange that it is of, to Spark. */
        SparkPlan key() {
            return (SparkPlan) stage.canonicalized();
        }

        private long bytes() {
            if (!(stage instanceof ShuffleQueryStageExec)) {
                return ((scala.math.BigInt) stage.getRuntimeStatistics().sizeInBytes()).toLong();
            }
            Option found = ((ShuffleQueryStageExec) stage).mapStats();
            long bytes = 0;
            if (found.isDefined()) {
                long[] all = ((MapOutputStatistics) found.get()).bytesByPartitionId();
                for (int index = 0; index < all.length; index++) {
                    bytes += all[index];
                }
            }
            return bytes;
        }

        /** What tasks took to compute it. */
        long milliseconds(Times times) {
            if (stage instanceof ShuffleQueryStageExec) {
                return times.of(((ShuffleExchangeLike) stage.plan()).shuffleId());
            }
            long all = 0;
            String[] names = new String[] {"collectTime", "buildTime", "broadcastTime"};
            for (int index = 0; index < names.length; index++) {
                Option metric = stage.plan().metrics().get(names[index]);
                if (metric.isDefined()) {
                    all += ((Long) ((AccumulatorV2) metric.get()).value()).longValue();
                }
            }
            return all;
        }

        /** Counts how long it took to run with all below it, but for what has been counted. */
        void addTo(Query query, Times times, Set counted) {
            long all = stage instanceof ShuffleQueryStageExec ? 0 : milliseconds(times);
            query.took += all;
            query.spent += all;
            java.util.ArrayDeque waiting = new java.util.ArrayDeque();
            waiting.push(stage.plan());
            while (!waiting.isEmpty()) {
                SparkPlan node = (SparkPlan) waiting.pop();
                if (node instanceof ReusedExchangeExec) {
                    waiting.push(((ReusedExchangeExec) node).child());
                }
                if (node instanceof ShuffleExchangeLike) {
                    Integer shuffle = Integer.valueOf(((ShuffleExchangeLike) node).shuffleId());
                    if (counted.add(shuffle)) {
                        query.took += times.elapsed(shuffle);
                        query.spent += times.of(shuffle.intValue());
                    }
                }
                pushRun(node, waiting);
            }
        }

        void isUsed() {
            references = references + ',' + System.currentTimeMillis();
        }
    }

    /** How long the map tasks of shuffles have taken, added up, and how long they ran. */
    public static final class Times extends SparkListener {
        final Map byShuffle = Collections.synchronizedMap(new Bounded());

        public void onStageCompleted(SparkListenerStageCompleted event) {
            StageInfo stage = event.stageInfo();
            if (stage.shuffleDepId().isDefined() && stage.taskMetrics() != null) {
                long ran = 0;
                if (stage.completionTime().isDefined() && stage.submissionTime().isDefined()) {
                    ran = ((Long) stage.completionTime().get()).longValue()
                        - ((Long) stage.submissionTime().get()).longValue();
                }
                byShuffle.put(
                    stage.shuffleDepId().get(),
                    new long[] {stage.taskMetrics().executorRunTime(), ran});
            }
        }

        long of(int shuffle) {
            long[] found = (long[]) byShuffle.get(Integer.valueOf(shuffle));
            return found == null ? 0 : found[0];
        }

        long elapsed(Integer shuffle) {
            long[] found = (long[]) byShuffle.get(shuffle);
            return found == null ? 0 : found[1];
        }
    }

    static final class Bounded extends LinkedHashMap {
        protected boolean removeEldestEntry(Map.Entry eldest) {
            return size() > MOST_TIMES;
        }
    }

    /** Makes queries depend on nothing but their text and the settings they are run under. */
    public static final class Fresh extends Rule {
        final LiveShuffles shuffles;

        Fresh(LiveShuffles shuffles) {
            this.shuffles = shuffles;
        }

        public TreeNode apply(TreeNode node) {
            if (!(node instanceof LogicalPlan) || shuffles.alone.get() != null) {
                return node;
            }
            LogicalPlan plan = (LogicalPlan) node;
            if (plan.isStreaming()) {
                return plan;
            }
            try {
                LogicalPlan copy = plan instanceof Command ? command(plan) : copied(plan);
                copy.setTagValue(FRESH, "");
                return copy;
            } catch (RuntimeException error) {
                // It runs as it is, and nothing of it is held.
                return plan;
            } catch (StackOverflowError error) {
                return plan;
            }
        }

        LogicalPlan copied(LogicalPlan plan) {
            return (LogicalPlan) shuffles.copied.apply(plan, shuffles.session);
        }

        /** A command, with copies of what it runs. */
        LogicalPlan command(LogicalPlan plan) {
            if (plan instanceof RowLevelWrite || plan.children().isEmpty()) {
                throw new IllegalArgumentException("what it runs is not all below it");
            }
            List queries = new ArrayList();
            Iterator each = plan.children().iterator();
            while (each.hasNext()) {
                queries.add(copied((LogicalPlan) each.next()));
            }
            Seq children = CollectionConverters.asScala(queries).toSeq();
            LogicalPlan command = (LogicalPlan) plan.withNewChildren(children);
            command.setAnalyzed();
            return command;
        }
    }

    /** Where Spark asks for rules when a query's plan has been made, and when a stage has. */
    public static final class Hook extends ColumnarRule {
        final Planned planned;

        Hook(Planned planned) {
            this.planned = planned;
        }

        public Rule preColumnarTransitions() {
            return planned;
        }
    }

    /** Looks at what has been planned, and leaves it as it is. */
    public static final class Planned extends Rule {
        final LiveShuffles shuffles;

        Planned(LiveShuffles shuffles) {
            this.shuffles = shuffles;
        }

        public TreeNode apply(TreeNode node) {
            try {
                if (node instanceof Exchange) {
                    node.setTagValue(SET, shuffles.set());
                }
                TreeNode plan = adaptive(node);
                if (plan instanceof AdaptiveSparkPlanExec) {
                    shuffles.planned((AdaptiveSparkPlanExec) plan);
                }
            } catch (Exception error) {
                // A query that is not looked at runs as it is.
                shuffles.failed(error);
            } catch (StackOverflowError error) {
                shuffles.failed(error);
            }
            return node;
        }
    }
}
