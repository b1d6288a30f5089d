package holdfast;

import com.google.common.collect.Interner;
import com.google.common.collect.Interners;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.joins.HashedRelationBroadcastMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.runtime.AbstractFunction1;

/**
 * What the rows of a physical plan depend on that Spark doesn't compare.
 *
 * To Spark two scans are the same that read the same paths in the same way, and two expressions
 * whose operands stand in another order. So of each it is noted which files are listed, with which
 * values of partitions, and the order that is written.
 */
public final class StageInputs implements BiFunction {
    /** What stands for what is the same to Spark and there in two ways. */
    static final String AMBIGUOUS = "";
    static final int MOST_FILES = 10000;

    static final String OPERATORS = "org.apache.spark.sql.execution.";
    static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
    /** Operators whose rows follow from their inputs and their own text. */
    static final Set KNOWN = new HashSet(Arrays.asList(new Object[] {
        "AQEShuffleReadExec", "AdaptiveSparkPlanExec", "BroadcastExchangeExec",
        "BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec", "BroadcastQueryStageExec",
        "CartesianProductExec", "CoalesceExec", "ColumnarToRowExec", "ExpandExec",
        "FileSourceScanExec", "FilterExec", "GenerateExec", "HashAggregateExec", "InputAdapter",
        "LocalTableScanExec", "ObjectHashAggregateExec", "ProjectExec", "RangeExec",
        "ReusedExchangeExec", "ReusedSubqueryExec", "ShuffleExchangeExec", "ShuffleQueryStageExec",
        "ShuffledHashJoinExec", "SortAggregateExec", "SortExec", "SortMergeJoinExec",
        "SubqueryBroadcastExec", "SubqueryExec", "UnionExec", "WholeStageCodegenExec",
        "WindowExec", "WindowGroupLimitExec"}));
    /** Catalyst takes the sketches of quantiles for deterministic, but they draw what they drop. */
    static final Pattern DRAWING = Pattern.compile("Kll(Sketch)?(Agg|Merge)\\w*");
    /** Expressions of Spark's own that run somebody else's code. */
    static final Set FOREIGN = new HashSet(Arrays.asList(new Object[] {
        "ApplyFunctionExpression", "CallMethodViaReflection", "ScalaUDF", "UserDefinedGenerator",
        "V2Aggregator"}));

    final Function tags;
    final Function order;
    final String between;
    // All that is held of one listing has the same text.
    final Interner texts = Interners.newWeakInterner();

    /**
     * @param tags gives what distinguishes versions of a listed file, beside length and time
     * @param order gives of a node its expressions in Spark's form and as written, see
     *     `WrittenOrder`
     * @param between what is between the fields of a file, and between files
     */
    public StageInputs(Function tags, Function order, String between) {
        this.tags = tags;
        this.order = order;
        this.between = between;
    }

    /**
     * What a plan's rows depend on, by what is the same to Spark.
     *
     * @param plan a `SparkPlan`
     * @param strictly whether all that the plan's rows depend on must be known; or else only what
     *     is below exchanges counts
     * @return a `Map`: of the root paths of a listing, as a text, its files as `FileVersions` has
     *     them, and its partitions; of expressions in Spark's form, as a list, the form in which
     *     they are written. Where something that must be known isn't, a `String` that says what
     */
    public Object apply(Object plan, Object strictly) {
        boolean strict = ((Boolean) strictly).booleanValue();
        Map inputs = new HashMap();
        Set seen = Collections.newSetFromMap(new java.util.IdentityHashMap());
        Set exchanged = Collections.newSetFromMap(new java.util.IdentityHashMap());
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(plan);
        while (!waiting.isEmpty()) {
            SparkPlan each = (SparkPlan) waiting.pop();
            if (!seen.add(each)) {
                continue;
            }
            String doubt = strict ? doubt(each) : null;
            if (doubt == null && each instanceof FileSourceScanExec) {
                HadoopFsRelation relation = ((FileSourceScanExec) each).relation();
                boolean isListed = listed(relation, inputs);
                if (strict && !isOfSpark(relation.fileFormat())) {
                    doubt = relation.fileFormat() + " is none of Spark's own data sources";
                } else if (strict && !isListed) {
                    doubt = "a catalog lists the files, they aren't there as listed, or there are "
                        + "none or more than " + MOST_FILES;
                }
            }
            if (doubt != null) {
                return doubt;
            }
            ArrayDeque next = new ArrayDeque();
            below(each, next);
            if (strict || each instanceof Exchange || exchanged.contains(each)) {
                Map.Entry written = (Map.Entry) order.apply(each);
                if (written != null) {
                    put(inputs, written.getKey(), written.getValue());
                }
                exchanged.addAll(next);
            }
            waiting.addAll(next);
        }
        return inputs;
    }

    static void put(Map inputs, Object key, Object value) {
        Object known = inputs.get(key);
        inputs.put(key, known == null || known.equals(value) ? value : AMBIGUOUS);
    }

    static boolean isOfSpark(Object format) {
        return format.getClass().getName().startsWith("org.apache.spark.sql.");
    }

    /** Adds what a node reads: also what has run already, or what is in its expressions. */
    static void below(SparkPlan node, ArrayDeque waiting) {
        if (node instanceof QueryStageExec) {
            waiting.push(((QueryStageExec) node).plan());
        } else if (node instanceof ReusedExchangeExec) {
            waiting.push(((ReusedExchangeExec) node).child());
        } else if (node instanceof AdaptiveSparkPlanExec) {
            waiting.push(((AdaptiveSparkPlanExec) node).initialPlan());
            waiting.push(((AdaptiveSparkPlanExec) node).executedPlan());
        }
        pushAll(node.children(), waiting);
        ArrayDeque expressions = new ArrayDeque();
        pushAll(node.expressions(), expressions);
        while (!expressions.isEmpty()) {
            Expression each = (Expression) expressions.pop();
            if (each instanceof PlanExpression && ((PlanExpression) each).plan() instanceof SparkPlan) {
                waiting.push(((PlanExpression) each).plan());
            }
            pushAll(each.children(), expressions);
        }
    }

    static void pushAll(Seq all, ArrayDeque waiting) {
        Iterator each = all.iterator();
        while (each.hasNext()) {
            waiting.push(each.next());
        }
    }

    /** What isn't known of what an operator itself makes its rows of; null for nothing. */
    static String doubt(SparkPlan node) {
        String name = node.getClass().getName();
        if (!name.startsWith(OPERATORS) || !KNOWN.contains(node.getClass().getSimpleName())) {
            return "the rows of " + node.nodeName() + " may depend on more than its inputs";
        }
        if (node instanceof LocalTableScanExec && !isComparedByBits(node.schema())) {
            return "Spark takes different floating-point rows of the program for equal";
        }
        if (node instanceof BroadcastExchangeExec) {
            Object mode = ((BroadcastExchangeExec) node).mode();
            String ofKey = mode instanceof HashedRelationBroadcastMode
                ? doubt(((HashedRelationBroadcastMode) mode).key()) : null;
            if (ofKey != null) {
                return ofKey;
            }
        }
        return doubt(node.expressions());
    }

    static String doubt(Seq all) {
        ArrayDeque waiting = new ArrayDeque();
        pushAll(all, waiting);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            boolean ofChildren = false;
            Iterator children = each.children().iterator();
            while (children.hasNext()) {
                ofChildren |= !((Expression) children.next()).deterministic();
            }
            if (!each.deterministic() && !ofChildren) {
                return each.prettyName() + " is not deterministic";
            }
            if (!isKnown(each)) {
                return each instanceof Literal || each instanceof InSet
                    ? "Spark takes different floating-point values for equal"
                    : each.prettyName() + " may depend on more than its inputs";
            }
            pushAll(each.children(), waiting);
        }
        return null;
    }

    /** Whether Spark takes values for the same only if their bits are: 0.0 is -0.0 to it. */
    static boolean isComparedByBits(DataType type) {
        String text = type.catalogString().toLowerCase(Locale.ROOT);
        // Those of users, and of Java, are compared in their own way.
        return !text.contains("float") && !text.contains("double") && !text.contains("variant")
                && !type.existsRecursively(new IsForeign());
    }

    static final class IsForeign extends AbstractFunction1 {
        public Object apply(Object type) {
            boolean isForeign = type instanceof UserDefinedType || type instanceof ObjectType;
            return Boolean.valueOf(isForeign);
        }
    }

    static boolean isKnown(Literal literal) {
        Object value = literal.value();
        if (value instanceof Number) {
            // Those of all integers, dates and times as well.
            double number = ((Number) value).doubleValue();
            boolean isFloating = value instanceof Double || value instanceof Float;
            return !isFloating || number != 0.0 && !Double.isNaN(number);
        }
        return value == null || isComparedByBits(literal.dataType());
    }

    static boolean isKnown(Expression expression) {
        String name = expression.getClass().getName();
        String simple = name.substring(name.lastIndexOf('.') + 1);
        if (expression instanceof Literal) {
            return isKnown((Literal) expression);
        }
        if (expression instanceof InSet) {
            return isComparedByBits(((InSet) expression).child().dataType());
        }
        if (expression instanceof StaticInvoke) {
            Class called = ((StaticInvoke) expression).staticObject();
            // What is encrypted gets an initialization vector that is made up.
            return called.getName().startsWith("org.apache.spark.")
                    && !((StaticInvoke) expression).functionName().equals("aesEncrypt");
        }
        if (expression instanceof PlanExpression) {
            return simple.equals("ScalarSubquery") || simple.equals("InSubqueryExec");
        }
        if (name.startsWith("org.apache.spark.sql.catalyst.plans.physical.")) {
            return true;
        }
        return name.startsWith(EXPRESSIONS)
                && !name.startsWith(EXPRESSIONS + "objects.")
                && !simple.startsWith("Python")
                && !FOREIGN.contains(simple)
                && !DRAWING.matcher(simple).matches();
    }

    /** Notes a relation's listing; false where it can't be known what it reads. */
    boolean listed(HadoopFsRelation relation, Map inputs) {
        FileIndex index = relation.location();
        String name = index.getClass().getName();
        // A path that is named twice is read twice, and the same to Spark.
        Set roots = new TreeSet();
        Iterator paths = index.rootPaths().iterator();
        while (paths.hasNext()) {
            roots.add(String.valueOf(paths.next()));
        }
        Object listing = AMBIGUOUS;
        // Any other may give its files values that are known when they are read.
        if (name.equals(InMemoryFileIndex.class.getName()) || name.startsWith("holdfast.")) {
            listing = listing((InMemoryFileIndex) index);
        }
        put(inputs, String.join(between, roots), listing);
        return !AMBIGUOUS.equals(listing);
    }

    /** Files and partitions; ambiguous with no files, too many, or some not there as listed. */
    Object listing(InMemoryFileIndex index) {
        List files = new ArrayList();
        Iterator each = index.allFiles().iterator();
        while (each.hasNext()) {
            FileStatus file = (FileStatus) each.next();
            String tag = String.valueOf(tags.apply(file));
            if (tag.equals("not as listed") || files.size() == MOST_FILES) {
                return AMBIGUOUS;
            }
            files.add(file.getPath() + between + file.getLen() + between
                    + file.getModificationTime() + between + tag);
        }
        if (files.isEmpty()) {
            return AMBIGUOUS;
        }
        Collections.sort(files);
        return Arrays.asList(new Object[] {
            texts.intern(String.join(between, files)), texts.intern(partitions(index))});
    }

    /** The directory of each partition, and the values that its rows get. */
    static String partitions(InMemoryFileIndex index) {
        StructType columns = index.partitionSpec().partitionColumns();
        List partitions = new ArrayList();
        Iterator each = index.partitionSpec().partitions().iterator();
        while (each.hasNext()) {
            PartitionPath partition = (PartitionPath) each.next();
            StringBuilder text = new StringBuilder();
            for (int place = 0; place < columns.length(); place++) {
                DataType type = columns.apply(place).dataType();
                Object value = partition.values().get(place, type);
                String shown = String.valueOf(value);
                text.append(value == null ? -1 : shown.length()).append(':').append(shown);
            }
            partitions.add(text.append(partition.path()).append('\n').toString());
        }
        Collections.sort(partitions);
        return String.join("", partitions);
    }
}
