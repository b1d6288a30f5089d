package holdfast;

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
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionDef;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.DecimalDivideWithOverflowCheck;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.StringPredicate;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.optimizer.ReorderJoin$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes aggregates apart, and puts them together again over rows that are grouped by more.
 *
 * What an aggregate groups by, computes and asks for is told as SQL over the columns of what it
 * groups, under names that are the same in every plan.
 */
public final class Rollups {
    /** Between texts, which have neither. */
    static final String BETWEEN = "\u0001";
    static final String BETWEEN_LINES = "\u0002";
    /** Between a sum and a number that an average is made of. */
    static final String AND_THEN = "\u0003";
    /** A sum of decimals has so many more digits than they have. */
    static final int DIGITS_OF_SUM = 10;
    static final int MOST_DIGITS = 38;
    static final Set CALLING_BY_NAME =
        new HashSet(Arrays.asList("reflect", "java_method", "try_reflect"));

    final SparkSession session;

    public Rollups(SparkSession session) {
        this.session = session;
    }

    /**
     * What an aggregate is made of, a line each: `key` and what it groups by; `condition`, what has
     * to hold, and what that is made of; `function`, and what it is made of. What is grouped by, or
     * a condition is made of, is told as SQL, with the kind of expression, its number, if it has
     * one, and its columns, see `columns`. Empty where other groups can't make the same.
     *
     * @param node the aggregate
     * @param between the filters between it and what it groups
     * @param columns the ids and names of the columns of what it groups
     */
    public String asked(LogicalPlan node, Seq between, String columns) {
        Aggregate aggregate = (Aggregate) node;
        Map names = names(columns);
        List lines = new ArrayList();
        List keys = list(aggregate.groupingExpressions());
        for (int index = 0; index < keys.size(); index++) {
            List line = new ArrayList();
            line.add("key");
            boolean isFit = describe((Expression) keys.get(index), names, line);
            lines.add(isFit ? line(line) : null);
        }
        List conditions = conditions(between);
        for (int index = 0; index < conditions.size(); index++) {
            Expression condition = (Expression) conditions.get(index);
            List line = new ArrayList();
            line.add("condition");
            boolean isFit = describe(condition, names, line);
            List pieces = new ArrayList();
            pieces(condition, pieces);
            for (int place = 0; place < pieces.size(); place++) {
                describe((Expression) pieces.get(place), names, line);
            }
            lines.add(isFit ? line(line) : null);
        }
        List functions = functions(aggregate);
        if (functions == null) {
            return "";
        }
        for (int index = 0; index < functions.size(); index++) {
            List texts = function((AggregateExpression) functions.get(index), names);
            if (texts == null) {
                return "";
            }
            texts.set(0, "function");
            lines.add(line(texts));
        }
        return lines.contains(null) ? "" : String.join(BETWEEN_LINES, lines);
    }

    /**
     * A plan's rows in groups: analyzed, with a column for each text, which is called by it. Null
     * where a text is no SQL, of other columns, or more than an expression of Spark's own over
     * columns: other users may have written it.
     *
     * @param columns the ids and names of the plan's columns
     * @param by what is grouped by
     * @param measures what is computed of each group
     */
    public LogicalPlan grouped(LogicalPlan plan, String columns, String by, String measures)
            throws Exception {
        try {
            return groups(plan, columns, by, measures);
        } catch (AnalysisException other) {
            // PySpark would log it.
            return null;
        }
    }

    LogicalPlan groups(LogicalPlan plan, String columns, String by, String measures)
            throws Exception {
        Map names = names(columns);
        List keys = texts(by);
        List columnTexts = new ArrayList(keys);
        columnTexts.addAll(texts(measures));
        List expressions = parsed(columnTexts);
        Set used = new HashSet();
        for (int index = 0; index < expressions.size(); index++) {
            Expression expression = (Expression) expressions.get(index);
            if (!isOfSpark(expression)) {
                return null;
            }
            List leaves = leaves(expression);
            for (int place = 0; place < leaves.size(); place++) {
                if (leaves.get(place) instanceof UnresolvedAttribute) {
                    // A column, and behind its name those of fields of a struct.
                    Seq parts = ((UnresolvedAttribute) leaves.get(place)).nameParts().toSeq();
                    used.add(((String) parts.head()).toLowerCase(Locale.ROOT));
                }
            }
        }
        List renamed = new ArrayList();
        List output = list(plan.output());
        List taken = new ArrayList();
        for (int index = 0; index < output.size(); index++) {
            Attribute column = (Attribute) output.get(index);
            String name = (String) names.get(Long.valueOf(column.exprId().id()));
            // More would count as used by the query.
            if (used.contains(name.toLowerCase(Locale.ROOT)) && !taken.contains(name)) {
                taken.add(name);
                renamed.add(named(column, name));
            }
        }
        LogicalPlan groups = analyzed(new Aggregate(
            seq(expressions.subList(0, keys.size())), seq(named(expressions, columnTexts)),
            new Project(seq(renamed), plan), scala.Option.empty()));
        List found = list(groups.expressions());
        for (int index = 0; index < found.size(); index++) {
            if (!((Expression) found.get(index)).deterministic()) {
                return null;
            }
        }
        return groups;
    }

    /** Whether all that a parsed expression calls are Spark's own functions, and no code by name. */
    static boolean isOfSpark(Expression parsed) {
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(parsed);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            if (each instanceof PlanExpression) {
                return false;
            }
            if (each instanceof UnresolvedFunction) {
                Seq parts = ((UnresolvedFunction) each).nameParts().toSeq();
                String name = ((String) parts.head()).toLowerCase(Locale.ROOT);
                boolean isKnown = parts.size() == 1 && FunctionRegistry$.MODULE$.builtin()
                    .functionExists(new FunctionIdentifier(name));
                if (!isKnown || CALLING_BY_NAME.contains(name)) {
                    return false;
                }
            }
            pushAll(each.children(), waiting);
        }
        return true;
    }

    /**
     * What an aggregate puts out, made of groups; null where it can't be made of these, or would be
     * of other types.
     *
     * @param node the aggregate
     * @param between the filters between it and what it groups
     * @param columns the ids and names of the columns of what it groups
     * @param pieces what `grouped` has given, over parts of the files
     * @param inOneTask whether they are so few rows that one task reads them
     */
    public LogicalPlan merged(
            LogicalPlan node, Seq between, String columns, Seq pieces, boolean inOneTask)
            throws Exception {
        Aggregate aggregate = (Aggregate) node;
        LogicalPlan groups = pieces.size() == 1
            ? (LogicalPlan) pieces.head() : analyzed(new Union(pieces, false, false));
        if (inOneTask) {
            // Then nothing above has to be exchanged, which takes longer than to read them.
            groups = new Repartition(1, false, groups);
        }
        Map names = names(columns);
        Map found = byName(groups);
        LogicalPlan below = groups;
        List conditions = conditions(between);
        for (int index = 0; index < conditions.size(); index++) {
            Expression condition = (Expression) conditions.get(index);
            List decisive = new ArrayList();
            decisive.add(condition);
            if (!found.containsKey(text(condition, names))) {
                decisive.clear();
                pieces(condition, decisive);
            }
            Map known = new HashMap();
            for (int place = 0; place < decisive.size(); place++) {
                Expression piece = (Expression) decisive.get(place);
                Object column = found.get(text(piece, names));
                if (column == null) {
                    return null;
                }
                known.put(key(piece), column);
            }
            below = new Filter(replaced(condition, known), below);
        }
        List keys = new ArrayList();
        List own = list(aggregate.groupingExpressions());
        for (int index = 0; index < own.size(); index++) {
            keys.add(found.get(text((Expression) own.get(index), names)));
        }
        List results = new ArrayList(keys);
        List functions = functions(aggregate);
        for (int index = 0; index < functions.size(); index++) {
            List texts = function((AggregateExpression) functions.get(index), names);
            List made = new ArrayList();
            for (int place = 1; place < texts.size(); place++) {
                made.add(found.get(texts.get(place)));
            }
            String[] how = ((String) texts.get(0)).split(AND_THEN);
            for (int place = 0; place < how.length; place++) {
                results.add(bound(parsed(how[place]), made));
            }
        }
        if (keys.contains(null)) {
            return null;
        }
        own.addAll(functions);
        return finished(aggregate, own, analyzed(new Aggregate(
            seq(keys), seq(named(results, numbered(results.size()))), below,
            scala.Option.empty())));
    }

    /**
     * The groups that `grouped` has given, made of the same ones over parts of the files; null
     * where their columns would have other types.
     *
     * @param groups what they would be computed by
     * @param pieces what `grouped` has given, over parts of the files
     */
    public LogicalPlan together(LogicalPlan groups, Seq pieces) throws Exception {
        LogicalPlan all = analyzed(new Union(pieces, false, false));
        Map found = byName(all);
        Map names = new HashMap();
        List below = list(((Aggregate) groups).child().output());
        for (int index = 0; index < below.size(); index++) {
            Attribute column = (Attribute) below.get(index);
            names.put(Long.valueOf(column.exprId().id()), column.name());
        }
        List keys = new ArrayList();
        List results = new ArrayList();
        List texts = new ArrayList();
        List columns = list(((Aggregate) groups).aggregateExpressions());
        for (int index = 0; index < columns.size(); index++) {
            Alias column = (Alias) columns.get(index);
            Object made = found.get(column.name());
            if (column.child() instanceof AggregateExpression) {
                List how = function((AggregateExpression) column.child(), names);
                boolean isFit = made != null && how != null && column.name().equals(how.get(1));
                made = isFit
                    ? bound(parsed((String) how.get(0)), Collections.singletonList(made)) : null;
            } else {
                keys.add(made);
            }
            if (made == null) {
                return null;
            }
            results.add(made);
            texts.add(column.name());
        }
        LogicalPlan plan = analyzed(new Aggregate(
            seq(keys), seq(named(results, texts)), all, scala.Option.empty()));
        List made = list(plan.output());
        for (int index = 0; index < made.size(); index++) {
            DataType type = ((Attribute) made.get(index)).dataType();
            if (!type.equals(((Alias) columns.get(index)).dataType())) {
                return null;
            }
        }
        return plan;
    }

    /** What an aggregate puts out, of columns that are what it groups by and its functions. */
    static LogicalPlan finished(Aggregate aggregate, List own, LogicalPlan merged) {
        List columns = list(merged.output());
        Map made = new HashMap();
        int place = 0;
        for (int index = 0; index < own.size(); index++) {
            Expression each = (Expression) own.get(index);
            Expression column = (Expression) columns.get(place++);
            if (each instanceof AggregateExpression
                    && ((AggregateExpression) each).aggregateFunction() instanceof Average) {
                column = average(
                    column, (Expression) columns.get(place++),
                    ((AggregateExpression) each).aggregateFunction());
            }
            if (!each.dataType().equals(column.dataType())) {
                return null;
            }
            made.put(key(each), column);
        }
        List output = new ArrayList();
        List asked = list(aggregate.aggregateExpressions());
        for (int index = 0; index < asked.size(); index++) {
            output.add(result((NamedExpression) asked.get(index), made));
        }
        LogicalPlan plan = new Project(seq(output), merged);
        plan.setAnalyzed();
        return plan.resolved() ? plan : null;
    }

    /** Adds what an expression is, in four texts, and tells whether it can be grouped by. */
    static boolean describe(Expression expression, Map names, List line) {
        // Spark would take a number that is grouped by for the place of a column.
        boolean isFit = isExact(expression.dataType()) && !expression.foldable();
        String text = isFit ? text(expression, names) : null;
        line.add(text == null ? "" : text);
        line.add(expression.getClass().getSimpleName());
        String number = "";
        List all = leaves(expression);
        for (int index = 0; index < all.size(); index++) {
            Expression leaf = (Expression) all.get(index);
            if (leaf instanceof Literal && ((Literal) leaf).value() instanceof Number) {
                number = String.valueOf(((Literal) leaf).value());
            }
        }
        List columns = new ArrayList();
        columns(expression, columns);
        line.add(number);
        line.add(String.join(" ", columns));
        return text != null;
    }

    /** The ids of columns, each with the ordinals of the fields of structs that lead to its value. */
    static void columns(Expression expression, List found) {
        String fields = "";
        Expression each = expression;
        while (each instanceof GetStructField) {
            fields = "." + ((GetStructField) each).ordinal() + fields;
            each = ((GetStructField) each).child();
        }
        if (each instanceof AttributeReference) {
            found.add(((AttributeReference) each).exprId().id() + fields);
            return;
        }
        Iterator children = each.children().iterator();
        while (children.hasNext()) {
            columns((Expression) children.next(), found);
        }
    }

    static Map byName(LogicalPlan plan) {
        Map found = new HashMap();
        List output = list(plan.output());
        for (int index = 0; index < output.size(); index++) {
            found.put(((Attribute) output.get(index)).name(), output.get(index));
        }
        return found;
    }

    static List leaves(Expression expression) {
        List found = new ArrayList();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(expression);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            if (each.children().isEmpty()) {
                found.add(each);
            }
            pushAll(each.children(), waiting);
        }
        return found;
    }

    /** What decides on a condition: columns, and what is computed of them that is compared. */
    static void pieces(Expression condition, List found) {
        boolean isMadeOfThem = condition instanceof And || condition instanceof Or
            || condition instanceof Not || condition instanceof BinaryComparison
            || condition instanceof In || condition instanceof IsNull
            || condition instanceof IsNotNull || condition instanceof StringPredicate
            || condition instanceof Like;
        // What is widened has the same values; what can't be grouped by may be made of what can.
        boolean isLess = condition instanceof Cast && isWidened((Cast) condition)
            || !isExact(condition.dataType());
        if (condition.foldable()) {
            return;
        }
        if (!isMadeOfThem && (!isLess || condition.children().isEmpty())) {
            found.add(condition);
            return;
        }
        Iterator each = condition.children().iterator();
        while (each.hasNext()) {
            pieces((Expression) each.next(), found);
        }
    }

    static boolean isWidened(Cast cast) {
        DataType from = cast.child().dataType();
        return isExact(from) && Cast$.MODULE$.canUpCast(from, cast.dataType());
    }

    static List conditions(Seq between) {
        List found = new ArrayList();
        Iterator each = between.iterator();
        while (each.hasNext()) {
            Expression condition = ((Filter) each.next()).condition();
            found.addAll(list(ReorderJoin$.MODULE$.splitConjunctivePredicates(
                inlined(condition, new HashMap()))));
        }
        return found;
    }

    /** An expression with what it uses several times written wherever it uses it. */
    static Expression inlined(Expression expression, Map shared) {
        if (expression instanceof CommonExpressionRef) {
            Object found = shared.get(((CommonExpressionRef) expression).id());
            return found == null ? expression : (Expression) found;
        }
        if (expression instanceof RuntimeReplaceable) {
            Expression made = ((RuntimeReplaceable) expression).replacement();
            return made instanceof With ? inlined(made, shared) : expression;
        }
        if (expression instanceof With) {
            Map all = new HashMap(shared);
            Iterator each = ((With) expression).defs().iterator();
            while (each.hasNext()) {
                CommonExpressionDef one = (CommonExpressionDef) each.next();
                all.put(one.id(), inlined(one.child(), all));
            }
            return inlined(((With) expression).child(), all);
        }
        List children = new ArrayList();
        boolean isOther = false;
        Iterator each = expression.children().iterator();
        while (each.hasNext()) {
            Expression child = (Expression) each.next();
            Expression made = inlined(child, shared);
            isOther = isOther || made != child;
            children.add(made);
        }
        return isOther ? (Expression) expression.withNewChildren(seq(children)) : expression;
    }

    /**
     * Whether the columns of groups are what an aggregate asks for: what was told as SQL has been
     * analyzed again.
     *
     * @param node the aggregate
     * @param between the filters between it and what it groups
     * @param columns the ids and names of the columns of what it groups
     * @param groups what `grouped` has given for the texts of `asked`
     */
    public boolean isAsked(LogicalPlan node, Seq between, String columns, LogicalPlan groups) {
        Aggregate aggregate = (Aggregate) node;
        Map names = names(columns);
        Map told = new HashMap();
        List results = list(((Aggregate) groups).aggregateExpressions());
        for (int index = 0; index < results.size(); index++) {
            Alias result = (Alias) results.get(index);
            told.put(result.name(), result.child());
        }
        Map renamed = new HashMap();
        List below = list(((Project) ((Aggregate) groups).child()).projectList());
        for (int index = 0; index < below.size(); index++) {
            Alias column = (Alias) below.get(index);
            renamed.put(column.name(), column.toAttribute());
        }
        List asked = list(aggregate.groupingExpressions());
        List conditions = conditions(between);
        for (int index = 0; index < conditions.size(); index++) {
            Expression condition = (Expression) conditions.get(index);
            boolean isTold = told.containsKey(text(condition, names));
            if (isTold) {
                asked.add(condition);
            }
            List pieces = new ArrayList();
            pieces(condition, pieces);
            for (int place = 0; place < pieces.size(); place++) {
                // Those of a condition may be told with it, for others that compare the same.
                if (!isTold || told.containsKey(text((Expression) pieces.get(place), names))) {
                    asked.add(pieces.get(place));
                }
            }
        }
        for (int index = 0; index < asked.size(); index++) {
            Expression each = (Expression) asked.get(index);
            if (!isSame(each, names, renamed, (Expression) told.get(text(each, names)))) {
                return false;
            }
        }
        List functions = functions(aggregate);
        for (int index = 0; index < functions.size(); index++) {
            AggregateExpression each = (AggregateExpression) functions.get(index);
            List texts = function(each, names);
            for (int place = 1; place < texts.size(); place++) {
                AggregateExpression found = (AggregateExpression) told.get(texts.get(place));
                boolean isWhole = !(each.aggregateFunction() instanceof Average);
                Expression one = each.aggregateFunction();
                Expression other = found.aggregateFunction();
                if (!isSame(
                        isWhole ? one : (Expression) one.children().head(), names, renamed,
                        isWhole ? other : (Expression) other.children().head())) {
                    return false;
                }
            }
        }
        return true;
    }

    static boolean isSame(Expression asked, Map names, Map renamed, Expression told) {
        Map columns = new HashMap();
        List all = leaves(asked);
        for (int index = 0; index < all.size(); index++) {
            if (all.get(index) instanceof AttributeReference) {
                AttributeReference each = (AttributeReference) all.get(index);
                columns.put(each, renamed.get(names.get(Long.valueOf(each.exprId().id()))));
            }
        }
        return ((Expression) asked.transform(function(columns))).semanticEquals(told);
    }

    static scala.collection.immutable.Map function(Map pairs) {
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(pairs));
    }

    /** As Spark divides, which rounds once. */
    static Expression average(Expression sum, Expression count, AggregateFunction asked) {
        DataType type = asked.dataType();
        Expression number = new Cast(
            count, new DecimalType(20, 0), scala.Option.empty(), EvalMode.LEGACY());
        return new If(
            new EqualTo(count, new Literal(Long.valueOf(0), DataTypes.LongType)),
            new Literal(null, type),
            new DecimalDivideWithOverflowCheck(
                sum, number, (DecimalType) type, null, !isAnsi(asked)));
    }

    static Expression result(NamedExpression named, Map known) {
        if (named instanceof Alias) {
            return replaced((Expression) named, known);
        }
        Attribute old = (Attribute) named;
        return new Alias(
            replaced((Expression) named, known), old.name(), old.exprId(), old.qualifier(),
            scala.Option.apply(old.metadata()), seq(new ArrayList()));
    }

    static Expression replaced(Expression expression, Map known) {
        Object found = known.get(key(expression));
        if (found != null) {
            return (Expression) found;
        }
        List children = new ArrayList();
        Iterator each = expression.children().iterator();
        while (each.hasNext()) {
            children.add(replaced((Expression) each.next(), known));
        }
        return children.isEmpty()
            ? expression : (Expression) expression.withNewChildren(seq(children));
    }

    static Object key(Expression expression) {
        return expression instanceof AggregateExpression
            ? ((AggregateExpression) expression).aggregateFunction().canonicalized()
            : expression.canonicalized();
    }

    /** The functions of an aggregate, each once; null where one of them can't be merged. */
    static List functions(Aggregate aggregate) {
        Map found = new java.util.LinkedHashMap();
        ArrayDeque waiting = new ArrayDeque();
        pushAll(aggregate.aggregateExpressions(), waiting);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            if (!each.deterministic() || each instanceof PlanExpression) {
                return null;
            }
            if (!(each instanceof AggregateExpression)) {
                pushAll(each.children(), waiting);
                continue;
            }
            AggregateExpression function = (AggregateExpression) each;
            if (function.isDistinct() || function.filter().isDefined()) {
                return null;
            }
            found.putIfAbsent(key(function), function);
        }
        return new ArrayList(found.values());
    }

    /**
     * What makes a function of what is computed of groups, with `g0` for the first of the texts
     * that follow, which say what that is; null where nothing does.
     */
    static List function(AggregateExpression each, Map names) {
        AggregateFunction function = each.aggregateFunction();
        if (function instanceof Count) {
            return texts("coalesce(sum(g0), 0L)", text(each, names), null);
        }
        if (function.children().size() != 1) {
            return null;
        }
        Expression input = (Expression) function.children().head();
        String of = text(input, names);
        if (of == null || !isExact(input.dataType())) {
            return null;
        }
        String name = function.prettyName();
        if (function instanceof Min || function instanceof Max) {
            return texts(name + "(g0)", name + "(" + of + ")", null);
        }
        boolean isDecimal = input.dataType() instanceof DecimalType;
        // Where a sum that doesn't fit is no error it is null, which sums of sums leave out.
        if (isDecimal && !isAnsi(function)
                && ((DecimalType) input.dataType()).precision() + DIGITS_OF_SUM > MOST_DIGITS) {
            return null;
        }
        String sum = "sum(" + of + ")";
        if (function instanceof Sum && name.equals("sum")) {
            if (!isDecimal && !(input.dataType() instanceof IntegralType)) {
                return null;
            }
            return texts("CAST(sum(g0) AS " + function.dataType().sql() + ")", sum, null);
        }
        // Spark's average of whole numbers adds up floating-point numbers.
        if (function instanceof Average && name.equals("avg") && isDecimal) {
            DecimalType decimal = (DecimalType) input.dataType();
            int digits = Math.min(decimal.precision() + DIGITS_OF_SUM, MOST_DIGITS);
            return texts(
                "CAST(sum(g0) AS DECIMAL(" + digits + ", " + decimal.scale() + "))" + AND_THEN
                    + "coalesce(sum(g1), 0L)",
                sum, "count(" + of + ")");
        }
        return null;
    }

    static List texts(String how, String first, String second) {
        List found = new ArrayList();
        found.add(how);
        found.add(first);
        if (second != null) {
            found.add(second);
        }
        return first == null ? null : found;
    }

    /** Whether a sum, or an average, that doesn't fit is an error, as its query was analyzed. */
    static boolean isAnsi(AggregateFunction function) {
        scala.Product fields = (scala.Product) function;
        return fields.productArity() > 1
            && String.valueOf(fields.productElement(1)).contains(EvalMode.ANSI().toString());
    }

    /** Whether equal values are the same value, so that it doesn't matter which one is kept. */
    static boolean isExact(DataType type) {
        return type instanceof IntegralType || type instanceof DecimalType
            || type instanceof BooleanType || type instanceof DateType
            || type instanceof TimestampType || type instanceof TimestampNTZType
            || type instanceof BinaryType || isPlainText(type);
    }

    /** Whether texts are equal where their bytes are. */
    static boolean isPlainText(DataType type) {
        return type instanceof StringType && ((StringType) type).isUTF8BinaryCollation();
    }

    static String line(List texts) {
        for (int index = 0; index < texts.size(); index++) {
            String text = (String) texts.get(index);
            if (text == null || text.contains(BETWEEN) || text.contains(BETWEEN_LINES)) {
                return null;
            }
        }
        return String.join(BETWEEN, texts);
    }

    /** What an id and a name, and the next ones, stand for. */
    static Map names(String columns) {
        Map names = new HashMap();
        List all = texts(columns);
        for (int index = 0; index < all.size(); index += 2) {
            names.put(Long.valueOf((String) all.get(index)), all.get(index + 1));
        }
        return names;
    }

    static List texts(String joined) {
        List found = new ArrayList();
        if (!joined.isEmpty()) {
            String[] all = joined.split(BETWEEN, -1);
            for (int index = 0; index < all.length; index++) {
                found.add(all[index]);
            }
        }
        return found;
    }

    /** An expression as SQL over named columns; null where it has others, or needs more. */
    static String text(Expression expression, Map names) {
        Map renamed = new HashMap();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(expression);
        while (!waiting.isEmpty()) {
            Expression each = (Expression) waiting.pop();
            if (!each.deterministic() || each instanceof PlanExpression) {
                return null;
            }
            if (each instanceof AttributeReference) {
                AttributeReference column = (AttributeReference) each;
                Object name = names.get(Long.valueOf(column.exprId().id()));
                if (name == null) {
                    return null;
                }
                renamed.put(column, column.withQualifier(seq(new ArrayList())).withName((String) name));
            } else if (each.children().isEmpty() && !each.foldable()) {
                return null;
            }
            pushAll(each.children(), waiting);
        }
        return ((Expression) expression.transform(function(renamed))).sql();
    }

    LogicalPlan analyzed(LogicalPlan plan) {
        return Dataset.ofRows(session, plan).queryExecution().analyzed();
    }

    List parsed(List texts) throws Exception {
        List found = new ArrayList();
        for (int index = 0; index < texts.size(); index++) {
            found.add(parsed((String) texts.get(index)));
        }
        return found;
    }

    Expression parsed(String text) throws Exception {
        return session.sessionState().sqlParser().parseExpression(text);
    }

    static Expression bound(Expression expression, List columns) {
        if (expression instanceof UnresolvedAttribute) {
            String name = ((UnresolvedAttribute) expression).name();
            return (Expression) columns.get(Integer.parseInt(name.substring(1)));
        }
        List children = new ArrayList();
        Iterator each = expression.children().iterator();
        while (each.hasNext()) {
            children.add(bound((Expression) each.next(), columns));
        }
        return children.isEmpty()
            ? expression : (Expression) expression.withNewChildren(seq(children));
    }

    static List named(List expressions, List names) {
        List found = new ArrayList();
        for (int index = 0; index < expressions.size(); index++) {
            found.add(named((Expression) expressions.get(index), (String) names.get(index)));
        }
        return found;
    }

    static Alias named(Expression expression, String name) {
        return new Alias(
            expression, name, org.apache.spark.sql.catalyst.expressions.NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()),
            scala.Option.empty(), seq(new ArrayList()));
    }

    static List numbered(int count) {
        List found = new ArrayList();
        for (int index = 0; index < count; index++) {
            found.add("g" + index);
        }
        return found;
    }

    static void pushAll(scala.collection.Seq all, ArrayDeque waiting) {
        Iterator each = all.reverseIterator();
        while (each.hasNext()) {
            waiting.push(each.next());
        }
    }

    static List list(scala.collection.Seq all) {
        return new ArrayList(CollectionConverters.asJava(all));
    }

    static Seq seq(List all) {
        return CollectionConverters.asScala(all).toSeq();
    }
}
