package esker.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
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
    /** Returns a frame of the listed files. If "numbers" has a column, it holds the number of each row's file. */
    public Dataset files(
            SparkSession session, String digest, byte[] packed, StructType numbers, String schema, FileFormat format,
            Map options) throws IOException {
        FileIndex index = new FileList(digest, numbers, packed);
        StructType read = (StructType) DataType.fromJson(schema);
        return session.baseRelationToDataFrame(
            new HadoopFsRelation(index, numbers, read, Option.empty(), format, options, session));
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

    String text() throws IOException {
        byte[] held = new byte[in.readInt()];
        in.readFully(held);
        return new String(held, "UTF-8");
    }
}

/** Lists exactly the files that it was given: it opens no folder, asks no file system, and leaves out no name. */
final class FileList implements FileIndex {
    private final String digest;
    private final StructType numbers;
    private final FileStatus[] files;
    private final long[] numberOf;
    private final long size;

    FileList(String digest, StructType numbers, byte[] packed) throws IOException {
        this.digest = digest;
        this.numbers = numbers;
        Texts texts = new Texts(packed);
        files = new FileStatus[texts.number()];
        numberOf = new long[files.length];
        long sum = 0;
        for (int at = 0; at < files.length; at++) {
            long length = texts.large();
            numberOf[at] = texts.large();
            files[at] = new FileStatus(length, false, 0, 0L, 0L, new Path(texts.text()));
            sum += length;
        }
        size = sum;
    }

    /** Spark compares relations by this too, so it names the list. The folder need not exist. */
    public Seq rootPaths() {
        return seq(new Path("file:/.esker/" + digest));
    }

    /** A file is a partition of its own if rows have its number: Spark then stores it once for each batch of rows. */
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        List<Object> found = new ArrayList<Object>();
        for (int at = 0; at < files.length; at++) {
            found.add(new FileStatusWithMetadata(files[at], Map$.MODULE$.empty()));
        }
        if (numbers.length() == 0) {
            return seq(new PartitionDirectory(InternalRow.empty(), PythonUtils.toSeq(found)));
        }
        BasePredicate[] filters = predicates(partitionFilters);
        List<Object> partitions = new ArrayList<Object>();
        for (int at = 0; at < files.length; at++) {
            InternalRow number = new GenericInternalRow(new Object[] {Long.valueOf(numberOf[at])});
            boolean passes = true;
            for (int which = 0; which < filters.length; which++) {
                passes = passes && filters[which].eval(number);
            }
            if (passes) {
                partitions.add(new PartitionDirectory(number, seq(found.get(at))));
            }
        }
        return PythonUtils.toSeq(partitions);
    }

    /** Spark relies on the index to apply these filters. They use no column but the number. */
    private static BasePredicate[] predicates(Seq filters) {
        BasePredicate[] made = new BasePredicate[filters.length()];
        for (int at = 0; at < made.length; at++) {
            Expression filter = (Expression) filters.apply(at);
            made[at] = Predicate$.MODULE$.create(filter, filter.references().toSeq());
        }
        return made;
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
        return numbers;
    }

    public boolean equals(Object other) {
        return other instanceof FileList && ((FileList) other).digest.equals(digest);
    }

    public int hashCode() {
        return digest.hashCode();
    }
}
