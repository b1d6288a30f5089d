package holdfast;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.NotSerializableException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.lang.invoke.SerializedLambda;
import java.lang.reflect.Field;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.CodeSource;
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
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonRDD;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.MapPartitionsRDD;
import org.apache.spark.rdd.ParallelCollectionPartition;
import org.apache.spark.rdd.ParallelCollectionRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.objects.LambdaVariable;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.util.AccumulatorV2;
import scala.Function3;
import scala.Product;
import scala.collection.IterableOnceOps;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * What plans hold beside expressions, by its content: the rows of tables that a program has made
 * from its values, and what tasks are sent of functions of the JVM.
 */
public final class KnownContent implements Function {
    /** Of rows that come through Python, and of what a function holds. */
    static final int MOST_BYTES = 8 << 20;
    static final int MOST_KNOWN = 1000;

    /** The classes whose functions PySpark has a table's pickled rows run through. */
    static final List DECODE_ROWS =
            Arrays.asList(
                    new String[] {
                        "org.apache.spark.api.python.SerDeUtil$",
                        "org.apache.spark.rdd.RDD",
                        "org.apache.spark.sql.classic.SparkSession"
                    });

    final File sparksJars = directoryOf(jarOf(SparkContext.class));
    final Map byJar = new HashMap();
    final Map byTable = new HashMap();
    final Map byEncoder = new IdentityHashMap();

    /**
     * Of a table the digest of its rows, or null where they aren't known; after it, where there is
     * one, the pickle of the Python function through which the rows come, which may be any. A `!`
     * where they have more than `MOST_BYTES`. Of anything else the digest of its content, after it a
     * `!` where it is a function of one of Spark's models, or after a `?` why that can't be known.
     */
    public Object apply(Object value) {
        if (value instanceof LocalRelation) {
            return rows((LocalRelation) value);
        }
        if (value instanceof LogicalRDD) {
            return rows((LogicalRDD) value);
        }
        return value instanceof ExpressionEncoder
                ? ofEncoder((ExpressionEncoder) value)
                : content(value);
    }

    // -- rows -----------------------------------------------------------------------------------

    String rows(LocalRelation table) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            add(digest, layout(table.output().iterator()), table.data().iterator());
            return base64(digest.digest());
        } catch (Exception error) {
            return null;
        }
    }

    /** RDDs don't change, and their numbers are given once. */
    synchronized String rows(LogicalRDD table) {
        Integer number = Integer.valueOf(table.rdd().id());
        if (!byTable.containsKey(number)) {
            if (byTable.size() >= MOST_KNOWN) {
                byTable.clear();
            }
            byTable.put(number, localRows(table));
        }
        return (String) byTable.get(number);
    }

    /** The rows of values that were in Python, which gives them to Spark as pickles in batches. */
    static String localRows(LogicalRDD table) {
        try {
            List functions = new ArrayList();
            RDD rdd = table.rdd();
            PythonFunction passed = null;
            while (rdd.getClass() != ParallelCollectionRDD.class) {
                if (rdd.getClass() == MapPartitionsRDD.class && passed == null) {
                    Object function = held(MapPartitionsRDD.class, rdd, "f");
                    if (!decodesRows(function)) {
                        return null;
                    }
                    functions.add(0, function);
                    rdd = ((MapPartitionsRDD) rdd).prev();
                } else if (rdd.getClass() == PythonRDD.class && passed == null) {
                    passed = (PythonFunction) held(PythonRDD.class, rdd, "func");
                    rdd = rdd.firstParent((ClassTag) ClassTag$.MODULE$.Byte());
                } else {
                    return null;
                }
            }
            Partition[] partitions = rdd.partitions();
            long size = sizeOfPickles(partitions);
            if (size < 0 || size > MOST_BYTES) {
                return size < 0 ? null : "!";
            }
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            UnsafeProjection layout = layout(table.output().iterator());
            for (int index = 0; index < partitions.length; index++) {
                Iterator rows = ((ParallelCollectionPartition) partitions[index]).iterator();
                for (int step = 0; step < functions.size(); step++) {
                    // None of them looks at its task.
                    rows = (Iterator) ((Function3) functions.get(step))
                            .apply(null, Integer.valueOf(index), rows);
                }
                add(digest, layout, rows);
            }
            String rows = base64(digest.digest());
            if (passed == null) {
                return rows;
            }
            ClassTag bytes = (ClassTag) ClassTag$.MODULE$.Byte();
            return rows + ' ' + base64((byte[]) ((IterableOnceOps) passed.command()).toArray(bytes));
        } catch (Exception error) {
            return null;
        }
    }

    static boolean decodesRows(Object function) throws IOException {
        Stream stream = new Stream();
        stream.write(function);
        java.util.Iterator each = stream.classes.iterator();
        while (each.hasNext()) {
            String name = ((Class) each.next()).getName();
            if (!name.matches("(java|scala|org\\.apache\\.spark)\\..*")) {
                return false;
            }
        }
        return !stream.hosts.isEmpty() && DECODE_ROWS.containsAll(stream.hosts);
    }

    /** How many bytes they are, negative where they are anything else. */
    static long sizeOfPickles(Partition[] partitions) {
        long size = 0;
        for (int index = 0; index < partitions.length; index++) {
            Iterator batches = ((ParallelCollectionPartition) partitions[index]).iterator();
            while (batches.hasNext()) {
                Object batch = batches.next();
                if (!(batch instanceof byte[])) {
                    return -1;
                }
                size += ((byte[]) batch).length;
            }
        }
        return size;
    }

    static void add(MessageDigest digest, UnsafeProjection layout, Iterator rows) {
        while (rows.hasNext()) {
            byte[] row = layout.apply((InternalRow) rows.next()).getBytes();
            digest.update(ByteBuffer.allocate(4).putInt(row.length).array());
            digest.update(row);
        }
    }

    static UnsafeProjection layout(Iterator columns) {
        List references = new ArrayList();
        while (columns.hasNext()) {
            Expression column = (Expression) columns.next();
            references.add(
                    new BoundReference(references.size(), column.dataType(), true));
        }
        return InterpretedUnsafeProjection.createProjection(
                CollectionConverters.asScala(references).toSeq());
    }

    static Object held(Class of, Object object, String name) throws Exception {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    // -- what tasks are sent --------------------------------------------------------------------

    /** Encoders don't change, and are most of what a function comes with. */
    synchronized String ofEncoder(ExpressionEncoder encoder) {
        String known = (String) byEncoder.get(encoder);
        if (known == null) {
            if (byEncoder.size() >= MOST_KNOWN) {
                byEncoder.clear();
            }
            known = content(encoder);
            byEncoder.put(encoder, known);
        }
        return known;
    }

    String content(Object value) {
        try {
            Stream stream = new Stream();
            stream.write(value);
            MessageDigest digest = stream.bytes.digest;
            Set jars = code(stream.classes);
            digest.update(jars.toString().getBytes(StandardCharsets.UTF_8));
            return base64(digest.digest()) + (jars.isEmpty() && stream.areModels() ? "!" : "");
        } catch (NotSerializableException error) {
            return "?what holds a " + error.getMessage();
        } catch (IOException error) {
            return '?' + error.getMessage();
        } catch (Exception error) {
            return "?a " + value.getClass().getName();
        } catch (LinkageError error) {
            return "?a " + value.getClass().getName();
        } catch (StackOverflowError error) {
            return "?a " + value.getClass().getName() + ", which is nested too deeply";
        }
    }

    /** The jars of classes that aren't Spark's, by their content; those count by its version. */
    Set code(Set classes) throws Exception {
        Set jars = new TreeSet();
        Set loaders = new HashSet();
        java.util.Iterator each = classes.iterator();
        while (each.hasNext()) {
            Class next = (Class) each.next();
            ClassLoader loader = next.getClassLoader();
            if (loader == null || loader == ClassLoader.getPlatformClassLoader()) {
                continue;
            }
            File jar = jarOf(next);
            if (jar == null || !jar.isFile()) {
                throw new Unknown("the class " + next.getName() + ", which is in no jar");
            }
            String name = next.getName();
            boolean isSparks = directoryOf(jar).equals(sparksJars);
            if (!isSparks || !(name.startsWith("org.apache.spark.") || name.startsWith("scala."))) {
                jars.add(jar);
                loaders.add(loader);
            }
        }
        if (!jars.isEmpty()) {
            // Which other classes it calls can't be seen.
            addJars(jars, System.getProperty("java.class.path").split(File.pathSeparator));
        }
        for (each = loaders.iterator(); each.hasNext(); ) {
            ClassLoader loader = (ClassLoader) each.next();
            for (; loader != null; loader = loader.getParent()) {
                if (loader instanceof URLClassLoader) {
                    URL[] urls = ((URLClassLoader) loader).getURLs();
                    String[] paths = new String[urls.length];
                    for (int index = 0; index < urls.length; index++) {
                        paths[index] = new File(urls[index].toURI()).getPath();
                    }
                    addJars(jars, paths);
                }
            }
        }
        Set contents = new TreeSet();
        for (each = jars.iterator(); each.hasNext(); ) {
            contents.add(contentOf((File) each.next()));
        }
        return contents;
    }

    void addJars(Set jars, String[] paths) throws IOException {
        for (int index = 0; index < paths.length; index++) {
            File each = new File(paths[index]);
            if (each.isDirectory()) {
                File[] inside = each.listFiles();
                for (int place = 0; inside != null && place < inside.length; place++) {
                    // Packages of classes; settings lie beside each other.
                    if (inside[place].isDirectory()) {
                        throw new Unknown("classes that are in no jar, but in " + each);
                    }
                }
            } else if (each.isFile() && !directoryOf(each.getAbsoluteFile()).equals(sparksJars)) {
                jars.add(each.getAbsoluteFile());
            }
        }
    }

    synchronized String contentOf(File jar) throws Exception {
        String version = jar + " " + jar.length() + " " + jar.lastModified();
        if (!byJar.containsKey(version)) {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            byte[] part = new byte[1 << 16];
            InputStream content = new FileInputStream(jar);
            try {
                for (int size = content.read(part); size >= 0; size = content.read(part)) {
                    digest.update(part, 0, size);
                }
            } finally {
                content.close();
            }
            byJar.put(version, base64(digest.digest()));
        }
        return (String) byJar.get(version);
    }

    /** The file that a class was loaded from; null where it is none. */
    static File jarOf(Class of) {
        CodeSource source = of.getProtectionDomain().getCodeSource();
        URL location = source == null ? null : source.getLocation();
        if (location == null || !"file".equals(location.getProtocol())) {
            return null;
        }
        try {
            return new File(location.toURI()).getAbsoluteFile();
        } catch (java.net.URISyntaxException error) {
            return null;
        }
    }

    static File directoryOf(File file) {
        return file == null ? null : file.getParentFile();
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** What can't be known of something, as the message. */
    static final class Unknown extends IOException {
        Unknown(String what) {
            super(what);
        }
    }

    /** Bytes as a digest. */
    static final class Bytes extends OutputStream {
        final MessageDigest digest;
        long size = 0;

        Bytes() {
            try {
                digest = MessageDigest.getInstance("SHA-256");
            } catch (java.security.NoSuchAlgorithmException error) {
                throw new IllegalStateException(error);
            }
        }

        public void write(int each) throws IOException {
            write(new byte[] {(byte) each}, 0, 1);
        }

        public void write(byte[] bytes, int start, int length) throws IOException {
            size += length;
            if (size > MOST_BYTES) {
                throw new Unknown("a function that holds more than " + MOST_BYTES + " bytes");
            }
            digest.update(bytes, start, length);
        }
    }

    /** An object as tasks are sent it, but for what is another one in each program. */
    static final class Stream extends ObjectOutputStream {
        static final String MODELS = "org.apache.spark.ml.";
        /** They draw nothing: their seed is what they were fitted with, another in each program. */
        static final String FITTED = "org\\.apache\\.spark\\.ml\\."
                + "((classification|regression)\\..*Model"
                + "|clustering\\.(BisectingKMeans|GaussianMixture|KMeans)Model)";
        static final String STANDS_FOR = "holdfast: stands for";

        final Bytes bytes;
        /** What it takes to make it again. */
        final Set classes = new HashSet();
        /** The classes whose code its functions are. */
        final Set hosts = new HashSet();
        /** Ids that say nothing but which of several things it is. */
        final Map ids = new HashMap();
        final Map values = new HashMap();
        /** The names of the models in it. */
        final List names = new ArrayList();
        final Set fitted = new HashSet();

        Stream() throws IOException {
            this(new Bytes());
        }

        Stream(Bytes bytes) throws IOException {
            super(bytes);
            this.bytes = bytes;
            enableReplaceObject(true);
        }

        void write(Object value) throws IOException {
            writeObject(value);
            flush();
        }

        protected void annotateClass(Class each) {
            while (each.isArray()) {
                each = each.getComponentType();
            }
            if (!each.isPrimitive()) {
                classes.add(each);
            }
        }

        protected void annotateProxyClass(Class each) throws IOException {
            throw new Unknown("a class that was made while the program runs");
        }

        protected Object replaceObject(Object value) throws IOException {
            if (value instanceof String) {
                return once(withoutNames((String) value));
            } else if (value instanceof Number) {
                return once(value);
            } else if (value instanceof SerializedLambda) {
                host((SerializedLambda) value);
            } else if (value instanceof TreeNode) {
                return node((TreeNode) value);
            } else if (value instanceof ExprId) {
                return id(value);
            } else if (value instanceof ExpressionEncoder || value instanceof AgnosticEncoder) {
                return product(value);
            } else if (value instanceof StructType) {
                return fields((StructType) value);
            } else if (value instanceof UserDefinedType) {
                return instead(value, ((UserDefinedType) value).json());
            } else if (value instanceof Metadata) {
                return instead(value, ((Metadata) value).json());
            } else if (value instanceof Broadcast) {
                return instead(value, ((Broadcast) value).value());
            } else if (value instanceof SparkSession && areModels()) {
                // Tasks are sent nothing of it.
                return instead(value, null);
            } else if (value instanceof RDD
                    || value instanceof SparkContext
                    || value instanceof SparkSession
                    || value instanceof Dataset
                    || value instanceof AccumulatorV2) {
                throw new Unknown("a function that holds a " + value.getClass().getName());
            } else if (value.getClass().getName().startsWith(MODELS)) {
                return ofModel(value);
            }
            return value;
        }

        /** Equal values are one: whether they are one object is written, too, and differs. */
        Object once(Object value) {
            if (!values.containsKey(value)) {
                values.put(value, value);
            }
            return values.get(value);
        }

        /** Whether its functions are those of Spark's models. */
        boolean areModels() {
            boolean are = !hosts.isEmpty();
            for (java.util.Iterator each = hosts.iterator(); each.hasNext(); ) {
                are = are && ((String) each.next()).startsWith(MODELS);
            }
            return are;
        }

        static Object instead(Object value, Object content) {
            return new Object[] {STANDS_FOR, value.getClass(), content};
        }

        /** Which code a lambda is stands in its names alone. */
        void host(SerializedLambda lambda) throws IOException {
            String name = lambda.getImplClass().replace('/', '.');
            hosts.add(name);
            ClassLoader loader = null;
            try {
                Class capturing = (Class) held(SerializedLambda.class, lambda, "capturingClass");
                loader = capturing.getClassLoader();
            } catch (Exception error) {
                loader = Thread.currentThread().getContextClassLoader();
            }
            try {
                classes.add(Class.forName(name, false, loader));
            } catch (ClassNotFoundException error) {
                throw new Unknown("a function of " + name + ", which can't be found");
            }
        }

        /** The arguments of its constructor; what has been made of them follows. */
        Object node(TreeNode node) throws IOException {
            if (node instanceof LogicalPlan) {
                throw new Unknown("a function that holds a plan");
            }
            if (node instanceof LambdaVariable) {
                LambdaVariable each = (LambdaVariable) node;
                Object id = id(Long.valueOf(each.id()));
                Object nullable = Boolean.valueOf(each.nullable());
                return instead(node, new Object[] {each.name(), each.dataType(), nullable, id});
            }
            Object[] further = elements(node.otherCopyArgs().iterator());
            return instead(node, new Object[] {elements(node.productIterator()), further});
        }

        Object product(Object value) {
            return instead(value, elements(((Product) value).productIterator()));
        }

        static Object[] elements(Iterator each) {
            List found = new ArrayList();
            while (each.hasNext()) {
                found.add(each.next());
            }
            return found.toArray();
        }

        Object fields(StructType type) {
            StructField[] fields = type.fields();
            Object[] found = new Object[fields.length];
            for (int index = 0; index < fields.length; index++) {
                StructField each = fields[index];
                Object nullable = Boolean.valueOf(each.nullable());
                found[index] = new Object[] {each.name(), each.dataType(), nullable, each.metadata()};
            }
            return instead(type, found);
        }

        Object id(Object of) {
            if (!ids.containsKey(of)) {
                ids.put(of, new Object[] {STANDS_FOR, Integer.valueOf(ids.size())});
            }
            return ids.get(of);
        }

        /** What is named after a model has its name inside. */
        String withoutNames(String text) {
            for (int index = 0; index < names.size(); index++) {
                String name = (String) names.get(index);
                if (text.contains(name)) {
                    text = text.replace(name, STANDS_FOR + ' ' + index);
                }
            }
            return text;
        }

        /** Each of Spark's models has a name with some random digits, which no row shows. */
        Object ofModel(Object value) throws IOException {
            try {
                if (isA(value, MODELS + "util.Identifiable")) {
                    String name = (String) called(value, "uid");
                    if (name.matches(".*_[0-9a-f]{12}") && !names.contains(name)) {
                        names.add(name);
                    }
                    if (value.getClass().getName().matches(FITTED)) {
                        fitted.add(name);
                    }
                } else if (isA(value, MODELS + "param.ParamMap")) {
                    return parameters(value);
                }
            } catch (ReflectiveOperationException error) {
                throw new Unknown("a " + value.getClass().getName());
            }
            return value;
        }

        /** The entries of a map whose order follows from those names. */
        Object parameters(Object map) throws ReflectiveOperationException {
            Map found = new TreeMap();
            Iterator each = ((scala.collection.Iterable) called(map, "toSeq")).iterator();
            while (each.hasNext()) {
                Product pair = (Product) each.next();
                Object parameter = pair.productElement(0);
                Object name = called(parameter, "name");
                Object parent = called(parameter, "parent");
                if (name.equals("seed") && fitted.contains(parent)) {
                    continue;
                }
                Object[] content = new Object[] {parent, name, pair.productElement(1)};
                if (found.put(name, content) != null) {
                    throw new ReflectiveOperationException("two parameters of one name");
                }
            }
            return instead(map, found.values().toArray());
        }

        static Object called(Object of, String method) throws ReflectiveOperationException {
            return of.getClass().getMethod(method, new Class[0]).invoke(of, new Object[0]);
        }

        static boolean isA(Object value, String name) throws ReflectiveOperationException {
            return Class.forName(name, false, value.getClass().getClassLoader()).isInstance(value);
        }
    }
}
