package holdfast;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import scala.Option;
import scala.Some;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Copies plans, so that nothing but their text and the settings of a session says what comes out.
 *
 * Expressions hold what they have made of the settings that they first ran under, and relations the
 * session that they were made in.
 */
public final class FreshPlans implements BiFunction {
    final String mark;
    final TreeNodeTag saltTag;
    final Supplier hasCached;

    /**
     * @param mark what no plan of the user's has
     * @param saltTag where the nodes have a salt that match only themselves
     * @param hasCached whether there is anything of Spark's own in its cache; or null
     */
    public FreshPlans(String mark, TreeNodeTag saltTag, Supplier hasCached) {
        this.mark = mark;
        this.hasCached = hasCached;
        this.saltTag = saltTag;
    }

    /** The same plan, with nothing made of settings yet, for a session like the one it is of. */
    public LogicalPlan copied(LogicalPlan plan, SparkSession session) {
        return new Copy(this, null, null, session).of(plan);
    }

    /** `copied` for classes that are compiled by themselves. */
    public Object apply(Object plan, Object session) {
        return copied((LogicalPlan) plan, (SparkSession) session);
    }

    /**
     * The same plan, whose files are read under the settings of a session of its own.
     *
     * @param owner the session that the plan is of
     * @param session the one that is to run it
     */
    public LogicalPlan dealt(LogicalPlan plan, SparkSession owner, SparkSession session) {
        return new Copy(this, null, owner, session).of(plan);
    }

    /**
     * The same plan for a session of its own, of which nothing matches what Spark has cached.
     *
     * What Spark caches it finds again by the paths of files, whatever is in them by now, and
     * whatever settings it ran under. Only what matches nothing but itself is read from there, as
     * another run of it may give other rows than the user has seen.
     *
     * @param owner the session that the plan is of
     * @param session the one that is to run it
     */
    public LogicalPlan detached(LogicalPlan plan, SparkSession owner, SparkSession session) {
        return new Copy(this, owner, owner, session).of(plan);
    }

    /** Whether a part of a plan can be run by itself: it refers to no definition outside of it. */
    public boolean isWhole(LogicalPlan plan) {
        Set defined = new HashSet();
        Set used = new HashSet();
        IdentityHashMap seen = new IdentityHashMap();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(plan);
        while (!waiting.isEmpty()) {
            TreeNode node = (TreeNode) waiting.pop();
            if (seen.put(node, node) != null) {
                continue;
            }
            if (node instanceof CTERelationDef) {
                defined.add(Long.valueOf(((CTERelationDef) node).id()));
            } else if (node instanceof CTERelationRef) {
                used.add(Long.valueOf(((CTERelationRef) node).cteId()));
            } else if (node.getClass().getSimpleName().equals("UnionLoopRef")) {
                return false;
            }
            below(node, waiting);
        }
        return defined.containsAll(used);
    }

    boolean isAnyCached(SparkSession session) {
        return hasCached == null
            ? !session.sharedState().cacheManager().isEmpty()
            : ((Boolean) hasCached.get()).booleanValue();
    }

    Option saltOf(TreeNode node) {
        // As the one who gives it: Spark doesn't guard the tags of a node.
        synchronized (saltTag) {
            return node.getTagValue(saltTag);
        }
    }

    /** Adds the plans and expressions among a node's arguments. */
    static void below(TreeNode node, ArrayDeque found) {
        Iterator arguments = node.productIterator();
        while (arguments.hasNext()) {
            within(arguments.next(), found);
        }
    }

    static void within(Object value, ArrayDeque found) {
        if (value instanceof Expression || value instanceof LogicalPlan) {
            found.push(value);
        } else if (value instanceof Some) {
            within(((Some) value).get(), found);
        } else if (value instanceof Seq) {
            Iterator each = ((Seq) value).iterator();
            while (each.hasNext()) {
                within(each.next(), found);
            }
        } else if (value instanceof Tuple2) {
            within(((Tuple2) value)._1(), found);
            within(((Tuple2) value)._2(), found);
        } else if (value instanceof Map) {
            Iterator each = ((Map) value).valuesIterator();
            while (each.hasNext()) {
                within(each.next(), found);
            }
        }
    }

    /** One copy while it is made. */
    static final class Copy {
        final FreshPlans plans;
        final SparkSession owner;
        final SparkSession reader;
        final SparkSession session;
        final IdentityHashMap done = new IdentityHashMap();
        final IdentityHashMap salted = new IdentityHashMap();
        final IdentityHashMap unmarked = new IdentityHashMap();

        /**
         * @param owner null where nothing is detached
         * @param reader null where files are read under the settings that they are read under
         */
        Copy(FreshPlans plans, SparkSession owner, SparkSession reader, SparkSession session) {
            this.plans = plans;
            this.owner = owner;
            this.reader = reader;
            this.session = session;
        }

        LogicalPlan of(LogicalPlan plan) {
            // Some expressions look at the settings when they are made.
            Option active = SparkSession.getActiveSession();
            SparkSession.setActiveSession(session);
            try {
                if (owner != null && plans.isAnyCached(session)) {
                    findSalted(plan);
                }
                return (LogicalPlan) copied(plan);
            } catch (Exception error) {
                // What PySpark takes for no error of the user's own query.
                throw new IllegalStateException("the plan can't be copied: " + error, error);
            } finally {
                if (active.isDefined()) {
                    SparkSession.setActiveSession((SparkSession) active.get());
                } else {
                    SparkSession.clearActiveSession();
                }
            }
        }

        /** Notes every node that has a salt, or something below it that has. */
        void findSalted(LogicalPlan plan) {
            IdentityHashMap seen = new IdentityHashMap();
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(plan);
            while (!waiting.isEmpty()) {
                TreeNode node = (TreeNode) waiting.peek();
                ArrayDeque below = new ArrayDeque();
                below(node, below);
                if (seen.put(node, node) == null) {
                    java.util.Iterator each = below.iterator();
                    while (each.hasNext()) {
                        waiting.push(each.next());
                    }
                    continue;
                }
                waiting.pop();
                boolean has = plans.saltOf(node).isDefined();
                java.util.Iterator each = below.iterator();
                while (each.hasNext() && !has) {
                    has = salted.containsKey(each.next());
                }
                if (has) {
                    salted.put(node, node);
                }
            }
        }

        TreeNode copied(TreeNode root) {
            // Plans can be deeper than a thread's stack.
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(root);
            while (!waiting.isEmpty()) {
                TreeNode node = (TreeNode) waiting.peek();
                if (done.containsKey(node)) {
                    waiting.pop();
                    continue;
                }
                LogicalPlan seen = salted.containsKey(node) ? asCached(node) : null;
                if (seen != null) {
                    done.put(node, seen);
                    continue;
                }
                if (node instanceof UnaryNode
                        && ((UnaryNode) node).child() instanceof OneRowRelation
                        && node.containsPattern(TreePattern.OUTER_REFERENCE())) {
                    // No query that was cached by itself looks like that, and the optimizer does
                    // without a join where there is nothing below.
                    unmarked.put(((UnaryNode) node).child(), node);
                }
                ArrayDeque below = new ArrayDeque();
                below(node, below);
                boolean ready = true;
                java.util.Iterator each = below.iterator();
                while (each.hasNext()) {
                    Object next = each.next();
                    if (!done.containsKey(next)) {
                        waiting.push(next);
                        ready = false;
                    }
                }
                if (ready) {
                    waiting.pop();
                    done.put(node, made(node));
                }
            }
            return (TreeNode) done.get(root);
        }

        TreeNode made(TreeNode node) {
            boolean isSingle = node.getClass().getName().endsWith("$");
            if (isSingle || node instanceof InMemoryRelation) {
                return node;
            }
            Object[] arguments = new Object[node.productArity()];
            for (int index = 0; index < arguments.length; index++) {
                arguments[index] = argument(node.productElement(index));
            }
            // What has no arguments is copied by no `makeCopy`.
            TreeNode made =
                    (TreeNode) (arguments.length == 0 ? node.clone() : node.makeCopy(arguments));
            if (!(node instanceof LogicalPlan)) {
                return made;
            }
            LogicalPlan plan = (LogicalPlan) made;
            // Another thread may have given the salt while Spark copied the tags.
            Option salt = plans.saltOf(node);
            if (salt.isDefined()) {
                made.setTagValue(plans.saltTag, salt.get());
            }
            check((LogicalPlan) node, plan);
            boolean isLeaf = ((LogicalPlan) node).children().isEmpty();
            if (owner != null && isLeaf && !unmarked.containsKey(node)) {
                plan = unmatched(plan);
            }
            if (((LogicalPlan) node).analyzed()) {
                plan.setAnalyzed();
            }
            return plan;
        }

        Object argument(Object value) {
            if (value instanceof Expression || value instanceof LogicalPlan) {
                return done.get(value);
            }
            if (value instanceof Some) {
                return new Some(argument(((Some) value).get()));
            }
            if (value instanceof Tuple2) {
                return new Tuple2(
                        argument(((Tuple2) value)._1()), argument(((Tuple2) value)._2()));
            }
            ArrayDeque found = new ArrayDeque();
            within(value, found);
            if (found.isEmpty()) {
                return relation(value);
            }
            if (value instanceof Map) {
                Map copy = (Map) value;
                Iterator each = ((Map) value).iterator();
                while (each.hasNext()) {
                    Tuple2 entry = (Tuple2) each.next();
                    copy = (Map) copy.updated(entry._1(), argument(entry._2()));
                }
                return copy;
            }
            List copy = new ArrayList();
            Iterator each = ((Seq) value).iterator();
            while (each.hasNext()) {
                copy.add(argument(each.next()));
            }
            return CollectionConverters.asScala(copy).toSeq();
        }

        /** Files are read under the settings of the session that a relation holds. */
        Object relation(Object value) {
            if (reader == null || !(value instanceof HadoopFsRelation)) {
                return value;
            }
            HadoopFsRelation files = (HadoopFsRelation) value;
            return new HadoopFsRelation(
                    files.location(),
                    files.partitionSchema(),
                    files.dataSchema(),
                    files.bucketSpec(),
                    files.fileFormat(),
                    owner == null ? files.options() : (Map) files.options().updated(plans.mark, "true"),
                    files.sparkSession() == reader ? session : files.sparkSession());
        }

        /** A leaf that Spark's cache has not seen; the optimizer takes out what is added to it. */
        LogicalPlan unmatched(LogicalPlan leaf) {
            String name = leaf.getClass().getSimpleName();
            boolean isMarked =
                    leaf instanceof LogicalRelation
                            && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
            if (isMarked || name.equals("CTERelationRef") || name.equals("UnionLoopRef")) {
                return leaf;
            }
            Expression same = Literal$.MODULE$.apply(plans.mark);
            Expression again = Literal$.MODULE$.apply(plans.mark);
            Filter filter = new Filter(new EqualNullSafe(same, again), leaf);
            leaf.setAnalyzed();
            return filter;
        }

        /** What Spark has cached of a node, if it read the files that the node has listed. */
        LogicalPlan asCached(TreeNode node) {
            if (!(node instanceof LogicalPlan)) {
                return null;
            }
            LogicalPlan plan = (LogicalPlan) node;
            // The owner would look at the plan by its own rules, ours among them.
            Option found = session.sharedState().cacheManager().lookupCachedData(session, plan);
            if (found.isEmpty()) {
                return null;
            }
            CachedData cached = (CachedData) found.get();
            if (!files(plan).equals(files(cached.plan()))) {
                return null;
            }
            LogicalPlan rows = cached.cachedRepresentation().withOutput(plan.output());
            rows.setAnalyzed();
            return rows;
        }

        /** Every version of a file that a plan reads. */
        Set files(LogicalPlan plan) {
            Set files = new HashSet();
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(plan);
            while (!waiting.isEmpty()) {
                TreeNode node = (TreeNode) waiting.pop();
                below(node, waiting);
                if (!(node instanceof LogicalRelation)
                        || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) {
                    continue;
                }
                Object index = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
                if (index instanceof PartitioningAwareFileIndex) {
                    Iterator each = ((PartitioningAwareFileIndex) index).allFiles().iterator();
                    while (each.hasNext()) {
                        FileStatus file = (FileStatus) each.next();
                        files.add(
                                file.getPath()
                                        + " "
                                        + file.getLen()
                                        + " "
                                        + file.getModificationTime());
                    }
                }
            }
            return files;
        }

        /** Types may follow from settings as well, and what is above has been made for these. */
        void check(LogicalPlan plan, LogicalPlan copy) {
            Iterator columns = plan.output().iterator();
            Iterator copies = copy.output().iterator();
            while (columns.hasNext() && copies.hasNext()) {
                Attribute column = (Attribute) columns.next();
                Attribute other = (Attribute) copies.next();
                boolean isNewlyNull = other.nullable() && !column.nullable();
                if (!column.dataType().equals(other.dataType()) || isNewlyNull) {
                    throw new IllegalStateException(
                            "the column "
                                    + column.name()
                                    + " has another type under other settings: "
                                    + column.dataType().sql()
                                    + " or "
                                    + other.dataType().sql());
                }
            }
            if (columns.hasNext() || copies.hasNext()) {
                throw new IllegalStateException("it has other columns under other settings");
            }
        }
    }
}
