package holdfast;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Rows of files, of which each task reads some, whole and one after the other. */
public final class GroupedFiles {
    final FileFormat format;
    final Map options;

    /**
     * @param format reads the files
     * @param options of its reader, which is to give rows and not batches
     */
    public GroupedFiles(FileFormat format, Map options) {
        this.format = format;
        this.options = options;
    }

    /**
     * @param session under whose settings they are read
     * @param schema of the files
     * @param location a directory, as Hadoop takes it
     * @param groups for each task a line with the names of its files in there, a slash between
     */
    public RDD rows(SparkSession session, StructType schema, String location, String groups)
            throws IOException {
        Configuration settings = session.sessionState().newHadoopConfWithOptions(options);
        Path directory = new Path(location);
        FileSystem files = directory.getFileSystem(settings);
        String[] lines = groups.split("\n");
        java.util.List partitions = new java.util.ArrayList();
        for (int index = 0; index < lines.length; index++) {
            String[] names = lines[index].split("/");
            PartitionedFile[] group = new PartitionedFile[names.length];
            for (int number = 0; number < names.length; number++) {
                group[number] = whole(files.getFileStatus(new Path(directory, names[number])));
            }
            partitions.add(new FilePartition(index, group));
        }
        Function1 read =
                format.buildReaderWithPartitionValues(
                        session, schema, none(), schema, seq(new java.util.ArrayList()), options, settings);
        return new FileScanRDD(
                session,
                read,
                seq(partitions),
                schema,
                FileScanRDD.$lessinit$greater$default$5(),
                FileScanRDD.$lessinit$greater$default$6(),
                new FileSourceOptions(options));
    }

    static PartitionedFile whole(FileStatus file) {
        return new PartitionedFile(
                InternalRow.empty(),
                SparkPath.fromFileStatus(file),
                0L,
                file.getLen(),
                new String[0],
                file.getModificationTime(),
                file.getLen(),
                PartitionedFile.$lessinit$greater$default$8());
    }

    static StructType none() {
        return new StructType(new StructField[0]);
    }

    static Seq seq(java.util.List list) {
        return CollectionConverters.asScala(list).toSeq();
    }
}
