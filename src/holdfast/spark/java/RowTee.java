package holdfast;

import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.PlanLater;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.UnaryExecNode;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;
import scala.Product;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction2;

/**
 * Writes the rows of a part of a plan while they flow on to what is above it.
 *
 * Each attempt of a task writes a file of its own with Spark's writer of Parquet, on its machine. An
 * attempt that succeeds says so, by an accumulator; whether they agree is for the driver to decide.
 */
public final class RowTee {
    /** What the storage removes before it publishes, and with it what an attempt still writes. */
    private static final String IN_PROGRESS = "_temporary";

    public RowTee() {}

    /**
     * @param session its settings say how files are written
     * @param plan whose rows are written
     * @param kept the files' columns
     * @param renamed the columns whose fields have other names in the files, as ` 0 2 `
     * @param filler whether the files have one column, and the rows none
     * @param directory the absolute path of where the files are left, on each task's machine
     */
    public Sink sink(
            SparkSession session,
            LogicalPlan plan,
            StructType kept,
            String renamed,
            boolean filler,
            Map given,
            String directory) throws IOException {
        scala.collection.immutable.Map options = scala.collection.immutable.Map$.MODULE$.empty();
        java.util.Iterator entries = given.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            options = (scala.collection.immutable.Map)
                options.updated(entry.getKey(), entry.getValue());
        }
        if (plan.containsPattern(TreePattern.CTE())) {
            throw new IllegalArgumentException("Spark copies definitions to their references");
        }
        ParquetFileFormat format = new ParquetFileFormat();
        StructType schema = filler ? kept : schema(plan, kept, renamed);
        StructField[] fields = schema.fields();
        for (int index = 0; index < fields.length; index++) {
            DataType type = fields[index].dataType();
            if (!format.supportDataType(type)) {
                throw new IllegalArgumentException("Parquet doesn't have " + type.sql());
            }
        }
        Job job = Job.getInstance(session.sessionState().newHadoopConfWithOptions(options));
        job.setOutputKeyClass(Void.class);
        job.setOutputValueClass(InternalRow.class);
        FileOutputFormat.setOutputPath(job, new Path("file:" + directory));
        OutputWriterFactory factory = format.prepareWrite(session, job, options, schema);
        HashMap settings = new HashMap();
        Iterator each = session.sessionState().conf().getAllConfs().iterator();
        while (each.hasNext()) {
            Product setting = (Product) each.next();
            if (((String) setting.productElement(0)).startsWith("spark.sql.")) {
                settings.put(setting.productElement(0), setting.productElement(1));
            }
        }
        CollectionAccumulator receipts = session.sparkContext().collectionAccumulator();
        return new Sink(
            new Writing(
                factory, schema, new SerializableConfiguration(job.getConfiguration()), settings,
                directory, filler, receipts));
    }

    /** The columns with their own types, of which a schema's JSON leaves out collations. */
    private static StructType schema(LogicalPlan plan, StructType kept, String renamed) {
        StructField[] fields = (StructField[]) kept.fields().clone();
        for (int index = 0; index < plan.output().size(); index++) {
            Attribute column = (Attribute) plan.output().apply(index);
            boolean isRenamed = renamed.contains(" " + index + " ");
            fields[index] = new StructField(
                fields[index].name(), isRenamed ? fields[index].dataType() : column.dataType(),
                column.nullable(), fields[index].metadata());
        }
        return new StructType(fields);
    }

    /** The plan, with its rows written; for a session that `extend` was called with. */
    public LogicalPlan over(LogicalPlan plan, Sink sink) {
        return new Tee(plan, plan.output(), sink);
    }

    /** Has a session know how to run what `over` gives. */
    public void extend(SparkSession session) {
        Seq strategies = session.experimental().extraStrategies();
        session.experimental().extraStrategies_$eq(
            (Seq) strategies.appended(new Planned()));
    }

    /** The driver's end of it. */
    public static final class Sink {
        private final Writing writing;
        private int partitions = -1;
        private SparkPlan plan;

        Sink(Writing writing) {
            this.writing = writing;
        }

        /** How many partitions there are; -1 when none has been asked for. */
        public synchronized int partitions() {
            return partitions;
        }

        /** The plan whose rows were written, as it has run; null when none has been asked for. */
        public synchronized SparkPlan plan() {
            return plan;
        }

        /** What attempts that have succeeded say, a line each. */
        public String receipts() {
            List said = writing.receipts.value();
            StringBuilder text = new StringBuilder();
            for (int number = 0; number < said.size(); number++) {
                text.append(number == 0 ? "" : "\n").append(said.get(number));
            }
            return text.toString();
        }

        synchronized RDD written(RDD rows, SparkPlan of, Seq columns) {
            // Where a plan has it twice, or runs again, once is enough.
            if (partitions >= 0 || !areColumns(columns, of.output())) {
                return rows;
            }
            partitions = rows.getNumPartitions();
            plan = of;
            return rows.mapPartitionsWithIndex(
                writing, true, ClassTag$.MODULE$.apply(InternalRow.class));
        }

        /** Whether rows have the columns of the files, and in their order. */
        private static boolean areColumns(Seq columns, Seq output) {
            boolean same = output.size() == columns.size();
            for (int index = 0; same && index < columns.size(); index++) {
                Attribute written = (Attribute) output.apply(index);
                Attribute wanted = (Attribute) columns.apply(index);
                same = written.exprId().equals(wanted.exprId());
            }
            return same;
        }
    }

    static Seq only(Object one) {
        return Nil$.MODULE$.$colon$colon(one);
    }

    /** What the optimizer sees: all columns are needed, and nothing is pushed through. */
    public static final class Tee extends LogicalPlan implements UnaryNode {
        private final LogicalPlan child;
        /** The files' columns, in their order: where Spark renames the child's, it does so here. */
        private final Seq columns;
        private final Sink sink;

        public Tee(LogicalPlan child, Seq columns, Sink sink) {
            this.child = child;
            this.columns = columns;
            this.sink = sink;
        }

        public TreeNode child() {
            return child;
        }

        public Seq children() {
            return only(child);
        }

        public Seq output() {
            return child.output();
        }

        public AttributeSet references() {
            return child.outputSet();
        }

        public TreeNode withNewChildInternal(TreeNode instead) {
            return new Tee((LogicalPlan) instead, columns, sink);
        }

        public TreeNode withNewChildrenInternal(IndexedSeq instead) {
            return withNewChildInternal((TreeNode) instead.head());
        }

        public Seq otherCopyArgs() {
            return only(sink);
        }

        public int productArity() {
            return 2;
        }

        public Object productElement(int index) {
            return index == 0 ? (Object) child : columns;
        }

        public boolean canEqual(Object other) {
            return other instanceof Tee;
        }

        public boolean equals(Object other) {
            return other instanceof Tee && ((Tee) other).sink == sink
                && ((Tee) other).columns.equals(columns) && ((Tee) other).child.equals(child);
        }

        public int hashCode() {
            return 31 * child.hashCode() + 1;
        }
    }

    /** What is run. */
    public static final class TeeExec extends SparkPlan implements UnaryExecNode {
        private final SparkPlan child;
        private final Seq columns;
        private final transient Sink sink;

        public TeeExec(SparkPlan child, Seq columns, Sink sink) {
            this.child = child;
            this.columns = columns;
            this.sink = sink;
        }

        public TreeNode child() {
            return child;
        }

        public Seq children() {
            return only(child);
        }

        public Seq output() {
            return child.output();
        }

        public Partitioning outputPartitioning() {
            Partitioning partitioning = child.outputPartitioning();
            // For a join of such partitions, Spark may have a scan give some of them twice.
            String text = partitioning.toString().toLowerCase();
            return text.contains("keyedpartitioning") || text.contains("keygroupedpartitioning")
                ? new UnknownPartitioning(partitioning.numPartitions()) : partitioning;
        }

        public Seq outputOrdering() {
            return child.outputOrdering();
        }

        public RDD doExecute() {
            return sink.written(child.execute(), child, columns);
        }

        public TreeNode withNewChildInternal(TreeNode instead) {
            return new TeeExec((SparkPlan) instead, columns, sink);
        }

        public TreeNode withNewChildrenInternal(IndexedSeq instead) {
            return withNewChildInternal((TreeNode) instead.head());
        }

        public Seq otherCopyArgs() {
            return only(sink);
        }

        public int productArity() {
            return 2;
        }

        public Object productElement(int index) {
            return index == 0 ? (Object) child : columns;
        }

        public boolean canEqual(Object other) {
            return other instanceof TeeExec;
        }

        public boolean equals(Object other) {
            return other instanceof TeeExec && ((TeeExec) other).sink == sink
                && ((TeeExec) other).columns.equals(columns)
                && ((TeeExec) other).child.equals(child);
        }

        public int hashCode() {
            return 31 * child.hashCode() + 1;
        }

        // Tasks are sent their plan with all that is below it, and have no use for this node.
        protected Object writeReplace() {
            return child;
        }
    }

    static final class Planned extends SparkStrategy {
        public Seq apply(LogicalPlan plan) {
            if (!(plan instanceof Tee)) {
                return Nil$.MODULE$;
            }
            Tee tee = (Tee) plan;
            return only(new TeeExec(new PlanLater(tee.child), tee.columns, tee.sink));
        }
    }

    /** What tasks are sent. */
    public static final class Writing extends AbstractFunction2 implements Serializable {
        final OutputWriterFactory factory;
        final StructType schema;
        final SerializableConfiguration configuration;
        final HashMap settings;
        final String directory;
        final boolean filler;
        final CollectionAccumulator receipts;
        /** Of variants Spark looks at some rows before it begins a file. */
        final boolean beginsLate;
        private transient SQLConf conf;

        Writing(
                OutputWriterFactory factory,
                StructType schema,
                SerializableConfiguration configuration,
                HashMap settings,
                String directory,
                boolean filler,
                CollectionAccumulator receipts) {
            this.factory = factory;
            this.schema = schema;
            this.configuration = configuration;
            this.settings = settings;
            this.directory = directory;
            this.filler = filler;
            this.receipts = receipts;
            this.beginsLate = schema.json().contains("variant");
        }

        public Object apply(Object index, Object rows) {
            TaskContext task = TaskContext.get();
            if (task == null) {
                return rows;
            }
            Flow flow = new Flow(this, ((Integer) index).intValue(), (Iterator) rows, task);
            task.addTaskCompletionListener((TaskCompletionListener) flow);
            task.addTaskFailureListener((TaskFailureListener) flow);
            return flow;
        }

        OutputWriter open(final String path, int partition, int attempt) {
            TaskID task = new TaskID(new JobID("holdfast", 0), TaskType.MAP, partition);
            final TaskAttemptContextImpl context = new TaskAttemptContextImpl(
                new Configuration(configuration.value()), new TaskAttemptID(task, attempt));
            final Writing self = this;
            return (OutputWriter) SQLConf.withExistingConf(conf(), new AbstractFunction0() {
                public Object apply() {
                    return self.factory.newInstance(path, self.schema, context);
                }
            });
        }

        /** Files are written under settings of their own, whatever the task's are. */
        synchronized SQLConf conf() {
            if (conf == null) {
                conf = new SQLConf();
                java.util.Iterator each = settings.entrySet().iterator();
                while (each.hasNext()) {
                    Map.Entry setting = (Map.Entry) each.next();
                    conf.setConfString((String) setting.getKey(), (String) setting.getValue());
                }
            }
            return conf;
        }
    }

    /** The rows of a partition, as they are asked for by what is above. */
    public static final class Flow extends AbstractIterator
            implements TaskCompletionListener, TaskFailureListener {
        private final Writing writing;
        private final int partition;
        private final Iterator rows;
        private final TaskContext task;
        private final String file;
        private final GenericInternalRow added;
        private OutputWriter writer;
        private long count;
        private String failure;
        private volatile boolean isOver;

        Flow(Writing writing, int partition, Iterator rows, TaskContext task) {
            this.writing = writing;
            this.partition = partition;
            this.rows = rows;
            this.task = task;
            this.file = partition + "-" + task.taskAttemptId();
            this.added = new GenericInternalRow(new Object[] {Boolean.TRUE});
        }

        public boolean hasNext() {
            if (rows.hasNext()) {
                return true;
            }
            end();
            return false;
        }

        public Object next() {
            InternalRow row = (InternalRow) rows.next();
            if (failure == null && !isOver) {
                write(row);
            }
            return row;
        }

        private void write(InternalRow row) {
            try {
                if (writer == null) {
                    open();
                }
                put(shaped(row));
                count++;
            } catch (Throwable error) {
                // The rows flow on: nobody else is to suffer from it.
                fail(error);
            }
        }

        private void put(final InternalRow row) {
            if (!writing.beginsLate) {
                writer.write(row);
                return;
            }
            final OutputWriter open = writer;
            SQLConf.withExistingConf(writing.conf(), new AbstractFunction0() {
                public Object apply() {
                    open.write(row);
                    return null;
                }
            });
        }

        private void close(final OutputWriter open) {
            SQLConf.withExistingConf(writing.conf(), new AbstractFunction0() {
                public Object apply() {
                    open.close();
                    return null;
                }
            });
        }

        private InternalRow shaped(InternalRow row) {
            return writing.filler ? added : row;
        }

        private void open() {
            writer = writing.open(
                "file:" + written(), partition, task.attemptNumber());
        }

        /** All rows have been taken. */
        private synchronized void end() {
            if (isOver) {
                return;
            }
            String host = "";
            try {
                host = host();
                // A partition without rows has a file as well, so that it is read as one.
                if (writer == null && failure == null) {
                    open();
                }
                OutputWriter open = writer;
                writer = null;
                if (open != null) {
                    close(open);
                    move(checksums(written()), checksums(left()));
                    move(written(), left());
                }
            } catch (Throwable error) {
                fail(error);
            }
            isOver = true;
            String why = failure == null ? "" : failure;
            writing.receipts.add(
                partition + "\t" + host + "\t"
                    + count + "\t" + System.currentTimeMillis() + "\t" + why);
        }

        /** The machine's name, as Spark calls it. */
        private static String host() throws Throwable {
            // SparkEnv can't be compiled against: some of its methods take classes that Spark hides.
            Class environment = Class.forName(
                "org.apache.spark.SparkEnv", true, TaskContext.class.getClassLoader());
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            Object current = lookup.findStatic(
                environment, "get", MethodType.methodType(environment))
                .invokeWithArguments(new Object[0]);
            BlockManager blocks = (BlockManager) lookup.findVirtual(
                environment, "blockManager", MethodType.methodType(BlockManager.class))
                .invokeWithArguments(new Object[] {current});
            return blocks.blockManagerId().host();
        }

        private File written() {
            return new File(new File(writing.directory, IN_PROGRESS), file);
        }

        /** Where it is found: Spark's writer calls files so. */
        private File left() {
            return new File(
                writing.directory,
                String.format(
                    "part-%05d-%d.parquet",
                    new Object[] {Integer.valueOf(partition), Long.valueOf(task.taskAttemptId())}));
        }

        /** What Hadoop lays beside a file. */
        private static File checksums(File file) {
            return new File(file.getParentFile(), "." + file.getName() + ".crc");
        }

        private static void move(File from, File to) throws IOException {
            if (from.exists()) {
                Files.move(from.toPath(), to.toPath(), StandardCopyOption.ATOMIC_MOVE);
            }
        }

        private synchronized void fail(Throwable error) {
            Throwable cause = error;
            while (cause.getCause() != null && cause.getCause() != cause) {
                cause = cause.getCause();
            }
            String said = error + (cause == error ? "" : ": " + cause);
            failure = said.replaceAll("\\s+", " ");
            discard();
        }

        /** The task has ended, perhaps before all rows were taken. */
        public synchronized void onTaskCompletion(TaskContext ended) {
            if (!isOver) {
                isOver = true;
                discard();
            }
        }

        /** What it has left is written again by the next attempt. */
        public synchronized void onTaskFailure(TaskContext ended, Throwable error) {
            isOver = true;
            discard();
            remove(left());
        }

        private void discard() {
            OutputWriter open = writer;
            writer = null;
            if (open != null) {
                try {
                    close(open);
                } catch (Throwable unimportant) {
                    // It is not to be read.
                }
            }
            remove(written());
        }

        private static void remove(File file) {
            file.delete();
            checksums(file).delete();
        }
    }
}
