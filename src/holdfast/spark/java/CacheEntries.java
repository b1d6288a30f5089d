package holdfast;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.storage.StorageLevel;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * What Holdfast caches, as entries of Spark's cache: no query matches them, so that they are never
 * loaded, and Spark's commands refresh, renew and remove them as they do with all others.
 */
public final class CacheEntries implements Supplier, Function {
    static final String MARK = "holdfast.cached ";
    static final String SPARKS = "spark's";
    static final Object NOT_SEEN = new Object();

    final CacheManager cache;
    final Field field;
    final Map entries = new HashMap();
    final Map plans = new HashMap();
    final Map changes = new HashMap();
    // By key, of plans whose files Spark lists when they run: each, and what is listed for it.
    final Map ofTables = new ConcurrentHashMap();
    Object seen;
    // For which state of Spark's cache the tables are known that its commands have changed.
    Object compared;
    Set changed = new HashSet();

    /** @param session any session */
    public CacheEntries(SparkSession session) throws Exception {
        this.cache = session.sharedState().cacheManager();
        this.field = CacheManager.class.getDeclaredField("cachedData");
        this.field.setAccessible(true);
    }

    /** Whether Spark's cache has an entry that is not one of these. */
    public Object get() {
        scala.collection.Iterator each = all().iterator();
        while (each.hasNext()) {
            if (keyOf(((CachedData) each.next()).plan()) == null) {
                return Boolean.TRUE;
            }
        }
        return Boolean.FALSE;
    }

    /**
     * Of a plan that is cached here and reads a catalog's tables an `AtomicReference` for what is
     * listed for it, which is another one once Spark's commands have changed one of its tables; of
     * one that Spark has cached itself `SPARKS`; else null.
     */
    public Object apply(Object plan) {
        LogicalPlan node = (LogicalPlan) plan;
        Object listed = listed(node);
        if (listed != null) {
            return listed;
        }
        scala.collection.Iterator each = all().iterator();
        while (each.hasNext()) {
            LogicalPlan cached = ((CachedData) each.next()).plan();
            if (isSame(node, cached) && keyOf(cached) == null) {
                return SPARKS;
            }
        }
        return null;
    }

    Object listed(LogicalPlan plan) {
        LogicalPlan bare = bare(plan);
        Iterator each = ofTables.values().iterator();
        while (each.hasNext()) {
            Object[] known = (Object[]) each.next();
            if (isSame(bare, bare((LogicalPlan) known[0]))) {
                // It is listed again each time, until the one looks that has cached it.
                Set tables = changedTables();
                return !tables.isEmpty() && tables((LogicalPlan) known[0]).removeAll(tables)
                        ? new AtomicReference()
                        : known[1];
            }
        }
        return null;
    }

    /** The tables that Spark's commands have changed since `look`. */
    synchronized Set changedTables() {
        Object now = all();
        if (now != seen && now != compared) {
            compared = now;
            changed = new HashSet();
            Map found = found("");
            Iterator each = plans.keySet().iterator();
            while (each.hasNext()) {
                String key = (String) each.next();
                if (found.get(key) != entries.get(key)) {
                    changed.addAll(tables((LogicalPlan) plans.get(key)));
                }
            }
        }
        return now == seen ? Collections.EMPTY_SET : changed;
    }

    /** The part of a plan that has all of its rows and columns, perhaps in another order. */
    static LogicalPlan bare(LogicalPlan plan) {
        while (plan instanceof SubqueryAlias || plan instanceof View || choosesAll(plan)) {
            plan = (LogicalPlan) plan.children().head();
        }
        return plan;
    }

    static boolean choosesAll(LogicalPlan plan) {
        if (!(plan instanceof Project)) {
            return false;
        }
        scala.collection.Iterator each = ((Project) plan).projectList().iterator();
        while (each.hasNext()) {
            if (!(each.next() instanceof AttributeReference)) {
                return false;
            }
        }
        LogicalPlan below = (LogicalPlan) plan.children().head();
        return plan.output().size() == below.output().size()
                && plan.outputSet().equals(below.outputSet());
    }

    static boolean isSame(LogicalPlan plan, LogicalPlan other) {
        return plan.getClass() == other.getClass() && plan.sameResult(other);
    }

    /** A plan that is going to be cached is read as one that is. */
    public void watch(String key, LogicalPlan plan) {
        if (!tables(plan).isEmpty()) {
            Object listed = listed(plan);
            Object kept = listed == null ? new AtomicReference() : listed;
            ofTables.put(key, new Object[] {plan, kept});
        }
    }

    /** The end of `watch`. */
    public void unwatch(String key) {
        ofTables.remove(key);
    }

    /** Adds an entry. */
    public void add(SparkSession session, String key, LogicalPlan plan) {
        StorageLevel level = StorageLevel.MEMORY_AND_DISK();
        watch(key, plan);
        cache.cacheQuery(session, marked(plan, MARK + key), Option.empty(), level);
        synchronized (this) {
            Object entry = found(key).get(key);
            plans.put(key, plan);
            // Another thread's command may have removed it already, which is to be said then.
            entries.put(key, entry == null ? NOT_SEEN : entry);
            refresh(plan);
            // Once it is gone, the cache may be the very object that it was without it.
            seen = null;
        }
    }

    /** Removes an entry, if it is there. */
    public void remove(SparkSession session, String key) {
        LogicalPlan plan;
        synchronized (this) {
            plan = (LogicalPlan) plans.remove(key);
            entries.remove(key);
            changes.remove(key);
            ofTables.remove(key);
        }
        if (plan != null) {
            cache.uncacheQuery(session, marked(plan, MARK + key), false, false);
        }
    }

    /** The plan of an entry as it is now. */
    public synchronized LogicalPlan plan(String key) {
        return (LogicalPlan) plans.get(key);
    }

    /**
     * What Spark has done since the last time that it was asked for: the key of each entry that was
     * cached again behind a plus sign, of each that is gone behind a minus sign, a line each.
     *
     * @param owner what the keys begin with that this is about
     */
    public synchronized String changed(String owner) {
        Object now = all();
        if (now != seen) {
            seen = now;
            look();
        }
        StringBuilder lines = new StringBuilder();
        Iterator each = changes.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry change = (Map.Entry) each.next();
            if (((String) change.getKey()).startsWith(owner)) {
                lines.append(change.getValue()).append(change.getKey()).append('\n');
                each.remove();
            }
        }
        return lines.toString();
    }

    void look() {
        compared = null;
        Map found = found("");
        Set stale = new HashSet();
        Iterator each = plans.keySet().iterator();
        while (each.hasNext()) {
            String key = (String) each.next();
            CachedData entry = (CachedData) found.get(key);
            Object before = entries.put(key, entry);
            if (entry == before) {
                continue;
            }
            stale.addAll(tables((LogicalPlan) plans.get(key)));
            changes.put(key, entry == null ? "-" : "+");
            if (entry != null
                    && before instanceof CachedData
                    && entry.plan() != ((CachedData) before).plan()) {
                plans.put(key, unmarked(entry.plan()));
            }
        }
        // Of what reads one of these tables, nothing is as it was.
        each = ofTables.values().iterator();
        while (each.hasNext()) {
            if (tables((LogicalPlan) ((Object[]) each.next())[0]).removeAll(stale)) {
                each.remove();
            }
        }
        each = plans.keySet().iterator();
        while (each.hasNext()) {
            String key = (String) each.next();
            LogicalPlan plan = (LogicalPlan) plans.get(key);
            if (entries.get(key) != null && tables(plan).removeAll(stale)) {
                watch(key, plan);
                refresh(plan);
                changes.put(key, "+");
            }
        }
    }

    Seq all() {
        try {
            return (Seq) field.get(cache);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The entries that are in Spark's cache, and whose keys begin so. */
    Map found(String start) {
        Map found = new HashMap();
        scala.collection.Iterator each = all().iterator();
        while (each.hasNext()) {
            CachedData entry = (CachedData) each.next();
            String key = keyOf(entry.plan());
            if (key != null && key.startsWith(start)) {
                found.put(key, entry);
            }
        }
        return found;
    }

    /** The tables below a plan whose files are listed when a query runs. */
    static Set tables(LogicalPlan plan) {
        Set found = new HashSet();
        Iterator each = relations(plan).iterator();
        while (each.hasNext()) {
            Object relation = each.next();
            CatalogFileIndex files = files(relation);
            if (files != null) {
                found.add(files.table().identifier().unquotedString());
            } else if (relation instanceof HiveTableRelation) {
                CatalogTable table = ((HiveTableRelation) relation).tableMeta();
                found.add(table.identifier().unquotedString());
            }
        }
        return found;
    }

    /** What is listed is remembered by each plan: it lists what is there now when it runs next. */
    static void refresh(LogicalPlan plan) {
        Iterator each = relations(plan).iterator();
        while (each.hasNext()) {
            CatalogFileIndex files = files(each.next());
            if (files != null) {
                files.refresh();
            }
        }
    }

    /** What lists a relation's files when a query runs; null where nothing of Spark's does. */
    static CatalogFileIndex files(Object relation) {
        Object files =
                relation instanceof LogicalRelation
                        ? ((HadoopFsRelation) ((LogicalRelation) relation).relation()).location()
                        : null;
        return files instanceof CatalogFileIndex ? (CatalogFileIndex) files : null;
    }

    static List relations(LogicalPlan plan) {
        List found = ofSubqueries(plan);
        addRelations(found, plan);
        return found;
    }

    static List ofSubqueries(LogicalPlan plan) {
        List found = new ArrayList();
        scala.collection.Iterator each = plan.subqueriesAll().iterator();
        while (each.hasNext()) {
            addRelations(found, (LogicalPlan) each.next());
        }
        return found;
    }

    static void addRelations(List found, LogicalPlan plan) {
        scala.collection.Iterator each = plan.collectLeaves().iterator();
        while (each.hasNext()) {
            Object leaf = each.next();
            boolean isOfFiles =
                    leaf instanceof LogicalRelation
                            && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
            if (isOfFiles || leaf instanceof HiveTableRelation) {
                found.add(leaf);
            }
        }
    }

    /**
     * The plan with a condition above its first leaf that no query has and no row meets; and with
     * what its subqueries read, in which Spark doesn't look for what it has written. Its tables have
     * it as well: Spark plans what it caches, and would list their partitions.
     */
    static LogicalPlan marked(LogicalPlan plan, String mark) {
        Expression text = Literal$.MODULE$.apply(mark);
        Expression never = new EqualNullSafe(text, Literal$.MODULE$.apply(""));
        LogicalPlan first = plan;
        while (!first.children().isEmpty()) {
            first = (LogicalPlan) first.children().head();
        }
        Map leaves = new HashMap();
        List all = new ArrayList();
        addRelations(all, plan);
        Iterator each = all.iterator();
        while (each.hasNext()) {
            LogicalPlan leaf = (LogicalPlan) each.next();
            if (leaf instanceof HiveTableRelation || files(leaf) != null) {
                leaves.put(leaf, new Filter(never, leaf));
            }
        }
        LogicalPlan node = first;
        each = ofSubqueries(plan).iterator();
        while (each.hasNext()) {
            LogicalPlan read = ((MultiInstanceRelation) each.next()).newInstance();
            node = new Join(node, read, LeftSemi$.MODULE$, Option.empty(), JoinHint.NONE());
        }
        leaves.put(first, new Filter(never, node));
        LogicalPlan made = (LogicalPlan) plan.transformUp(new Replaced(leaves));
        made.setAnalyzed();
        return made;
    }

    static LogicalPlan unmarked(LogicalPlan plan) {
        LogicalPlan made = (LogicalPlan) plan.transformDown(new Replaced(null));
        made.setAnalyzed();
        return made;
    }

    /** Puts a mark above each of some leaves; or takes out the marks that there are, without any. */
    static final class Replaced extends AbstractPartialFunction {
        final Map leaves;

        Replaced(Map leaves) {
            this.leaves = leaves;
        }

        public boolean isDefinedAt(Object node) {
            return leaves == null ? markOf((LogicalPlan) node) != null : leaves.containsKey(node);
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            if (leaves != null) {
                return leaves.get(node);
            }
            LogicalPlan leaf = (LogicalPlan) node;
            while (!leaf.children().isEmpty()) {
                leaf = (LogicalPlan) leaf.children().head();
            }
            return leaf;
        }
    }

    static String keyOf(LogicalPlan plan) {
        LogicalPlan node = plan;
        while (!node.children().isEmpty()) {
            String mark = markOf(node);
            if (mark != null) {
                return mark.substring(MARK.length());
            }
            node = (LogicalPlan) node.children().head();
        }
        return null;
    }

    static String markOf(LogicalPlan node) {
        if (!(node instanceof Filter)
                || !(((Filter) node).condition() instanceof EqualNullSafe)) {
            return null;
        }
        Expression same = ((EqualNullSafe) ((Filter) node).condition()).left();
        String text = same instanceof Literal ? String.valueOf(((Literal) same).value()) : "";
        return text.startsWith(MARK) ? text : null;
    }
}
