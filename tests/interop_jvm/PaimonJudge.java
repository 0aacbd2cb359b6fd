/* Paimon's own Java library as a peer of the tests: one JSON command a line in, one JSON answer a line out. */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

public final class PaimonJudge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Catalog catalog;
    private final IOManager io;

    private PaimonJudge(String warehouse, String scratch) {
        Options options = new Options();
        options.set("warehouse", warehouse);
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        io = IOManager.create(scratch);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what the library prints must not get between the answers
        PaimonJudge judge = new PaimonJudge(arguments[0], arguments[1]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("answer", judge.run(JSON.readTree(line)));
            } catch (Throwable failed) {
                StringBuilder words = new StringBuilder();
                for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
                    words.append(cause).append("; ");
                }
                answer.put("error", words.toString());
                failed.printStackTrace(System.err);
            }
            answers.write((JSON.writeValueAsString(answer) + "\n").getBytes("UTF-8"));
            answers.flush();
        }
    }

    private Object run(JsonNode command) throws Exception {
        String verb = command.get("do").asText();
        Identifier name = Identifier.fromString(command.get("table").asText());
        switch (verb) {
            case "create":
                return create(name, command);
            case "alter":
                return alter(name, command.get("changes"));
            case "write":
                return write(name, command);
            case "compact":
                return compact(name, command);
            case "read":
                return read(table(name, command), command.path("where"));
            case "tag":
                catalog.getTable(name).createTag(command.get("name").asText(), command.get("snapshot").asLong());
                return null;
            case "branch":
                if (command.has("tag")) {
                    catalog.getTable(name).createBranch(command.get("name").asText(), command.get("tag").asText());
                } else {
                    catalog.getTable(name).createBranch(command.get("name").asText());
                }
                return null;
            case "snapshot":
                return ((FileStoreTable) catalog.getTable(name)).latestSnapshot().get().id();
            case "expire":
                return ((FileStoreTable) catalog.getTable(name)).newExpireSnapshots()
                        .config(org.apache.paimon.options.ExpireConfig.builder()
                                .snapshotRetainMax(command.get("keep").asInt())
                                .snapshotRetainMin(command.get("keep").asInt())
                                .snapshotTimeRetain(Duration.ofMillis(0)).build())
                        .expire();
            default:
                throw new IllegalArgumentException("an unknown command: " + verb);
        }
    }

    private Table table(Identifier name, JsonNode command) throws Exception {
        Identifier wanted = command.has("branch")
                ? new Identifier(name.getDatabaseName(), name.getTableName(), command.get("branch").asText())
                : name;
        Table table = catalog.getTable(wanted);
        return command.has("options") ? table.copy(texts(command.get("options"))) : table;
    }

    private Object create(Identifier name, JsonNode command) throws Exception {
        catalog.createDatabase(name.getDatabaseName(), true);
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : command.get("columns")) {
            schema.column(column.get(0).asText(), type(column.get(1)));
        }
        schema.partitionKeys(names(command.path("partition")));
        schema.primaryKey(names(command.path("primary")));
        schema.options(texts(command.path("options")));
        catalog.createTable(name, schema.build(), false);
        return null;
    }

    private Object alter(Identifier name, JsonNode changes) throws Exception {
        List<SchemaChange> made = new ArrayList<>();
        for (JsonNode change : changes) {
            String column = change.get(1).asText();
            switch (change.get(0).asText()) {
                case "add":
                    made.add(SchemaChange.addColumn(column, type(change.get(2))));
                    break;
                case "rename":
                    made.add(SchemaChange.renameColumn(column, change.get(2).asText()));
                    break;
                case "drop":
                    made.add(SchemaChange.dropColumn(column));
                    break;
                case "type":
                    made.add(SchemaChange.updateColumnType(column, type(change.get(2))));
                    break;
                case "set":
                    made.add(SchemaChange.setOption(column, change.get(2).asText()));
                    break;
                default:
                    throw new IllegalArgumentException("an unknown change: " + change);
            }
        }
        catalog.alterTable(name, made, false);
        return null;
    }

    private Object write(Identifier name, JsonNode command) throws Exception {
        Table table = table(name, command);
        RowType types = table.rowType();
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (command.has("overwrite")) {
            builder.withOverwrite(texts(command.get("overwrite")));
        }
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            for (JsonNode row : command.get("rows")) {
                GenericRow made = new GenericRow(RowKind.fromShortString(row.get(0).asText()), types.getFieldCount());
                for (int i = 0; i < types.getFieldCount(); i++) {
                    made.setField(i, in(row.get(i + 1), types.getTypeAt(i)));
                }
                write.write(made);
            }
            commit.commit(write.prepareCommit());
        }
        return null;
    }

    private Object compact(Identifier name, JsonNode command) throws Exception {
        Table table = table(name, command);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(io);
            Map<String, Boolean> done = new HashMap<>();
            for (org.apache.paimon.manifest.BucketEntry entry
                    : ((FileStoreTable) table).newSnapshotReader().bucketEntries()) {
                BinaryRow partition = entry.partition();
                if (done.put(partition + "/" + entry.bucket(), true) == null) {
                    write.compact(partition, entry.bucket(), true);
                }
            }
            commit.commit(write.prepareCommit());
        }
        return null;
    }

    private Object read(Table table, JsonNode where) throws Exception {
        RowType types = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        if (!where.isMissingNode()) {
            builder.withFilter(predicate(types, where));
        }
        List<Split> splits = builder.newScan().plan().splits();
        List<Object> rows = new ArrayList<>();
        try (RecordReader<InternalRow> reader = builder.newRead().withIOManager(io).createReader(splits)) {
            reader.forEachRemaining(row -> rows.add(out(row, types)));
        }
        return rows;
    }

    private static Predicate predicate(RowType types, JsonNode where) {
        PredicateBuilder builder = new PredicateBuilder(types);
        int at = types.getFieldIndex(where.get(0).asText());
        Object value = in(where.get(2), types.getTypeAt(at));
        switch (where.get(1).asText()) {
            case "=":
                return builder.equal(at, value);
            case "<=":
                return builder.lessOrEqual(at, value);
            case ">=":
                return builder.greaterOrEqual(at, value);
            case "is null":
                return builder.isNull(at);
            default:
                throw new IllegalArgumentException("an unknown comparison: " + where);
        }
    }

    private static DataType type(JsonNode written) {
        return DataTypeJsonParser.parseDataType(written);
    }

    private static List<String> names(JsonNode array) {
        List<String> names = new ArrayList<>();
        array.forEach(one -> names.add(one.asText()));
        return names;
    }

    private static Map<String, String> texts(JsonNode object) {
        Map<String, String> texts = new LinkedHashMap<>();
        object.fields().forEachRemaining(one -> texts.put(one.getKey(), one.getValue().asText()));
        return texts;
    }

    private static Object in(JsonNode value, DataType type) {
        if (value == null || value.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return value.asBoolean();
            case TINYINT:
                return (byte) value.asInt();
            case SMALLINT:
                return (short) value.asInt();
            case INTEGER:
                return value.asInt();
            case BIGINT:
                return value.asLong();
            case FLOAT:
                return (float) value.asDouble();
            case DOUBLE:
                return value.asDouble();
            case DATE:
                return (int) LocalDate.parse(value.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(value.asText()).toNanoOfDay() / 1_000_000);
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(value.asText()), decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(value.asText()));
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(value.asText());
            case ARRAY:
                List<Object> items = new ArrayList<>();
                value.forEach(item -> items.add(in(item, ((ArrayType) type).getElementType())));
                return new GenericArray(items.toArray());
            case MAP:
                Map<Object, Object> pairs = new LinkedHashMap<>();
                value.forEach(pair -> pairs.put(
                        in(pair.get(0), ((MapType) type).getKeyType()), in(pair.get(1), ((MapType) type).getValueType())));
                return new GenericMap(pairs);
            case ROW:
                List<DataField> fields = ((RowType) type).getFields();
                GenericRow row = new GenericRow(fields.size());
                for (int i = 0; i < fields.size(); i++) {
                    row.setField(i, in(value.get(fields.get(i).name()), fields.get(i).type()));
                }
                return row;
            default:
                return BinaryString.fromString(value.asText());
        }
    }

    private static Map<String, Object> out(InternalRow row, RowType types) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < types.getFieldCount(); i++) {
            DataField field = types.getFields().get(i);
            made.put(field.name(), out(InternalRow.createFieldGetter(field.type(), i).getFieldOrNull(row), field.type()));
        }
        return made;
    }

    private static Object out(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case DATE:
                return LocalDate.ofEpochDay((Integer) value).toString();
            case TIME_WITHOUT_TIME_ZONE:
                return LocalTime.ofNanoOfDay(((Integer) value) * 1_000_000L).toString();
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return ((Timestamp) value).toLocalDateTime().toString();
            case BINARY:
            case VARBINARY:
                return Base64.getEncoder().encodeToString((byte[]) value);
            case CHAR:
            case VARCHAR:
                return value.toString();
            case ARRAY:
                return list((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                List<Object> keys = list(((InternalMap) value).keyArray(), ((MapType) type).getKeyType());
                List<Object> values = list(((InternalMap) value).valueArray(), ((MapType) type).getValueType());
                List<Object> pairs = new ArrayList<>();
                for (int i = 0; i < keys.size(); i++) {
                    pairs.add(List.of(keys.get(i), values.get(i) == null ? "null" : values.get(i)));
                }
                return pairs;
            case ROW:
                return out((InternalRow) value, (RowType) type);
            default:
                return value;
        }
    }

    private static List<Object> list(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> made = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            made.add(out(getter.getElementOrNull(array, i), type));
        }
        return made;
    }
}
