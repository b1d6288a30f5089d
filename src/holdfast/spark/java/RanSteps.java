package holdfast;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Final$;
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning;
import org.apache.spark.sql.execution.LimitExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.joins.BaseJoinExec;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;

/**
 * From a plan that has run to its steps that gather or join all rows of what is below, upper ones
 * first, a line each: how many joins there are from it on, 0 where it is none; how many rows came
 * out, -1 where that isn't known; and the ids of their columns. It ends at the first join, or where
 * rows may be left unread.
 */
public final class RanSteps implements Function {
    public Object apply(Object plan) {
        StringBuilder lines = new StringBuilder();
        SparkPlan node = (SparkPlan) plan;
        boolean isSampled = false;
        while (node != null && !(node instanceof LimitExec)) {
            boolean isJoin = node instanceof BaseJoinExec;
            if (isJoin || isLast(node)) {
                Option rows = node.metrics().get("numOutputRows");
                if (!rows.isDefined()) {
                    break;
                }
                lines.append(isJoin ? joins(node) : 0).append(' ');
                lines.append(isSampled ? Long.valueOf(-1) : ((AccumulatorV2) rows.get()).value());
                Iterator columns = node.output().iterator();
                while (columns.hasNext()) {
                    lines.append(' ').append(((NamedExpression) columns.next()).exprId().id());
                }
                lines.append('\n');
            }
            if (node instanceof Exchange) {
                // What is below is run twice: for samples of its rows, and for all of them.
                isSampled = node.outputPartitioning() instanceof RangePartitioning;
            }
            node = isJoin ? null : below(node);
        }
        return lines.toString();
    }

    /** Whether an operator gathers rows, and gives what no other one has to merge. */
    static boolean isLast(SparkPlan node) {
        if (!(node instanceof BaseAggregateExec)) {
            return false;
        }
        BaseAggregateExec aggregate = (BaseAggregateExec) node;
        Iterator each = aggregate.aggregateExpressions().iterator();
        while (each.hasNext()) {
            Object mode = ((AggregateExpression) each.next()).mode();
            if (mode != Final$.MODULE$ && mode != Complete$.MODULE$) {
                return false;
            }
        }
        return aggregate.requiredChildDistributionExpressions().isDefined();
    }

    /** The only input of an operator; null where it has none, or several. */
    static SparkPlan below(SparkPlan node) {
        if (node instanceof AdaptiveSparkPlanExec) {
            return ((AdaptiveSparkPlanExec) node).executedPlan();
        }
        if (node instanceof QueryStageExec) {
            return ((QueryStageExec) node).plan();
        }
        // Another exchange has run in its stead, whose columns have other ids.
        boolean isOnly = !(node instanceof ReusedExchangeExec) && node.children().size() == 1;
        return isOnly ? (SparkPlan) node.children().head() : null;
    }

    static int joins(SparkPlan root) {
        int found = 0;
        java.util.ArrayDeque waiting = new java.util.ArrayDeque();
        waiting.push(root);
        while (!waiting.isEmpty()) {
            SparkPlan node = (SparkPlan) waiting.pop();
            found += node instanceof BaseJoinExec ? 1 : 0;
            if (node instanceof ReusedExchangeExec) {
                waiting.push(((ReusedExchangeExec) node).child());
            }
            if (node instanceof AdaptiveSparkPlanExec || node instanceof QueryStageExec) {
                waiting.push(below(node));
            }
            Iterator each = node.children().iterator();
            while (each.hasNext()) {
                waiting.push(each.next());
            }
        }
        return found;
    }
}
