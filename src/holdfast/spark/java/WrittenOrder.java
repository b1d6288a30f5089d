package holdfast;

import java.util.AbstractMap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.BitwiseOr;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.ShiftLeft;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.joins.HashedRelationBroadcastMode;
import org.apache.spark.sql.types.DataType;
import scala.Product;
import scala.collection.IterableOnce;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.Set;

/**
 * The order in which a node's expressions are written, which Spark's canonical form leaves out.
 *
 * That sorts and regroups the operands of what commutes in mathematics: sums of floating-point
 * numbers, of numbers that overflow, the greatest of texts that a collation takes for equal, and
 * conditions of which one throws where another would have decided.
 */
public final class WrittenOrder implements Function {
    /**
     * @param node a `SparkPlan`
     * @return the node's expressions in their canonical form, and as they are written; null where
     *     that follows from the canonical form
     */
    public Object apply(Object node) {
        SparkPlan plan = (SparkPlan) node;
        List written = expressions(plan);
        // Spark sorts the filters of a scan.
        boolean isSorted = plan instanceof FileSourceScanExec
            && ((FileSourceScanExec) plan).partitionFilters().size() > 1;
        boolean isFixed = true;
        for (int index = 0; index < written.size(); index++) {
            isFixed &= isFixed((Expression) written.get(index), !isSorted);
        }
        if (isFixed) {
            return null;
        }
        Form form = new Form(plan);
        for (int index = 0; index < written.size(); index++) {
            form.add(written.get(index));
        }
        List canonical = expressions((SparkPlan) plan.canonicalized());
        return new AbstractMap.SimpleImmutableEntry(canonical, form.all());
    }

    /** Those that rows depend on: what prunes files is there when a query runs, and in its way. */
    static List expressions(SparkPlan plan) {
        List all = new ArrayList();
        addAll(plan.expressions(), all);
        if (plan instanceof BroadcastExchangeExec) {
            Object mode = ((BroadcastExchangeExec) plan).mode();
            if (mode instanceof HashedRelationBroadcastMode) {
                addAll(((HashedRelationBroadcastMode) mode).key(), all);
            }
        }
        return all;
    }

    static void addAll(Seq expressions, List all) {
        Iterator each = expressions.iterator();
        while (each.hasNext()) {
            Object expression = each.next();
            if (!(expression instanceof DynamicPruningExpression)) {
                all.add(expression);
            }
        }
    }

    /** Whether an expression has the same values in any order that its parts may stand in. */
    static boolean isFixed(Expression expression, boolean isAlone) {
        boolean isChain = isAlone;
        boolean isHarmless = true;
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(expression);
        while (!waiting.isEmpty() && (isChain || isHarmless)) {
            Expression each = (Expression) waiting.pop();
            isChain &= each.children().size() < 2;
            isHarmless &= isHarmless(each);
            Iterator children = each.children().iterator();
            while (children.hasNext()) {
                waiting.push(children.next());
            }
        }
        return isChain || isHarmless;
    }

    /** Whether an expression never throws, and its operands may stand in any order. */
    static boolean isHarmless(Expression expression) {
        if (expression instanceof Cast) {
            return Cast.canUpCast(((Cast) expression).child().dataType(), expression.dataType());
        }
        return expression.children().isEmpty()
            || expression instanceof Alias
            || expression instanceof And
            || expression instanceof BinaryComparison
            || expression instanceof In
            || expression instanceof InSet
            || expression instanceof IsNotNull
            || expression instanceof IsNull
            || expression instanceof Not
            || expression instanceof Or
            // Spark packs the keys of a broadcast so.
            || expression instanceof BitwiseAnd
            || expression instanceof BitwiseOr
            || expression instanceof ShiftLeft;
    }

    /** Expressions as they are written, but for what things are called. */
    static final class Form {
        final StringBuilder out = new StringBuilder();
        /** What has no text that no other has, in the order in which it stands in `out`. */
        final List objects = new ArrayList();
        final Map places = new HashMap();
        // Those of arguments of functions, and what has been aggregated further down.
        final Map others = new HashMap();

        Form(SparkPlan plan) {
            Iterator each = plan.children().iterator();
            while (each.hasNext()) {
                number(((SparkPlan) each.next()).output());
            }
            number(plan.output());
        }

        void number(Seq attributes) {
            Iterator each = attributes.iterator();
            while (each.hasNext()) {
                places.putIfAbsent(((Attribute) each.next()).exprId(), places.size());
            }
        }

        void add(Object expression) {
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(expression);
            while (!waiting.isEmpty()) {
                Object each = waiting.pop();
                if (each instanceof End) {
                    out.append(')');
                } else if (each instanceof Alias) {
                    waiting.push(((Alias) each).child());
                } else if (each instanceof NamedExpression) {
                    place(((NamedExpression) each).exprId());
                } else if (each instanceof QueryPlan) {
                    // The order in its nodes is theirs.
                    object(((QueryPlan) each).canonicalized());
                } else if (each instanceof Literal
                        || each instanceof DataType
                        || each instanceof Set) {
                    object(each);
                } else if (each instanceof IterableOnce) {
                    out.append('(');
                    parts(((IterableOnce) each).iterator(), waiting);
                } else if (each instanceof Product) {
                    out.append(each.getClass().getName()).append('(');
                    parts(((Product) each).productIterator(), waiting);
                } else {
                    object(each instanceof byte[] ? Arrays.toString((byte[]) each) : each);
                }
            }
        }

        /** All that two have to agree in. */
        List all() {
            objects.add(out.toString());
            return objects;
        }

        void object(Object object) {
            objects.add(object);
            out.append("?,");
        }

        void parts(Iterator parts, ArrayDeque waiting) {
            List all = new ArrayList();
            while (parts.hasNext()) {
                Object part = parts.next();
                if (!(part instanceof ExprId)) {
                    all.add(part == null ? "null" : part);
                }
            }
            waiting.push(END);
            for (int index = all.size() - 1; index >= 0; index--) {
                waiting.push(all.get(index));
            }
        }

        void place(ExprId id) {
            Object place = places.get(id);
            if (place == null) {
                others.putIfAbsent(id, others.size());
                out.append("of another node ");
                place = others.get(id);
            }
            out.append('#').append(place).append(',');
        }
    }

    static final class End {}

    static final End END = new End();
}
