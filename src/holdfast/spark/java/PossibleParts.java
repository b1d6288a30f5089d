package holdfast;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.util.hashing.MurmurHash3$;

/**
 * Computations that are looked for in plans. A plan can contain one only if it has all of its
 * leaves, which takes a walk through the plan instead of reading it.
 */
public final class PossibleParts {
    static final String FILES = "files";
    /** What another relation lists may be the very same files. */
    static final String UNLISTED = "files that are not listed";
    final Map leavesOf = new HashMap();

    public void add(String digest, LogicalPlan plan) {
        Set leaves = leaves(plan);
        synchronized (this) {
            leavesOf.put(digest, leaves);
        }
    }

    public synchronized void remove(String digest) {
        leavesOf.remove(digest);
    }

    /** Whether any of the computations may be a part of what a DataFrame computes. */
    public boolean mayBeInDataset(Dataset dataset) {
        return mayBeIn(dataset.queryExecution().commandExecuted());
    }

    public boolean mayBeIn(LogicalPlan plan) {
        synchronized (this) {
            if (leavesOf.isEmpty()) {
                return false;
            }
        }
        Set found = leaves(plan);
        boolean hasUnlisted = found.contains(UNLISTED);
        synchronized (this) {
            Iterator each = leavesOf.values().iterator();
            while (each.hasNext()) {
                if (hasAll(found, hasUnlisted, (Set) each.next())) {
                    return true;
                }
            }
        }
        return false;
    }

    static boolean hasAll(Set found, boolean hasUnlisted, Set wanted) {
        Iterator each = wanted.iterator();
        while (each.hasNext()) {
            String leaf = (String) each.next();
            boolean mayBeUnlisted = hasUnlisted && leaf.startsWith(FILES);
            if (!found.contains(leaf) && !mayBeUnlisted && !leaf.equals(UNLISTED)) {
                return false;
            }
        }
        return true;
    }

    /** What the leaves of a plan read, roughly: the same for all that may have the same rows. */
    static Set leaves(LogicalPlan plan) {
        Set found = new HashSet();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(plan);
        while (!waiting.isEmpty()) {
            LogicalPlan node = (LogicalPlan) waiting.pop();
            if (node.children().isEmpty()) {
                add(found, node);
            }
            push(waiting, node.children().iterator());
            push(waiting, node.subqueries().iterator());
        }
        return found;
    }

    static void push(ArrayDeque waiting, scala.collection.Iterator each) {
        while (each.hasNext()) {
            waiting.push(each.next());
        }
    }

    static void add(Set found, LogicalPlan leaf) {
        if (leaf instanceof Range) {
            Range range = (Range) leaf;
            found.add("range " + range.start() + " " + range.end() + " " + range.step());
        } else if (leaf instanceof LocalRelation) {
            found.add("rows " + ((LocalRelation) leaf).data().size());
        } else if (leaf instanceof LogicalRDD) {
            // Two of them may have been made of the same values.
            found.add("rdd " + types(leaf));
        } else if (leaf instanceof LogicalRelation) {
            addRelation(found, (LogicalRelation) leaf);
        } else if (leaf instanceof HiveTableRelation) {
            // What is kept has been listed, by a class of another name.
            found.add(HiveTableRelation.class.getName());
        } else if (!(leaf instanceof CTERelationRef)) {
            // What it refers to is a child of another node, or stands in its place.
            found.add(leaf.getClass().getName());
        }
    }

    static String types(LogicalPlan leaf) {
        StringBuilder types = new StringBuilder();
        scala.collection.Iterator each = leaf.output().iterator();
        while (each.hasNext()) {
            types.append(((Attribute) each.next()).dataType().catalogString()).append(' ');
        }
        return types.toString();
    }

    static void addRelation(Set found, LogicalRelation leaf) {
        if (!(leaf.relation() instanceof HadoopFsRelation)) {
            found.add(leaf.relation().getClass().getName());
            return;
        }
        FileIndex files = ((HadoopFsRelation) leaf.relation()).location();
        found.add(FILES);
        if (files instanceof InMemoryFileIndex) {
            found.add(FILES + " of " + files.sizeInBytes() + " bytes");
        } else {
            found.add(UNLISTED);
        }
    }

    /**
     * Roughly what a DataFrame reads: a source for each leaf, by its columns and by the literals of
     * filters right above it; after a semicolon those that are joined, or gathered, with no other.
     * Empty where nothing is joined or gathered.
     */
    public String sources(Dataset dataset) {
        LogicalPlan plan = dataset.queryExecution().analyzed();
        if (!hasParts(plan)) {
            return "";
        }
        Set alone = new TreeSet();
        Set all = sources(plan, new TreeSet(), alone);
        if (alone.remove("")) {
            alone.addAll(all);
        }
        return String.join(" ", all) + ";" + String.join(" ", alone);
    }

    static Set sources(LogicalPlan node, Set literals, Set alone) {
        Set found = new TreeSet();
        boolean gathers = isPart(node);
        Set below = literals;
        if (gathers || node.children().size() > 1) {
            below = new TreeSet();
        } else if (node instanceof Filter) {
            below = new TreeSet(literals);
            addLiterals(below, ((Filter) node).condition());
        } else if (node.children().isEmpty() && !(node instanceof CTERelationRef)) {
            String columns = columns(node);
            found.add(hash(columns) + "." + hash(columns + literals));
        }
        scala.collection.Iterator each = node.children().iterator();
        while (each.hasNext()) {
            found.addAll(sources((LogicalPlan) each.next(), below, alone));
        }
        each = node.subqueries().iterator();
        while (each.hasNext()) {
            found.addAll(sources((LogicalPlan) each.next(), new TreeSet(), alone));
        }
        if (gathers && found.size() < 2) {
            // What stands elsewhere in the plan may be any of its sources.
            alone.add(found.isEmpty() ? "" : found.iterator().next());
        }
        return found;
    }

    static boolean isPart(LogicalPlan node) {
        return node instanceof Join
                || node instanceof Aggregate
                || node instanceof Distinct
                || node instanceof Deduplicate;
    }

    static boolean hasParts(LogicalPlan plan) {
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(plan);
        while (!waiting.isEmpty()) {
            LogicalPlan node = (LogicalPlan) waiting.pop();
            if (isPart(node)) {
                return true;
            }
            push(waiting, node.children().iterator());
            push(waiting, node.subqueries().iterator());
        }
        return false;
    }

    static void addLiterals(Set found, Expression condition) {
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(condition);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            if (each instanceof Literal) {
                found.add(String.valueOf(((Literal) each).value()));
            }
            push(waiting, each.children().iterator());
        }
    }

    static String columns(LogicalPlan leaf) {
        StringBuilder names = new StringBuilder();
        scala.collection.Iterator each = leaf.output().iterator();
        while (each.hasNext()) {
            String name = ((Attribute) each.next()).name();
            // A column of that name is there only where it is asked for.
            if (!name.equals("_metadata")) {
                names.append(name).append(' ');
            }
        }
        return names.toString();
    }

    static String hash(String text) {
        return Integer.toHexString(MurmurHash3$.MODULE$.stringHash(text));
    }
}
