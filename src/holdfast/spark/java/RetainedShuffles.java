package holdfast;

import java.io.File;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.Dependency;
import org.apache.spark.MapOutputTracker;
import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.MapStatus$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.RoundRobinPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CoalescedMapperPartitionSpec;
import org.apache.spark.sql.execution.CoalescedPartitionSpec;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.PartialMapperPartitionSpec;
import org.apache.spark.sql.execution.PartialReducerPartitionSpec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.execution.ShuffledRowRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleOrigin;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockManagerId$;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.IterableOnceOps;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.concurrent.Future;
import scala.concurrent.Future$;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * What the map tasks of shuffles have written is kept beside Spark's own files by hard links, and
 * given to the shuffles of a later driver that are the same: Spark runs the other map tasks only,
 * as it does when it has lost the output of some.
 *
 * Where tasks run in the driver's process, the driver makes the links. On a cluster tasks do, each
 * on its machine: a map task once it has succeeded, and those of a Spark job that looks for what
 * earlier drivers have left there.
 */
public final class RetainedShuffles {
    // No attempt of a task of this driver has such a number.
    static final long FIRST_ADOPTED = 1L << 50;
    // In milliseconds.
    static final int REGISTERED_WITHIN = 100;
    static final String DATA = ".data";
    static final String INDEX = ".index";
    /** On what was collected for a broadcast, see `RetainedBroadcasts`. */
    static final TreeNodeTag COLLECTED = new TreeNodeTag("holdfast.collected");
    static final Pattern NUMBER = Pattern.compile("(#|plan_id=)(\\d+)");

    final SparkContext context;
    final String key;
    final BiFunction broadcasts;
    final TreeNodeTag position = new TreeNodeTag("holdfast.position");
    final ConcurrentHashMap jobs = new ConcurrentHashMap();
    /** By where executors keep what jobs leave, on which machines of a cluster that can be. */
    private final ConcurrentHashMap tried = new ConcurrentHashMap();
    private final Set extended = java.util.Collections.newSetFromMap(new IdentityHashMap());

    /**
     * @param context the driver's
     * @param key the setting that says what a session's queries are: `job query scope`
     * @param broadcasts keeps what is collected for broadcasts, see `RetainedBroadcasts`
     */
    public RetainedShuffles(SparkContext context, String key, BiFunction broadcasts) {
        this.context = context;
        this.key = key;
        this.broadcasts = broadcasts;
    }

    /** Has sessions that are cloned from this one look for the setting. */
    public synchronized void extend(SparkSession session) {
        SparkSessionExtensions extensions = session.extensions();
        if (extended.add(extensions)) {
            final RetainedShuffles self = this;
            extensions.injectQueryStagePrepRule(new AbstractFunction1() {
                public Object apply(Object each) {
                    return new Positions(self);
                }
            });
            extensions.injectColumnar(new AbstractFunction1() {
                public Object apply(Object each) {
                    return new Exchanges(self);
                }
            });
        }
    }

    /**
     * @param id tells the job from others of this driver
     * @param directory what its map tasks write is kept there, and was by earlier drivers, on each
     *     machine
     * @param hosts the machines that may have some of it, on a cluster, with spaces between them
     */
    public Job open(String id, String directory, String hosts) {
        Nodes nodes = null;
        if (!context.isLocal()) {
            Set names = new HashSet(Arrays.asList(hosts.split(" ")));
            names.remove("");
            nodes = new Nodes(context, names, triedFor(new File(directory)));
        }
        Job job = new Job(this, new File(directory).toPath(), nodes);
        job.tryOut(new Trial(directory));
        jobs.put(id, job);
        if (context.isLocal()) {
            // A queue of its own: what other listeners hold up would be lost with the driver.
            context.listenerBus().addToQueue(job, "holdfast-shuffles");
        }
        return job;
    }

    private Set triedFor(File directory) {
        // What a job leaves lies in a directory of its own, beside those of others.
        String place = String.valueOf(directory.getParentFile().getParent());
        tried.putIfAbsent(place, ConcurrentHashMap.newKeySet());
        return (Set) tried.get(place);
    }

    public void close(String id) {
        Job job = (Job) jobs.remove(id);
        if (job != null) {
            context.removeSparkListener(job);
        }
    }

    /** What the session is to be retained for; null where it isn't. */
    Query asked() {
        String value = SQLConf.get().getConfString(key, "");
        if (value.isEmpty()) {
            return null;
        }
        Job job = (Job) jobs.get(value.substring(0, value.indexOf(' ')));
        return job == null ? null : job.query(value);
    }

    // SparkEnv can't be compiled against: some of its methods take classes that Spark hides.
    private static Object ofEnvironment(String name, Class type) {
        try {
            ClassLoader loader = SparkContext.class.getClassLoader();
            Class environment = Class.forName("org.apache.spark.SparkEnv", true, loader);
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            Object current = lookup.findStatic(environment, "get", MethodType.methodType(environment))
                .invokeWithArguments(new Object[0]);
            return lookup.findVirtual(environment, name, MethodType.methodType(type))
                .invokeWithArguments(new Object[] {current});
        } catch (Throwable error) {
            throw new IllegalStateException(error);
        }
    }

    static MapOutputTrackerMaster tracker() {
        return (MapOutputTrackerMaster) ofEnvironment("mapOutputTracker", MapOutputTracker.class);
    }

    static BlockManager blocks() {
        return (BlockManager) ofEnvironment("blockManager", BlockManager.class);
    }

    /** Where Spark has what a map task has written. */
    static Path place(int shuffle, long map, String kind) {
        String name = "shuffle_" + shuffle + "_" + map + "_0" + kind;
        return blocks().diskBlockManager().getFile(name).toPath();
    }

    /** A query of a job, as it is run once. */
    static final class Query {
        final Job job;
        final String scope;
        final AtomicInteger roots = new AtomicInteger();
        final AtomicInteger adopted = new AtomicInteger();

        Query(Job job, String scope) {
            this.job = job;
            this.scope = scope;
        }
    }

    /** One shuffle of a query. */
    static final class Retained {
        final Path directory;
        final long sizeMetric;

        Retained(Path directory, long sizeMetric) {
            this.directory = directory;
            this.sizeMetric = sizeMetric;
        }
    }

    /** The shuffles of one job. */
    public static final class Job extends SparkListener {
        private final RetainedShuffles owner;
        private final Path home;
        private final Nodes nodes;
        private final ConcurrentHashMap places = new ConcurrentHashMap();
        private final ConcurrentHashMap functions = new ConcurrentHashMap();
        private final ConcurrentHashMap queries = new ConcurrentHashMap();
        private final ConcurrentHashMap names = new ConcurrentHashMap();
        private final ConcurrentHashMap shuffles = new ConcurrentHashMap();
        private final ConcurrentHashMap stages = new ConcurrentHashMap();
        private final ConcurrentHashMap contents = new ConcurrentHashMap();
        private final List troubles = new ArrayList();
        private boolean keepsAll;

        /** The nodes are null where tasks run in this process. */
        Job(RetainedShuffles owner, Path home, Nodes nodes) {
            this.owner = owner;
            this.home = home;
            this.nodes = nodes;
        }

        /** Fails where tasks can't have our classes. */
        void tryOut(Trial trial) {
            List said = nodes == null ? trial.said() : nodes.saidBy(trial);
            for (int number = 0; number < said.size(); number++) {
                note((String) said.get(number));
            }
            keepsAll = said.isEmpty();
        }

        /** Whether what tasks write could be kept wherever that was tried out. */
        public boolean keepsAll() {
            return keepsAll;
        }

        /** What is written of these rows is kept, once it is known as what; null for others. */
        Keeping keeping() {
            return nodes == null ? null : new Keeping(nodes.troubles);
        }

        /** A directory is another one in each start, and its files are known by this name. */
        public void name(String directory, String name) {
            places.put(directory, name);
        }

        /** A function is pickled in another way in each start, and known by this digest. */
        public void function(String pickle, String digest) {
            functions.put(pickle, digest);
        }

        String digestOf(PythonFuncExpression call) {
            IterableOnceOps command = (IterableOnceOps) call.func().command();
            byte[] bytes = (byte[]) command.toArray(ClassTag$.MODULE$.Byte());
            String pickle = Base64.getEncoder().encodeToString(bytes);
            Object known = functions.get(pickle);
            return known == null ? pickle : (String) known;
        }

        /** How many tasks of a query weren't run. */
        public int adopted(String value) {
            Query query = (Query) queries.get(value);
            return query == null ? 0 : query.adopted.get();
        }

        /** What went wrong since this was last asked, a line each. */
        public String troubles() {
            synchronized (troubles) {
                List ofTasks = nodes == null ? new ArrayList() : nodes.troubles.value();
                for (int number = 0; number < ofTasks.size(); number++) {
                    note((String) ofTasks.get(number));
                }
                StringBuilder text = new StringBuilder();
                for (int number = 0; number < troubles.size(); number++) {
                    text.append(number == 0 ? "" : "\n").append(troubles.get(number));
                }
                troubles.clear();
                return text.toString();
            }
        }

        private void note(Throwable trouble) {
            note(said(trouble));
        }

        private void note(String said) {
            synchronized (troubles) {
                if (troubles.size() < 8 && !troubles.contains(said)) {
                    troubles.add(said);
                }
            }
        }

        Query query(String value) {
            String scope = value.substring(value.indexOf(' ', value.indexOf(' ') + 1) + 1);
            queries.putIfAbsent(value, new Query(this, scope));
            return (Query) queries.get(value);
        }

        /** Gives a shuffle what earlier drivers have left of it; whether that is all. */
        boolean provide(
                Query query, ShuffleExchangeExec exchange, ShuffleDependency shuffle,
                Keeping keeping) {
            try {
                String name = new Name(this, query).of(exchange, shuffle);
                if (name == null) {
                    return false;
                }
                names.put(Integer.valueOf(shuffle.shuffleId()), name);
                Path directory = home.resolve(name);
                SQLMetric size = (SQLMetric) exchange.metrics().apply("dataSize");
                if (keeping != null) {
                    keeping.of(shuffle.shuffleId(), directory.toString(), size.id());
                    return adopt(query, exchange, shuffle, nodes.left(shuffle, directory));
                }
                make(directory);
                List left = left(shuffle, directory.toString());
                boolean whole = adopt(query, exchange, shuffle, left);
                shuffles.put(
                    Integer.valueOf(shuffle.shuffleId()), new Retained(directory, size.id()));
                return whole;
            } catch (Exception trouble) {
                note(trouble);
                return false;
            }
        }

        /** The directory for the rows of a plan, whichever driver collects them; null for none. */
        Path directoryOf(Query query, SparkPlan plan, RDD rows) {
            try {
                String name = new Name(this, query).ofRows(plan, rows);
                if (name == null) {
                    return null;
                }
                Path directory = home.resolve(name);
                if (nodes == null) {
                    make(directory);
                }
                return directory;
            } catch (Exception trouble) {
                note(trouble);
                return null;
            }
        }

        /** What goes wrong in tasks is told there; null where they run in this process. */
        CollectionAccumulator troublesOnNodes() {
            return nodes == null ? null : nodes.troubles;
        }

        /** What a task gives on each machine that may have something. */
        Object[] onNodes(AbstractFunction1 task) {
            try {
                return nodes.onEach(task, Tuple2.class);
            } catch (Exception trouble) {
                // It is as if there were nothing.
                note(trouble);
                return new Object[0];
            }
        }

        /** The name of a shuffle of this job; null for others. */
        String nameOf(ShuffleDependency shuffle) {
            return (String) names.get(Integer.valueOf(shuffle.shuffleId()));
        }

        String placeOf(Path file) {
            Object known = file.getParent() == null ? null : places.get(file.getParent().toString());
            return known == null ? file.toString() : known + "/" + file.getFileName();
        }

        /** What is broadcast, in one start as in another if it is the same. */
        String contentOf(Broadcast broadcast) throws Exception {
            Long id = Long.valueOf(broadcast.id());
            if (!contents.containsKey(id)) {
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                ObjectOutputStream out = new ObjectOutputStream(
                    new DigestOutputStream(OutputStream.nullOutputStream(), digest));
                out.writeObject(broadcast.value());
                out.close();
                contents.put(id, hexadecimal(digest.digest()));
            }
            return (String) contents.get(id);
        }

        private List left(ShuffleDependency shuffle, String directory) {
            Adopting adopting = new Adopting(
                directory, shuffle.shuffleId(), shuffle.rdd().getNumPartitions(),
                shuffle.partitioner().numPartitions(), null);
            List found = adopting.found();
            for (int number = 0; number < adopting.troubles.size(); number++) {
                note((String) adopting.troubles.get(number));
            }
            return found;
        }

        /** Has a shuffle begin with what was found; whether that is all. */
        private static boolean adopt(
                Query query, ShuffleExchangeExec exchange, ShuffleDependency shuffle, List found) {
            int maps = shuffle.rdd().getNumPartitions();
            Set done = new HashSet();
            for (int number = 0; number < found.size(); number++) {
                Adopted output = (Adopted) found.get(number);
                if (!done.add(Integer.valueOf(output.map))) {
                    continue;
                }
                if (done.size() == 1) {
                    tracker().registerShuffle(
                        shuffle.shuffleId(), maps, shuffle.partitioner().numPartitions());
                }
                // First: where these say that there are no rows, Spark leaves out whoever reads
                // them.
                ((SQLMetric) exchange.metrics().apply("dataSize")).add(output.bytes);
                ((SQLMetric) exchange.metrics().apply("shuffleRecordsWritten")).add(output.records);
                tracker().registerMapOutput(shuffle.shuffleId(), output.map,
                    MapStatus$.MODULE$.apply(
                        output.place, output.sizes, FIRST_ADOPTED + output.map, output.checksum));
            }
            query.adopted.addAndGet(done.size());
            return done.size() == maps;
        }

        public void onStageSubmitted(SparkListenerStageSubmitted event) {
            Option shuffle = event.stageInfo().shuffleDepId();
            if (shuffle.isDefined() && shuffles.containsKey(shuffle.get())) {
                stages.put(Integer.valueOf(event.stageInfo().stageId()), shuffle.get());
            }
        }

        public void onTaskEnd(SparkListenerTaskEnd event) {
            Object shuffle = stages.get(Integer.valueOf(event.stageId()));
            if (shuffle == null || event.reason() != Success$.MODULE$) {
                return;
            }
            Retained retained = (Retained) shuffles.get(shuffle);
            long bytes = 0L;
            Iterator updates = event.taskInfo().accumulables().iterator();
            while (updates.hasNext()) {
                AccumulableInfo update = (AccumulableInfo) updates.next();
                if (update.id() == retained.sizeMetric && update.update().isDefined()) {
                    bytes = ((Number) update.update().get()).longValue();
                }
            }
            int id = ((Integer) shuffle).intValue();
            long task = event.taskInfo().taskId();
            long records = event.taskMetrics().shuffleWriteMetrics().recordsWritten();
            try {
                MapStatus status = registered(id, task);
                if (status == null) {
                    return;
                }
                String name = event.taskInfo().partitionId() + "-" + task + "-" + records
                    + "-" + bytes + "-" + Long.toHexString(status.checksumValue());
                keep(retained.directory, name, id, task);
            } catch (Exception trouble) {
                note(trouble);
            }
        }
    }

    static String said(Throwable trouble) {
        if (trouble instanceof FileSystemException
                && ((FileSystemException) trouble).getReason() != null) {
            // Without the names of the files, of which there may be thousands.
            return ((FileSystemException) trouble).getReason();
        }
        return String.valueOf(trouble).replace('\n', ' ');
    }

    static void make(Path directory) throws IOException {
        try {
            // Not with what is above it: that goes when another start has taken over.
            Files.createDirectory(directory);
        } catch (FileAlreadyExistsException known) {
            // An earlier driver has run it, or this one has.
        }
    }

    /** Has what a map task has written outlive the driver, where it is. */
    static void keep(Path directory, String name, int shuffle, long task) throws IOException {
        Path index = directory.resolve(name + INDEX);
        if (Files.exists(index, new LinkOption[0])) {
            return;
        }
        Path kept = directory.resolve(name + DATA);
        // Of a driver that was killed before it had linked the index.
        Files.deleteIfExists(kept);
        Path data = place(shuffle, task, DATA);
        if (Files.exists(data, new LinkOption[0])) {
            Files.createLink(kept, data);
        }
        // Last: what has it is whole.
        Files.createLink(index, place(shuffle, task, INDEX));
    }

    /** What Spark knows of an output; null where it has been given up. */
    static MapStatus registered(int shuffle, long task) throws InterruptedException {
        // Spark tells that a task has ended just before it registers its output.
        for (int times = 0; times < REGISTERED_WITHIN; times++) {
            Option statuses = tracker().shuffleStatuses().get(Integer.valueOf(shuffle));
            if (statuses.isEmpty()) {
                return null;
            }
            Option status = ((ShuffleStatus) statuses.get()).getMapStatus(task);
            if (status.isDefined()) {
                return (MapStatus) status.get();
            }
            Thread.sleep(1L);
        }
        return null;
    }

    /** What a map task of an earlier driver has written, as this driver's shuffle has it. */
    static final class Adopted {
        final int map;
        final BlockManagerId place;
        final long[] sizes;
        final long records;
        final long bytes;
        final long checksum;

        Adopted(Output output, BlockManagerId place) {
            this.map = output.map;
            this.place = place;
            this.sizes = output.sizes;
            this.records = output.records;
            this.bytes = output.bytes;
            this.checksum = output.checksum;
        }

        /** From what `toString` has said on another machine. */
        Adopted(String said) {
            String[] fields = said.split("\t");
            map = Integer.parseInt(fields[0]);
            records = Long.parseLong(fields[1]);
            bytes = Long.parseLong(fields[2]);
            checksum = Long.parseLong(fields[3]);
            place = BlockManagerId$.MODULE$.apply(
                fields[4], fields[5], Integer.parseInt(fields[6]), Option.empty());
            sizes = new long[fields.length - 7];
            for (int reducer = 0; reducer < sizes.length; reducer++) {
                sizes[reducer] = Long.parseLong(fields[reducer + 7]);
            }
        }

        public String toString() {
            StringBuilder text = new StringBuilder();
            text.append(map).append('\t').append(records).append('\t').append(bytes).append('\t');
            text.append(checksum).append('\t').append(place.executorId()).append('\t');
            text.append(place.host()).append('\t').append(place.port());
            for (int reducer = 0; reducer < sizes.length; reducer++) {
                text.append('\t').append(sizes[reducer]);
            }
            return text.toString();
        }
    }

    /** Looks for what earlier drivers have left of a shuffle on this machine, and links it here. */
    public static final class Adopting extends AbstractFunction1 implements Serializable {
        private final String directory;
        private final int shuffle;
        private final int maps;
        private final int reducers;
        private final CollectionAccumulator told;
        final ArrayList troubles = new ArrayList();

        /** What goes wrong in a task is told by the accumulator. */
        Adopting(
                String directory, int shuffle, int maps, int reducers, CollectionAccumulator told) {
            this.directory = directory;
            this.told = told;
            this.shuffle = shuffle;
            this.maps = maps;
            this.reducers = reducers;
        }

        /** In a task: a line for each output. */
        public Object apply(Object nothing) {
            List found = found();
            ArrayList lines = new ArrayList();
            for (int number = 0; number < found.size(); number++) {
                lines.add(found.get(number).toString());
            }
            for (int number = 0; number < troubles.size(); number++) {
                told.add(troubles.get(number));
            }
            return CollectionConverters.asScala(lines.iterator());
        }

        List found() {
            ArrayList found = new ArrayList();
            Set done = new HashSet();
            File[] files = new File(directory).listFiles();
            for (int number = 0; files != null && number < files.length; number++) {
                try {
                    Output output = Output.of(files[number], reducers);
                    if (output != null && output.map < maps
                            && !done.contains(Integer.valueOf(output.map))) {
                        link(output);
                        found.add(new Adopted(output, blocks().shuffleServerId()));
                        done.add(Integer.valueOf(output.map));
                    }
                } catch (IOException trouble) {
                    // It runs again.
                    troubles.add(said(trouble));
                }
            }
            return found;
        }

        private void link(Output output) throws IOException {
            long id = FIRST_ADOPTED + output.map;
            if (output.data.exists()) {
                Files.createLink(place(shuffle, id, DATA), output.data.toPath());
            }
            Files.createLink(place(shuffle, id, INDEX), output.index.toPath());
        }
    }

    /** Links files from where Spark has its own to where they are to be kept. */
    public static final class Trial extends AbstractFunction1 implements Serializable {
        private final String directory;

        Trial(String directory) {
            this.directory = directory;
        }

        /** In a task: what is in the way. */
        public Object apply(Object nothing) {
            return CollectionConverters.asScala(said().iterator());
        }

        /** What is in the way in this process, which may have its files on several disks. */
        List said() {
            ArrayList said = new ArrayList();
            File[] disks = blocks().diskBlockManager().localDirs();
            for (int number = 0; number < disks.length; number++) {
                try {
                    link(disks[number].toPath());
                } catch (IOException trouble) {
                    said.add(RetainedShuffles.said(trouble));
                }
            }
            return said;
        }

        private void link(Path disk) throws IOException {
            String name = "holdfast-" + UUID.randomUUID();
            Path file = Files.createFile(disk.resolve(name), new FileAttribute[0]);
            Path kept = new File(directory).toPath().resolve(name);
            try {
                Files.createLink(kept, file);
            } finally {
                Files.deleteIfExists(kept);
                Files.delete(file);
            }
        }
    }

    /** The machines of a cluster. */
    static final class Nodes {
        // In milliseconds: executors come up with the driver, one a little later than another.
        private static final int EXECUTORS_WITHIN = 10000;
        final CollectionAccumulator troubles;
        private final SparkContext context;
        private final Set hosts;
        private final Set tried;
        private boolean haveWaited;

        /**
         * @param hosts those that earlier drivers may have left something on
         * @param tried those where files are known to be kept
         */
        Nodes(SparkContext context, Set hosts, Set tried) {
            this.context = context;
            this.hosts = hosts;
            this.tried = tried;
            this.troubles = context.collectionAccumulator();
        }

        /**
         * What is in the way on the machines of executors where nobody has tried, or on any machine
         * if no executor is up yet.
         */
        List saidBy(Trial trial) {
            Map executors = known(false);
            if (!executors.isEmpty()) {
                executors.keySet().removeAll(tried);
                if (executors.isEmpty()) {
                    return new ArrayList();
                }
            }
            List said = Arrays.asList(on(executors, trial, String.class));
            if (said.isEmpty()) {
                tried.addAll(executors.keySet());
            }
            return said;
        }

        /** What is left of a shuffle, linked to where an executor of each machine has its files. */
        List left(ShuffleDependency shuffle, Path directory) throws InterruptedException {
            Adopting adopting = new Adopting(
                directory.toString(), shuffle.shuffleId(), shuffle.rdd().getNumPartitions(),
                shuffle.partitioner().numPartitions(), troubles);
            Object[] lines = onEach(adopting, String.class);
            ArrayList found = new ArrayList();
            for (int number = 0; number < lines.length; number++) {
                found.add(new Adopted((String) lines[number]));
            }
            return found;
        }

        /** What a function of partitions gives in a task on each machine that may have something. */
        Object[] onEach(AbstractFunction1 task, Class kind) throws InterruptedException {
            Map executors = executors();
            return executors.isEmpty() ? new Object[0] : on(executors, task, kind);
        }

        /** The same in a task on each of these executors; anywhere, if there are none. */
        private Object[] on(Map executors, AbstractFunction1 task, Class kind) {
            ArrayList places = new ArrayList();
            java.util.Iterator each = executors.values().iterator();
            while (each.hasNext()) {
                BlockManagerId executor = (BlockManagerId) each.next();
                // As Spark calls the place of what an executor has in its memory.
                String place = "executor_" + executor.host() + "_" + executor.executorId();
                places.add(new Tuple2(place, Nil$.MODULE$.$colon$colon(place)));
            }
            if (places.isEmpty()) {
                places.add(new Tuple2("", Nil$.MODULE$));
            }
            Seq wanted = CollectionConverters.asScala(places).toSeq();
            return (Object[]) context.makeRDD(wanted, ClassTag$.MODULE$.apply(String.class))
                .mapPartitions(task, false, ClassTag$.MODULE$.apply(kind)).collect();
        }

        /** One of each machine that may have something, by its name. */
        private synchronized Map executors() throws InterruptedException {
            Map found = known(true);
            for (int waited = 0; !haveWaited && waited < EXECUTORS_WITHIN
                    && found.size() < hosts.size(); waited += 50) {
                Thread.sleep(50L);
                found = known(true);
            }
            haveWaited = true;
            return found;
        }

        /** One of each machine, or of those that may have something. */
        private Map known(boolean onlyHosts) {
            TreeMap found = new TreeMap();
            Iterator peers = blocks().master().getPeers(blocks().blockManagerId()).iterator();
            while (peers.hasNext()) {
                BlockManagerId each = (BlockManagerId) peers.next();
                if (!onlyHosts || hosts.contains(each.host())) {
                    found.putIfAbsent(each.host(), each);
                }
            }
            return found;
        }
    }

    /** What map tasks on a cluster do with their rows: nothing, but what they write is kept. */
    public static final class Keeping extends AbstractFunction2 implements Serializable {
        private final CollectionAccumulator troubles;
        // Not known before the shuffle is, which has the rows; tasks are sent it later.
        private int shuffle = -1;
        private String directory;
        private long sizeMetric;

        Keeping(CollectionAccumulator troubles) {
            this.troubles = troubles;
        }

        void of(int shuffle, String directory, long sizeMetric) {
            this.directory = directory;
            this.sizeMetric = sizeMetric;
            this.shuffle = shuffle;
        }

        public Object apply(Object index, Object rows) {
            TaskContext task = TaskContext.get();
            if (shuffle >= 0 && task != null) {
                Written written = new Written(this);
                task.addTaskFailureListener((TaskFailureListener) written);
                task.addTaskCompletionListener((TaskCompletionListener) written);
            }
            return rows;
        }

        void keep(TaskContext task) {
            try {
                long bytes = 0L;
                Iterator metrics = task.taskMetrics().accumulators().iterator();
                while (metrics.hasNext()) {
                    AccumulatorV2 metric = (AccumulatorV2) metrics.next();
                    if (metric.id() == sizeMetric) {
                        bytes = ((Number) metric.value()).longValue();
                    }
                }
                Path home = new File(directory).toPath();
                long records = task.taskMetrics().shuffleWriteMetrics().recordsWritten();
                make(home);
                String name = task.partitionId() + "-" + task.taskAttemptId() + "-" + records + "-"
                    + bytes + "-0";
                RetainedShuffles.keep(home, name, shuffle, task.taskAttemptId());
            } catch (Throwable trouble) {
                // It runs again.
                troubles.add(said(trouble));
            }
        }
    }

    /** Hears how a map task ends. */
    public static final class Written implements TaskCompletionListener, TaskFailureListener {
        private final Keeping keeping;
        private boolean failed;

        Written(Keeping keeping) {
            this.keeping = keeping;
        }

        public void onTaskFailure(TaskContext task, Throwable error) {
            failed = true;
        }

        public void onTaskCompletion(TaskContext task) {
            if (!failed) {
                keeping.keep(task);
            }
        }
    }

    /** What a map task of an earlier driver has written. */
    static final class Output {
        final int map;
        final File index;
        final File data;
        final long[] sizes;
        final long records;
        final long bytes;
        final long checksum;

        private Output(
                int map, File index, File data, long[] sizes, long records, long bytes,
                long checksum) {
            this.map = map;
            this.index = index;
            this.data = data;
            this.sizes = sizes;
            this.records = records;
            this.bytes = bytes;
            this.checksum = checksum;
        }

        /** What an index tells of; null where it isn't one, or the data are not as it says. */
        static Output of(File index, int reducers) throws IOException {
            String name = index.getName();
            if (!name.endsWith(INDEX) || !index.isFile()) {
                return null;
            }
            String stem = name.substring(0, name.length() - INDEX.length());
            String[] fields = stem.split("-");
            byte[] bytes = Files.readAllBytes(index.toPath());
            if (fields.length != 5 || bytes.length != 8 * (reducers + 1)) {
                return null;
            }
            ByteBuffer offsets = ByteBuffer.wrap(bytes);
            long[] sizes = new long[reducers];
            long before = offsets.getLong();
            boolean ascending = before == 0L;
            for (int reducer = 0; reducer < reducers; reducer++) {
                long after = offsets.getLong();
                sizes[reducer] = after - before;
                ascending = ascending && after >= before;
                before = after;
            }
            File data = new File(index.getParentFile(), stem + DATA);
            if (!ascending || data.length() != before) {
                return null;
            }
            try {
                long records = Long.parseLong(fields[2]);
                // A machine that lost its power may leave files of nothing but zeros.
                return records > 0L && before == 0L ? null
                    : new Output(Integer.parseInt(fields[0]), index, data, sizes, records,
                        Long.parseLong(fields[3]), Long.parseUnsignedLong(fields[4], 16));
            } catch (NumberFormatException notOurs) {
                return null;
            }
        }
    }

    /** What a shuffle is known by, whichever driver runs it. */
    static final class Name {
        private final Job job;
        private final Query query;
        private final TreeNodeTag position;

        Name(Job job, Query query) {
            this.job = job;
            this.query = query;
            this.position = job.owner.position;
        }

        /**
         * Null where it can't be told, or where its map tasks might put rows elsewhere when they
         * run again.
         *
         * The scope says what the query computes over which files, and the position which part of
         * it this is; the rest is what Spark has decided on its way. What all map tasks are given
         * counts by its content: a limit or a tie may have come out in another way.
         */
        String of(ShuffleExchangeExec exchange, ShuffleDependency shuffle) throws Exception {
            Partitioning partitioning = exchange.outputPartitioning();
            boolean fixed = partitioning instanceof HashPartitioning
                || partitioning instanceof RoundRobinPartitioning
                || partitioning == SinglePartition$.MODULE$;
            return fixed ? of("shuffle", exchange, shuffle.rdd()) : null;
        }

        /** The same for rows that the driver is given, by task. */
        String ofRows(SparkPlan plan, RDD rows) throws Exception {
            return of("rows", plan, rows);
        }

        private String of(String kind, SparkPlan plan, RDD rows) throws Exception {
            String level = rows.outputDeterministicLevel().toString();
            String where = positionOf(plan);
            if (level.equals("INDETERMINATE") || where == null) {
                return null;
            }
            StringBuilder text = new StringBuilder(query.scope).append('\n').append(kind);
            text.append(' ').append(where).append('\n');
            if (!split(rows, text)) {
                return null;
            }
            StringBuilder described = new StringBuilder();
            describe(plan, described, text);
            return hexadecimal(text.append(renumbered(described.toString())).toString());
        }

        /** Of the operator of the logical plan that a plan was made of; null where it has none. */
        private String positionOf(SparkPlan plan) {
            Option link = plan.logicalLink();
            if (link.isDefined()) {
                Option found = ((TreeNode) link.get()).getTagValue(position);
                return found.isDefined() ? (String) found.get() : null;
            }
            Iterator children = plan.children().iterator();
            return children.hasNext() ? positionOf((SparkPlan) children.next()) : null;
        }

        /** How rows are dealt to map tasks; whether that is known. */
        private boolean split(RDD rdd, StringBuilder text) {
            String kind = rdd.getClass().getSimpleName();
            text.append(kind).append(' ').append(rdd.getNumPartitions()).append('\n');
            if (rdd instanceof FileScanRDD) {
                Iterator partitions = ((FileScanRDD) rdd).filePartitions().iterator();
                while (partitions.hasNext()) {
                    files(((FilePartition) partitions.next()).files(), text);
                }
                return true;
            }
            if (rdd instanceof ShuffledRowRDD) {
                String below = job.nameOf(((ShuffledRowRDD) rdd).dependency());
                return below != null && read(rdd.partitions(), text.append(below).append('\n'));
            }
            if (!kind.equals("MapPartitionsRDD") && !kind.equals("ZippedPartitionsRDD2")
                    && !kind.equals("UnionRDD")) {
                return false;
            }
            boolean known = true;
            Iterator dependencies = rdd.dependencies().iterator();
            while (known && dependencies.hasNext()) {
                known = split(((Dependency) dependencies.next()).rdd(), text);
            }
            return known;
        }

        private void files(PartitionedFile[] files, StringBuilder text) {
            for (int number = 0; number < files.length; number++) {
                PartitionedFile file = files[number];
                String path = file.toPath().toUri().getPath();
                text.append(path == null ? file.toPath().toString() : job.placeOf(new File(path).toPath()));
                text.append(' ').append(file.start()).append(' ').append(file.length());
                text.append(' ').append(file.modificationTime()).append('\n');
            }
            text.append('\n');
        }

        private static boolean read(Partition[] partitions, StringBuilder text) {
            for (int number = 0; number < partitions.length; number++) {
                Object spec = ((Product) partitions[number]).productElement(1);
                if (spec instanceof CoalescedPartitionSpec) {
                    CoalescedPartitionSpec each = (CoalescedPartitionSpec) spec;
                    text.append("reducers ").append(each.startReducerIndex());
                    text.append(' ').append(each.endReducerIndex()).append('\n');
                } else if (spec instanceof PartialReducerPartitionSpec) {
                    PartialReducerPartitionSpec each = (PartialReducerPartitionSpec) spec;
                    text.append("of reducer ").append(each.reducerIndex());
                    text.append(' ').append(each.startMapIndex());
                    text.append(' ').append(each.endMapIndex()).append('\n');
                } else if (spec instanceof PartialMapperPartitionSpec) {
                    PartialMapperPartitionSpec each = (PartialMapperPartitionSpec) spec;
                    text.append("of mapper ").append(each.mapIndex());
                    text.append(' ').append(each.startReducerIndex());
                    text.append(' ').append(each.endReducerIndex()).append('\n');
                } else if (spec instanceof CoalescedMapperPartitionSpec) {
                    CoalescedMapperPartitionSpec each = (CoalescedMapperPartitionSpec) spec;
                    text.append("mappers ").append(each.startMapIndex());
                    text.append(' ').append(each.endMapIndex());
                    text.append(' ').append(each.numReducers()).append('\n');
                } else {
                    return false;
                }
            }
            return true;
        }

        private void describe(SparkPlan plan, StringBuilder text, StringBuilder exact)
                throws Exception {
            if (((Predicate) job.owner.broadcasts).test(plan)) {
                describe((SparkPlan) plan.children().head(), text, exact);
                return;
            }
            Class kind = plan.getClass();
            // Ours has another name in each driver.
            text.append((kind == RetainedExchange.class ? kind.getSuperclass() : kind).getName());
            text.append(' ');
            if (plan instanceof FileSourceScanExec) {
                // Not where its files lie: the split says so.
                FileSourceScanExec scan = (FileSourceScanExec) plan;
                text.append(scan.output()).append(' ').append(scan.requiredSchema().json());
                text.append(' ').append(scan.partitionFilters());
                text.append(' ').append(scan.dataFilters());
                options(scan.relation(), exact);
            } else if (!(plan instanceof WholeStageCodegenExec || plan instanceof QueryStageExec)) {
                text.append(plan.simpleString(Integer.MAX_VALUE));
            }
            Iterator expressions = plan.expressions().iterator();
            while (expressions.hasNext()) {
                valuesIn((Expression) expressions.next(), exact);
            }
            if (isBroadcast(plan)) {
                exact.append(contentOf(plan)).append('\n');
            }
            text.append(" (\n");
            SparkPlan inner = innerOf(plan);
            if (inner != null) {
                describe(inner, text, exact);
            }
            Iterator children = plan.children().iterator();
            while (children.hasNext()) {
                describe((SparkPlan) children.next(), text, exact);
            }
            text.append(")\n");
        }

        private static void options(HadoopFsRelation relation, StringBuilder exact) {
            Class format = relation.fileFormat().getClass();
            boolean isOurs = format.getName().startsWith("holdfast.");
            exact.append((isOurs ? format.getSuperclass() : format).getName());
            TreeMap sorted = new TreeMap();
            Iterator options = relation.options().iterator();
            while (options.hasNext()) {
                Product option = (Product) options.next();
                sorted.put(option.productElement(0), option.productElement(1));
            }
            // Where files lie the split says.
            sorted.keySet().removeAll(Arrays.asList("path", "paths", "__paths__"));
            exact.append(' ').append(sorted).append('\n');
        }

        /** What a broadcast has sent: its rows if they were kept, or else what was made of them. */
        private String contentOf(SparkPlan plan) throws Exception {
            Broadcast sent = plan.executeBroadcast();
            TreeNode exchange = plan instanceof ReusedExchangeExec
                ? (TreeNode) ((ReusedExchangeExec) plan).child() : plan;
            Option collected = ((TreeNode) exchange.children().head()).getTagValue(COLLECTED);
            return collected.isDefined() ? (String) collected.get() : job.contentOf(sent);
        }

        private static boolean isBroadcast(SparkPlan plan) {
            return plan instanceof BroadcastExchangeLike
                || plan instanceof ReusedExchangeExec
                    && ((ReusedExchangeExec) plan).child() instanceof BroadcastExchangeLike;
        }

        /** What an operator without inputs runs all the same; null where there is nothing. */
        private static SparkPlan innerOf(SparkPlan plan) {
            if (plan instanceof QueryStageExec) {
                return ((QueryStageExec) plan).plan();
            }
            if (plan instanceof InMemoryTableScanExec) {
                return ((InMemoryTableScanExec) plan).relation().cachedPlan();
            }
            return plan instanceof AdaptiveSparkPlanExec
                ? ((AdaptiveSparkPlanExec) plan).executedPlan() : null;
        }

        /** What the text of an expression leaves out, or what in it is no number of Spark's. */
        private void valuesIn(Expression expression, StringBuilder exact) {
            if (expression instanceof Literal) {
                value((Literal) expression, exact);
            } else if (expression instanceof PythonFuncExpression) {
                exact.append(job.digestOf((PythonFuncExpression) expression)).append('\n');
            } else if (expression instanceof ScalarSubquery) {
                value(((ScalarSubquery) expression).toLiteral(), exact);
            } else if (expression instanceof InSubqueryExec) {
                InSubqueryExec subquery = (InSubqueryExec) expression;
                // What prunes partitions has done so: the split says which are left.
                Object[] values = subquery.isDynamicPruning() || subquery.values().isEmpty()
                    ? new Object[0] : (Object[]) subquery.values().get();
                for (int number = 0; number < values.length; number++) {
                    value(new Literal(values[number], subquery.child().dataType()), exact);
                }
            }
            Iterator children = expression.children().iterator();
            while (children.hasNext()) {
                valuesIn((Expression) children.next(), exact);
            }
        }

        private static void value(Literal literal, StringBuilder exact) {
            String text = literal.toString();
            exact.append(literal.dataType().catalogString()).append(' ').append(text.length());
            exact.append(' ').append(text).append('\n');
        }

        // Spark numbers columns, plans and subqueries through, whoever asks for them. Its canonical
        // form does without, but orders operands by hash codes that are others in each driver.
        private static String renumbered(String text) {
            Map known = new HashMap();
            StringBuffer out = new StringBuffer();
            Matcher number = NUMBER.matcher(text);
            while (number.find()) {
                String found = number.group(2);
                if (!known.containsKey(found)) {
                    known.put(found, Integer.valueOf(known.size()));
                }
                String kept = Matcher.quoteReplacement(number.group(1) + known.get(found));
                number.appendReplacement(out, kept);
            }
            return number.appendTail(out).toString();
        }
    }

    static String hexadecimal(String text) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        return hexadecimal(digest.digest(text.getBytes(StandardCharsets.UTF_8)));
    }

    static String hexadecimal(byte[] digest) {
        StringBuilder out = new StringBuilder();
        for (int number = 0; number < digest.length; number++) {
            out.append(Character.forDigit((digest[number] >> 4) & 15, 16));
            out.append(Character.forDigit(digest[number] & 15, 16));
        }
        return out.toString();
    }

    /** Numbers the operators of a logical plan before any part of it is run. */
    static final class Positions extends Rule {
        private final RetainedShuffles owner;

        Positions(RetainedShuffles owner) {
            this.owner = owner;
        }

        public TreeNode apply(TreeNode plan) {
            Query query = owner.asked();
            Option link = query == null ? null : ((SparkPlan) plan).logicalLink();
            if (link != null && link.isDefined()) {
                ArrayList operators = new ArrayList();
                // A plan that is adapted has them from before.
                if (collect((TreeNode) link.get(), operators)) {
                    String root = query.roots.getAndIncrement() + ":";
                    for (int number = 0; number < operators.size(); number++) {
                        ((TreeNode) operators.get(number)).setTagValue(owner.position, root + number);
                    }
                }
            }
            return plan;
        }

        private boolean collect(TreeNode operator, ArrayList operators) {
            if (operator.getTagValue(owner.position).isDefined()) {
                return false;
            }
            operators.add(operator);
            boolean fresh = true;
            Iterator children = operator.children().iterator();
            while (fresh && children.hasNext()) {
                fresh = collect((TreeNode) children.next(), operators);
            }
            return fresh;
        }
    }

    /** Where the rows of a query's broadcasts are kept, and what goes wrong there. */
    static final class Places implements BiFunction {
        private final Query query;

        Places(Query query) {
            this.query = query;
        }

        /** What `RetainedBroadcasts` asks, and is told. */
        public Object apply(Object plan, Object what) {
            if (what instanceof Throwable) {
                query.job.note((Throwable) what);
                return null;
            }
            if (what instanceof Integer) {
                query.adopted.addAndGet(((Integer) what).intValue());
                return null;
            }
            if (what instanceof Path) {
                return query.job.troublesOnNodes();
            }
            if (what instanceof AbstractFunction1) {
                return query.job.onNodes((AbstractFunction1) what);
            }
            return query.job.directoryOf(query, (SparkPlan) plan, (RDD) what);
        }
    }

    /** Has shuffles and broadcasts ask for what there is of them. */
    static final class Exchanges extends ColumnarRule {
        private final RetainedShuffles owner;

        Exchanges(RetainedShuffles owner) {
            this.owner = owner;
        }

        public Rule postColumnarTransitions() {
            final RetainedShuffles asked = owner;
            return new Rule() {
                public TreeNode apply(TreeNode plan) {
                    // Spark asks about what it is about to run: an exchange, or the answer.
                    boolean broadcasts = plan.getClass() == BroadcastExchangeExec.class;
                    Query query = broadcasts || plan.getClass() == ShuffleExchangeExec.class
                        ? asked.asked() : null;
                    if (query == null) {
                        return plan;
                    }
                    if (broadcasts) {
                        return (TreeNode) asked.broadcasts.apply(plan, new Places(query));
                    }
                    ShuffleExchangeExec plain = (ShuffleExchangeExec) plan;
                    // Its rows are read while they are written, and don't stay.
                    if (plain.pipelined()) {
                        return plan;
                    }
                    RetainedExchange retained = new RetainedExchange(
                        plain.outputPartitioning(), plain.child(), plain.shuffleOrigin(),
                        plain.advisoryPartitionSize(), plain.pipelined(), query);
                    retained.copyTagsFrom(plain);
                    return retained;
                }
            };
        }
    }

    /** A shuffle that looks for what earlier drivers have left of it before it runs. */
    public static final class RetainedExchange extends ShuffleExchangeExec {
        private final transient Query query;
        private transient ShuffleDependency provided;
        private transient RDD rows;
        private transient Keeping keeping;
        private transient boolean whole;

        public RetainedExchange(
                Partitioning partitioning, SparkPlan child, ShuffleOrigin origin, Option size,
                boolean pipelined, Query query) {
            super(partitioning, child, origin, size, pipelined);
            this.query = query;
        }

        public synchronized ShuffleDependency shuffleDependency() {
            if (provided == null) {
                ShuffleDependency shuffle = super.shuffleDependency();
                whole = query.job.provide(query, this, shuffle, keeping);
                provided = shuffle;
            }
            return provided;
        }

        public synchronized RDD inputRDD() {
            if (rows == null) {
                rows = super.inputRDD();
                keeping = query.job.keeping();
                if (keeping != null) {
                    rows = rows.mapPartitionsWithIndex(
                        keeping, true, ClassTag$.MODULE$.apply(InternalRow.class));
                }
            }
            return rows;
        }

        public Future mapOutputStatisticsFuture() {
            if (inputRDD().getNumPartitions() > 0) {
                ShuffleDependency shuffle = shuffleDependency();
                if (whole) {
                    return Future$.MODULE$.successful(tracker().getStatistics(shuffle));
                }
            }
            return super.mapOutputStatisticsFuture();
        }

        public ShuffleExchangeExec withNewChildInternal(SparkPlan child) {
            return new RetainedExchange(outputPartitioning(), child, shuffleOrigin(),
                advisoryPartitionSize(), pipelined(), query);
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(query);
        }

        // Tasks are sent their plan with all that is below it, and don't know this class.
        protected Object writeReplace() {
            return new ShuffleExchangeExec(outputPartitioning(), child(), shuffleOrigin(),
                advisoryPartitionSize(), pipelined());
        }
    }
}
