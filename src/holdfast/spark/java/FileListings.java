package holdfast;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** Tells of Spark's listings of files, and picks from them. */
public final class FileListings {
    final String between;

    /** @param between what is between paths, where there are several in a text */
    public FileListings(String between) {
        this.between = between;
    }

    /** The directories of partitions, in their order. */
    public String directories(Seq partitions) {
        StringBuilder out = new StringBuilder();
        Iterator each = partitions.iterator();
        while (each.hasNext()) {
            out.append(((PartitionPath) each.next()).path());
            if (each.hasNext()) {
                out.append(between);
            }
        }
        return out.toString();
    }

    /** The paths of those files that are wanted. */
    public Seq paths(Seq files, String wanted) {
        Set texts = new HashSet(Arrays.asList(wanted.split(between)));
        ArrayBuffer found = new ArrayBuffer();
        Iterator each = files.iterator();
        while (each.hasNext()) {
            Path path = ((FileStatus) each.next()).getPath();
            if (texts.contains(path.toString())) {
                found.addOne(path);
            }
        }
        return found.toSeq();
    }
}
