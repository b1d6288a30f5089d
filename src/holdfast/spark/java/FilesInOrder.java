package holdfast;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Relations over files whose rows Spark reads in the order of the files, in one scan. */
public final class FilesInOrder {
    final FileFormat format;
    final Map options;

    /**
     * @param format reads the files, and doesn't split them
     * @param options of its reader
     */
    public FilesInOrder(FileFormat format, Map options) {
        this.format = format;
        this.options = CaseInsensitiveMap$.MODULE$.apply(options);
    }

    /**
     * @param session under whose settings they are read
     * @param schema of the files
     * @param directories where they lie, as Hadoop takes them
     * @param order their paths, a line for each
     */
    public LogicalRelation relation(
            SparkSession session, StructType schema, String directories, String order) {
        HadoopFsRelation relation =
                new HadoopFsRelation(
                        new Listing(session, paths(directories), options, schema, order),
                        new StructType(new StructField[0]),
                        schema,
                        Option.empty(),
                        format,
                        options,
                        session);
        return LogicalRelation$.MODULE$.apply(relation, false);
    }

    static Seq paths(String lines) {
        String[] each = lines.split("\n");
        List found = new ArrayList();
        for (int number = 0; number < each.length; number++) {
            found.add(new Path(each[number]));
        }
        return CollectionConverters.asScala(found).toSeq();
    }

    /**
     * Gives planned scans files that seem equally long.
     *
     * Spark begins with the longest file, and leaves those of one length in their order. A task
     * reads what begins before the end that it is given, which may lie behind the file's.
     */
    public static final class Listing extends InMemoryFileIndex {
        final Seq order;
        volatile Seq planned;

        public Listing(
                SparkSession session, Seq directories, Map options, StructType schema, String order) {
            super(
                    session,
                    directories,
                    options,
                    Option.apply(schema),
                    InMemoryFileIndex.$lessinit$greater$default$5(),
                    InMemoryFileIndex.$lessinit$greater$default$6(),
                    InMemoryFileIndex.$lessinit$greater$default$7());
            this.order = paths(order);
        }

        public void refresh() {
            planned = null;
            super.refresh();
        }

        public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
            Seq found = planned;
            if (found == null) {
                found = evenly();
                planned = found;
            }
            return found;
        }

        Seq evenly() {
            java.util.Map listed = new HashMap();
            long longest = 1;
            Iterator each = allFiles().iterator();
            while (each.hasNext()) {
                FileStatus file = (FileStatus) each.next();
                listed.put(file.getPath().toUri().getPath(), file);
                longest = Math.max(longest, file.getLen());
            }
            List files = new ArrayList();
            Iterator wanted = order.iterator();
            while (wanted.hasNext()) {
                Path path = (Path) wanted.next();
                FileStatus file = (FileStatus) listed.get(path.toUri().getPath());
                files.add(
                        new FileStatusWithMetadata(
                                file == null ? lost(path, longest) : asLong(file, longest),
                                FileStatusWithMetadata.$lessinit$greater$default$2()));
            }
            List all = new ArrayList();
            all.add(
                    new PartitionDirectory(
                            InternalRow.empty(), CollectionConverters.asScala(files).toSeq()));
            return CollectionConverters.asScala(all).toSeq();
        }

        static FileStatus asLong(FileStatus file, long length) {
            FileStatus longer =
                    new FileStatus(
                            length,
                            false,
                            file.getReplication(),
                            file.getBlockSize(),
                            file.getModificationTime(),
                            file.getPath());
            return file instanceof LocatedFileStatus
                    ? new LocatedFileStatus(longer, ((LocatedFileStatus) file).getBlockLocations())
                    : longer;
        }

        /** The task that opens it says that it isn't there. */
        static FileStatus lost(Path path, long length) {
            return new FileStatus(length, false, 1, length, 0L, path);
        }
    }
}
