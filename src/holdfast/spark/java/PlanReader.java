package holdfast;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.Iterable;
import scala.collection.IterableOnce;
import scala.collection.IterableOnceOps;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Writes analyzed plans as JSON. `holdfast.plan.document` describes what comes out.
 *
 * Digests that are kept on disk are taken of this text: the same plan must give the same one.
 */
public final class PlanReader {
    final String inlineName;
    final TreeNodeTag saltTag;
    final Set outputFromFields;
    final Set namedInputs;

    /**
     * @param inlineName what the text of an inline table ends with
     * @param saltTag where a node's salt is, if it has been given one
     * @param outputFromFields classes of operators whose output follows from their arguments
     * @param namedInputs classes of operators that can observe how their inputs' columns are called
     */
    public PlanReader(
            String inlineName, TreeNodeTag saltTag, String outputFromFields, String namedInputs) {
        this.inlineName = inlineName;
        this.saltTag = saltTag;
        this.outputFromFields = new HashSet(Arrays.asList(outputFromFields.split(",")));
        this.namedInputs = new HashSet(Arrays.asList(namedInputs.split(",")));
    }

    public Reading read(LogicalPlan plan) {
        Walk walk = new Walk(this);
        try {
            walk.operators(plan);
        } catch (Exception error) {
            throw unreadable(error);
        }
        return new Reading(walk.out, walk.nodes);
    }

    /** What PySpark takes for no error of the person's own query. */
    static RuntimeException unreadable(Exception error) {
        return new IllegalStateException("the plan can't be read: " + error, error);
    }

    /** A plan as text, with the way back to its nodes. */
    public static final class Reading {
        final List nodes;
        StringBuilder text;
        int taken = 0;

        Reading(StringBuilder text, List nodes) {
            this.text = text;
            this.nodes = nodes;
        }

        /** The next part of the text, of at most some length; an empty one after its end. */
        public String take(int length) {
            int start = taken;
            taken = Math.min(text.length(), start + length);
            String part = text.substring(start, taken);
            if (part.isEmpty()) {
                // Readings are kept for their nodes.
                text = new StringBuilder();
                taken = 0;
            }
            return part;
        }

        public Object node(int handle) {
            return nodes.get(handle);
        }

        /** What a function says of each node, by handle and separated by commas. */
        public String each(Function1 function) {
            StringBuilder said = new StringBuilder();
            try {
                for (int handle = 0; handle < nodes.size(); handle++) {
                    said.append(handle == 0 ? "" : ",").append(function.apply(nodes.get(handle)));
                }
            } catch (Exception error) {
                throw unreadable(error);
            }
            return said.toString();
        }
    }

    /** One reading while it is made. */
    static final class Walk {
        final StringBuilder out = new StringBuilder();
        final List nodes = new ArrayList();
        final PlanReader reader;

        Walk(PlanReader reader) {
            this.reader = reader;
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
            String name = node.getClass().getName();
            out.append("{\"i\":").append(nodes.size());
            nodes.add(node);
            out.append(",\"c\":\"").append(name);
            out.append("\",\"n\":").append(node.children().size()).append(",\"t\":");
            value(node.getTagValue(reader.saltTag), true);
            out.append(',');
            if (reader.outputFromFields.contains(name)) {
                arguments(node, true);
            } else if (node instanceof LocalRelation) {
                out.append("\"f\":[],\"o\":[]");
                output(node);
                out.append(",\"sql\":");
                inlineTable((LocalRelation) node);
            } else {
                arguments(node, true);
                output(node);
                if (reader.namedInputs.contains(name)) {
                    out.append(",\"inputs\":");
                    schemas(node.children().iterator());
                }
            }
            out.append('}');
        }

        /** The arguments of a node's constructor, and those of its further lists. */
        void arguments(TreeNode node, boolean ofOperator) {
            out.append("\"f\":[");
            values(node.productIterator(), ofOperator);
            out.append("],\"o\":[");
            values(node.otherCopyArgs().iterator(), ofOperator);
            out.append(']');
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

        /** The rows as typed literals; null where there are none. */
        void inlineTable(LocalRelation table) {
            if (table.data().isEmpty()) {
                out.append("null");
            } else {
                quoted(table.toSQL(reader.inlineName));
            }
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
                value(((Alias) value).child(), false);
                out.append('}');
            } else if (value instanceof Expression) {
                expression((Expression) value);
            } else if (value instanceof String) {
                quoted((String) value);
            } else if (value instanceof ExprId) {
                out.append("{\"id\":").append(((ExprId) value).id()).append('}');
            } else if (value instanceof Option) {
                value(((Option) value).isEmpty() ? null : ((Option) value).get(), ofOperator);
            } else if (value instanceof DataType) {
                out.append("{\"type\":").append(((DataType) value).json()).append('}');
            } else if (value instanceof Boolean
                    || value instanceof Integer
                    || value instanceof Long) {
                out.append(value);
            } else if (value instanceof UTF8String) {
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
            } else if (value instanceof Enum) {
                named("enum", value);
            } else if (value instanceof PythonFunction) {
                pythonFunction((PythonFunction) value);
            } else if (value instanceof FileStatus) {
                file((FileStatus) value);
            } else if (value instanceof PartitioningAwareFileIndex) {
                listing((PartitioningAwareFileIndex) value);
            } else if (value instanceof RDD) {
                out.append("{\"rdd\":").append(((RDD) value).id()).append('}');
            } else if (value instanceof Class) {
                out.append("{\"class\":\"").append(((Class) value).getName()).append("\"}");
            } else if (value instanceof CatalogTable || !(value instanceof Product)) {
                // Catalog entries carry creation times, owners and statistics, which no row
                // depends on.
                out.append("{\"opaque\":\"").append(value.getClass().getName()).append("\"}");
            } else {
                out.append("{\"c\":\"").append(value.getClass().getName()).append("\",\"f\":[");
                values(((Product) value).productIterator(), ofOperator);
                out.append("]}");
            }
        }

        void expression(Expression node) {
            out.append("{\"c\":\"").append(node.getClass().getName()).append("\",");
            arguments(node, false);
            out.append(node.deterministic() ? "}" : ",\"volatile\":true}");
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
            quoted(String.valueOf(index.partitionSpec()));
            out.append('}');
        }

        void file(FileStatus status) {
            out.append('[');
            quoted(String.valueOf(status.getPath()));
            out.append(',').append(status.getLen());
            out.append(',').append(status.getModificationTime()).append(']');
        }

        String base64(byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        }

        void quoted(String text) {
            out.append('"').append(JsonStringEncoder.getInstance().quoteAsString(text)).append('"');
        }
    }
}
