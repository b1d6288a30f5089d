package holdfast;

import com.google.common.collect.MapMaker;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.EliminateView$;
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
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions$;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Lists those partitions of a catalog's tables that a plan can reach, as Spark does when it runs
 * the plan: it lists the same then, and nothing again.
 *
 * What a query shares with others has its files for itself: a part that is cached lists what that
 * part alone can reach, whatever conditions the query has above it.
 */
public final class ReachedPartitions implements BiFunction {
    static final int MOST_ROUNDS = 10;
    static final String OURS = "ours";
    static final String SPARKS = "spark's";
    static final Rule[] ONCE = {
        EliminateSubqueryAliases$.MODULE$,
        EliminateView$.MODULE$,
        ComputeCurrentTime$.MODULE$,
        ReplaceExpressions$.MODULE$,
        RewriteWithExpression$.MODULE$
    };
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
    final Map moves;
    final Rule inlines;
    // By the very object: of each, at which move its listing is.
    final Map listedAt = new MapMaker().weakKeys().makeMap();

    /**
     * @param stored from a plan to `OURS` or `SPARKS`, if it is cached as a whole;
     *     may be null
     * @param moves by name, of tables that commands have changed: another object each time
     */
    public ReachedPartitions(Function stored, Map moves) throws Exception {
        this.stored = stored;
        this.moves = moves;
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
            Listing listing = new Listing(this);
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

    InMemoryFileIndex listed(CatalogFileIndex table, Seq filters) {
        Object moved = moves.get(table.table().identifier().unquotedString());
        if (moved != null && moved != listedAt.put(table, moved)) {
            // Each object remembers the files that it has listed.
            table.refresh();
        }
        return table.filterPartitions(filters);
    }

    static HadoopFsRelation files(LogicalPlan leaf) {
        return (HadoopFsRelation) ((LogicalRelation) leaf).relation();
    }

    static boolean isTable(LogicalPlan node) {
        return node instanceof LogicalRelation
                && ((LogicalRelation) node).relation() instanceof HadoopFsRelation
                && files(node).location() instanceof CatalogFileIndex;
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

    LogicalPlan optimized(LogicalPlan plan) {
        // Rules leave marks in the nodes that they don't change.
        LogicalPlan made = applied(ONCE, (LogicalPlan) inlines.apply(plan.clone()));
        made = settled((LogicalPlan) InferFiltersFromConstraints$.MODULE$.apply(settled(made)));
        return (LogicalPlan) PruneFileSourcePartitions$.MODULE$.apply(made);
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
        final Map originals = new IdentityHashMap();
        final Map regions = new IdentityHashMap();
        final Subqueries subqueries = new Subqueries(this);

        Listing(ReachedPartitions with) {
            this.with = with;
        }

        /** A plan whose tables list what it reaches, whatever is above it. */
        LogicalPlan region(LogicalPlan root) {
            LogicalPlan made = (LogicalPlan) regions.get(root);
            if (made == null) {
                Region region = new Region(this, isStored(root, OURS));
                made = region.rebuilt(root, true);
                if (!region.tables.isEmpty()) {
                    region.list(made);
                    made = region.rebuilt(root, true);
                }
                regions.put(root, made);
            }
            return made;
        }

        boolean isStored(LogicalPlan plan, String by) {
            return with.stored != null && by.equals(with.stored.apply(plan));
        }
    }

    static final class Subqueries extends AbstractPartialFunction {
        final Listing listing;
        final Map made = new IdentityHashMap();

        Subqueries(Listing listing) {
            this.listing = listing;
        }

        public boolean isDefinedAt(Object expression) {
            return expression instanceof PlanExpression
                    && ((PlanExpression) expression).plan() instanceof LogicalPlan;
        }

        public Object applyOrElse(Object expression, Function1 otherwise) {
            if (!isDefinedAt(expression)) {
                return otherwise.apply(expression);
            }
            Object known = made.get(expression);
            if (known == null) {
                PlanExpression subquery = (PlanExpression) expression;
                LogicalPlan plan = (LogicalPlan) subquery.plan();
                LogicalPlan listed = listing.region(plan);
                known = listed == plan ? subquery : subquery.withNewPlan((QueryPlan) listed);
                made.put(expression, known);
            }
            return known;
        }
    }

    /** The part of a plan that is optimized as one, without what is cached below. */
    static final class Region {
        final Listing listing;
        final boolean isCached;
        final List tables = new ArrayList();
        java.util.Iterator listed;

        Region(Listing listing, boolean isCached) {
            this.listing = listing;
            this.isCached = isCached;
        }

        /** The plan over its tables, of which each place is told apart, or over what is listed. */
        LogicalPlan rebuilt(LogicalPlan node, boolean isRoot) {
            if (!isRoot && !isCached && listing.isStored(node, OURS)) {
                return listing.region(node);
            }
            if (listing.isStored(node, SPARKS)) {
                return node;
            }
            LogicalPlan made = isTable(node) ? leaf((LogicalRelation) node) : withParts(node);
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
                    : (LogicalPlan) made.transformExpressions(listing.subqueries);
        }

        LogicalPlan leaf(LogicalRelation leaf) {
            if (listed != null) {
                return ((Table) listed.next()).listed;
            }
            Table table = new Table(listing.with, leaf);
            tables.add(table);
            return over(table, leaf, leaf.catalogTable());
        }

        void list(LogicalPlan plan) {
            Map leaves = new IdentityHashMap();
            try {
                // What is above a subquery has other columns, of which nothing is known here.
                if (!plan.containsPattern(TreePattern.OUTER_REFERENCE())) {
                    Iterator each = listing.with.optimized(plan).collectLeaves().iterator();
                    while (each.hasNext()) {
                        LogicalPlan leaf = (LogicalPlan) each.next();
                        if (leaf instanceof LogicalRelation
                                && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation) {
                            leaves.put(files(leaf).location(), leaf);
                        }
                    }
                }
            } catch (Exception error) {
                // Then Spark lists all of them, or says so.
                leaves.clear();
            }
            java.util.Iterator each = tables.iterator();
            while (each.hasNext()) {
                ((Table) each.next()).list(leaves);
            }
            listed = tables.iterator();
        }
    }

    /** A table in one place of a plan. */
    static final class Table extends CatalogFileIndex {
        final ReachedPartitions with;
        final LogicalRelation leaf;
        final CatalogFileIndex files;
        final List found = new ArrayList();
        LogicalRelation listed;

        Table(ReachedPartitions with, LogicalRelation leaf) {
            super(
                    files(leaf).sparkSession(),
                    ((CatalogFileIndex) files(leaf).location()).table(),
                    files(leaf).location().sizeInBytes());
            this.with = with;
            this.leaf = leaf;
            this.files = (CatalogFileIndex) files(leaf).location();
        }

        public InMemoryFileIndex filterPartitions(Seq filters) {
            InMemoryFileIndex index = with.listed(files, filters);
            found.add(index);
            return index;
        }

        /** @param leaves those of the optimized plan, by what lists their files */
        void list(Map leaves) {
            boolean isOne = found.size() == 1 && !leaves.containsKey(this);
            LogicalRelation pruned =
                    isOne ? (LogicalRelation) leaves.get(found.get(0)) : null;
            if (pruned != null) {
                // As Spark has estimated what is left of it.
                listed = over(files(pruned).location(), leaf, pruned.catalogTable());
                return;
            }
            try {
                Seq none = (Seq) Nil$.MODULE$;
                listed = over(with.listed(files, none), leaf, leaf.catalogTable());
            } catch (Exception error) {
                // The query fails in the same way, unless nothing reads it.
                listed = leaf;
            }
        }

        public boolean equals(Object other) {
            return this == other;
        }

        public int hashCode() {
            return System.identityHashCode(this);
        }
    }
}
