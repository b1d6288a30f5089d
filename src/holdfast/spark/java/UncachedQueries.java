package holdfast;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.encoders.RowEncoder;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import scala.collection.Iterator;

/** Runs plans without what Spark's own cache has of them. */
public final class UncachedQueries {
    public UncachedQueries() {}

    public Dataset dataset(SparkSession session, LogicalPlan analyzed) {
        QueryExecution execution = new Uncached(session, analyzed);
        return new Dataset(execution, RowEncoder.encoderFor(execution.analyzed().schema()));
    }

    /** Whether a part of a plan has the definitions of all common tables that it refers to. */
    public boolean standsAlone(LogicalPlan part) {
        Set defined = new HashSet();
        Set used = new HashSet();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(part);
        while (!waiting.isEmpty()) {
            LogicalPlan node = (LogicalPlan) waiting.pop();
            if (node instanceof CTERelationDef) {
                defined.add(Long.valueOf(((CTERelationDef) node).id()));
            } else if (node instanceof CTERelationRef) {
                used.add(Long.valueOf(((CTERelationRef) node).cteId()));
            }
            pushAll(node.children().iterator(), waiting);
            pushAll(node.subqueries().iterator(), waiting);
        }
        return defined.containsAll(used);
    }

    static void pushAll(Iterator plans, ArrayDeque waiting) {
        while (plans.hasNext()) {
            waiting.push(plans.next());
        }
    }

    static final class Uncached extends QueryExecution {
        Uncached(SparkSession session, LogicalPlan analyzed) {
            super(
                    session,
                    analyzed,
                    QueryExecution.$lessinit$greater$default$3(),
                    QueryExecution.$lessinit$greater$default$4(),
                    QueryExecution.$lessinit$greater$default$5(),
                    QueryExecution.$lessinit$greater$default$6(),
                    QueryExecution.$lessinit$greater$default$7(),
                    QueryExecution.$lessinit$greater$default$8());
        }

        public LogicalPlan withCachedData() {
            return normalized();
        }
    }
}
