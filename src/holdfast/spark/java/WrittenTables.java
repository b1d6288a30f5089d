package holdfast;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.SQLExecution;

/**
 * Tables of catalogs, and how often commands have written them: what their files are, and so which
 * version of them a plan reads, only their catalogs know.
 */
public final class WrittenTables implements Consumer, Function {
    final SparkContext context;
    final Map writes = new HashMap();
    final Map running = new HashMap();

    public WrittenTables(SparkContext context) {
        this.context = context;
    }

    /** The command that this thread runs is about to write a table. */
    public synchronized void accept(Object name) {
        String table = key(name);
        if (!writes.containsKey(table)) {
            writes.put(table, Integer.valueOf(0));
            running.put(table, new HashSet());
        }
        count(table);
        String execution = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        if (execution != null) {
            ((Set) running.get(table)).add(Long.valueOf(execution));
        }
    }

    /**
     * What tells the rows that a table has now from those of other times: while it is written, this
     * is another text each time, as nobody knows when its rows change. Null for one never written.
     */
    public synchronized Object apply(Object name) {
        String table = key(name);
        if (!writes.containsKey(table)) {
            return null;
        }
        Set executions = (Set) running.get(table);
        Iterator each = executions.iterator();
        while (each.hasNext()) {
            if (SQLExecution.getQueryExecution(((Long) each.next()).longValue()) == null) {
                each.remove();
                count(table);
            }
        }
        return executions.isEmpty() ? writes.get(table).toString() : UUID.randomUUID().toString();
    }

    /** Some catalogs don't tell upper case from lower case. */
    static String key(Object name) {
        return ((String) name).toLowerCase(Locale.ROOT);
    }

    void count(String table) {
        writes.put(table, Integer.valueOf(((Integer) writes.get(table)).intValue() + 1));
    }
}
