package esker.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BindReferences$;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.package$AttributeSeq;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/**
 * Makes frames over exact lists of files, by one call from Python each.
 *
 * The driver compiles this text with the compiler that Spark uses for its own generated code. Workers never see it.
 */
public final class FileFrames {
    /** Returns a frame of the listed files. Columns of "fixed" have one value for all rows of a file. */
    public Dataset files(
            SparkSession session, String digest, byte[] packed, StructType fixed, String schema, FileFormat format,
            Map options) throws IOException {
        StructType read = (StructType) DataType.fromJson(schema);
        FileIndex index = new FileList(digest, fixed, packed);
        return session.baseRelationToDataFrame(
            new HadoopFsRelation(index, fixed, read, Option.empty(), format, options, session));
    }

    /**
     * Returns some columns of a frame: for each a name, a new name, and the new metadata as JSON. A fourth text, if it
     * is not empty, is what replaces NaN; no filter is pushed to such a column.
     */
    public Dataset columns(Dataset frame, byte[] packed) throws IOException {
        Texts texts = new Texts(packed);
        Column[] chosen = new Column[texts.number()];
        for (int at = 0; at < chosen.length; at++) {
            Column column = functions.col(texts.text());
            String name = texts.text();
            String metadata = texts.text();
            String instead = texts.text();
            if (!instead.isEmpty()) {
                column = functions.nanvl(column, functions.expr(instead));
            }
            chosen[at] = column.as(name, Metadata.fromJson(metadata));
        }
        return frame.select(chosen);
    }
}

/** Numbers and texts as Python packs them. */
final class Texts {
    private final DataInputStream in;

    Texts(byte[] packed) {
        in = new DataInputStream(new ByteArrayInputStream(packed));
    }

    int number() throws IOException {
        return in.readInt();
    }

    long large() throws IOException {
        return in.readLong();
    }

    byte[] bytes(int length) throws IOException {
        byte[] held = new byte[length];
        in.readFully(held);
        return held;
    }

    String text() throws IOException {
        return new String(bytes(in.readInt()), "UTF-8");
    }

    /** The values of a column, one for each file: whole numbers of 64 bits, or UTF-8 texts. */
    Comparable[] values(byte kind, int count) throws IOException {
        Comparable[] found = new Comparable[count];
        for (int at = 0; at < count; at++) {
            if (kind == 't') {
                found[at] = UTF8String.fromBytes(bytes(in.readInt()));
            } else {
                found[at] = Long.valueOf(in.readLong());
            }
        }
        return found;
    }
}

/** Values of Spark's rows, and the whole numbers or texts that stand for them in the order of the type. */
final class Values {
    private Values() {
    }

    static Object shown(Comparable plain, DataType type) {
        if (plain instanceof UTF8String) {
            return plain;
        }
        long number = ((Long) plain).longValue();
        if (type instanceof IntegerType || type instanceof DateType) {
            return Integer.valueOf(Math.toIntExact(number));
        }
        if (type instanceof BooleanType) {
            return Boolean.valueOf(number != 0);
        }
        if (type instanceof DecimalType) {
            return Decimal.apply(number, ((DecimalType) type).precision(), ((DecimalType) type).scale());
        }
        return plain;
    }

    /** Returns null for what has no such form. */
    static Comparable plain(Object shown, DataType type) {
        if (shown instanceof Decimal && type instanceof DecimalType) {
            BigDecimal exact = ((Decimal) shown).toJavaBigDecimal().stripTrailingZeros();
            int scale = ((DecimalType) type).scale();
            boolean fits = exact.scale() <= scale && exact.precision() - exact.scale() + scale <= 18;
            return fits ? Long.valueOf(exact.setScale(scale).unscaledValue().longValue()) : null;
        }
        if (shown instanceof UTF8String) {
            return (UTF8String) shown;
        }
        if (shown instanceof Long) {
            return (Long) shown;
        }
        if (shown instanceof Integer) {
            return Long.valueOf(((Integer) shown).longValue());
        }
        return shown instanceof Boolean ? Long.valueOf(((Boolean) shown).booleanValue() ? 1L : 0L) : null;
    }
}

/** What is known of a column in each file. */
final class Span {
    private static final int NULL = 1;
    private static final int VALUE = 2;
    private static final int LOWER = 4;
    private static final int UPPER = 8;

    private final byte[] known;
    private final Comparable[] lower;
    private final Comparable[] upper;

    Span(Texts texts, int files) throws IOException {
        byte kind = texts.bytes(1)[0];
        known = texts.bytes(files);
        lower = texts.values(kind, files);
        upper = texts.values(kind, files);
    }

    boolean mayBeNull(int file) {
        return (known[file] & NULL) != 0;
    }

    boolean mayBeThere(int file) {
        return (known[file] & VALUE) != 0;
    }

    boolean mayBeFrom(int file, Comparable value, boolean alsoEqual) {
        return (known[file] & UPPER) == 0 || upper[file].compareTo(value) >= (alsoEqual ? 0 : 1);
    }

    boolean mayBeUpTo(int file, Comparable value, boolean alsoEqual) {
        return (known[file] & LOWER) == 0 || lower[file].compareTo(value) <= (alsoEqual ? 0 : -1);
    }

    boolean mayStartWith(int file, UTF8String prefix) {
        boolean before = (known[file] & LOWER) != 0
            && lower[file].compareTo(prefix) > 0 && !((UTF8String) lower[file]).startsWith(prefix);
        return !before && mayBeFrom(file, prefix, true);
    }
}

/** Decides which files may have a row that passes a filter. What it does not understand, every file may pass. */
final class Spans {
    private final HashMap<String, Span> spans = new HashMap<String, Span>();

    Spans(Texts texts, int files) throws IOException {
        int columns = texts.number();
        for (int at = 0; at < columns; at++) {
            String name = texts.text();
            spans.put(name, new Span(texts, files));
        }
    }

    boolean isEmpty() {
        return spans.isEmpty();
    }

    boolean mayPass(Expression filter, int file) {
        if (filter instanceof And) {
            return mayPass(part(filter, 0), file) && mayPass(part(filter, 1), file);
        }
        if (filter instanceof Or) {
            return mayPass(part(filter, 0), file) || mayPass(part(filter, 1), file);
        }
        if (filter.children().isEmpty() || !(part(filter, 0) instanceof AttributeReference)) {
            return !(filter instanceof BinaryComparison) || !(part(filter, 1) instanceof AttributeReference)
                || mayCompare(filter, part(filter, 1), part(filter, 0), true, file);
        }
        if (filter instanceof BinaryComparison) {
            return mayCompare(filter, part(filter, 0), part(filter, 1), false, file);
        }
        Span span = (Span) spans.get(((AttributeReference) part(filter, 0)).name());
        if (span == null) {
            return true;
        }
        DataType type = part(filter, 0).dataType();
        if (filter instanceof IsNull) {
            return span.mayBeNull(file);
        }
        if (filter instanceof IsNotNull) {
            return span.mayBeThere(file);
        }
        if (filter instanceof In) {
            return mayBeOneOf(span, type, (Seq) filter.children().tail(), file);
        }
        if (filter instanceof InSet) {
            return mayBeOneOf(span, type, ((InSet) filter).hset().toSeq(), file);
        }
        if (filter instanceof StartsWith && constant(part(filter, 1)) instanceof UTF8String) {
            return span.mayBeThere(file) && span.mayStartWith(file, (UTF8String) constant(part(filter, 1)));
        }
        return true;
    }

    private boolean mayCompare(Expression filter, Expression column, Expression other, boolean turned, int file) {
        Span span = (Span) spans.get(((AttributeReference) column).name());
        Comparable value = span == null || !column.dataType().equals(other.dataType()) ? null : constant(other);
        if (value == null) {
            return true;
        }
        if (!span.mayBeThere(file)) {
            return false;
        }
        if (filter instanceof EqualTo || filter instanceof EqualNullSafe) {
            return span.mayBeFrom(file, value, true) && span.mayBeUpTo(file, value, true);
        }
        boolean alsoEqual = filter instanceof LessThanOrEqual || filter instanceof GreaterThanOrEqual;
        boolean less = filter instanceof LessThan || filter instanceof LessThanOrEqual;
        if (!less && !(filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual)) {
            return true;
        }
        return less != turned ? span.mayBeUpTo(file, value, alsoEqual) : span.mayBeFrom(file, value, alsoEqual);
    }

    /** Null is equal to no value. */
    private static boolean mayBeOneOf(Span span, DataType type, Seq items, int file) {
        for (int at = 0; at < items.length(); at++) {
            Object item = items.apply(at);
            if (item instanceof Literal) {
                item = ((Literal) item).value();
            }
            if (item == null) {
                continue;
            }
            Comparable value = Values.plain(item, type);
            if (value == null) {
                return true;
            }
            if (span.mayBeThere(file) && span.mayBeFrom(file, value, true) && span.mayBeUpTo(file, value, true)) {
                return true;
            }
        }
        return false;
    }

    private static Comparable constant(Expression other) {
        return other instanceof Literal ? Values.plain(((Literal) other).value(), other.dataType()) : null;
    }

    private static Expression part(Expression filter, int at) {
        return (Expression) filter.children().apply(at);
    }
}

/** Lists exactly the files that it was given: it opens no folder, asks no file system, and leaves out no name. */
final class FileList implements FileIndex {
    private final String digest;
    private final StructType fixed;
    private final FileStatus[] files;
    private final GenericInternalRow[] rows; // the values of the fixed columns
    private final Spans spans;
    private final long size;

    FileList(String digest, StructType fixed, byte[] packed) throws IOException {
        this.digest = digest;
        this.fixed = fixed;
        Texts texts = new Texts(packed);
        files = new FileStatus[texts.number()];
        rows = new GenericInternalRow[files.length];
        boolean numbered = fixed.length() > 0 && fixed.apply(0).name().equals("__esker_file");
        long sum = 0;
        for (int at = 0; at < files.length; at++) {
            long length = texts.large();
            Object[] values = new Object[fixed.length()];
            Long number = Long.valueOf(texts.large());
            if (numbered) {
                values[0] = number;
            }
            rows[at] = new GenericInternalRow(values);
            files[at] = new FileStatus(length, false, 0, 0L, 0L, new Path(texts.text()));
            sum += length;
        }
        size = sum;
        for (int column = numbered ? 1 : 0; column < fixed.length(); column++) {
            byte kind = texts.bytes(1)[0];
            byte[] there = texts.bytes(files.length);
            Comparable[] values = texts.values(kind, files.length);
            for (int at = 0; at < files.length; at++) {
                rows[at].update(column, there[at] == 0 ? null : Values.shown(values[at], fixed.apply(column).dataType()));
            }
        }
        spans = new Spans(texts, files.length);
    }

    /** Spark compares relations by this too, so it names the list. The folder need not exist. */
    public Seq rootPaths() {
        return seq(new Path("file:/.esker/" + digest));
    }

    /**
     * The files that may have rows of the result. Spark relies on the index to apply filters on the fixed columns, and
     * applies all other filters to the rows too.
     *
     * If there are fixed columns, a file is a partition of its own: Spark then stores its values once for each batch of
     * rows.
     */
    public Seq listFiles(Seq fixedFilters, Seq dataFilters) {
        boolean[] left = left(fixedFilters, dataFilters);
        List<Object> found = new ArrayList<Object>();
        for (int at = 0; at < files.length; at++) {
            if (!left[at]) {
                continue;
            }
            Object file = new FileStatusWithMetadata(files[at], Map$.MODULE$.empty());
            found.add(fixed.length() == 0 ? file : new PartitionDirectory(rows[at], seq(file)));
        }
        if (fixed.length() > 0) {
            return PythonUtils.toSeq(found);
        }
        return seq(new PartitionDirectory(InternalRow.empty(), PythonUtils.toSeq(found)));
    }

    private boolean[] left(Seq fixedFilters, Seq dataFilters) {
        boolean[] left = new boolean[files.length];
        Arrays.fill(left, true);
        for (int which = 0; which < fixedFilters.length(); which++) {
            Expression filter = (Expression) fixedFilters.apply(which);
            Seq columns = filter.references().toSeq();
            BasePredicate passes = Predicate$.MODULE$.createInterpreted(
                BindReferences$.MODULE$.bindReference(filter, new package$AttributeSeq(columns), false));
            for (int at = 0; at < files.length; at++) {
                left[at] = left[at] && passes.eval(values(columns, at));
            }
        }
        for (int which = 0; which < dataFilters.length() && !spans.isEmpty(); which++) {
            for (int at = 0; at < files.length; at++) {
                left[at] = left[at] && spans.mayPass((Expression) dataFilters.apply(which), at);
            }
        }
        return left;
    }

    private InternalRow values(Seq columns, int file) {
        Object[] values = new Object[columns.length()];
        for (int at = 0; at < values.length; at++) {
            int column = fixed.fieldIndex(((Attribute) columns.apply(at)).name());
            values[at] = rows[file].get(column, fixed.apply(column).dataType());
        }
        return new GenericInternalRow(values);
    }

    private static Seq seq(Object only) {
        List<Object> held = new ArrayList<Object>();
        held.add(only);
        return PythonUtils.toSeq(held);
    }

    public String[] inputFiles() {
        String[] found = new String[files.length];
        for (int at = 0; at < files.length; at++) {
            found[at] = files[at].getPath().toUri().toString();
        }
        return found;
    }

    public void refresh() {
    }

    public long sizeInBytes() {
        return size;
    }

    public StructType partitionSchema() {
        return fixed;
    }

    public boolean equals(Object other) {
        return other instanceof FileList && ((FileList) other).digest.equals(digest);
    }

    public int hashCode() {
        return digest.hashCode();
    }
}
