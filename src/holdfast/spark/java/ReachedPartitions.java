package holdfast;

import java.lang.reflect.Constructor;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.EliminateView$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.AttributeMap;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification$;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding$;
import org.apache.spark.sql.catalyst.optimizer.EliminateOuterJoin$;
import org.apache.spark.sql.catalyst.optimizer.InferFiltersFromConstraints$;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.optimizer.OptimizeIn$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression$;
import org.apache.spark.sql.catalyst.optimizer.SimplifyCasts$;
import org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison$;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation$;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions$;
import scala.Function1;
import scala.Option;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;
import scala.runtime.AbstractPartialFunction;

/**
 * Lists those partitions of a catalog's tables that a plan can reach, as Spark does when it runs
 * the plan: it lists the same then, and nothing again.
 *
 * A part that is cached lists what that part alone can reach, regardless of conditions of a query above
 * it, and lists that once, until one of Spark's commands changes its tables or a file is another.
 */
public final class ReachedPartitions implements BiFunction {
    static final int MOST_ROUNDS = 10;
    static final String SPARKS = "spark's";
    static final String BETWEEN = "\0";
    static final String HIVES_RULE =
            "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions";
    static final Rule[] ONCE = {
        EliminateSubqueryAliases$.MODULE$,
        EliminateView$.MODULE$,
        ComputeCurrentTime$.MODULE$,
        ReplaceExpressions$.MODULE$,
        RewriteWithExpression$.MODULE$
    };
    static final AttributeMap NO_COLUMNS =
            (AttributeMap) AttributeMap$.MODULE$.apply((Seq) Nil$.MODULE$);
    /** They bring conditions down to the leaves, and neither merge, nor move, nor drop any. */
    static final Rule[] REPEATED = {
        PushDownPredicates$.MODULE$,
        EliminateOuterJoin$.MODULE$,
        ConstantFolding$.MODULE$,
        BooleanSimplification$.MODULE$,
        SimplifyCasts$.MODULE$,
        UnwrapCastInBinaryComparison$.MODULE$,
        OptimizeIn$.MODULE$
    };

    final Function stored;
    final Function fileTags;
    final BiFunction changes;
    final BiFunction hive;
    final Rule inlines;

    /**
     * @param stored says which plans are cached, see `CacheEntries`; may be null
     * @param fileTags distinguishes versions of a listed file, beside length and time
     * @param changes gives the first of listed files that is not as it was listed, see `FileVersions`
     * @param hive lists what is read by a SerDe, see `HiveFiles`
     */
    public ReachedPartitions(
            Function stored, Function fileTags, BiFunction changes, BiFunction hive)
            throws Exception {
        this.stored = stored;
        this.fileTags = fileTags;
        this.changes = changes;
        this.hive = hive;
        // Versions of Spark differ in how many more cases it can be asked to inline.
        Constructor inline = InlineCTE.class.getConstructors()[0];
        Object[] no = new Object[inline.getParameterCount()];
        Arrays.fill(no, Boolean.FALSE);
        this.inlines = (Rule) inline.newInstance(no);
    }

    /**
     * The plan over listed files, and a map from the nodes that are others for that to those of the
     * plan. What Spark has cached itself, and what can't be listed, stays as it is.
     */
    public Object apply(Object plan, Object session) {
        Option active = SparkSession.getActiveSession();
        SparkSession.setActiveSession((SparkSession) session);
        try {
            Listing listing = new Listing(this, (SparkSession) session);
            return new Object[] {listing.region((LogicalPlan) plan), listing.originals};
        } catch (StackOverflowError tooDeep) {
            return new Object[] {plan, new IdentityHashMap()};
        } finally {
            if (active.isDefined()) {
                SparkSession.setActiveSession((SparkSession) active.get());
            } else {
                SparkSession.clearActiveSession();
            }
        }
    }

    /** Whether the files of a plan's tables are there as they were listed. */
    boolean isThere(List tables, SparkSession session) {
        StringBuilder files = new StringBuilder();
        java.util.Iterator each = tables.iterator();
        while (each.hasNext()) {
            List listed = listed((LogicalPlan) each.next());
            if (listed == null) {
                return false;
            }
            java.util.Iterator file = listed.iterator();
            while (file.hasNext()) {
                Object next = file.next();
                files.append(files.length() == 0 ? "" : BETWEEN);
                if (next instanceof FileStatus) {
                    FileStatus status = (FileStatus) next;
                    files.append(status.getPath());
                    files.append(BETWEEN).append(status.getLen());
                    files.append(BETWEEN).append(status.getModificationTime());
                    files.append(BETWEEN).append(fileTags.apply(status));
                } else {
                    String[] directory = (String[]) next;
                    files.append(directory[0]).append(BETWEEN).append(0);
                    files.append(BETWEEN).append(0).append(BETWEEN).append(directory[1]);
                }
            }
        }
        Object hadoop = session.sessionState().newHadoopConf();
        return files.length() == 0 || "".equals(changes.apply(files.toString(), hadoop));
    }

    /** The files, and directories, that a leaf has listed; null where it hasn't. */
    static List listed(LogicalPlan leaf) {
        if (leaf instanceof ListedTable) {
            return (List) ((Object[]) ((ListedTable) leaf).get())[1];
        }
        if (isTable(leaf) || !(files(leaf).location() instanceof InMemoryFileIndex)) {
            return null;
        }
        Seq all = ((InMemoryFileIndex) files(leaf).location()).allFiles().toSeq();
        return CollectionConverters.asJava(all);
    }

    static HadoopFsRelation files(LogicalPlan leaf) {
        return (HadoopFsRelation) ((LogicalRelation) leaf).relation();
    }

    static boolean isTable(LogicalPlan node) {
        if (node instanceof HiveTableRelation) {
            return !(node instanceof ListedTable);
        }
        return node instanceof LogicalRelation
                && ((LogicalRelation) node).relation() instanceof HadoopFsRelation
                && files(node).location() instanceof CatalogFileIndex;
    }

    /** Has a session know how to run what is listed of Hive's tables. */
    public static synchronized void extend(SparkSession session) {
        Seq strategies = session.experimental().extraStrategies();
        for (Iterator each = strategies.iterator(); each.hasNext(); ) {
            if (each.next() instanceof ListedScans) {
                return;
            }
        }
        session.experimental().extraStrategies_$eq((Seq) strategies.appended(new ListedScans()));
    }

    static LogicalRelation over(FileIndex listed, LogicalRelation leaf, Option table) {
        HadoopFsRelation files = files(leaf);
        HadoopFsRelation made =
                new HadoopFsRelation(
                        listed,
                        files.partitionSchema(),
                        files.dataSchema(),
                        files.bucketSpec(),
                        files.fileFormat(),
                        files.options(),
                        files.sparkSession());
        LogicalRelation over =
                new LogicalRelation(made, leaf.output(), table, leaf.isStreaming(), leaf.stream());
        over.copyTagsFrom(leaf);
        return over;
    }

    LogicalPlan optimized(LogicalPlan plan, Rule prunes) {
        // Rules leave marks in the nodes that they don't change.
        LogicalPlan made = applied(ONCE, (LogicalPlan) inlines.apply(plan.clone()));
        made = settled((LogicalPlan) InferFiltersFromConstraints$.MODULE$.apply(settled(made)));
        made = (LogicalPlan) PruneFileSourcePartitions$.MODULE$.apply(made);
        return prunes == null ? made : (LogicalPlan) prunes.apply(made);
    }

    /** Spark's rule for tables that are read by a SerDe. */
    static Rule hivesRule(SparkSession session) throws Exception {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        Class rule = Class.forName(HIVES_RULE, true, loader);
        return (Rule) rule.getConstructors()[0].newInstance(new Object[] {session});
    }

    static LogicalPlan settled(LogicalPlan plan) {
        for (int round = 0; round < MOST_ROUNDS; round++) {
            LogicalPlan made = applied(REPEATED, plan);
            if (made.fastEquals(plan)) {
                break;
            }
            plan = made;
        }
        return plan;
    }

    static LogicalPlan applied(Rule[] rules, LogicalPlan plan) {
        for (int each = 0; each < rules.length; each++) {
            plan = (LogicalPlan) rules[each].apply(plan);
        }
        return plan;
    }

    /** One plan while its tables are listed. */
    static final class Listing {
        final ReachedPartitions with;
        final SparkSession session;
        final Map originals = new IdentityHashMap();
        final Map regions = new IdentityHashMap();
        final Map stored = new IdentityHashMap();

        Listing(ReachedPartitions with, SparkSession session) {
            this.with = with;
            this.session = session;
        }

        /** A plan whose tables list what it reaches, regardless of what is above it. */
        LogicalPlan region(LogicalPlan root) {
            LogicalPlan made = (LogicalPlan) regions.get(root);
            if (made == null) {
                made = listed(root);
                regions.put(root, made);
            }
            return made;
        }

        LogicalPlan listed(LogicalPlan root) {
            AtomicReference known = cached(root);
            Region region = new Region(this, known != null);
            LogicalPlan made = region.rebuilt(root, true);
            if (region.tables.isEmpty()) {
                return made;
            }
            // Of what Spark has cached below, the tables are not among those that are listed.
            boolean isWhole = known != null && !region.isOfSparks;
            List now = isWhole ? (List) known.get() : null;
            if (now == null || !with.isThere(now, session)) {
                now = region.list(made);
                // The same query may have its subqueries in another order.
                if (isWhole && region.subqueries.isEmpty()) {
                    known.set(now);
                }
            }
            region.listed = now.iterator();
            region.subqueries.clear();
            return region.rebuilt(root, true);
        }

        /** What is said of a plan, the same for as long as tables are listed. */
        Object stored(LogicalPlan plan) {
            if (!stored.containsKey(plan)) {
                stored.put(plan, with.stored == null ? null : with.stored.apply(plan));
            }
            return stored.get(plan);
        }

        /** What a plan has listed that is cached; null for any other plan. */
        AtomicReference cached(LogicalPlan plan) {
            Object stored = stored(plan);
            return stored instanceof AtomicReference ? (AtomicReference) stored : null;
        }
    }

    /** The part of a plan that is optimized as one, without what is cached below. */
    static final class Region {
        final Listing listing;
        final boolean isCached;
        final List tables = new ArrayList();
        final Map subqueries = new IdentityHashMap();
        boolean isOfSparks = false;
        java.util.Iterator listed;

        Region(Listing listing, boolean isCached) {
            this.listing = listing;
            this.isCached = isCached;
        }

        /** The plan over a `Table` for each place that one is read in, or over what has been listed. */
        LogicalPlan rebuilt(LogicalPlan node, boolean isRoot) {
            Object stored = listing.stored(node);
            if (SPARKS.equals(stored)) {
                isOfSparks = true;
                return node;
            }
            if (stored != null && !isRoot && !isCached) {
                return listing.region(node);
            }
            LogicalPlan made = isTable(node) ? leaf(node) : withParts(node);
            if (made != node) {
                if (node.analyzed()) {
                    made.setAnalyzed();
                }
                listing.originals.put(made, node);
            }
            return made;
        }

        LogicalPlan withParts(LogicalPlan node) {
            LogicalPlan made = node;
            boolean isChanged = false;
            List below = new ArrayList();
            Iterator children = node.children().iterator();
            while (children.hasNext()) {
                LogicalPlan child = (LogicalPlan) children.next();
                below.add(rebuilt(child, false));
                isChanged = isChanged || below.get(below.size() - 1) != child;
            }
            if (isChanged) {
                Seq all = CollectionConverters.asScala(below).toSeq();
                made = (LogicalPlan) node.withNewChildren(all);
            }
            return made.subqueries().isEmpty()
                    ? made
                    : (LogicalPlan) made.transformExpressions(new Subqueries(this));
        }

        LogicalPlan leaf(LogicalPlan leaf) {
            if (listed == null) {
                Place place =
                        leaf instanceof HiveTableRelation
                                ? (Place) new HiveTable((HiveTableRelation) leaf, listing)
                                : new Table((LogicalRelation) leaf, isCached);
                tables.add(place);
                return place.standIn();
            }
            LogicalPlan known = (LogicalPlan) listed.next();
            if (isTable(known)) {
                return leaf;
            }
            if (known instanceof ListedTable) {
                extend(listing.session);
                return ((ListedTable) known).over((HiveTableRelation) leaf);
            }
            LogicalRelation files = (LogicalRelation) known;
            return over(files(files).location(), (LogicalRelation) leaf, files.catalogTable());
        }

        /** Of each table a leaf over what is listed for it. */
        List list(LogicalPlan plan) {
            Map leaves = new IdentityHashMap();
            addLeaves(plan, leaves);
            java.util.Iterator subquery = subqueries.values().iterator();
            while (subquery.hasNext()) {
                addLeaves((LogicalPlan) ((PlanExpression) subquery.next()).plan(), leaves);
            }
            List found = new ArrayList();
            java.util.Iterator each = tables.iterator();
            while (each.hasNext()) {
                found.add(((Place) each.next()).listed(leaves));
            }
            return found;
        }

        /** Adds the leaves of the optimized plan, by what lists their files. */
        void addLeaves(LogicalPlan plan, Map leaves) {
            // What is above a subquery has other columns, of which nothing is known here.
            if (plan.containsPattern(TreePattern.OUTER_REFERENCE())) {
                return;
            }
            List found = new ArrayList();
            try {
                Rule prunes = null;
                for (int place = 0; place < tables.size() && prunes == null; place++) {
                    prunes = tables.get(place) instanceof HiveTable
                            ? hivesRule(listing.session)
                            : null;
                }
                LogicalPlan optimized = listing.with.optimized(plan, prunes);
                Iterator each = optimized.collectLeaves().iterator();
                while (each.hasNext()) {
                    found.add(each.next());
                }
            } catch (Exception error) {
                // Then Spark lists all of them, or says so.
                return;
            }
            java.util.Iterator each = found.iterator();
            while (each.hasNext()) {
                LogicalPlan leaf = (LogicalPlan) each.next();
                if (leaf instanceof LogicalRelation
                        && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation) {
                    leaves.put(files(leaf).location(), leaf);
                } else if (leaf instanceof HiveTableRelation) {
                    Option stats = ((HiveTableRelation) leaf).tableStats();
                    Object mark = stats.isDefined() ? stats.get() : null;
                    // What stands there twice may reach other partitions each time.
                    leaves.put(mark, leaves.containsKey(mark) ? null : leaf);
                }
            }
        }
    }

    static final class Subqueries extends AbstractPartialFunction {
        final Region region;

        Subqueries(Region region) {
            this.region = region;
        }

        public boolean isDefinedAt(Object expression) {
            return expression instanceof PlanExpression
                    && ((PlanExpression) expression).plan() instanceof LogicalPlan;
        }

        public Object applyOrElse(Object expression, Function1 otherwise) {
            if (!isDefinedAt(expression)) {
                return otherwise.apply(expression);
            }
            Object made = region.subqueries.get(expression);
            if (made == null) {
                PlanExpression subquery = (PlanExpression) expression;
                LogicalPlan plan = (LogicalPlan) subquery.plan();
                LogicalPlan rebuilt = region.rebuilt(plan, false);
                made = rebuilt == plan ? subquery : subquery.withNewPlan((QueryPlan) rebuilt);
                region.subqueries.put(expression, made);
            }
            return made;
        }
    }

    /** A table in one place of a plan. */
    interface Place {
        /** What stands there while the plan is optimized. */
        LogicalPlan standIn();

        /** @param leaves of the optimized plan, see `addLeaves` */
        LogicalPlan listed(Map leaves);
    }

    /** A table whose files one of Spark's own readers reads. */
    static final class Table extends CatalogFileIndex implements Place {
        final LogicalRelation leaf;
        final boolean isCached;
        final List found = new ArrayList();

        Table(LogicalRelation leaf, boolean isCached) {
            super(
                    files(leaf).sparkSession(),
                    ((CatalogFileIndex) files(leaf).location()).table(),
                    files(leaf).location().sizeInBytes());
            this.leaf = leaf;
            this.isCached = isCached;
        }

        public InMemoryFileIndex filterPartitions(Seq filters) {
            // What is cached is not of files that the table's own object may have listed long ago.
            InMemoryFileIndex index =
                    isCached
                            ? super.filterPartitions(filters)
                            : ((CatalogFileIndex) files(leaf).location()).filterPartitions(filters);
            found.add(index);
            return index;
        }

        public LogicalPlan standIn() {
            return ReachedPartitions.over(this, leaf, leaf.catalogTable());
        }

        public LogicalPlan listed(Map leaves) {
            boolean isOne = found.size() == 1 && !leaves.containsKey(this);
            Object pruned = isOne ? leaves.get(found.get(0)) : null;
            if (pruned != null) {
                // As Spark has estimated what is left of it.
                return (LogicalRelation) pruned;
            }
            try {
                Seq none = (Seq) Nil$.MODULE$;
                return ReachedPartitions.over(filterPartitions(none), leaf, leaf.catalogTable());
            } catch (Exception error) {
                // The query fails in the same way, unless nothing reads it.
                return leaf;
            }
        }

        public boolean equals(Object other) {
            return this == other;
        }

        public int hashCode() {
            return System.identityHashCode(this);
        }
    }

    /** A table that Spark reads by a SerDe. */
    static final class HiveTable implements Place {
        final HiveTableRelation leaf;
        final Listing listing;
        final Statistics mark;

        HiveTable(HiveTableRelation leaf, Listing listing) {
            this.leaf = leaf;
            this.listing = listing;
            // The one part of it that each copy has, and that is compared with no other.
            this.mark =
                    new Statistics(
                            new BigInt(BigInteger.ONE), Option.empty(), NO_COLUMNS, false);
        }

        public LogicalPlan standIn() {
            HiveTableRelation made =
                    new HiveTableRelation(
                            leaf.tableMeta(),
                            leaf.dataCols(),
                            leaf.partitionCols(),
                            Option.apply(mark),
                            leaf.prunedPartitions());
            made.copyTagsFrom(leaf);
            return made;
        }

        public LogicalPlan listed(Map leaves) {
            try {
                HiveTableRelation found = (HiveTableRelation) leaves.get(mark);
                if (found == null || found.prunedPartitions().isEmpty()) {
                    found = leaf;
                }
                Seq partitions = null;
                if (!leaf.partitionCols().isEmpty()) {
                    partitions =
                            (Seq)
                                    (found.prunedPartitions().isDefined()
                                            ? found.prunedPartitions().get()
                                            : listing.session.sessionState().catalog().listPartitions(
                                                    leaf.tableMeta().identifier(), Option.empty()));
                }
                Object[] reached = {partitions, listing.session};
                Object[] files = (Object[]) listing.with.hive.apply(leaf, reached);
                return new ListedTable(
                        found.tableMeta(),
                        leaf.dataCols(),
                        leaf.partitionCols(),
                        leaf.tableStats(),
                        Option.empty(),
                        new Object[] {files, partitions});
            } catch (Exception error) {
                // The query fails in the same way, unless nothing reads it.
                return leaf;
            }
        }
    }

    /** A table that is read by a SerDe, with those of its partitions that have been listed. */
    public static final class ListedTable extends HiveTableRelation implements Supplier {
        final Object listing;

        /** @param listing what `HiveFiles` says, and the partitions, or null */
        public ListedTable(
                CatalogTable tableMeta,
                Seq dataCols,
                Seq partitionCols,
                Option tableStats,
                Option prunedPartitions,
                Object listing) {
            super(tableMeta, dataCols, partitionCols, tableStats, prunedPartitions);
            this.listing = listing;
        }

        /** What `HiveFiles` says. */
        public Object get() {
            return ((Object[]) listing)[0];
        }

        LogicalPlan over(HiveTableRelation leaf) {
            ListedTable made =
                    new ListedTable(
                            tableMeta(),
                            leaf.dataCols(),
                            leaf.partitionCols(),
                            leaf.tableStats(),
                            Option.empty(),
                            listing);
            made.copyTagsFrom(leaf);
            return made;
        }

        /** The table, of its listed partitions those that meet conditions. */
        HiveTableRelation plain(Seq conditions, SparkSession session) {
            Seq partitions = (Seq) ((Object[]) listing)[1];
            if (partitions != null) {
                AttributeSet columns = AttributeSet$.MODULE$.apply(partitionCols());
                List all = new ArrayList();
                for (Iterator each = conditions.iterator(); each.hasNext(); ) {
                    Expression one = (Expression) each.next();
                    boolean isOfPartitions =
                            one.deterministic()
                                    && !one.references().isEmpty()
                                    && one.references().subsetOf(columns)
                                    && !one.containsPattern(TreePattern.PLAN_EXPRESSION());
                    if (isOfPartitions) {
                        all.add(one);
                    }
                }
                Seq kept = CollectionConverters.asScala(all).toSeq();
                // A column may be written in other letters than it has in the catalog.
                kept = DataSourceStrategy$.MODULE$.normalizeExprs(kept, output());
                partitions =
                        (Seq)
                                ExternalCatalogUtils.prunePartitionsByFilter(
                                        tableMeta(),
                                        partitions,
                                        kept,
                                        session.sessionState().conf().sessionLocalTimeZone());
            }
            return new HiveTableRelation(
                    tableMeta(),
                    dataCols(),
                    partitionCols(),
                    tableStats(),
                    Option.apply(partitions));
        }

        /** Nothing of Spark's prunes it, or runs it without its conditions. */
        public boolean isPartitioned() {
            return false;
        }

        public Seq otherCopyArgs() {
            List other = new ArrayList();
            other.add(listing);
            return CollectionConverters.asScala(other).toSeq();
        }

        public boolean canEqual(Object other) {
            return other instanceof ListedTable;
        }

        public boolean equals(Object other) {
            return other instanceof ListedTable
                    && ((ListedTable) other).listing == listing
                    && super.equals(other);
        }

        public int hashCode() {
            return super.hashCode();
        }
    }

    /**
     * Has Spark read the listed partitions, less those that a condition leaves out: its own reader
     * takes those that a plan has for the ones that meet all conditions.
     */
    static final class ListedScans extends SparkStrategy {
        public Seq apply(LogicalPlan plan) {
            Option parts = PhysicalOperation$.MODULE$.unapply(plan);
            Object leaf = parts.isEmpty() ? null : ((Tuple3) parts.get())._3();
            if (!(leaf instanceof ListedTable)) {
                return (Seq) (Object) Nil$.MODULE$;
            }
            SparkSession session = (SparkSession) SparkSession.getActiveSession().get();
            Seq conditions = (Seq) ((Tuple3) parts.get())._2();
            LogicalPlan table = ((ListedTable) leaf).plain(conditions, session);
            List plans = new ArrayList();
            plans.add(
                    session.sessionState().planner().plan(over(plan, leaf, table)).next());
            return CollectionConverters.asScala(plans).toSeq();
        }

        static LogicalPlan over(LogicalPlan plan, Object leaf, LogicalPlan table) {
            if (plan == leaf) {
                return table;
            }
            List below = new ArrayList();
            below.add(over((LogicalPlan) plan.children().head(), leaf, table));
            return (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(below).toSeq());
        }
    }
}
