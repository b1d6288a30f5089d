package holdfast;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import scala.runtime.AbstractFunction1;

/** From a plan's node to whether Spark's own cache holds its rows: as a leaf's, a part's, or not. */
public final class StoredBySpark extends AbstractFunction1 {
    final SparkSession session;
    final CacheManager cache;

    public StoredBySpark(SparkSession session) {
        this.session = session;
        this.cache = session.sharedState().cacheManager();
    }

    public Object apply(Object node) {
        LogicalPlan plan = (LogicalPlan) node;
        if (!cache.lookupCachedData(session, plan).isDefined()) {
            return "";
        }
        return plan.children().isEmpty() ? "leaf" : "part";
    }
}
