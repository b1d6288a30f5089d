package holdfast;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The columns of kept files, read in the stead of those that a node puts out. */
public final class KeptColumns {

    /**
     * The files' columns under ids of their own, as a read of them puts them out.
     *
     * @param output of the relation over the files
     * @param asked what the node puts out
     * @param places for each of these its column's among those of the files, a line for each
     * @param types those of the columns, as Spark's JSON, a line for each; none where it is the
     *     node's
     */
    public Seq read(Seq output, Seq asked, String places, String types) {
        String[] typeOf = types.split("\n", -1);
        List place = numbers(places);
        List found = new ArrayList();
        for (int column = 0; column < typeOf.length; column++) {
            Attribute own = (Attribute) output.apply(column);
            int first = place.indexOf(Integer.valueOf(column));
            if (first < 0) {
                // Another column is the same, and is read in its stead.
                found.add(own);
                continue;
            }
            // The relation forgets what can't be null inside a type, and Spark's JSON collations.
            Attribute old = (Attribute) asked.apply(first);
            DataType type =
                    typeOf[column].isEmpty()
                            ? old.dataType()
                            : DataType$.MODULE$.fromJson(typeOf[column]);
            found.add(own.withDataType(type).withNullability(old.nullable()));
        }
        return CollectionConverters.asScala(found).toSeq();
    }

    /**
     * A plan that puts out what a node does.
     *
     * @param read what `read` has given
     * @param asked what the node puts out
     * @param places as `read` takes them
     * @param types likewise
     * @param child puts out `read`
     */
    public LogicalPlan renamed(Seq read, Seq asked, String places, String types, LogicalPlan child) {
        String[] typeOf = types.split("\n", -1);
        List place = numbers(places);
        List found = new ArrayList();
        for (int index = 0; index < place.size(); index++) {
            int column = ((Integer) place.get(index)).intValue();
            Attribute old = (Attribute) asked.apply(index);
            Expression value = (Expression) read.apply(column);
            if (!typeOf[column].isEmpty()) {
                // Only fields of structs get other names, so nothing is converted.
                value = new Cast(value, old.dataType(), Option.empty(), EvalMode$.MODULE$.LEGACY());
            }
            found.add(
                    new Alias(
                            value,
                            old.name(),
                            old.exprId(),
                            old.qualifier(),
                            new Some(old.metadata()),
                            CollectionConverters.asScala(new ArrayList()).toSeq()));
        }
        return new Project(CollectionConverters.asScala(found).toSeq(), child);
    }

    private static List numbers(String lines) {
        List found = new ArrayList();
        if (!lines.isEmpty()) {
            String[] each = lines.split("\n");
            for (int number = 0; number < each.length; number++) {
                found.add(Integer.valueOf(each[number]));
            }
        }
        return found;
    }
}
