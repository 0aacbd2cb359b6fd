"""The rows of the comparison: what both sides do, in SQL that both understand. ``{c}`` is the catalog and namespace,
``{system}`` where the procedures are, ``{planned}`` the metadata of a large table without data files, ``{run}`` the
number of the run."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = "id bigint, day date, kind int, amount decimal(12,2), weight double, name string, at timestamp"
DAYS, GROUPS = 30, 97
SOURCE = f"""
SELECT id, date_add(DATE '2026-01-01', CAST(id % {DAYS} AS INT)) AS day, CAST(id % {GROUPS} AS INT) AS kind,
  CAST(id % 100000 AS decimal(12,2)) / 100 AS amount, CAST(id * 7919 % 1000003 AS double) / 8 AS weight,
  concat('name-', id * 31 % 100003) AS name, timestamp_seconds(1767225600 + id) AS at
FROM range({{rows}})
"""
CHANGES = "SELECT id * 20 AS id, CAST(id % 50 AS double) AS weight FROM range({changed})"
_SUMS = "count(*), sum(id), sum(weight), sum(amount), max(name), min(at), count(DISTINCT day)"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report. The times of ``work`` are measured; ``again`` runs before each time, unmeasured."""

    what: str
    work: tuple[str, ...]
    table: str  # the table that it needs, of TABLES
    again: tuple[str, ...] = ()
    check: str = ""  # a query whose answer must be the same; by default, that of the work
    most: float = 1.0  # Esker's time as a part of the peer's, as the project requires
    rolls_back: bool = False  # whether the table returns to its first snapshot before each time
    after: tuple[str, ...] = ()  # statements that run once before the row
    on_spark: bool = False  # whether Esker compacts on Spark, which it does by itself above 1 GiB
    forgets: bool = False  # whether each side forgets before each time what it knows of tables


_MOR = "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'"
_COW = "'write.delete.mode'='copy-on-write','write.update.mode'='copy-on-write','write.merge.mode'='copy-on-write'"


def _create(name: str, version: int, more: str = "", properties: str = "") -> str:
    given = ", ".join(part for part in (f"'format-version'='{version}'", properties) if part)
    return f"CREATE TABLE {{c}}.{name} ({COLUMNS}) USING iceberg {more} TBLPROPERTIES ({given})"


_FILL = "INSERT INTO {{c}}.{0} SELECT * FROM source"
TABLES: dict[str, tuple[str, ...]] = {
    "none": (),
    "plain": (_create("plain", 2), _FILL.format("plain")),
    "days": (_create("days", 2, "PARTITIONED BY (day)"), _FILL.format("days")),
    "v2": (_create("v2", 2, properties=_MOR), _FILL.format("v2")),
    "v3": (_create("v3", 3, properties=_MOR), _FILL.format("v3")),
    "cow": (_create("cow", 3, properties=_COW), _FILL.format("cow")),
    "small": (_create("small", 2),),
    "planned": ("CALL {system}.register_table(table => 'bench.planned', metadata_file => '{planned}')",),
    "tens": (  # 100,000 rows in 10 files
        _create("tens", 2, "PARTITIONED BY (day)"),
        "INSERT INTO {c}.tens SELECT id, date_add(DATE '2026-01-01', CAST(id DIV 10000 AS INT)), kind, amount, weight, "
        "name, at FROM source WHERE id < 100000",
        "CREATE TABLE {c}.kinds (kind int, label string) USING iceberg TBLPROPERTIES ('format-version'='2')",
        "INSERT INTO {c}.kinds SELECT DISTINCT kind, concat('kind ', kind) FROM source WHERE id < 1000",
    ),
    "files": (_create("files", 2), "INSERT INTO {c}.files SELECT /*+ REPARTITION(60) */ * FROM source"),
}
_DELETE = "DELETE FROM {{c}}.{0} WHERE id % 100 = 7"
_AGGREGATE = "SELECT kind, count(*), sum(weight), max(amount), min(name) FROM {{c}}.{0} GROUP BY kind ORDER BY kind"
_MERGE = (
    "MERGE INTO {{c}}.{0} t USING changes s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET weight = s.weight WHEN NOT MATCHED THEN INSERT (id, weight) VALUES (s.id, s.weight)"
)
_MADE = "DROP TABLE IF EXISTS {c}.made"


_PLAN = "SELECT count(*), max(c1) FROM {c}.planned WHERE c0 = -1"  # reads all manifests, and no data file


def _rows_of(name: str) -> str:
    return f"SELECT {_SUMS} FROM {{c}}.{name}"


def _values(at: int) -> str:
    row = f"{at}, DATE '2026-01-01', 1, 1.50, 2.5, 'n{at}', TIMESTAMP '2026-01-01 00:00:00'"
    return f"INSERT INTO {{c}}.small VALUES ({row})"


def _queries() -> tuple[str, ...]:
    """100 small queries of five kinds in turn. Each has a number of its own, also in each run."""
    found = []
    for at in range(20):
        number = f"{{run}}{1009 + 431 * at:04}"
        found += [
            f"SELECT * FROM {{c}}.tens WHERE id = {number}",
            "SELECT day, count(*), sum(amount), max(weight) FROM {c}.tens "
            f"WHERE day >= DATE '2026-01-{at % 9 + 1:02}' AND kind * 1000 < {number} GROUP BY day ORDER BY day",
            f"SELECT count(*) FROM {{c}}.tens WHERE amount < {{run}}{10 + 4 * at}.25 AND kind <> {at}",
            f"SELECT id, name, weight FROM {{c}}.tens WHERE weight > {number} ORDER BY weight DESC, id LIMIT 10",
            "SELECT label, count(*), min(name) FROM {c}.tens JOIN {c}.kinds ON tens.kind = kinds.kind "
            f"WHERE tens.id < {number} AND kinds.kind < {at + 1} GROUP BY label ORDER BY label",
        ]
    return tuple(found)


def _compact(what: str, how: str = "", *, on_spark: bool = False) -> Row:
    options = "options => map('rewrite-all', 'true', 'target-file-size-bytes', '16777216')"
    call = f"CALL {{system}}.rewrite_data_files(table => 'bench.files', {how}{options})"
    where = "on Spark" if on_spark else "in this process"
    return Row(
        f"{what}, 60 files, {where}", (call,), "files", (), _rows_of("files"), rolls_back=True, on_spark=on_spark
    )


_SORT = "strategy => 'sort', sort_order => 'name ASC NULLS LAST, id ASC NULLS LAST', "
_Z_ORDER = "strategy => 'sort', sort_order => 'zorder(kind, weight)', "

ROWS: dict[str, Row] = {
    "insert": Row(
        "INSERT … SELECT, unpartitioned", (_FILL.format("made"),), "none", (_MADE, _create("made", 2)), _rows_of("made")
    ),
    "insert_days": Row(
        "INSERT … SELECT by day, 30 partitions",
        (_FILL.format("made"),),
        "none",
        (_MADE, _create("made", 2, "PARTITIONED BY (day)")),
        _rows_of("made"),
    ),
    "aggregate": Row("aggregate over the whole table", (_AGGREGATE.format("plain"),), "plain"),
    "filtered": Row(
        "filtered aggregate, 2 of 30 days",
        (
            "SELECT kind, count(*), sum(weight), max(amount) FROM {c}.days "
            "WHERE day IN (DATE '2026-01-05', DATE '2026-01-06') GROUP BY kind ORDER BY kind",
        ),
        "days",
    ),
    "star": Row(
        "aggregate over a join that leaves 2 of 30 days",
        (
            "SELECT d.name, count(*), sum(t.weight), max(t.amount) "
            "FROM {c}.days t JOIN {c}.weekdays d ON t.day = d.day "
            "WHERE d.name LIKE 'Monday 1%' GROUP BY d.name ORDER BY d.name",
        ),
        "days",
        after=(
            "CREATE TABLE {c}.weekdays (day date, name string) USING iceberg",
            "INSERT INTO {c}.weekdays SELECT DISTINCT day, date_format(day, 'EEEE d') FROM source",
        ),
    ),
    "count": Row("`SELECT count(*)`", ("SELECT count(*) FROM {c}.plain",), "plain", most=0.3),
    "scan_clean": Row("scan of the v3 table without deletes", (_rows_of("v3"),), "v3", rolls_back=True),
    "delete_mor": Row(
        "DELETE of 1 %, merge-on-read (v3)", (_DELETE.format("v3"),), "v3", (), _rows_of("v3"), rolls_back=True
    ),
    "scan_mor": Row("scan after that DELETE (v3)", (_rows_of("v3"),), "v3", after=(_DELETE.format("v3"),)),
    "delete_v2": Row(
        "DELETE of 1 %, merge-on-read (v2)", (_DELETE.format("v2"),), "v2", (), _rows_of("v2"), rolls_back=True
    ),
    "scan_v2": Row("scan after that DELETE (v2)", (_rows_of("v2"),), "v2", after=(_DELETE.format("v2"),)),
    "update_mor": Row(
        "UPDATE of 1 %, merge-on-read (v3)",
        ("UPDATE {c}.v3 SET weight = weight + 1 WHERE id % 100 = 8",),
        "v3",
        (),
        _rows_of("v3"),
        rolls_back=True,
    ),
    "merge_mor": Row(
        "MERGE of 5 %, merge-on-read (v3)", (_MERGE.format("v3"),), "v3", (), _rows_of("v3"), rolls_back=True
    ),
    "merge_cow": Row(
        "MERGE of 5 %, copy-on-write (v3)", (_MERGE.format("cow"),), "cow", (), _rows_of("cow"), rolls_back=True
    ),
    "inserts": Row(
        "20 one-row INSERT … VALUES", tuple(map(_values, range(20))), "small", (), _rows_of("small"), most=0.3
    ),
    "queries": Row("100 small queries over 100,000 rows in 10 files, all different", _queries(), "tens"),
    "plan_first": Row("plan of 100,000 files of PyIceberg's making, first", (_PLAN,), "planned", forgets=True),
    "plan_again": Row("the same again", (_PLAN,), "planned", most=0.3),
    "compact": _compact("rewrite_data_files, bin-pack"),
    "compact_spark": _compact("rewrite_data_files, bin-pack", on_spark=True),
    "compact_sort": _compact("rewrite_data_files, sort", _SORT),
    "compact_sort_spark": _compact("rewrite_data_files, sort", _SORT, on_spark=True),
    "compact_z": _compact("rewrite_data_files, z-order", _Z_ORDER),
    "compact_z_spark": _compact("rewrite_data_files, z-order", _Z_ORDER, on_spark=True),
}
