package holdfast;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import java.util.zip.CRC32;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.io.LZ4CompressionCodec;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnaryExecNode;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.util.CollectionAccumulator;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * What tasks give the driver for a broadcast is kept, and read where a later driver collects the
 * same: it runs the other tasks only. Where tasks run in the driver's process, it keeps what it is
 * given; on a cluster tasks leave it on their machines.
 */
public final class RetainedBroadcasts implements BiFunction, Predicate {
    // In bytes, of a task's rows: what is larger is broadcast as it is without us.
    static final int LARGEST = 1 << 28;
    // In bytes, of all that is left on a machine: a task there has it in its memory.
    static final long MOST_READ = 1L << 27;
    // What has been collected, as a digest.
    static final TreeNodeTag CONTENT = new TreeNodeTag("holdfast.collected");
    private static final String ROWS = ".rows";

    public RetainedBroadcasts() {}

    /**
     * A broadcast that looks for what there is of its rows before it collects them.
     *
     * @param broadcast one that is about to run, whose session's tasks know this class
     * @param place gives a plan and its RDD the directory for their rows, the same in each driver,
     *     or null; without a plan it is told what has gone wrong, or how many tasks aren't run,
     *     gives for a directory of the machines of a cluster who is told what goes wrong in tasks
     *     there, null for one of the driver's, and runs a task on each of these machines
     */
    public Object apply(Object broadcast, Object place) {
        BroadcastExchangeExec plain = (BroadcastExchangeExec) broadcast;
        return plain.withNewChildren(only(new Collected(plain.child(), (BiFunction) place)));
    }

    /** Whether a part of a plan is ours, which only hands on the rows of its child. */
    public boolean test(Object plan) {
        return plan instanceof Collected;
    }

    static Seq only(Object one) {
        return Nil$.MODULE$.$colon$colon(one);
    }

    /** What is collected, and kept while it is. */
    public static final class Collected extends SparkPlan implements UnaryExecNode {
        private final SparkPlan child;
        private final transient BiFunction place;

        public Collected(SparkPlan child, BiFunction place) {
            this.child = child;
            this.place = place;
        }

        public Tuple2 executeCollectIterator() {
            RDD rows = child.execute();
            Path directory = (Path) place.apply(child, rows);
            byte[][] parts = directory == null ? null : collected(rows, directory);
            if (parts == null) {
                return child.executeCollectIterator();
            }
            long count = 0L;
            MessageDigest digest = sha256();
            for (int index = 0; index < parts.length; index++) {
                count += ByteBuffer.wrap(parts[index]).getLong();
                digest.update(ByteBuffer.allocate(Long.BYTES).putLong(parts[index].length).array());
                digest.update(parts[index]);
            }
            setTagValue(CONTENT, new BigInteger(1, digest.digest()).toString(16));
            return new Tuple2(Long.valueOf(count), new Rows(parts, output().size()));
        }

        /** Each task's rows; null where some are too many. */
        private byte[][] collected(RDD rows, final Path directory) {
            final byte[][] parts = new byte[rows.getNumPartitions()][];
            final ArrayList missing = new ArrayList();
            CollectionAccumulator troubles = (CollectionAccumulator) place.apply(null, directory);
            final OnNodes nodes =
                troubles == null ? null : new OnNodes(directory.toString(), troubles);
            Map elsewhere = nodes == null ? null : byName((Object[]) place.apply(null, nodes));
            for (int index = 0; index < parts.length; index++) {
                parts[index] = elsewhere == null ? left(directory.resolve(index + ROWS))
                    : whole((byte[]) elsewhere.get(index + ROWS));
                if (parts[index] == null) {
                    missing.add(Integer.valueOf(index));
                }
            }
            place.apply(null, Integer.valueOf(parts.length - missing.size()));
            if (!missing.isEmpty()) {
                Seq wanted = CollectionConverters.asScala(missing).toSeq();
                rows.context().runJob(rows, new Packing(nodes), wanted, new AbstractFunction2() {
                    public Object apply(Object number, Object part) {
                        int index = ((Integer) missing.get(((Integer) number).intValue())).intValue();
                        parts[index] = (byte[]) part;
                        if (nodes == null) {
                            try {
                                keep(directory, index, parts[index]);
                            } catch (IOException trouble) {
                                // It is collected again.
                                place.apply(null, trouble);
                            }
                        }
                        return scala.runtime.BoxedUnit.UNIT;
                    }
                }, ClassTag$.MODULE$.apply(byte[].class));
            }
            for (int index = 0; index < parts.length; index++) {
                if (parts[index].length == 0) {
                    return null;
                }
            }
            return parts;
        }

        private static Map byName(Object[] files) {
            Map named = new HashMap();
            for (int number = 0; number < files.length; number++) {
                named.put(((Tuple2) files[number])._1(), ((Tuple2) files[number])._2());
            }
            return named;
        }

        /** What an earlier driver has kept; null where that is nothing, or isn't whole. */
        private byte[] left(Path file) {
            try {
                return whole(Files.readAllBytes(file));
            } catch (NoSuchFileException none) {
                return null;
            } catch (IOException trouble) {
                place.apply(null, trouble);
                return null;
            }
        }

        private static MessageDigest sha256() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (NoSuchAlgorithmException impossible) {
                throw new IllegalStateException(impossible);
            }
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
            return child.outputPartitioning();
        }

        public Seq outputOrdering() {
            return child.outputOrdering();
        }

        public RDD doExecute() {
            return child.execute();
        }

        public TreeNode withNewChildInternal(TreeNode instead) {
            return new Collected((SparkPlan) instead, place);
        }

        public TreeNode withNewChildrenInternal(IndexedSeq instead) {
            return withNewChildInternal((TreeNode) instead.head());
        }

        public Seq otherCopyArgs() {
            return only(place);
        }

        public int productArity() {
            return 1;
        }

        public Object productElement(int index) {
            return child;
        }

        public boolean canEqual(Object other) {
            return other instanceof Collected;
        }

        public boolean equals(Object other) {
            return other instanceof Collected && ((Collected) other).child.equals(child);
        }

        public int hashCode() {
            return 31 * child.hashCode() + 1;
        }

        // Tasks are sent their plan with all that is below it, and have no use for this node.
        protected Object writeReplace() {
            return child;
        }
    }

    /** The rows of a file that has been kept; null where it isn't as it was written. */
    static byte[] whole(byte[] file) {
        if (file == null || file.length <= Long.BYTES) {
            return null;
        }
        ByteBuffer kept = ByteBuffer.wrap(file);
        long checksum = kept.getLong();
        byte[] part = new byte[kept.remaining()];
        kept.get(part);
        return checksum == checksum(part) ? part : null;
    }

    static void keep(Path directory, int index, byte[] part) throws IOException {
        if (part.length == 0) {
            return;
        }
        Path written = directory.resolve(UUID.randomUUID().toString());
        DataOutputStream out = new DataOutputStream(Files.newOutputStream(written));
        try {
            out.writeLong(checksum(part));
            out.write(part);
            out.close();
            Files.move(written, directory.resolve(index + ROWS), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException full) {
            Files.deleteIfExists(written);
            out.close();
            throw full;
        }
    }

    static long checksum(byte[] part) {
        CRC32 sum = new CRC32();
        sum.update(part);
        return sum.getValue();
    }

    /** In a task: the files with rows in a directory of its machine, with their names. */
    public static final class OnNodes extends AbstractFunction1 implements Serializable {
        private final String directory;
        private final CollectionAccumulator troubles;

        OnNodes(String directory, CollectionAccumulator troubles) {
            this.directory = directory;
            this.troubles = troubles;
        }

        public Object apply(Object nothing) {
            ArrayList found = new ArrayList();
            long room = MOST_READ;
            File[] files = new File(directory).listFiles();
            for (int number = 0; files != null && number < files.length; number++) {
                String name = files[number].getName();
                long size = files[number].length();
                if (!name.endsWith(ROWS) || size > room) {
                    continue;
                }
                try {
                    found.add(new Tuple2(name, Files.readAllBytes(files[number].toPath())));
                    room -= size;
                } catch (IOException trouble) {
                    // It is as if it weren't there.
                    troubles.add(said(trouble));
                }
            }
            return CollectionConverters.asScala(found.iterator());
        }

        /** A task leaves its rows there. */
        void leave(int index, byte[] part) {
            try {
                File home = new File(directory);
                // Not with what is above it: that goes when another start has taken over.
                home.mkdir();
                keep(home.toPath(), index, part);
            } catch (IOException trouble) {
                // It is collected again.
                troubles.add(said(trouble));
            }
        }

        // Without the names of the files, of which there may be thousands.
        private static String said(IOException trouble) {
            if (!(trouble instanceof FileSystemException)) {
                return String.valueOf(trouble);
            }
            String reason = ((FileSystemException) trouble).getReason();
            return reason == null ? trouble.getClass().getSimpleName() : reason;
        }
    }

    /** In a task: its rows as bytes, after their count; no bytes where they are too many. */
    public static final class Packing extends AbstractFunction2 implements Serializable {
        private final OnNodes nodes;

        /** Where tasks leave their rows; null where the driver does. */
        Packing(OnNodes nodes) {
            this.nodes = nodes;
        }

        public Object apply(Object task, Object all) {
            byte[] part = packed((Iterator) all);
            if (nodes != null) {
                nodes.leave(((TaskContext) task).partitionId(), part);
            }
            return part;
        }

        private static byte[] packed(Iterator rows) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try {
                // Their count is known in the end.
                bytes.write(new byte[Long.BYTES]);
                DataOutputStream out =
                    new DataOutputStream(codec().compressedOutputStream(bytes));
                byte[] buffer = new byte[4096];
                long count = 0L;
                while (rows.hasNext()) {
                    UnsafeRow row = (UnsafeRow) rows.next();
                    out.writeInt(row.getSizeInBytes());
                    row.writeToStream(out, buffer);
                    count++;
                    if (bytes.size() > LARGEST) {
                        return new byte[0];
                    }
                }
                out.close();
                byte[] part = bytes.toByteArray();
                ByteBuffer.wrap(part).putLong(count);
                return part;
            } catch (IOException impossible) {
                throw new UncheckedIOException(impossible);
            }
        }
    }

    static LZ4CompressionCodec codec() {
        return new LZ4CompressionCodec(new SparkConf(false));
    }

    /** The rows of all parts, one after the other. */
    static final class Rows extends AbstractIterator {
        private final byte[][] parts;
        private final int fields;
        private int next;
        private long left;
        private DataInputStream bytes;

        Rows(byte[][] parts, int fields) {
            this.parts = parts;
            this.fields = fields;
        }

        public boolean hasNext() {
            while (left == 0L && next < parts.length) {
                byte[] part = parts[next];
                parts[next] = null;
                next++;
                left = ByteBuffer.wrap(part).getLong();
                bytes = new DataInputStream(codec().compressedInputStream(
                    new ByteArrayInputStream(part, Long.BYTES, part.length - Long.BYTES)));
            }
            return left > 0L;
        }

        public Object next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException();
            }
            try {
                byte[] row = new byte[bytes.readInt()];
                bytes.readFully(row);
                left--;
                UnsafeRow found = new UnsafeRow(fields);
                found.pointTo(row, row.length);
                return found;
            } catch (IOException damaged) {
                throw new UncheckedIOException(damaged);
            }
        }
    }
}
