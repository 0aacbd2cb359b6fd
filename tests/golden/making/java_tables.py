"""The golden tables that Iceberg Java writes through Spark SQL. In the statements ``{t}`` is the table."""

from __future__ import annotations

from dataclasses import dataclass, field

from golden_answers import Question

LINEAGE = ("id", "_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True, kw_only=True)
class JavaTable:
    """How a table comes about, what it exercises and what is asked of it beside all of its rows."""

    name: str
    exercises: tuple[str, ...]
    about: str
    columns: str
    version: int = 2
    partitioned_by: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    expired: bool = False  # whether Java expires all snapshots but the last, as its users do, which makes tables small


ORDERS = "id bigint NOT NULL, region string, amount decimal(12,2), ts timestamp"


def orders(first: int, count: int) -> str:
    """An insert of everyday rows: two regions and a null one, several days."""
    return (
        "INSERT INTO {t} SELECT id, CASE id % 3 WHEN 0 THEN 'eu' WHEN 1 THEN 'us' END, "
        "CAST(id * 1.01 AS decimal(12,2)), timestamp_seconds(1790000000 + id * 20000) "
        f"FROM range({first}, {first + count}, 1, 1)"
    )


def merge_on_read(**more: str) -> dict[str, str]:
    """Deletes, updates and merges by delete files, whatever else is set."""
    return {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")} | more


VERSION_1 = (
    JavaTable(
        name="java_v1_partitioned",
        exercises=("v1", "transforms"),
        about="format version 1, partitioned by identity and bucket, appended to twice, rows deleted by rewriting",
        columns=ORDERS,
        version=1,
        partitioned_by="region, bucket(4, id)",
        then=(orders(0, 8), orders(8, 8), "DELETE FROM {t} WHERE id IN (3, 9)"),
        questions=(Question(where="region = 'eu'"), Question(where="id = 4"), Question(where="region IS NULL")),
    ),
    JavaTable(
        name="java_v1_void_fields",
        expired=True,
        exercises=("v1", "evolved-spec"),
        about="format version 1, where a partition field that is dropped stays as void",
        columns=ORDERS,
        version=1,
        partitioned_by="region, days(ts)",
        then=(
            orders(0, 6),
            "ALTER TABLE {t} DROP PARTITION FIELD region",
            orders(6, 6),
            "ALTER TABLE {t} ADD PARTITION FIELD truncate(1, region)",
            orders(12, 6),
        ),
        questions=(Question(where="region = 'us'"), Question(where="ts < TIMESTAMP '2026-09-22 00:00:00'")),
    ),
    JavaTable(
        name="java_v1_upgraded",
        exercises=("v1", "v2", "v3", "position-deletes", "deletion-vectors"),
        about="written as version 1, upgraded to 2 and 3, changed by delete files under both",
        columns=ORDERS,
        version=1,
        properties=merge_on_read(),
        then=(
            orders(0, 6),
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2')",
            orders(6, 6),
            "DELETE FROM {t} WHERE id IN (2, 7)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
            "DELETE FROM {t} WHERE id IN (3, 8)",
        ),
    ),
)

PARTITIONS = (
    JavaTable(
        name="java_transforms",
        expired=True,
        exercises=("v2", "transforms", "timestamps"),
        about="every transform: years, months, days, hours, bucket, truncate, identity",
        columns="id int, d date, ts timestamp, ntz timestamp_ntz, s string, n decimal(9,2), h timestamp",
        partitioned_by="years(d), months(ts), days(ntz), hours(h), bucket(3, s), truncate(10, id), n",
        then=(
            "INSERT INTO {t} SELECT CAST(id * 7 - 20 AS int), date_add(DATE '1969-11-20', CAST(id * 40 AS int)), "
            "timestamp_seconds((id - 3) * 1500000), CAST(timestamp_seconds((id - 3) * 70000) AS timestamp_ntz), "
            "concat('key ', id % 3), CAST(id % 2 AS decimal(9,2)), timestamp_seconds((id - 3) * 1800) "
            "FROM range(0, 8, 1, 1)",
            "INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ),
        questions=(
            Question(where="d >= DATE '1970-01-01'"),
            Question(where="ts < TIMESTAMP '1970-01-01 00:00:00'"),
            Question(where="s = 'key 1'"),
            Question(where="id BETWEEN -13 AND 1"),
            Question(where="h >= TIMESTAMP '1970-01-01 00:00:00'"),
            Question(where="id IS NULL"),
        ),
    ),
    JavaTable(
        name="java_evolved_spec",
        expired=True,
        exercises=("v2", "evolved-spec", "transforms"),
        about="files under four partition specs: none, day, day and bucket, month and bucket",
        columns=ORDERS,
        then=(
            orders(0, 4),
            "ALTER TABLE {t} ADD PARTITION FIELD days(ts)",
            orders(4, 4),
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
            orders(8, 4),
            "ALTER TABLE {t} REPLACE PARTITION FIELD ts_day WITH months(ts)",
            orders(12, 4),
        ),
        questions=(Question(where="id IN (1, 5, 9, 13)"), Question(where="ts >= TIMESTAMP '2026-09-23 00:00:00'")),
    ),
    JavaTable(
        name="java_many_manifests",
        expired=True,
        exercises=("v2", "many-manifests"),
        about="ten appends that merge no manifests, then rows deleted by rewriting",
        columns=ORDERS,
        partitioned_by="region",
        properties={"commit.manifest-merge.enabled": "false"},
        then=(*(orders(first, 1) for first in range(10)), "DELETE FROM {t} WHERE id = 5"),
        questions=(Question(where="id >= 7"), Question(where="region = 'us' AND id < 6")),
    ),
)

CHANGES = (
    JavaTable(
        name="java_position_deletes",
        expired=True,
        exercises=("v2", "position-deletes"),
        about="rows deleted, updated and merged by position deletes, in partitions",
        columns=ORDERS,
        partitioned_by="region",
        properties=merge_on_read(),
        then=(
            orders(0, 12),
            "DELETE FROM {t} WHERE id IN (1, 4)",
            "UPDATE {t} SET amount = -1 WHERE id IN (2, 6)",
            "MERGE INTO {t} t USING (SELECT explode(array(7, 50)) AS k) s ON t.id = s.k "
            "WHEN MATCHED THEN UPDATE SET region = 'moved' "
            "WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.k, 'new')",
        ),
        questions=(Question(where="amount < 0"), Question(where="region IN ('moved', 'new')")),
    ),
    JavaTable(
        name="java_deletion_vectors",
        expired=True,
        exercises=("v3", "deletion-vectors"),
        about="rows deleted twice from the same files: each vector replaces the one before",
        columns=ORDERS,
        version=3,
        properties=merge_on_read(),
        then=(
            orders(0, 10),
            orders(10, 10),
            "DELETE FROM {t} WHERE id % 5 = 0",
            "DELETE FROM {t} WHERE id % 7 = 1",
            "UPDATE {t} SET region = 'x' WHERE id = 12",
        ),
        questions=(Question(where="id > 14"),),
    ),
    JavaTable(
        name="java_copy_on_write",
        expired=True,
        exercises=("v2", "transforms"),
        about="rows changed by a merge that rewrites files, then all of them overwritten",
        columns=ORDERS,
        partitioned_by="bucket(2, id)",
        then=(
            orders(0, 10),
            "MERGE INTO {t} t USING (SELECT explode(array(2, 8, 50)) AS k) s ON t.id = s.k "
            "WHEN MATCHED AND k = 8 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = amount + 100 "
            "WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.k, 'new')",
            "INSERT OVERWRITE {t} SELECT id, 'over', amount, ts FROM {t} WHERE id < 5",
        ),
    ),
    JavaTable(
        name="java_row_lineage",
        expired=True,
        exercises=("v3", "row-lineage", "deletion-vectors"),
        about="row ids kept over updates by deletion vectors and by rewriting files",
        columns=ORDERS,
        version=3,
        properties=merge_on_read(),
        then=(
            orders(0, 6),
            orders(6, 6),
            "UPDATE {t} SET amount = 0 WHERE id IN (2, 8)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.update.mode'='copy-on-write')",
            "UPDATE {t} SET amount = 1 WHERE id = 3",
        ),
        questions=(Question(columns=LINEAGE),),
    ),
    JavaTable(
        name="java_branches_and_tags",
        exercises=("v2", "branches-tags", "position-deletes"),
        about="a tag on the first snapshot, a branch that went its own way, one that main was moved to",
        columns=ORDERS,
        properties=merge_on_read(),
        then=(
            orders(0, 4),
            "ALTER TABLE {t} CREATE TAG first RETAIN 3650 DAYS",
            "ALTER TABLE {t} CREATE BRANCH audit",
            orders(4, 4).replace("{t}", "{t}.branch_audit"),
            "DELETE FROM {t}.branch_audit WHERE id = 1",
            orders(8, 4),
            "ALTER TABLE {t} CREATE BRANCH next",
            "DELETE FROM {t}.branch_next WHERE id >= 10",
            "CALL golden.system.fast_forward('n.java_branches_and_tags', 'main', 'next')",
        ),
        questions=(Question(ref="first"), Question(ref="audit"), Question(ref="audit", where="id < 3")),
    ),
)

FORMATS = (
    JavaTable(
        name="java_orc",
        expired=True,
        exercises=("v2", "orc", "position-deletes", "evolved-schema"),
        about="ORC data and ORC delete files, a column added and one renamed",
        columns=ORDERS + ", tags array<string>, place struct<x: int, y: double>",
        partitioned_by="region",
        properties=merge_on_read(**{"write.format.default": "orc", "write.delete.format.default": "orc"}),
        then=(
            "INSERT INTO {t} SELECT id, CASE id % 2 WHEN 0 THEN 'eu' END, id / 4, timestamp_seconds(id * 90000), "
            "array('a', NULL, CAST(id AS string)), named_struct('x', CAST(id AS int), 'y', id / 8) "
            "FROM range(0, 8, 1, 1)",
            "ALTER TABLE {t} ADD COLUMN note string",
            "ALTER TABLE {t} RENAME COLUMN amount TO price",
            "INSERT INTO {t} VALUES (20, 'eu', 2.5, TIMESTAMP '2026-11-15 12:00:00', NULL, NULL, 'noted')",
            "DELETE FROM {t} WHERE id IN (2, 3)",
        ),
        questions=(Question(where="price > 1"), Question(where="note IS NULL")),
    ),
    JavaTable(
        name="java_avro",
        expired=True,
        exercises=("v2", "avro", "position-deletes", "evolved-schema"),
        about="Avro data and Avro delete files, a column added and one renamed",
        columns=ORDERS + ", tags array<string>, place struct<x: int, y: double>, m map<int, string>",
        partitioned_by="truncate(1, region)",
        properties=merge_on_read(**{"write.format.default": "avro", "write.delete.format.default": "avro"}),
        then=(
            "INSERT INTO {t} SELECT id, CASE id % 2 WHEN 0 THEN 'eu' END, id / 4, timestamp_seconds(id * 90000), "
            "array('a', NULL, CAST(id AS string)), named_struct('x', CAST(id AS int), 'y', id / 8), "
            "map(1, 'one', CAST(id + 2 AS int), NULL) FROM range(0, 8, 1, 1)",
            "ALTER TABLE {t} ADD COLUMN note string",
            "ALTER TABLE {t} RENAME COLUMN amount TO price",
            "INSERT INTO {t} VALUES (20, 'eu', 2.5, TIMESTAMP '2026-11-15 12:00:00', NULL, NULL, NULL, 'noted')",
            "DELETE FROM {t} WHERE id IN (2, 3)",
        ),
        questions=(Question(where="price > 1"), Question(where="note IS NULL")),
    ),
    JavaTable(
        name="java_mixed_formats",
        expired=True,
        exercises=("v3", "orc", "avro", "deletion-vectors"),
        about="Parquet, ORC and Avro files in one table, with deletion vectors over each",
        columns=ORDERS,
        version=3,
        properties=merge_on_read(),
        then=(
            orders(0, 4),
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='orc')",
            orders(4, 4),
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='avro')",
            orders(8, 4),
            "DELETE FROM {t} WHERE id IN (1, 6, 11)",
        ),
        questions=(Question(columns=LINEAGE), Question(where="id > 2 AND id < 10")),
    ),
    JavaTable(
        name="java_gzip_metadata",
        exercises=("v2", "gzip-metadata"),
        about="metadata files compressed by gzip",
        columns=ORDERS,
        properties={"write.metadata.compression-codec": "gzip"},
        then=(orders(0, 5),),
    ),
)

EVOLUTION = (
    JavaTable(
        name="java_evolved_schema",
        exercises=("v2", "evolved-schema", "nested"),
        about="columns added, dropped, added again, renamed, widened, moved and made optional, inside of structs too",
        columns="id int NOT NULL, a int, f float, n decimal(5,2), s struct<x: int, y: string>, "
        "l array<struct<k: int>>, gone string",
        then=(
            "INSERT INTO {t} VALUES (1, 10, 0.5, 1.25, named_struct('x', 1, 'y', 'one'), "
            "array(named_struct('k', 1)), 'old'), (2, NULL, NULL, NULL, NULL, NULL, NULL)",
            "ALTER TABLE {t} ALTER COLUMN a TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN f TYPE double",
            "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(12,2)",
            "ALTER TABLE {t} RENAME COLUMN a TO b",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} ADD COLUMN gone int FIRST",
            "ALTER TABLE {t} ADD COLUMN s.z double",
            "ALTER TABLE {t} RENAME COLUMN s.x TO w",
            "ALTER TABLE {t} DROP COLUMN s.y",
            "ALTER TABLE {t} ADD COLUMN l.element.v string",
            "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
            "ALTER TABLE {t} ALTER COLUMN b AFTER n",
            "INSERT INTO {t} VALUES (7, 3, 0.1, 123456789.25, 5000000000, named_struct('w', 3, 'z', 2.5), "
            "array(named_struct('k', 2, 'v', 'vv')))",
        ),
        questions=(Question(where="b > 5"), Question(where="gone IS NULL"), Question(where="s.w = 1")),
    ),
    JavaTable(
        name="java_replaced",
        exercises=("v2", "evolved-schema", "evolved-spec"),
        about="a table replaced by one of other columns and partitions; its history stays",
        columns=ORDERS,
        partitioned_by="region",
        then=(
            orders(0, 5),
            "CREATE OR REPLACE TABLE {t} USING iceberg PARTITIONED BY (kind) LOCATION '{place}' AS "
            "SELECT id AS key, concat('k', id % 2) AS kind FROM range(0, 4, 1, 1)",
        ),
        questions=(Question(where="kind = 'k1'"),),
    ),
)

TYPES = (
    JavaTable(
        name="java_types",
        expired=True,
        exercises=("v2", "decimals", "timestamps", "nan", "negative-zero", "binary"),
        about="every type that Spark has, with its extremes, NaN, infinities, both zeros and nulls",
        columns="id int, flag boolean, i int, l bigint, f float, d double, n9 decimal(9,2), n18 decimal(18,4), "
        "n38 decimal(38,10), day date, tz timestamp, ntz timestamp_ntz, s string, b binary",
        then=(
            "INSERT INTO {t} VALUES "
            "(1, true, 7, 7, CAST(0.5 AS float), 0.1D, 1.25, 1.25, 1.25, DATE '2026-11-15', "
            "TIMESTAMP '2026-11-15 23:59:59.999999', TIMESTAMP_NTZ '2026-11-15 12:00:00', 'plain', X'0001'), "
            "(2, false, -2147483648, -9223372036854775808, float('nan'), double('nan'), -9999999.99, "
            "-99999999999999.9999, -9999999999999999999999999999.0, DATE '0001-01-03', "
            "TIMESTAMP '1969-12-31 23:59:58.000001', TIMESTAMP_NTZ '1900-01-01 00:00:00.000001', '', X''), "
            "(3, NULL, 2147483647, 9223372036854775807, float('-0.0'), double('-0.0'), 0.00, 0.0001, 0.0000000001, "
            "DATE '9999-12-31', TIMESTAMP '2262-04-12 00:00:00', TIMESTAMP_NTZ '9999-12-31 23:59:00', "
            "'ångström 𝄞', X'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF'), "
            "(4, NULL, 0, 0, float('-inf'), double('inf'), NULL, NULL, NULL, NULL, NULL, NULL, 'it''s', NULL), "
            "(5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO {t} (id, d, f) VALUES (6, 0.0D, CAST(0.0 AS float)), (7, -1.5D, CAST(-1.5 AS float))",
        ),
        questions=(
            Question(where="d < 0.0"),
            Question(where="n18 > 0.5"),
            Question(where="b = X'0001'"),
            Question(where="tz >= TIMESTAMP '2026-01-01 00:00:00'"),
            Question(where="s = ''"),
        ),
    ),
    JavaTable(
        name="java_nested",
        exercises=("v2", "nested"),
        about="structs, lists and maps inside each other, empty, null and with null parts",
        columns="id int, s struct<x: int, t: struct<y: string, l: array<int>>>, "
        "l array<struct<k: string, v: array<double>>>, ll array<array<int>>, "
        "m map<string, struct<a: date, b: map<int, string>>>",
        then=(
            "INSERT INTO {t} VALUES "
            "(1, named_struct('x', 1, 't', named_struct('y', 'deep', 'l', array(1, NULL))), "
            "array(named_struct('k', 'a', 'v', array(1.5D, 2.5D)), named_struct('k', NULL, 'v', array())), "
            "array(array(1), array(), NULL), "
            "map('k', named_struct('a', DATE '2026-01-01', 'b', map(1, 'x', 2, NULL)))), "
            "(2, named_struct('x', NULL, 't', NULL), array(), array(), map()), "
            "(3, NULL, array(NULL), NULL, map('n', NULL)), (4, NULL, NULL, NULL, NULL)",
        ),
        questions=(Question(where="s.x = 1"), Question(where="s.t.y = 'deep'"), Question(where="s IS NULL")),
    ),
)

_JSON = """parse_json(CASE id % 4 WHEN 0 THEN '{{"a":1,"b":"x","c":[1,"y",null]}}'
    WHEN 1 THEN '{{"a":"other","d":{{"e":1.5}}}}' WHEN 2 THEN '{{"a":7}}' END)"""
VARIANTS = tuple(
    JavaTable(
        name=name,
        exercises=("v3", "variant"),
        about=about,
        columns="id bigint, v variant",
        version=3,
        properties=properties,
        then=(f"INSERT INTO {{t}} SELECT id, {_JSON} FROM range(0, 8, 1, 1)",),
        questions=(Question(where="v IS NULL"),),
    )
    for name, about, properties in (
        ("java_variants", "variants, not shredded", {}),
        ("java_variants_shredded", "variants shredded into columns", {"write.parquet.shred-variants": "true"}),
    )
)

JAVA_TABLES = VERSION_1 + PARTITIONS + CHANGES + FORMATS + EVOLUTION + TYPES + VARIANTS
