package holdfast;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.runtime.AbstractFunction1;

/** From an optimized plan's node to the width of a row and the size of all, in bytes. */
public final class NodeMeasure extends AbstractFunction1 {
    public Object apply(Object node) {
        LogicalPlan plan = (LogicalPlan) node;
        return plan.schema().defaultSize() + " " + plan.stats().sizeInBytes();
    }
}
