package holdfast;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.StructField;
import scala.runtime.AbstractFunction1;

/** From a plan's node to the widths of its columns, with `+` between them, and the size of all. */
public final class NodeMeasure extends AbstractFunction1 {
    public Object apply(Object node) {
        LogicalPlan plan = (LogicalPlan) node;
        StringBuilder measure = new StringBuilder("0");
        StructField[] fields = plan.schema().fields();
        for (int index = 0; index < fields.length; index++) {
            measure.append('+').append(fields[index].dataType().defaultSize());
        }
        return measure.append(' ').append(plan.stats().sizeInBytes()).toString();
    }
}
