package holdfast;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.storage.StorageLevel;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Holdfast caches, as entries of Spark's cache: no query matches them, so that they are never
 * loaded, and Spark's commands refresh, renew and remove them as they do with all others.
 */
public final class CacheEntries implements Supplier, Function {
    static final String MARK = "holdfast.cached ";
    static final String OURS = "ours";
    static final String SPARKS = "spark's";
    static final Object NOT_SEEN = new Object();

    final CacheManager cache;
    final Map moves;
    final Field field;
    final Map entries = new HashMap();
    final Map plans = new HashMap();
    final Map changes = new HashMap();
    // Plans by key that read tables whose files are listed when a query runs.
    final Map ofTables = new ConcurrentHashMap();
    Object seen;

    /**
     * @param session any session
     * @param moves by name, of tables of the catalog that Spark's commands have changed, and whose
     *     files are listed when a query runs: another object each time
     */
    public CacheEntries(SparkSession session, Map moves) throws Exception {
        this.cache = session.sharedState().cacheManager();
        this.moves = moves;
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

    /** Who has cached a plan that reads a catalog's table, `OURS` or `SPARKS`; else null. */
    public Object apply(Object plan) {
        LogicalPlan node = (LogicalPlan) plan;
        Iterator each = ofTables.values().iterator();
        while (each.hasNext()) {
            if (isSame(node, (LogicalPlan) each.next())) {
                return OURS;
            }
        }
        scala.collection.Iterator entry = all().iterator();
        while (entry.hasNext()) {
            LogicalPlan cached = ((CachedData) entry.next()).plan();
            if (isSame(node, cached) && keyOf(cached) == null) {
                return SPARKS;
            }
        }
        return null;
    }

    static boolean isSame(LogicalPlan plan, LogicalPlan other) {
        return plan.getClass() == other.getClass() && plan.sameResult(other);
    }

    /** A plan that is going to be cached is read as a part that is cached. */
    public void watch(String key, LogicalPlan plan) {
        if (!tables(plan).isEmpty()) {
            ofTables.put(key, plan);
        }
    }

    /** A plan that was to be cached is not. */
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
                watch(key, (LogicalPlan) plans.get(key));
            }
            if (entry == null) {
                ofTables.remove(key);
            }
        }
        each = stale.iterator();
        while (each.hasNext()) {
            moves.put(each.next(), new Object());
        }
        // Of what reads one of these tables, nothing is as it was.
        each = plans.keySet().iterator();
        while (each.hasNext()) {
            Object key = each.next();
            LogicalPlan plan = (LogicalPlan) plans.get(key);
            if (entries.get(key) != null && tables(plan).removeAll(stale)) {
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
        Iterator each = listings(plan).iterator();
        while (each.hasNext()) {
            found.add(((CatalogFileIndex) each.next()).table().identifier().unquotedString());
        }
        return found;
    }

    static List listings(LogicalPlan plan) {
        List relations = ofSubqueries(plan);
        addRelations(relations, plan);
        List found = new ArrayList();
        Iterator each = relations.iterator();
        while (each.hasNext()) {
            LogicalRelation relation = (LogicalRelation) each.next();
            Object files = ((HadoopFsRelation) relation.relation()).location();
            if (files instanceof CatalogFileIndex) {
                found.add(files);
            }
        }
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
            if (leaf instanceof LogicalRelation
                    && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation) {
                found.add(leaf);
            }
        }
    }

    /**
     * The plan with a condition above its first leaf that no query has, and that always holds; and
     * with what its subqueries read, in which Spark doesn't look for what it has written.
     */
    static LogicalPlan marked(LogicalPlan plan, String mark) {
        List above = new ArrayList();
        LogicalPlan node = plan;
        while (!node.children().isEmpty()) {
            above.add(node);
            node = (LogicalPlan) node.children().head();
        }
        Iterator each = ofSubqueries(plan).iterator();
        while (each.hasNext()) {
            LogicalPlan read = ((LogicalRelation) each.next()).newInstance();
            node = new Join(node, read, LeftSemi$.MODULE$, Option.empty(), JoinHint.NONE());
        }
        Expression same = Literal$.MODULE$.apply(mark);
        return rebuilt(above, new Filter(new EqualNullSafe(same, same), node));
    }

    static LogicalPlan unmarked(LogicalPlan plan) {
        List above = new ArrayList();
        LogicalPlan node = plan;
        while (markOf(node) == null) {
            above.add(node);
            node = (LogicalPlan) node.children().head();
        }
        while (!node.children().isEmpty()) {
            node = (LogicalPlan) node.children().head();
        }
        return rebuilt(above, node);
    }

    static LogicalPlan rebuilt(List above, LogicalPlan below) {
        LogicalPlan made = below;
        for (int index = above.size() - 1; index >= 0; index--) {
            LogicalPlan node = (LogicalPlan) above.get(index);
            List children = new ArrayList(CollectionConverters.asJava(node.children()));
            children.set(0, made);
            made = (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq());
        }
        made.setAnalyzed();
        return made;
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
