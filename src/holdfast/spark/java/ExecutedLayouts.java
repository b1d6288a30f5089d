package holdfast;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.physical.CoalescedBoundary;
import org.apache.spark.sql.catalyst.plans.physical.CoalescedHashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** Tells of plans that have run which rows are in which of their partitions. */
public final class ExecutedLayouts {
    static final String EXECUTION = "org.apache.spark.sql.execution.";
    static final Set BROADCASTS = names(new String[] {
        "adaptive.BroadcastQueryStageExec", "exchange.BroadcastExchangeExec"
    });
    static final Set SHUFFLES = names(new String[] {
        "adaptive.AQEShuffleReadExec", "adaptive.ShuffleQueryStageExec",
        "exchange.ShuffleExchangeExec"
    });
    // Each puts out the same rows whenever it is given the same rows, in whatever order.
    static final Set REPEATABLE = names(new String[] {
        "ColumnarToRowExec", "ExpandExec", "FileSourceScanExec", "FilterExec", "GenerateExec",
        "InputAdapter", "LocalTableScanExec", "OneRowRelationExec", "ProjectExec", "RangeExec",
        "ReusedSubqueryExec", "SortExec", "SubqueryBroadcastExec", "SubqueryExec", "UnionExec",
        "WholeStageCodegenExec", "adaptive.AQEShuffleReadExec", "adaptive.AdaptiveSparkPlanExec",
        "adaptive.BroadcastQueryStageExec", "adaptive.ShuffleQueryStageExec",
        "aggregate.HashAggregateExec", "aggregate.ObjectHashAggregateExec",
        "aggregate.SortAggregateExec", "exchange.BroadcastExchangeExec",
        "exchange.ReusedExchangeExec", "exchange.ShuffleExchangeExec",
        "joins.BroadcastHashJoinExec", "joins.BroadcastNestedLoopJoinExec",
        "joins.CartesianProductExec", "joins.ShuffledHashJoinExec", "joins.SortMergeJoinExec",
        "python.ArrowEvalPythonExec", "python.BatchEvalPythonExec"
    });
    // Equal values of others may have several forms, or come out rounded another way.
    static final Set HASHED = new HashSet(Arrays.asList(new DataType[] {
        DataTypes.BinaryType, DataTypes.BooleanType, DataTypes.ByteType, DataTypes.DateType,
        DataTypes.IntegerType, DataTypes.LongType, DataTypes.ShortType, DataTypes.StringType,
        DataTypes.TimestampNTZType, DataTypes.TimestampType
    }));

    public ExecutedLayouts() {}

    /** The plan whose partitions a command's plan has written. */
    public SparkPlan written(SparkPlan command) {
        SparkPlan plan = command;
        while (true) {
            String name = plan.getClass().getSimpleName();
            if (plan instanceof AdaptiveSparkPlanExec) {
                plan = ((AdaptiveSparkPlanExec) plan).executedPlan();
            } else if (name.equals("ResultQueryStageExec")) {
                plan = ((QueryStageExec) plan).plan();
            } else if (name.equals("DataWritingCommandExec") || name.equals("WriteFilesExec")) {
                plan = (SparkPlan) plan.children().head();
            } else {
                return plan;
            }
        }
    }

    /** Whether another run gives each partition the same, if it is given the same parts of files
     * or of shuffles. */
    public boolean isRepeatable(SparkPlan last) {
        if (isIn(SHUFFLES, last) || isIn(BROADCASTS, last) || last instanceof ReusedExchangeExec) {
            return isRepeatableBelow(last);
        }
        if (!areRepeatable(last.subqueries())) {
            return false;
        }
        Iterator each = last.children().iterator();
        while (each.hasNext()) {
            if (!isRepeatable((SparkPlan) each.next())) {
                return false;
            }
        }
        return true;
    }

    /**
     * By which columns' hash a plan's rows are in its partitions: the number of hashes, the places
     * of the columns, and for each partition its first hash and the end of them. Empty where it is
     * something else that decides.
     */
    public String hashed(SparkPlan plan) {
        return readsShuffles(plan) ? hashed(plan, plan.outputPartitioning()) : "";
    }

    String hashed(SparkPlan plan, Object partitioning) {
        if (partitioning instanceof PartitioningCollection) {
            Iterator each = ((PartitioningCollection) partitioning).partitionings().iterator();
            String found = "";
            while (each.hasNext() && found.isEmpty()) {
                found = hashed(plan, each.next());
            }
            return found;
        }
        StringBuilder out = new StringBuilder();
        if (partitioning.getClass() == HashPartitioning.class) {
            HashPartitioning hash = (HashPartitioning) partitioning;
            for (int number = 0; number < hash.numPartitions(); number++) {
                append(out, number, number + 1);
            }
            return columns(plan, hash, out);
        }
        if (partitioning.getClass() == CoalescedHashPartitioning.class) {
            CoalescedHashPartitioning hash = (CoalescedHashPartitioning) partitioning;
            Iterator each = hash.partitions().iterator();
            while (each.hasNext()) {
                CoalescedBoundary boundary = (CoalescedBoundary) each.next();
                append(out, boundary.startReducerIndex(), boundary.endReducerIndex());
            }
            if (hash.from().getClass() == HashPartitioning.class) {
                return columns(plan, (HashPartitioning) (Object) hash.from(), out);
            }
        }
        return "";
    }

    static void append(StringBuilder out, int start, int end) {
        out.append(out.length() == 0 ? "" : ",").append(start).append("-").append(end);
    }

    /** With the places of the columns before it; empty where one of them isn't put out. */
    static String columns(SparkPlan plan, HashPartitioning hash, StringBuilder partitions) {
        StringBuilder out = new StringBuilder();
        Seq output = plan.output();
        Iterator each = hash.expressions().iterator();
        while (each.hasNext()) {
            Expression expression = (Expression) each.next();
            int place = expression instanceof AttributeReference ? place(output, expression) : -1;
            if (place < 0) {
                return "";
            }
            out.append(out.length() == 0 ? "" : ",").append(place);
        }
        return hash.numPartitions() + ";" + out + ";" + partitions;
    }

    static int place(Seq output, Expression key) {
        DataType type = key.dataType();
        if (!HASHED.contains(type) && !(type instanceof DecimalType)) {
            return -1;
        }
        for (int place = 0; place < output.size(); place++) {
            if (((Attribute) output.apply(place)).semanticEquals(key)) {
                return place;
            }
        }
        return -1;
    }

    /** Whether all that its partitions are made of comes by shuffles, or is broadcast. */
    boolean readsShuffles(SparkPlan plan) {
        if (plan instanceof ReusedExchangeExec) {
            return true;
        }
        if (isIn(SHUFFLES, plan) || isIn(BROADCASTS, plan)) {
            return true;
        }
        Iterator each = plan.children().iterator();
        boolean found = each.hasNext();
        while (found && each.hasNext()) {
            found = readsShuffles((SparkPlan) each.next());
        }
        return found;
    }

    boolean isRepeatableBelow(SparkPlan plan) {
        if (!isIn(REPEATABLE, plan) || !areRepeatable(plan.subqueries())) {
            return false;
        }
        if (plan instanceof BaseAggregateExec && sumsFloats((BaseAggregateExec) plan)) {
            return false;
        }
        if (plan instanceof QueryStageExec) {
            return isRepeatableBelow(((QueryStageExec) plan).plan());
        }
        if (plan instanceof AdaptiveSparkPlanExec) {
            return isRepeatableBelow(((AdaptiveSparkPlanExec) plan).executedPlan());
        }
        if (plan instanceof ReusedExchangeExec) {
            return isRepeatableBelow((SparkPlan) (Object) ((ReusedExchangeExec) plan).child());
        }
        return areRepeatable(plan.children());
    }

    boolean areRepeatable(Seq plans) {
        Iterator each = plans.iterator();
        while (each.hasNext()) {
            if (!isRepeatableBelow((SparkPlan) each.next())) {
                return false;
            }
        }
        return true;
    }

    /** Whether an aggregate's last digits depend on the order in which its rows have come. */
    static boolean sumsFloats(BaseAggregateExec plan) {
        Iterator each = plan.aggregateExpressions().iterator();
        while (each.hasNext()) {
            AggregateExpression aggregate = (AggregateExpression) each.next();
            String mode = aggregate.mode().toString();
            // What is summed up further on is looked at there.
            if (!mode.startsWith("Partial") && hasFloats(aggregate.aggregateFunction())) {
                return true;
            }
        }
        return false;
    }

    static boolean hasFloats(Expression expression) {
        String type = expression.dataType().json();
        if (type.contains("\"double\"") || type.contains("\"float\"")) {
            return true;
        }
        Iterator each = expression.children().iterator();
        while (each.hasNext()) {
            if (hasFloats((Expression) each.next())) {
                return true;
            }
        }
        return false;
    }

    static boolean isIn(Set names, SparkPlan plan) {
        return names.contains(plan.getClass().getName());
    }

    static Set names(String[] names) {
        Set found = new HashSet();
        for (int index = 0; index < names.length; index++) {
            found.add(EXECUTION + names[index]);
        }
        return found;
    }
}
