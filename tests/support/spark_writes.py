"""One set of rows written twice, by Spark's workers and by Arrow, and what tells the two apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import esker
from esker.tree.data_file import DataFile

COLUMNS = """id bigint not null, name string, ts timestamp, wall timestamp_ntz, day date, price decimal(12,2),
    ratio double, tags map<string, array<int>>, inner struct<a: int, b: string>"""
ROWS = """
    id,
    if(id % 11 = 0, null, concat(repeat('x', cast(id % 20 as int)), id)) name,
    timestamp_micros(id * 7000000001 - 5) ts,
    timestamp_ntz'1969-12-30 23:00:00' + make_dt_interval(0, cast(id as int), 0, id / 7) wall,
    date_from_unix_date(cast(id as int) - 200) day,
    cast(id / 7 as decimal(12, 2)) price,
    case when id % 5 = 0 then double('NaN') when id % 5 = 1 then -0D when id % 5 = 2 then null else -id / 3D end ratio,
    if(id % 3 = 0, null, map('k', array(cast(id as int), null))) tags,
    if(id % 4 = 0, null, named_struct('b', string(id), 'a', cast(id as int))) inner
"""


def frame(spark: Any, rows: int = 400, parts: int = 3) -> Any:
    """Rows of all kinds, with nulls, NaN and both zeros."""
    return spark.range(0, rows, 1, parts).selectExpr(*[part.strip() for part in _terms(ROWS)])


def local_frame(spark: Any, rows: int) -> Any:
    """The same rows, made of ids that are in the driver."""
    ids = spark.createDataFrame(pa.table({"id": list(range(rows))}))
    return ids.selectExpr(*[part.strip() for part in _terms(ROWS)])


def _terms(text: str) -> list[str]:
    """Terms at the commas that no bracket holds."""
    terms, depth = [""], 0
    for sign in text:
        depth += (sign in "(<") - (sign in ")>")
        if sign == "," and not depth:
            terms.append("")
        else:
            terms[-1] += sign
    return terms


def lake_at(folder: Path, **how: Any) -> esker.Lake:
    """An empty lake with one namespace, ``a``."""
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **how)
    lake.create_namespace("a")
    return lake


def rows_of(table: esker.Table) -> list[dict[str, Any]]:
    """All rows in an order of their own."""
    return sorted(table.scan().to_arrow().to_pylist(), key=repr)


def files_of(table: esker.Table) -> list[DataFile]:
    """The table's data files, with all their metrics."""
    found: pa.Table = table.inspect.data_files()
    return found.to_pylist()


def described(table: esker.Table) -> dict[str, Any]:
    """Per partition, what the manifests say of its rows, over all its files."""
    found: dict[str, Any] = {}
    for file in files_of(table):
        facts = found.setdefault(repr(file.get("partition")), {"rows": 0, "counts": {}, "lower": {}, "upper": {}})
        facts["rows"] += file["record_count"]
        for name in ("value_counts", "null_value_counts", "nan_value_counts"):
            for id_, number in file[name] or ():
                facts["counts"][name, id_] = facts["counts"].get((name, id_), 0) + number
        _widen(facts, file["readable_metrics"])
    return found


def _widen(facts: dict[str, Any], metrics: dict[str, Any]) -> None:
    for column, told in metrics.items():
        low, high = told["lower_bound"], told["upper_bound"]
        if low is not None:
            facts["lower"][column] = min(low, facts["lower"].get(column, low))
        if high is not None:
            facts["upper"][column] = max(high, facts["upper"].get(column, high))


def on_disk(table: esker.Table) -> set[Path]:
    """Every data file below the table's folder, known to it or not."""
    return set(Path(table.location.removeprefix("file://"), "data").rglob("*.parquet"))
