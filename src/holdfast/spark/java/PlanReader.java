package holdfast;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TimeZone;
import java.util.UUID;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.zone.ZoneRulesProvider;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Divide;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Mode;
import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification$;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Except;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Intersect;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.rules.RuleId;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.PartialFunction;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.IterableOnce;
import scala.collection.IterableOnceOps;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Writes analyzed plans as JSON. `holdfast.plan.document` describes what comes out.
 *
 * Digests that are kept on disk are taken of this text: the same plan must give the same one.
 */
public final class PlanReader implements Function {
    /** Rewriting goes on until nothing changes; it always has after a few times. */
    static final int MOST_REWRITES = 20;
    static final Object NOT_CONSTANT = new Object();

    static final String NULL_STRUCTS =
        "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing";

    /** Spark's own readers of files see these among the settings of Hadoop. */
    static final String SEEN_BY_READERS =
        "(avro|hive\\.exec\\.orc|io\\.compression|mapreduce\\.input|orc|parquet"
            + "|textinputformat)\\..*";

    /** How our own archives of classes are called, see `holdfast.spark.task_classes`. */
    static final String OWN_JARS = "/holdfast-tasks-";

    /** Options of Java that set a default locale, character set or time zone. */
    static final String OF_DEFAULTS =
        "-D(user\\.(language|country|region|script|variant|timezone)|file\\.encoding"
            + "|java\\.locale).*";

    final TreeNodeTag saltTag;
    final Set outputFromFields;
    final Set namedInputs;
    final Function fileTags;
    final Function tableStates;
    final Function content;
    final BiFunction reached;

    /**
     * @param saltTag where a node's salt is, if it has been given one
     * @param outputFromFields classes of operators whose output follows from their arguments
     * @param namedInputs classes of operators that can observe how their inputs' columns are called
     * @param fileTags gives what tells versions of a listed file apart, beside length and time
     * @param tableStates gives what tells the rows of a catalog's table apart that it has at times
     * @param content what is known of rows and of objects, see `KnownContent`
     * @param reached lists the files of tables that Spark lists when a query runs, see
     *     `ReachedPartitions`; null where nothing does
     */
    public PlanReader(
            TreeNodeTag saltTag, String outputFromFields, String namedInputs, Function fileTags,
            Function tableStates, Function content, BiFunction reached) {
        this.content = content;
        this.reached = reached;
        this.fileTags = fileTags;
        this.tableStates = tableStates;
        this.saltTag = saltTag;
        this.outputFromFields = new HashSet(Arrays.asList(outputFromFields.split(",")));
        this.namedInputs = new HashSet(Arrays.asList(namedInputs.split(",")));
    }

    /** A plan as the session that runs it reads its files. */
    public Reading read(LogicalPlan plan, SparkSession session) {
        return new Reading(walked(plan, session), session);
    }

    /** The analyzed plan of a Dataset, like `read`. */
    public Reading readDataset(Dataset dataset) {
        return read(dataset.queryExecution().commandExecuted(), dataset.sparkSession());
    }

    /** Whether a plan would be read as it has been: what it lists may be another. */
    public boolean isStill(Reading reading) {
        Walk walk = walked(reading.original(0), reading.session);
        return Arrays.equals(reading.digest, digestOf(walk.out));
    }

    /** The salt of a node, which is given one unless it has one. */
    public String salt(Reading reading, int handle, String fresh) {
        LogicalPlan node = reading.original(handle);
        // Spark doesn't guard the tags of a node.
        synchronized (saltTag) {
            if (node.getTagValue(saltTag).isEmpty()) {
                node.setTagValue(saltTag, fresh);
            }
            String salt = saltOf(node);
            ((LogicalPlan) reading.node(handle)).setTagValue(saltTag, salt);
            return salt;
        }
    }

    /** The salt of a node, or null. */
    String saltOf(LogicalPlan node) {
        synchronized (saltTag) {
            Option found = node.getTagValue(saltTag);
            return found.isDefined() ? (String) found.get() : null;
        }
    }

    Walk walked(LogicalPlan plan, SparkSession session) {
        try {
            Walk walk = new Walk(this, session);
            walk.operators(plan);
            if (walk.isListedLater) {
                Object[] listed =
                        reached == null
                                ? new Object[] {plan, walk.originals}
                                : (Object[]) reached.apply(plan, session);
                walk = new Walk(this, session);
                walk.originals = (java.util.Map) listed[1];
                walk.isListed = true;
                walk.operators((LogicalPlan) listed[0]);
            }
            return walk;
        } catch (Exception error) {
            throw unreadable(error);
        }
    }

    static byte[] digestOf(CharSequence text) {
        try {
            // Two bytes for each char, as UTF-8 has one mark for all surrogates that are alone.
            byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_16LE);
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (java.security.NoSuchAlgorithmException error) {
            throw unreadable(error);
        }
    }

    /**
     * What a session's queries depend on beside their plans: a digest, and after a blank four JSON
     * objects, in a list: what is set, what is in effect whether set or not, what is set for
     * Hadoop, and what the process has by default.
     *
     * @param known digests that the caller knows already: of one of these the digest is all
     */
    public String inputs(SparkSession session, String known) {
        CharSequence inputs = allInputs(session);
        String digest = digestText(inputs);
        return known.contains(digest) ? digest : digest + ' ' + inputs;
    }

    /** The digest that `inputs` gives of a session, for classes that are compiled by themselves. */
    public Object apply(Object session) {
        return digestText(allInputs((SparkSession) session));
    }

    static String digestText(CharSequence inputs) {
        return Base64.getEncoder().encodeToString(digestOf(inputs));
    }

    CharSequence allInputs(SparkSession session) {
        // A copy, as another thread may change a setting between two looks at them.
        SQLConf settings = session.sessionState().conf().clone();
        Walk walk = new Walk(this, session);
        walk.out.append('[').append(texts(settings.getAllConfs()));
        walk.out.append(",{\"ansi\":\"").append(settings.ansiEnabled());
        walk.out.append("\",\"case sensitive\":\"").append(settings.caseSensitiveAnalysis());
        walk.out.append("\",\"time zone\":");
        walk.quoted(settings.sessionLocalTimeZone());
        // All sessions share it, and readers of files see it.
        Configuration shared = session.sparkContext().hadoopConfiguration();
        walk.out.append("},").append(hadoopTexts(shared)).append(',');
        walk.process(session);
        walk.out.append(']');
        return walk.out;
    }

    /** The texts of a map as a JSON object, whatever characters they have. */
    public String texts(scala.collection.Map map) {
        Walk walk = new Walk(this, null);
        walk.out.append('{');
        Iterator entries = map.iterator();
        while (entries.hasNext()) {
            Tuple2 entry = (Tuple2) entries.next();
            walk.quoted((String) entry._1());
            walk.out.append(':');
            walk.quoted((String) entry._2());
            walk.out.append(entries.hasNext() ? "," : "");
        }
        return walk.out.append('}').toString();
    }

    /**
     * What has been set in a Hadoop configuration by this program, and of files of settings what
     * Spark's readers go by, as a JSON object: readers and writers of files see it. How file systems
     * are reached is left out, and secrets with it.
     */
    public String hadoopTexts(Configuration configuration) {
        Walk walk = new Walk(this, null);
        walk.out.append('{');
        java.util.Iterator entries = configuration.iterator();
        while (entries.hasNext()) {
            java.util.Map.Entry entry = (java.util.Map.Entry) entries.next();
            String key = (String) entry.getKey();
            String[] sources = configuration.getPropertySources(key);
            if (sources == null || sources.length == 0 || key.startsWith("fs.")) {
                continue;
            }
            String last = sources[sources.length - 1];
            boolean isOfProgram = last.equals("programmatically")
                    || last.contains("spark.hadoop")
                    || last.contains("spark.hive");
            boolean isOfFile = last.endsWith(".xml") && !last.endsWith("-default.xml");
            if (isOfProgram || isOfFile && key.matches(SEEN_BY_READERS)) {
                walk.out.append(walk.out.length() == 1 ? "" : ",");
                walk.quoted(key);
                walk.out.append(':');
                walk.quoted((String) entry.getValue());
            }
        }
        return walk.out.append('}').toString();
    }

    /** What PySpark takes for no error of the user's own query. */
    static RuntimeException unreadable(Exception error) {
        return new IllegalStateException("the plan can't be read: " + error, error);
    }

    /** A plan as text, with the way back to its nodes. */
    public static final class Reading {
        final List nodes;
        final Map originals;
        final SparkSession session;
        final byte[] digest;
        StringBuilder text;
        int taken = 0;

        Reading(Walk walk, SparkSession session) {
            this.session = session;
            this.text = walk.out;
            this.nodes = walk.nodes;
            this.originals = walk.originals;
            this.digest = digestOf(text);
        }

        /** The next part of the text, of at most some length, after a `+`; the last after a `.`. */
        public String take(int length) {
            int start = taken;
            taken = Math.min(text.length(), start + length);
            // Half a pair of surrogates would become a mark that stands for any.
            if (taken < text.length() && Character.isHighSurrogate(text.charAt(taken - 1))) {
                taken--;
            }
            String part = text.substring(start, taken);
            if (taken < text.length()) {
                return '+' + part;
            }
            // Readings are kept for their nodes.
            text = new StringBuilder();
            taken = 0;
            return '.' + part;
        }

        /** A node that has been read, over files that are listed. */
        public Object node(int handle) {
            return nodes.get(handle);
        }

        /** What a node was before the files of a catalog's tables were listed. */
        public LogicalPlan original(int handle) {
            Object node = nodes.get(handle);
            Object original = originals.get(node);
            return (LogicalPlan) (original == null ? node : original);
        }

        /** Whether the plan that has been read is the one that was written. */
        public boolean isAsWritten() {
            return originals.isEmpty();
        }

        /** The tables over files that were listed, each with what lists it afresh when it is run. */
        public Map listed() {
            Map found = new HashMap();
            java.util.Iterator each = originals.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                LogicalPlan leaf = (LogicalPlan) entry.getValue();
                if (!leaf.children().isEmpty()) {
                    continue;
                }
                found.put(entry.getKey(), leaf);
                if (leaf instanceof LogicalRelation) {
                    ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location().refresh();
                }
            }
            return found;
        }

        /** What a function says of each original node, by handle and separated by commas. */
        public String each(Function1 function) {
            StringBuilder said = new StringBuilder();
            try {
                for (int handle = 0; handle < nodes.size(); handle++) {
                    said.append(handle == 0 ? "" : ",").append(function.apply(original(handle)));
                }
            } catch (Exception error) {
                throw unreadable(error);
            }
            return said.toString();
        }
    }

    /** One reading while it is made. */
    static final class Walk {
        StringBuilder out = new StringBuilder();
        final List nodes = new ArrayList();
        final PlanReader reader;
        final SQLConf settings;

        /** From nodes over files that have been listed to those that they stand for. */
        Map originals = new IdentityHashMap();

        /** Whether it has been tried, and whether there is anything to list. */
        boolean isListed = false;
        boolean isListedLater = false;

        /** The expressions of the operator that is being written, and where each of them is. */
        StringBuilder expressions;
        Map places;

        Walk(PlanReader reader, SparkSession session) {
            this.reader = reader;
            this.settings = session == null ? null : session.sessionState().conf();
        }

        /** The operators of a plan in pre-order. */
        void operators(LogicalPlan plan) {
            // Plans can be deeper than a thread's stack.
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(plan);
            out.append('[');
            while (true) {
                LogicalPlan node = (LogicalPlan) waiting.pop();
                operator(node);
                Iterator children = node.children().reverseIterator();
                while (children.hasNext()) {
                    waiting.push(children.next());
                }
                if (waiting.isEmpty()) {
                    break;
                }
                out.append(',');
            }
            out.append(']');
        }

        void operator(LogicalPlan node) {
            StringBuilder outerExpressions = expressions;
            Map outerPlaces = places;
            expressions = new StringBuilder();
            places = new IdentityHashMap();
            String name = node instanceof HiveTableRelation
                    ? HiveTableRelation.class.getName()
                    : node.getClass().getName();
            out.append("{\"i\":").append(nodes.size());
            nodes.add(node);
            out.append(",\"c\":\"").append(name);
            out.append("\",\"n\":").append(node.children().size()).append(",\"t\":");
            Object original = originals.get(node);
            value(reader.saltOf(original == null ? node : (LogicalPlan) original), true);
            out.append(',');
            if (reader.outputFromFields.contains(name)) {
                arguments(node, true);
            } else if (node instanceof LocalRelation) {
                out.append("\"f\":[],\"o\":[]");
                output(node);
                rows(node);
            } else if (node instanceof HiveTableRelation) {
                out.append("\"f\":[],\"o\":[]");
                output(node);
                table(node);
            } else {
                arguments(node, true);
                output(node);
                if (node instanceof LogicalRDD) {
                    rows(node);
                }
                if (reader.namedInputs.contains(name)) {
                    out.append(",\"inputs\":");
                    schemas(node.children().iterator());
                }
            }
            tiedColumns(node);
            out.append(",\"x\":[").append(expressions).append("]}");
            expressions = outerExpressions;
            places = outerPlaces;
        }

        /** The columns of groups that have the value of any of their rows. */
        void tiedColumns(LogicalPlan node) {
            List found = new ArrayList();
            if (node instanceof Aggregate) {
                Aggregate groups = (Aggregate) node;
                boolean isTied = hasTies(groups.groupingExpressions().iterator());
                Iterator results = groups.aggregateExpressions().iterator();
                while (isTied && results.hasNext()) {
                    Expression result = (Expression) results.next();
                    if (isOfAnyRow(result)) {
                        found.add(((NamedExpression) result).exprId().id());
                    }
                }
            } else if (node instanceof Distinct || node instanceof Deduplicate
                    || node instanceof Except || node instanceof Intersect) {
                Iterator columns = node.output().iterator();
                while (columns.hasNext()) {
                    Expression column = (Expression) columns.next();
                    if (ties(column)) {
                        found.add(((NamedExpression) column).exprId().id());
                    }
                }
            }
            if (!found.isEmpty()) {
                out.append(",\"ties\":").append(found);
            }
        }

        /** Whether an expression has values that are equal and not the same, as of a collation. */
        static boolean ties(Expression node) {
            return !UnsafeRowUtils.isBinaryStable(node.dataType());
        }

        static boolean hasTies(Iterator expressions) {
            while (expressions.hasNext()) {
                if (ties((Expression) expressions.next())) {
                    return true;
                }
            }
            return false;
        }

        /** Whether a result is made of keys that differ in the rows of a group. */
        static boolean isOfAnyRow(Expression result) {
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(result);
            while (!waiting.isEmpty()) {
                Expression next = (Expression) waiting.pop();
                if (next instanceof AggregateExpression || next instanceof Literal) {
                    continue;
                }
                if (ties(next)) {
                    return true;
                }
                Iterator operands = next.children().iterator();
                while (operands.hasNext()) {
                    waiting.push(operands.next());
                }
            }
            return false;
        }

        /** The arguments of a node's constructor, and those of its further lists. */
        void arguments(TreeNode node, boolean ofOperator) {
            out.append("\"f\":[");
            values(node.productIterator(), ofOperator);
            out.append("],\"o\":[");
            values(node.otherCopyArgs().iterator(), ofOperator);
            if (node instanceof DataSourceV2Relation) {
                // It has no further lists.
                value(reader.tableStates.apply(((DataSourceV2Relation) node).name()), ofOperator);
            }
            out.append(']');
        }

        /**
         * What stands for an expression that is written before it, with all that is in it.
         *
         * Expressions can be deeper than a thread's stack as well.
         */
        void reference(Expression whole) {
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(whole);
            while (!waiting.isEmpty()) {
                Expression next = (Expression) waiting.peek();
                if (places.containsKey(next)) {
                    waiting.pop();
                    continue;
                }
                int before = waiting.size();
                inside(next.productIterator(), waiting);
                inside(next.otherCopyArgs().iterator(), waiting);
                if (waiting.size() == before) {
                    waiting.pop();
                    written(next);
                }
            }
            out.append("{\"x\":").append(places.get(whole)).append('}');
        }

        /** Has the expressions that are arguments wait, where they aren't written yet. */
        void inside(Iterator values, ArrayDeque waiting) {
            while (values.hasNext()) {
                Object each = values.next();
                if (each instanceof AttributeReference || each instanceof LogicalPlan) {
                    continue;
                } else if (each instanceof Alias) {
                    inside(((Alias) each).productIterator(), waiting);
                } else if (each instanceof Expression) {
                    Expression found = withoutNoOps((Expression) each);
                    if (found instanceof AttributeReference) {
                        continue;
                    } else if (found instanceof Alias) {
                        inside(found.productIterator(), waiting);
                    } else if (!places.containsKey(found)) {
                        waiting.push(found);
                    }
                } else if (each instanceof Option) {
                    inside(((Option) each).iterator(), waiting);
                } else if (each instanceof Iterable) {
                    inside(((IterableOnce) each).iterator(), waiting);
                } else if (each instanceof Product && !(each instanceof DataType)) {
                    inside(((Product) each).productIterator(), waiting);
                }
            }
        }

        /** Writes an expression whose operands are written. */
        void written(Expression node) {
            StringBuilder outer = out;
            out = new StringBuilder();
            expression(node);
            if (!places.isEmpty()) {
                expressions.append(',');
            }
            expressions.append(out);
            out = outer;
            places.put(node, Integer.valueOf(places.size()));
        }

        /**
         * An operator's expression in the one form of all that Spark takes for the same: what
         * negates a comparison is a comparison, and no operand of AND or OR is superfluous.
         */
        Expression simplified(Expression whole) {
            PartialFunction rule = SimplifiedFilter.rule();
            for (int count = 0; count < MOST_REWRITES; count++) {
                Expression rewritten = rewritten(whole, rule);
                if (rewritten == whole) {
                    return whole;
                }
                whole = rewritten;
            }
            throw new IllegalStateException("an expression is rewritten without end");
        }

        /** An expression rewritten once from its leaves up, whatever its depth. */
        Expression rewritten(Expression whole, PartialFunction rule) {
            Map done = new IdentityHashMap();
            ArrayDeque waiting = new ArrayDeque();
            waiting.push(whole);
            while (!waiting.isEmpty()) {
                Expression next = (Expression) waiting.peek();
                int before = waiting.size();
                List operands = new ArrayList();
                boolean isChanged = false;
                Iterator each = next.children().iterator();
                while (each.hasNext()) {
                    Object operand = each.next();
                    if (!done.containsKey(operand)) {
                        waiting.push(operand);
                    } else {
                        operands.add(done.get(operand));
                        isChanged = isChanged || done.get(operand) != operand;
                    }
                }
                if (waiting.size() > before) {
                    continue;
                }
                waiting.pop();
                Expression changed = next;
                if (isChanged) {
                    Seq all = CollectionConverters.asScala(operands).toSeq();
                    changed = (Expression) next.withNewChildren(all);
                }
                Object made = rule.isDefinedAt(changed) ? rule.apply(changed) : changed;
                // What is equal to what was there counts as that, so that it comes to an end.
                done.put(next, changed == next && made.equals(next) ? next : made);
            }
            return (Expression) done.get(whole);
        }

        /** An expression without casts to the type that it has already. */
        Expression withoutNoOps(Expression node) {
            while (node instanceof Cast
                    && ((Cast) node).child().resolved()
                    && ((Cast) node).child().dataType().equals(((Cast) node).dataType())) {
                node = ((Cast) node).child();
            }
            // The value that a variable of the session had when the query was analyzed.
            return node instanceof VariableReference
                    ? ((VariableReference) node).varDef().currentValue()
                    : node;
        }

        void output(QueryPlan node) {
            out.append(",\"s\":").append(node.schema().json()).append(",\"out\":[");
            Iterator columns = node.output().iterator();
            while (columns.hasNext()) {
                out.append(((NamedExpression) columns.next()).exprId().id());
                if (columns.hasNext()) {
                    out.append(',');
                }
            }
            out.append(']');
        }

        void schemas(Iterator plans) {
            out.append('[');
            while (plans.hasNext()) {
                out.append(((QueryPlan) plans.next()).schema().json());
                if (plans.hasNext()) {
                    out.append(',');
                }
            }
            out.append(']');
        }

        /** What has been listed of a table that is read by a SerDe, see `HiveFiles`. */
        void table(LogicalPlan table) {
            if (!(table instanceof Supplier)) {
                isListedLater = true;
                return;
            }
            Object[] listed = (Object[]) ((Supplier) table).get();
            out.append(",\"table\":").append(listed[0]).append(",\"files\":[");
            java.util.Iterator each = ((List) listed[1]).iterator();
            while (each.hasNext()) {
                Object next = each.next();
                if (next instanceof FileStatus) {
                    file((FileStatus) next);
                } else {
                    String[] directory = (String[]) next;
                    out.append('[');
                    quoted(directory[0]);
                    out.append(",0,0,");
                    quoted(directory[1]);
                    out.append(']');
                }
                out.append(each.hasNext() ? "," : "");
            }
            out.append(']');
        }

        /** The digest of a table's rows as Spark lays them out; null where that isn't known. */
        void rows(LogicalPlan table) {
            out.append(",\"rows\":");
            value(reader.content.apply(table), true);
        }

        /** What an expression holds that is no expression, by its content. */
        void content(Object value) {
            String found = (String) reader.content.apply(value);
            boolean isKnown = !found.startsWith("?");
            out.append("{\"opaque\":\"").append(value.getClass().getName());
            out.append(isKnown ? "\",\"content\":" : "\",\"why\":");
            quoted(isKnown ? found : found.substring(1));
            out.append(found.endsWith("!") ? ",\"of models\":true}" : "}");
        }

        UnsafeProjection layout(Iterator columns) {
            List references = new ArrayList();
            while (columns.hasNext()) {
                Expression column = (Expression) columns.next();
                references.add(
                        new BoundReference(references.size(), column.dataType(), column.nullable()));
            }
            return InterpretedUnsafeProjection.createProjection(
                    CollectionConverters.asScala(references).toSeq());
        }

        /** A literal's value of a type that has no short text, as Spark lays it out in a row. */
        void cell(Literal literal) {
            List columns = new ArrayList();
            columns.add(literal);
            byte[] row;
            try {
                UnsafeProjection layout = layout(CollectionConverters.asScala(columns).iterator());
                row = layout.apply(new GenericInternalRow(new Object[] {literal.value()})).getBytes();
            } catch (Exception error) {
                content(literal.value());
                return;
            }
            out.append("{\"cell\":\"").append(base64(row)).append("\"}");
        }

        boolean hasText(Object value) {
            return value == null
                    || value instanceof Boolean
                    || value instanceof Number
                    || value instanceof Decimal
                    || value instanceof UTF8String
                    || value instanceof byte[];
        }

        void values(Iterator each, boolean ofOperator) {
            while (each.hasNext()) {
                value(each.next(), ofOperator);
                if (each.hasNext()) {
                    out.append(',');
                }
            }
        }

        /**
         * One argument, by the first of its classes that is known.
         *
         * @param ofOperator whether it belongs to an operator, so that a plan in it is a child
         */
        void value(Object value, boolean ofOperator) {
            if (value == null) {
                out.append("null");
            } else if (value instanceof AttributeReference) {
                out.append("{\"a\":").append(((NamedExpression) value).exprId().id()).append('}');
            } else if (value instanceof Alias) {
                out.append("{\"alias\":").append(((NamedExpression) value).exprId().id());
                out.append(",\"of\":");
                value(((Alias) value).child(), ofOperator);
                out.append('}');
            } else if (value instanceof Expression) {
                anyExpression((Expression) value, ofOperator);
            } else if (value instanceof String) {
                quoted((String) value);
            } else if (value instanceof ExprId) {
                out.append("{\"id\":").append(((ExprId) value).id()).append('}');
            } else if (value instanceof Option) {
                value(((Option) value).isEmpty() ? null : ((Option) value).get(), ofOperator);
            } else if (value instanceof DataType) {
                dataType((DataType) value);
            } else if (value instanceof Boolean
                    || value instanceof Integer
                    || value instanceof Long) {
                out.append(value);
            } else if (value instanceof UTF8String && ((UTF8String) value).isValid()) {
                quoted(value.toString());
            } else if (value instanceof LogicalPlan) {
                plan((LogicalPlan) value, ofOperator);
            } else if (value instanceof Iterable) {
                out.append('[');
                values(((IterableOnce) value).iterator(), ofOperator);
                out.append(']');
            } else {
                rareValue(value, ofOperator);
            }
        }

        void dataType(DataType type) {
            out.append("{\"type\":").append(type.json());
            // Spark's JSON leaves out collations, and of which class an object is.
            boolean hasObject = type.json().contains("\"object\"");
            String text = hasObject ? type.sql() + ' ' + type.catalogString() : type.sql();
            if (hasObject || text.contains(" COLLATE ")) {
                out.append(",\"text\":");
                quoted(text);
            }
            out.append('}');
        }

        /** What `value` goes on with. */
        void rareValue(Object value, boolean ofOperator) {
            if (value instanceof scala.Enumeration.Value) {
                named("enum", value);
            } else if (value instanceof Number
                    || value instanceof Character
                    || value instanceof Decimal) {
                named("number", value);
            } else if (value instanceof Metadata) {
                out.append("{\"metadata\":").append(((Metadata) value).json()).append('}');
            } else if (value instanceof byte[]) {
                out.append("{\"bytes\":\"").append(base64((byte[]) value)).append("\"}");
            } else if (value instanceof UTF8String) {
                byte[] bytes = ((UTF8String) value).getBytes();
                out.append("{\"bytes\":\"").append(base64(bytes)).append("\"}");
            } else if (value instanceof Enum) {
                named("enum", value);
            } else if (value instanceof PythonFunction) {
                pythonFunction((PythonFunction) value);
            } else if (value instanceof FileStatus) {
                file((FileStatus) value);
            } else if (value instanceof PartitioningAwareFileIndex) {
                listing((PartitioningAwareFileIndex) value);
            } else if (value instanceof CatalogFileIndex) {
                out.append("{\"opaque\":\"").append(value.getClass().getName());
                out.append("\",\"now\":\"").append(now((CatalogFileIndex) value)).append("\"}");
            } else if (value instanceof RDD) {
                out.append("{\"rdd\":").append(((RDD) value).id()).append('}');
            } else if (value instanceof Class) {
                out.append("{\"class\":\"").append(((Class) value).getName()).append("\"}");
            } else if (!ofOperator && !isCatalysts(value)) {
                content(value);
            } else if (value instanceof CatalogTable || !(value instanceof Product)) {
                // Catalog entries carry creation times, owners and statistics, which no row
                // depends on.
                out.append("{\"opaque\":\"").append(value.getClass().getName()).append("\"}");
            } else {
                out.append("{\"c\":\"").append(value.getClass().getName()).append("\",\"f\":[");
                values(((Product) value).productIterator(), ofOperator);
                out.append(']');
                if (value instanceof HadoopFsRelation) {
                    readerDefaults();
                }
                out.append('}');
            }
        }

        /** Whether an expression's argument is one that its own arguments say all of. */
        boolean isCatalysts(Object value) {
            String name = value.getClass().getName();
            return value instanceof Product
                    && !(value instanceof ExpressionEncoder)
                    && (name.startsWith("org.apache.spark.sql.catalyst.") || name.startsWith("scala."));
        }

        /** What readers of files take from the session where no option says it, by the options. */
        void readerDefaults() {
            out.append(",\"defaults\":{\"ignorecorruptfiles\":\"");
            out.append(settings.ignoreCorruptFiles()).append("\",\"ignoremissingfiles\":\"");
            out.append(settings.ignoreMissingFiles()).append("\",\"columnnameofcorruptrecord\":");
            quoted(settings.columnNameOfCorruptRecord());
            out.append(",\"null structs\":\"").append(nullStructs()).append("\"}");
        }

        /** Whether a struct is null in Parquet if the file has none of the fields that are read. */
        String nullStructs() {
            try {
                return settings.getConfString(NULL_STRUCTS);
            } catch (java.util.NoSuchElementException error) {
                // Before there was the setting, it was so.
                return "true";
            }
        }

        void anyExpression(Expression node, boolean ofOperator) {
            Expression found = withoutNoOps(ofOperator ? simplified(node) : node);
            if (found instanceof AttributeReference || found instanceof Alias) {
                value(found, false);
            } else {
                reference(found);
            }
        }

        void expression(Expression node) {
            out.append("{\"c\":\"").append(node.getClass().getName()).append("\",");
            if (node instanceof Literal && !hasText(((Literal) node).value())) {
                out.append("\"f\":[");
                cell((Literal) node);
                out.append(",");
                value(node.dataType(), false);
                out.append("],\"o\":[]");
            } else {
                arguments(node, false);
            }
            if (isTotal(node)) {
                out.append(",\"total\":true");
            }
            if (seesZone(node)) {
                out.append(",\"zoned\":true");
            }
            if (node instanceof Cast && types((Cast) node).contains("interval")) {
                out.append(",\"worded\":true");
            }
            if (isExact(node)) {
                out.append(",\"exact\":true");
            }
            if ((node instanceof Max || node instanceof Min) && ties(node)) {
                out.append(",\"tied\":true");
            }
            out.append(node.deterministic() ? "}" : ",\"volatile\":true}");
        }

        /** Whether an expression's value may be another one in another time zone. */
        boolean seesZone(Expression node) {
            if (!(node instanceof Cast)) {
                return node instanceof TimeZoneAwareExpression;
            }
            Cast cast = (Cast) node;
            // Of what is inside of other types Spark doesn't say it.
            String types = types(cast);
            return cast.needsTimeZone() || types.contains("timestamp") || types.contains("variant");
        }

        static String types(Cast cast) {
            return cast.child().dataType().catalogString() + cast.dataType().catalogString();
        }

        /** Whether a cast or an arithmetic operation never throws; of others it isn't known here. */
        boolean isTotal(Expression node) {
            if (node instanceof Cast) {
                Expression child = ((Cast) node).child();
                if (child instanceof Literal) {
                    return constant(node) != NOT_CONSTANT;
                }
                // The last days that there are have no time in microseconds.
                return Cast.canUpCast(child.dataType(), node.dataType())
                        && !node.dataType().catalogString().contains("timestamp");
            }
            if (!(node instanceof BinaryArithmetic) || !(node.dataType() instanceof NumericType)) {
                return false;
            }
            BinaryArithmetic operation = (BinaryArithmetic) node;
            boolean fractional = node.dataType() instanceof FractionalType;
            boolean decimal = node.dataType() instanceof DecimalType;
            if (node instanceof Add || node instanceof Subtract || node instanceof Multiply) {
                return !operation.failOnError() || fractional && !decimal;
            }
            if (node instanceof Divide || node instanceof Remainder) {
                Object divisor = constant((Expression) operation.right());
                boolean divides =
                        divisor instanceof Number && ((Number) divisor).doubleValue() != 0;
                return !operation.failOnError() || divides && !decimal;
            }
            return false;
        }

        /** Whether of the values that are as frequent the greatest or the least one is taken, and
         * no two of them tie. */
        boolean isExact(Expression node) {
            if (!(node instanceof Mode) || ((Mode) node).reverseOpt().isEmpty()) {
                return false;
            }
            DataType type = ((Mode) node).child().dataType();
            String json = type.json();
            return !json.contains("\"float\"") && !json.contains("\"double\"")
                    && !json.contains("\"binary\"") && !type.sql().contains(" COLLATE ");
        }

        /** The value of a literal or of a cast of one, unless that throws. */
        Object constant(Expression node) {
            Expression literal = node instanceof Cast ? ((Cast) node).child() : node;
            if (!(literal instanceof Literal)) {
                return NOT_CONSTANT;
            }
            try {
                return node.eval(null);
            } catch (Exception error) {
                return NOT_CONSTANT;
            }
        }

        void plan(LogicalPlan plan, boolean ofOperator) {
            if (ofOperator) {
                out.append("{\"child\":true}");
            } else {
                out.append("{\"plan\":");
                operators(plan);
                out.append('}');
            }
        }

        /** What the process has by default, see `holdfast.plan.observed`. */
        void process(SparkSession session) {
            String executors = ofExecutors(session.sparkContext());
            out.append("{\"locale\":");
            quoted(Locale.getDefault() + " " + Locale.getDefault(Locale.Category.FORMAT) + " "
                    + Charset.defaultCharset() + executors);
            String zone = TimeZone.getDefault().getID() + executors;
            out.append(",\"zone\":");
            // The rules of all zones come together.
            quoted(zone + " " + ZoneRulesProvider.getVersions("Europe/Berlin").lastEntry().getKey());
            out.append(",\"classes\":");
            quoted(jars(session.sparkContext()));
            out.append('}');
        }

        /** The options by which Java has defaults in executors that the driver may not have. */
        String ofExecutors(SparkContext context) {
            StringBuilder found = new StringBuilder();
            String given = context.getConf().get("spark.executor.defaultJavaOptions", "") + " "
                    + context.getConf().get("spark.executor.extraJavaOptions", "");
            String[] options = context.isLocal() ? new String[0] : given.split("\\s+");
            for (int place = 0; place < options.length; place++) {
                if (options[place].matches(OF_DEFAULTS)) {
                    found.append(' ').append(options[place]);
                }
            }
            return found.toString();
        }

        /** The archives of classes that were added, as they were given and as Spark serves them. */
        String jars(SparkContext context) {
            String given = context.getConf().get("spark.jars", "").replace(',', '\n');
            StringBuilder jars = new StringBuilder(given);
            scala.collection.Seq served = context.listJars();
            List listed = new ArrayList(CollectionConverters.asJava(served));
            Collections.sort(listed);
            for (int place = 0; place < listed.size(); place++) {
                String jar = (String) listed.get(place);
                // What Holdfast's tasks need changes no row.
                if (jar.indexOf(OWN_JARS) < 0) {
                    jars.append('\n').append(jar);
                }
            }
            return jars.toString();
        }

        void named(String kind, Object value) {
            out.append("{\"").append(kind).append("\":\"").append(value.getClass().getName());
            out.append("\",\"v\":");
            quoted(String.valueOf(value));
            out.append('}');
        }

        void pythonFunction(PythonFunction function) {
            ClassTag bytes = (ClassTag) ClassTag$.MODULE$.Byte();
            Object command = ((IterableOnceOps) function.command()).toArray(bytes);
            out.append("{\"python\":\"").append(base64((byte[]) command));
            out.append("\",\"version\":");
            quoted(function.pythonVer());
            out.append('}');
        }

        void listing(PartitioningAwareFileIndex index) {
            out.append("{\"index\":\"").append(index.getClass().getName());
            out.append("\",\"files\":");
            value(index.allFiles(), false);
            out.append(",\"partitions\":");
            quoted(partitions(index.partitionSpec()));
            out.append(",\"roots\":[");
            for (Iterator roots = index.rootPaths().iterator(); roots.hasNext(); ) {
                quoted(String.valueOf(roots.next()));
                out.append(roots.hasNext() ? "," : "");
            }
            out.append("]}");
        }

        /** Distinguishes a table, which Spark lists when it is read, from what it is at other times. */
        String now(CatalogFileIndex table) {
            isListedLater = true;
            if (!isListed) {
                return "";
            }
            StringBuilder outer = out;
            out = new StringBuilder();
            try {
                listing(table.filterPartitions((Seq) Nil$.MODULE$));
                return digestText(out);
            } catch (Exception error) {
                return UUID.randomUUID().toString();
            } finally {
                out = outer;
            }
        }

        /** The directory of each partition, and its values as Spark lays them out in a row. */
        String partitions(PartitionSpec spec) {
            StringBuilder text = new StringBuilder(spec.partitionColumns().json());
            UnsafeProjection layout = layout(
                DataTypeUtils.toAttributes(spec.partitionColumns()).iterator());
            // A catalog has them in any order.
            List lines = new ArrayList();
            Iterator each = spec.partitions().iterator();
            while (each.hasNext()) {
                PartitionPath partition = (PartitionPath) each.next();
                String values = base64(layout.apply(partition.values()).getBytes());
                lines.add('\n' + values + ' ' + partition.path());
            }
            Collections.sort(lines);
            for (java.util.Iterator line = lines.iterator(); line.hasNext(); ) {
                text.append(line.next());
            }
            return text.toString();
        }

        void file(FileStatus status) {
            out.append('[');
            quoted(String.valueOf(status.getPath()));
            out.append(',').append(status.getLen());
            out.append(',').append(status.getModificationTime()).append(',');
            quoted(String.valueOf(reader.fileTags.apply(status)));
            out.append(']');
        }

        String base64(byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        }

        void quoted(String text) {
            out.append('"');
            char[] quoted = JsonStringEncoder.getInstance().quoteAsString(text);
            for (int place = 0; place < quoted.length; place++) {
                char each = quoted[place];
                boolean isPair = Character.isHighSurrogate(each)
                        && place + 1 < quoted.length
                        && Character.isLowSurrogate(quoted[place + 1]);
                if (isPair) {
                    out.append(each).append(quoted[++place]);
                } else if (Character.isSurrogate(each)) {
                    // On the way to Python it would become the same mark as any other.
                    out.append("\\u").append(Integer.toHexString(each));
                } else {
                    out.append(each);
                }
            }
            out.append('"');
        }
    }

    /** A plan that takes Spark's rule for expressions, which not all versions name. */
    static final class SimplifiedFilter extends Filter {
        private static PartialFunction taken;

        private PartialFunction given;

        SimplifiedFilter(Expression condition) {
            super(condition, new OneRowRelation());
        }

        static synchronized PartialFunction rule() {
            if (taken == null) {
                // The rule passes over plans without any of what it simplifies.
                SimplifiedFilter plan = new SimplifiedFilter(
                    new Not(Literal$.MODULE$.TrueLiteral()));
                BooleanSimplification$.MODULE$.apply(plan);
                if (plan.given == null) {
                    throw new IllegalStateException("boolean expressions can't be simplified");
                }
                taken = plan.given;
            }
            return taken;
        }

        public QueryPlan transformExpressionsUpWithPruning(
                Function1 condition, RuleId rule, PartialFunction given) {
            this.given = given;
            return this;
        }
    }
}
