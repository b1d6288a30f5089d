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
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Relations over kept files: how large they are in memory, and how tasks share them. */
public final class KeptFiles {
    /** Tasks read whole files, one task for each. */
    static final String EACH = "each";
    /** Tasks read whole files, in their order. */
    static final String ORDERED = "ordered";
    /** Longer than a task reads of several files, and yet far from what a sum of them can hold. */
    static final long HUGE = 1L << 44;

    final FileFormat splitting;
    final FileFormat whole;
    final Map options;

    /**
     * @param splitting reads the files, of which several tasks may read parts
     * @param whole reads the files, and doesn't split them
     * @param options of the readers
     */
    public KeptFiles(FileFormat splitting, FileFormat whole, Map options) {
        this.splitting = splitting;
        this.whole = whole;
        this.options = CaseInsensitiveMap$.MODULE$.apply(options);
    }

    /**
     * @param session under whose settings they are read
     * @param schema of the files
     * @param directories where they lie, as Hadoop takes them
     * @param order their paths, a line for each
     * @param sharing `each`, `ordered`, or anything else for what Spark makes of their sizes
     * @param memory the size of the rows in memory, in bytes; less than nothing where it is unknown
     */
    public LogicalRelation relation(
            SparkSession session,
            StructType schema,
            String directories,
            String order,
            String sharing,
            long memory) {
        boolean splits = !sharing.equals(EACH) && !sharing.equals(ORDERED);
        HadoopFsRelation relation =
                new HadoopFsRelation(
                        new Listing(
                                session, paths(directories), options, schema, order, sharing, memory),
                        new StructType(new StructField[0]),
                        schema,
                        Option.empty(),
                        splits ? splitting : whole,
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
     * Gives planned scans files that seem equally long, where that is asked for.
     *
     * Spark begins with the longest file, and leaves those of one length in their order. A task
     * reads what begins before the end that it is given, which may lie behind the file's.
     */
    public static final class Listing extends InMemoryFileIndex {
        final SparkSession session;
        final Seq order;
        final String sharing;
        final long memory;
        volatile Seq planned;

        public Listing(
                SparkSession session,
                Seq directories,
                Map options,
                StructType schema,
                String order,
                String sharing,
                long memory) {
            super(
                    session,
                    directories,
                    options,
                    Option.apply(schema),
                    InMemoryFileIndex.$lessinit$greater$default$5(),
                    InMemoryFileIndex.$lessinit$greater$default$6(),
                    InMemoryFileIndex.$lessinit$greater$default$7());
            this.session = session;
            this.order = paths(order);
            this.sharing = sharing;
            this.memory = memory;
        }

        /** What joins go by: not the files' sizes, which dictionaries and compression make small. */
        public long sizeInBytes() {
            SQLConf conf = session.sessionState().conf();
            return memory < 0
                    ? conf.defaultSizeInBytes()
                    // Spark multiplies what it takes for the sizes of files.
                    : (long) (memory / conf.fileCompressionFactor());
        }

        /** What a DataFrame says that it reads: none, as for what Spark itself has cached. */
        public String[] inputFiles() {
            return new String[0];
        }

        public void refresh() {
            planned = null;
            super.refresh();
        }

        public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
            Seq found = planned;
            if (found == null) {
                found = listed();
                planned = found;
            }
            return found;
        }

        Seq listed() {
            java.util.Map listed = new HashMap();
            long longest = 1;
            Iterator each = allFiles().iterator();
            while (each.hasNext()) {
                FileStatus file = (FileStatus) each.next();
                listed.put(file.getPath().toUri().getPath(), file);
                longest = Math.max(longest, file.getLen());
            }
            long length = sharing.equals(EACH) ? HUGE : sharing.equals(ORDERED) ? longest : 0;
            List files = new ArrayList();
            Iterator wanted = order.iterator();
            while (wanted.hasNext()) {
                Path path = (Path) wanted.next();
                FileStatus file = (FileStatus) listed.get(path.toUri().getPath());
                files.add(
                        new FileStatusWithMetadata(
                                file == null
                                        ? lost(path, Math.max(length, longest))
                                        : length == 0 ? file : asLong(file, length),
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
