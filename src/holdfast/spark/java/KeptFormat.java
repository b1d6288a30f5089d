package holdfast;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads Parquet as Spark does, but so that no setting of a session changes the rows.
 *
 * Parquet takes 0.0 and -0.0 for two numbers where it looks at statistics, dictionaries and records,
 * so that it must not see what is asked of floating point columns. Nor must it see texts that aren't
 * UTF-8, of which Spark's filters have others. Columns are found by their names: kept files have no ids
 * of fields.
 */
public final class KeptFormat extends ParquetFileFormat {
    static final String FIELD_ID = "spark.sql.parquet.fieldId.read.";
    static final int REPLACED = 0xFFFD;

    final boolean splits;

    /** @param splits whether several tasks may read one file */
    public KeptFormat(Boolean splits) {
        this.splits = splits.booleanValue();
    }

    public boolean isSplitable(SparkSession session, Map options, Path path) {
        return splits && super.isSplitable(session, options, path);
    }

    public Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType data,
            StructType partitions,
            StructType required,
            Seq filters,
            Map options,
            Configuration settings) {
        settings.setBoolean(FIELD_ID + "enabled", false);
        settings.setBoolean(FIELD_ID + "ignoreMissing", true);
        java.util.List pushed = new java.util.ArrayList();
        Iterator each = filters.iterator();
        while (each.hasNext()) {
            Filter filter = (Filter) each.next();
            if (isExact(filter, data) && !hasReplaced(filter)) {
                pushed.add(filter);
            }
        }
        // Tasks are sent the format that the reader comes from, and don't know this class.
        return new ParquetFileFormat()
                .buildReaderWithPartitionValues(
                        session,
                        data,
                        partitions,
                        required,
                        CollectionConverters.asScala(pushed).toSeq(),
                        options,
                        settings);
    }

    /** Whether Parquet answers a filter as Spark does. */
    static boolean isExact(Filter filter, StructType data) {
        if (filter instanceof IsNull || filter instanceof IsNotNull) {
            return true;
        }
        String[][] columns = filter.v2references();
        for (int column = 0; column < columns.length; column++) {
            DataType type = data;
            for (int part = 0; part < columns[column].length; part++) {
                type = field(type, columns[column][part]);
            }
            if (type == null || isFloating(type)) {
                return false;
            }
        }
        return true;
    }

    /** Whether a text of a filter may have had bytes that no text of Java's has. */
    static boolean hasReplaced(Object part) {
        if (part instanceof String) {
            return ((String) part).indexOf(REPLACED) >= 0;
        }
        if (part instanceof Object[]) {
            Object[] parts = (Object[]) part;
            for (int index = 0; index < parts.length; index++) {
                if (hasReplaced(parts[index])) {
                    return true;
                }
            }
        } else if (part instanceof Product) {
            Iterator parts = ((Product) part).productIterator();
            while (parts.hasNext()) {
                if (hasReplaced(parts.next())) {
                    return true;
                }
            }
        }
        return false;
    }

    static DataType field(DataType type, String name) {
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int index = 0; index < fields.length; index++) {
                if (fields[index].name().equalsIgnoreCase(name)) {
                    return fields[index].dataType();
                }
            }
        }
        return null;
    }

    static boolean isFloating(DataType type) {
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int index = 0; index < fields.length; index++) {
                if (isFloating(fields[index].dataType())) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType) {
            return isFloating(((ArrayType) type).elementType());
        }
        if (type instanceof MapType) {
            MapType map = (MapType) type;
            return isFloating(map.keyType()) || isFloating(map.valueType());
        }
        if (type instanceof UserDefinedType) {
            return isFloating(((UserDefinedType) type).sqlType());
        }
        return type instanceof FloatType || type instanceof DoubleType;
    }
}
