package holdfast;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;

/** What Spark reads of a Hive table by its SerDes: which files, and what says how they are read. */
public final class HiveFiles implements BiFunction {
    /** What is known of a table's rows, and when it was changed: it changes none. */
    static final Set OF_NO_ROW =
            new HashSet(Arrays.asList(new Object[] {
                "transient_lastDdlTime", "last_modified_time", "last_modified_by", "numFiles",
                "numRows", "rawDataSize", "totalSize", "numFilesErasureCoded", "COLUMN_STATS_ACCURATE",
                "STATS_GENERATED_VIA_STATS_TASK", "DO_NOT_UPDATE_STATS", "comment",
            }));
    static final String STATISTICS = "spark.sql.statistics.";
    static final String SCHEMA = "avro.schema.url";

    /** Formats of files, and SerDes, see these among the settings of Hadoop. */
    static final String[] SEEN = {
        "avro.", "hive.", "io.", "mapred.", "mapreduce.", "orc.", "parquet.", "textinputformat.",
    };

    final BiFunction directories;
    final Function content;
    final Set known;

    /**
     * @param directories what is below a directory, see `FileVersions`
     * @param content what is known of the code of a class, see `KnownContent`
     * @param known the classes, separated by commas, of which Spark's version says all
     */
    public HiveFiles(BiFunction directories, Function content, String known) {
        this.directories = directories;
        this.content = content;
        this.known = new HashSet(Arrays.asList((Object[]) known.split(",")));
    }

    /**
     * What says how a table is read, as JSON, and its listed files: each a file's status, or a
     * directory's path and tag.
     *
     * @param relation the table
     * @param reached the partitions, null where it has none; and the session that reads
     */
    public Object apply(Object relation, Object reached) {
        CatalogTable table = ((HiveTableRelation) relation).tableMeta();
        Seq partitions = (Seq) ((Object[]) reached)[0];
        SparkSession session = (SparkSession) ((Object[]) reached)[1];
        Reading reading = new Reading(this, session);
        reading.say(table.identifier().unquotedString());
        reading.say(table.schema().json());
        reading.say(table.partitionColumnNames().mkString(","));
        reading.properties(table.properties());
        reading.storage(table.storage());
        if (partitions == null) {
            reading.directory(table.storage());
        } else {
            reading.partitions(partitions.iterator());
        }
        reading.settings();
        return new Object[] {reading.said(), reading.files};
    }

    static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
    }

    static String quoted(Collection texts) {
        StringBuilder all = new StringBuilder("[");
        java.util.Iterator each = texts.iterator();
        while (each.hasNext()) {
            all.append(all.length() == 1 ? "" : ",").append(quoted((String) each.next()));
        }
        return all.append(']').toString();
    }

    /** One table while it is listed. */
    static final class Reading {
        final HiveFiles with;
        final SparkSession session;
        final Configuration hadoop;
        final List files = new ArrayList();
        final Set directories = new HashSet();
        final Set schemas = new HashSet();
        final Set formats = new TreeSet();
        final Set serdes = new TreeSet();
        final Set keys = new TreeSet();
        final StringBuilder how = new StringBuilder();
        int header = 0;

        Reading(HiveFiles with, SparkSession session) {
            this.with = with;
            this.session = session;
            this.hadoop = session.sessionState().newHadoopConf();
        }

        void say(String text) {
            how.append(text.length()).append(' ').append(text);
        }

        /** @param texts in any order */
        void say(List texts) {
            Collections.sort(texts);
            say(String.valueOf(texts.size()));
            java.util.Iterator each = texts.iterator();
            while (each.hasNext()) {
                say((String) each.next());
            }
        }

        void properties(Map properties) {
            List lines = new ArrayList();
            Iterator each = properties.iterator();
            while (each.hasNext()) {
                Tuple2 entry = (Tuple2) each.next();
                String key = (String) entry._1();
                if (OF_NO_ROW.contains(key) || key.startsWith(STATISTICS)) {
                    continue;
                }
                lines.add(key + '\0' + entry._2());
                if (!key.equals(SCHEMA) || !schema(String.valueOf(entry._2()))) {
                    keys.add(key);
                }
                if (key.equals("skip.header.line.count")) {
                    lines(String.valueOf(entry._2()));
                }
            }
            say(lines);
        }

        /** Lists a file with a schema of Avro's; whether there is one. */
        boolean schema(String url) {
            if (url.startsWith("http")) {
                return false;
            }
            try {
                Path path = new Path(url);
                if (schemas.add(url)) {
                    files.add(path.getFileSystem(hadoop).getFileStatus(path));
                }
                return true;
            } catch (Exception error) {
                schemas.remove(url);
                return false;
            }
        }

        void values(Map partition) {
            List lines = new ArrayList();
            for (Iterator each = partition.iterator(); each.hasNext(); ) {
                Tuple2 value = (Tuple2) each.next();
                lines.add(value._1() + "\0" + value._2());
            }
            say(lines);
        }

        void lines(String count) {
            try {
                header = Math.max(header, Integer.parseInt(count.trim()));
            } catch (NumberFormatException error) {
                // Spark can't read it either.
                header = Integer.MAX_VALUE;
            }
        }

        void storage(CatalogStorageFormat storage) {
            formats.add(text(storage.inputFormat()));
            serdes.add(text(storage.serde()));
            say(text(storage.inputFormat()));
            say(text(storage.serde()));
            properties(storage.properties());
        }

        static String text(Option option) {
            return option.isEmpty() ? "" : String.valueOf(option.get());
        }

        void partitions(Iterator each) {
            List found = new ArrayList();
            while (each.hasNext()) {
                CatalogTablePartition partition = (CatalogTablePartition) each.next();
                StringBuilder outer = new StringBuilder(how);
                how.setLength(0);
                // Columns may have the names of properties.
                values(partition.spec());
                storage(partition.storage());
                properties(partition.parameters());
                directory(partition.storage());
                found.add(how.toString());
                how.setLength(0);
                how.append(outer);
            }
            // A catalog has them in any order.
            say(found);
        }

        void directory(CatalogStorageFormat storage) {
            // As Spark does: in a URI some characters are escaped that are none of a path.
            String path = new Path((URI) storage.locationUri().get()).toString();
            Object[] below = (Object[]) with.directories.apply(path, hadoop);
            say((String) below[0]);
            // Partitions may share one.
            if (directories.add(below[0])) {
                files.add(new String[] {(String) below[0], (String) below[1]});
                files.addAll((List) below[2]);
            }
        }

        /** What is set in files of settings; what programs set counts with each of their queries. */
        void settings() {
            List lines = new ArrayList();
            java.util.Iterator each = hadoop.iterator();
            while (each.hasNext()) {
                java.util.Map.Entry entry = (java.util.Map.Entry) each.next();
                String key = (String) entry.getKey();
                boolean isSeen = false;
                for (int place = 0; place < SEEN.length && !isSeen; place++) {
                    isSeen = key.startsWith(SEEN[place]);
                }
                if (!isSeen || key.startsWith("hive.metastore.")) {
                    continue;
                }
                String[] sources = hadoop.getPropertySources(key);
                String last = sources == null || sources.length == 0
                        ? ""
                        : sources[sources.length - 1];
                if (last.endsWith(".xml") && !last.endsWith("-default.xml")) {
                    lines.add(key + '\0' + entry.getValue());
                }
            }
            say(lines);
            SparkConf conf = session.sparkContext().conf();
            say(conf.get("spark.files.ignoreMissingFiles", "false"));
            say(conf.get("spark.files.ignoreCorruptFiles", "false"));
        }

        /** The code of a class that isn't Spark's; after a `?` why it can't be known. */
        String code(Set classes) {
            StringBuilder found = new StringBuilder();
            java.util.Iterator each = classes.iterator();
            while (each.hasNext()) {
                String name = (String) each.next();
                if (with.known.contains(name) || name.isEmpty()) {
                    continue;
                }
                try {
                    ClassLoader loader = session.sharedState().jarClassLoader();
                    String code = (String) with.content.apply(Class.forName(name, false, loader));
                    if (code.startsWith("?")) {
                        return code;
                    }
                    found.append(name).append(' ').append(code).append('\n');
                } catch (ClassNotFoundException error) {
                    return "?the class " + name + ", which isn't there";
                } catch (LinkageError error) {
                    return "?the class " + name;
                }
            }
            return found.toString();
        }

        String said() {
            SparkConf conf = session.sparkContext().conf();
            String corrupt = conf.get("spark.files.ignoreCorruptFiles", "false");
            return "{\"how\":" + quoted(digest(how.toString()))
                    + ",\"formats\":" + quoted(formats)
                    + ",\"serdes\":" + quoted(serdes)
                    + ",\"keys\":" + quoted(keys)
                    + ",\"header\":" + header
                    + ",\"ignorecorruptfiles\":" + quoted(corrupt)
                    + ",\"code\":" + quoted(code(serdes)) + "}";
        }

        static String digest(String text) {
            try {
                byte[] bytes = text.getBytes(StandardCharsets.UTF_16LE);
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                return Base64.getEncoder().encodeToString(digest.digest(bytes));
            } catch (java.security.NoSuchAlgorithmException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
