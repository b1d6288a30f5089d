package holdfast;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.streaming.runtime.MemoryStreamInputPartition;
import org.apache.spark.sql.execution.streaming.runtime.MemoryStreamReaderFactory$;
import org.apache.spark.sql.execution.streaming.sources.MemoryWriterCommitMessage;
import org.apache.spark.sql.execution.streaming.sources.MemoryWriterFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A catalog of tables in the driver's memory, by names in any case, that take MERGE, UPDATE and DELETE, as copy-on-write
 * tables do: rows with the same first column, a BIGINT, are a group, and groups are replaced.
 *
 * Tasks don't find classes that are compiled at run time, so theirs are those of Spark's own tables
 * in memory.
 */
public final class MergeableTables implements TableCatalog {
    /** Older versions of Spark give tasks a column more, if a table has no metadata columns. */
    static final boolean ADDS_OPERATION = addsOperation();

    final Map tables = new HashMap();
    String name;

    public MergeableTables() {}

    static boolean addsOperation() {
        String newer = "org.apache.spark.sql.execution.datasources.v2.DataWithProjection";
        try {
            Class.forName(
                    newer + "WritingSparkTask", false, MemoryWriterFactory.class.getClassLoader());
            return false;
        } catch (ClassNotFoundException error) {
            return true;
        }
    }

    /** Becomes a catalog of a session. */
    public void register(SparkSession session, String name) {
        session.conf().set("spark.sql.catalog." + name, getClass().getName());
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(getClass().getClassLoader());
        try {
            // Spark loads it as the session's own when the session first looks into it.
            session.sql("SHOW TABLES IN " + name);
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    static String key(Identifier id) {
        return id.name().toLowerCase();
    }

    public Table loadTable(Identifier id) throws NoSuchTableException {
        Table table = (Table) tables.get(key(id));
        if (table == null) {
            throw new NoSuchTableException(id);
        }
        return table;
    }

    public Table createTable(Identifier id, StructType schema, Transform[] by, Map properties) {
        tables.put(key(id), new Grouped(id.toString(), schema));
        return (Table) tables.get(key(id));
    }

    public Table alterTable(Identifier id, TableChange[] changes) {
        throw new UnsupportedOperationException();
    }

    public boolean dropTable(Identifier id) {
        return tables.remove(key(id)) != null;
    }

    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException();
    }

    static final class Grouped implements SupportsRead, SupportsWrite, SupportsRowLevelOperations {
        final String name;
        final StructType schema;
        volatile List rows = new ArrayList();

        Grouped(String name, StructType schema) {
            this.name = name;
            this.schema = schema;
        }

        public String name() {
            return name;
        }

        public StructType schema() {
            return schema;
        }

        public Set capabilities() {
            Set all = new HashSet();
            all.add(TableCapability.BATCH_READ);
            all.add(TableCapability.BATCH_WRITE);
            return all;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new Reading(this);
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return new Writing(this, info.schema(), null, null);
        }

        public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
            return new Replacing(this, info.command());
        }
    }

    /** A read, of those groups alone that Spark asks for when it runs. */
    static final class Reading implements ScanBuilder, SupportsRuntimeV2Filtering, Batch {
        final Grouped table;
        List rows;

        Reading(Grouped table) {
            this.table = table;
            this.rows = table.rows;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return table.schema;
        }

        public Batch toBatch() {
            return this;
        }

        public NamedReference[] filterAttributes() {
            return new NamedReference[] {Expressions.column(table.schema.fieldNames()[0])};
        }

        public void filter(Predicate[] predicates) {
            for (int index = 0; index < predicates.length; index++) {
                Set groups = new HashSet();
                for (int value = 1; value < predicates[index].children().length; value++) {
                    groups.add(((Literal) predicates[index].children()[value]).value());
                }
                List left = new ArrayList();
                Iterator each = rows.iterator();
                while (each.hasNext()) {
                    UnsafeRow row = (UnsafeRow) each.next();
                    if (groups.contains(Long.valueOf(row.getLong(0)))) {
                        left.add(row);
                    }
                }
                rows = left;
            }
        }

        public InputPartition[] planInputPartitions() {
            UnsafeRow[] all = (UnsafeRow[]) rows.toArray(new UnsafeRow[0]);
            return new InputPartition[] {new MemoryStreamInputPartition(all)};
        }

        public PartitionReaderFactory createReaderFactory() {
            return MemoryStreamReaderFactory$.MODULE$;
        }
    }

    /** A write, whose tasks send their rows back. */
    static final class Writing implements WriteBuilder, Write, BatchWrite {
        final Grouped table;
        final StructType schema;
        final Reading replaced;
        final RowLevelOperation.Command command;

        Writing(
                Grouped table,
                StructType schema,
                Reading replaced,
                RowLevelOperation.Command command) {
            this.command = command;
            this.table = table;
            this.schema = schema;
            this.replaced = replaced;
        }

        public Write build() {
            return this;
        }

        public BatchWrite toBatch() {
            return this;
        }

        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
            return new MemoryWriterFactory(sent());
        }

        /** Of what tasks are given to write. */
        StructType sent() {
            if (!ADDS_OPERATION || replaced == null || command == RowLevelOperation.Command.DELETE) {
                return schema;
            }
            StructType sent = new StructType().add("operation", DataTypes.IntegerType);
            for (int index = 0; index < schema.length(); index++) {
                sent = sent.add(schema.fields()[index]);
            }
            return sent;
        }

        public void commit(WriterCommitMessage[] messages) {
            List all = new ArrayList(table.rows);
            if (replaced != null) {
                all.removeAll(replaced.rows);
            }
            Function1 inner = CatalystTypeConverters.createToCatalystConverter(sent());
            // Without the operation.
            int skipped = sent().length() - schema.length();
            List columns = new ArrayList();
            for (int index = 0; index < schema.length(); index++) {
                DataType type = schema.fields()[index].dataType();
                columns.add(new BoundReference(index + skipped, type, true));
            }
            UnsafeProjection flat =
                    UnsafeProjection.create(CollectionConverters.asScala(columns).toSeq());
            for (int index = 0; index < messages.length; index++) {
                scala.collection.Iterator each =
                        ((MemoryWriterCommitMessage) messages[index]).data().iterator();
                while (each.hasNext()) {
                    all.add(flat.apply((InternalRow) inner.apply(each.next())).copy());
                }
            }
            table.rows = all;
        }

        public void abort(WriterCommitMessage[] messages) {}
    }

    /** A command that replaces the groups that it has read. */
    static final class Replacing implements RowLevelOperationBuilder, RowLevelOperation {
        final Grouped table;
        final RowLevelOperation.Command command;
        Reading read;

        Replacing(Grouped table, RowLevelOperation.Command command) {
            this.table = table;
            this.command = command;
        }

        public RowLevelOperation build() {
            return this;
        }

        public RowLevelOperation.Command command() {
            return command;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            read = new Reading(table);
            return read;
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return new Writing(table, info.schema(), read, command);
        }
    }
}
