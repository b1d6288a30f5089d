package holdfast;

import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Tells of physical plans and of the partitions of their scans. */
public final class ScanSplits {
    final String afterField;
    final String afterFile;
    final String afterPartition;

    /**
     * @param afterField what is between a file's fields, or an operator's
     * @param afterFile what is between a partition's files, or between operators
     * @param afterPartition what is between partitions
     */
    public ScanSplits(String afterField, String afterFile, String afterPartition) {
        this.afterField = afterField;
        this.afterFile = afterFile;
        this.afterPartition = afterPartition;
    }

    /** A plan's operators in pre-order: their classes' names and how many inputs. */
    public String operators(TreeNode plan) {
        final String between = afterField;
        return plan.map(new AbstractFunction1() {
            public Object apply(Object node) {
                return node.getClass().getName() + between + ((TreeNode) node).children().size();
            }
        }).mkString(afterFile);
    }

    /** A scan's partitions: of each file the path, start, length and modification time. */
    public String partitions(Seq partitions) {
        StringBuilder out = new StringBuilder();
        Iterator each = partitions.iterator();
        while (each.hasNext()) {
            PartitionedFile[] files = ((FilePartition) each.next()).files();
            for (int number = 0; number < files.length; number++) {
                PartitionedFile file = files[number];
                out.append(number == 0 ? "" : afterFile).append(file.toPath());
                out.append(afterField).append(file.start());
                out.append(afterField).append(file.length());
                out.append(afterField).append(file.modificationTime());
            }
            if (each.hasNext()) {
                out.append(afterPartition);
            }
        }
        return out.toString();
    }
}
