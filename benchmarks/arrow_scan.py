"""Scans to Arrow without a JVM, in turns with PyIceberg, DuckDB and Polars on the same tables.

The tables are laid out as PyIceberg writes them; the positions are deleted by Esker, since PyIceberg writes no position
deletes. Some tables are what users have after a while: with a newer schema than their files, with all columns of
TPC-H's lineitem, or with files of DuckDB's that were added as they are. Every run opens the table again from its
metadata file, so planning is part of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import esker
from benchmarks.measure import Comparison
from benchmarks.tpch_data import generate
from benchmarks.turns import say

RUNS = 7
ROWS, FILES, ROWS_PER_FILE = 6_000_000, 3000, 1000
Q6 = (
    "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount >= 0.05 AND l_discount <= 0.07 AND l_quantity < 24"
)
Q6_COLUMNS = ("l_extendedprice", "l_discount")
_DAY_0, _DAYS = 8036, 2526  # 1992-01-02, and how many days of shipping follow it

# ---------------------------------------------------------------- The tables


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """The scans, each against the fastest peer."""
    rows, files = max(6000, int(ROWS * scale)), max(30, int(FILES * scale))
    # All tables before the first scan: the disk is still at work after a table is written.
    large = _table(scratch, f"large-{rows}", rows, rows // 6)
    deleted = _table(scratch, f"deleted-{rows // 2}", rows // 2, rows // 6, change=_delete)
    small = _table(scratch, f"small-{files}", files * ROWS_PER_FILE, ROWS_PER_FILE)
    evolved = _table(scratch, f"evolved-{rows // 2}", rows // 2, rows // 6, change=_evolve)
    wide = _known(scratch / f"arrow-scan-wide-{scale:g}", lambda folder: _wide(folder, scale / 2))
    foreign = _known(scratch / f"arrow-scan-foreign-{rows // 2}", lambda folder: _foreign(folder, rows // 2))
    os.sync()
    yield _row(f"all of {rows:,} rows in 6 files", Question(large))
    yield _row(f"Q6's filter, two columns, of {rows:,} rows", Question(large, Q6, Q6_COLUMNS))
    yield _row(f"{rows // 2:,} rows, 2 % deleted by position", Question(deleted))
    yield _row(f"{files:,} files of {ROWS_PER_FILE:,} rows", Question(small))
    yield _row("the same, Q6's filter, two columns", Question(small, Q6, Q6_COLUMNS))
    yield _row(f"{rows // 2:,} rows, one column added since, and one widened", Question(evolved))
    yield _row("all 16 columns of TPC-H's lineitem", Question(wide))
    yield _row("the same, Q6's filter, two columns", Question(wide, Q6, Q6_COLUMNS))
    yield _row(f"{rows // 2:,} rows in a file of DuckDB's", Question(foreign))
    yield _row("the same, Q6's filter, two columns", Question(foreign, Q6, Q6_COLUMNS))


Change = Callable[[Any, str, str], str]  # of a table of PyIceberg, at an address and a warehouse


def _table(scratch: Path, name: str, rows: int, rows_per_file: int, *, change: Change | None = None) -> Path:
    """The metadata file of a table of lineitem's seven columns."""
    return _known(
        scratch / f"arrow-scan-{name}", lambda folder: _written(folder, lineitem(rows), rows_per_file, change)
    )


def _known(folder: Path, make: Callable[[Path], str]) -> Path:
    """The metadata file of a table that is made once."""
    known = folder / "metadata.txt"
    if not known.exists():
        folder.mkdir(parents=True, exist_ok=True)
        known.write_text(make(folder))
    return Path(known.read_text())


def _created(folder: Path, schema: pa.Schema, properties: Mapping[str, str]) -> tuple[Any, str, str]:
    """An empty table of PyIceberg's, the address of its catalog, and its warehouse."""
    from pyiceberg.catalog.sql import SqlCatalog

    (folder / "catalog.db").unlink(missing_ok=True)
    address, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    catalog = SqlCatalog("default", uri=address, warehouse=warehouse)
    catalog.create_namespace("scan")
    known = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    return catalog.create_table("scan.lineitem", schema, properties={**known, **properties}), address, warehouse


def _location(table: Any) -> str:
    return str(table.metadata_location).removeprefix("file://")


def _written(folder: Path, data: pa.Table, rows_per_file: int, change: Change | None = None) -> str:
    # PyIceberg cuts the rows by this many bytes in memory.
    size = {"write.target-file-size-bytes": str(int(data.nbytes / data.num_rows * rows_per_file))}
    table, address, warehouse = _created(folder, data.schema, size)
    table.append(data)
    return _location(table) if change is None else change(table, address, warehouse)


def _delete(table: Any, address: str, warehouse: str) -> str:
    ours = esker.connect(address, warehouse=warehouse).table("scan.lineitem")
    ours.delete("l_linenumber = 0")
    return _location(ours)


def _evolve(table: Any, address: str, warehouse: str) -> str:
    from pyiceberg.types import LongType, StringType

    with table.update_schema() as update:
        update.add_column("l_comment", StringType())
        update.update_column("l_linenumber", field_type=LongType())
    return _location(table)


def _wide(folder: Path, scale: float) -> str:
    files = generate(folder / "made", scale)["lineitem"]
    data = pq.read_table(files, schema=_without_views(pq.read_schema(files[0])))
    return _written(folder, data, data.num_rows)


def _without_views(schema: pa.Schema) -> pa.Schema:
    """PyIceberg knows no views of texts."""
    return pa.schema([field.with_type(pa.string()) if field.type == pa.string_view() else field for field in schema])


def _foreign(folder: Path, rows: int) -> str:
    import duckdb

    data = lineitem(rows)
    table, _, warehouse = _created(folder, data.schema, {})
    place = Path(warehouse.removeprefix("file://")) / "scan" / "lineitem" / "data"
    place.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute(f"COPY given TO '{place}/duckdb.parquet'")
    table.add_files([str(place / "duckdb.parquet")])
    return _location(table)


def lineitem(rows: int) -> pa.Table:
    """Seven columns of lineitem, with values as in TPC-H and one line number in fifty that is 0."""
    random = np.random.default_rng(7)
    quantity = random.integers(1, 51, rows).astype(np.float64)
    return pa.table(
        {
            "l_orderkey": np.sort(random.integers(1, 4 * rows, rows)),
            "l_linenumber": random.integers(0, 50, rows).astype(np.int32),
            "l_quantity": quantity,
            "l_extendedprice": quantity * random.integers(90_000, 200_000, rows) / 100,
            "l_discount": random.integers(0, 11, rows) / 100,
            "l_shipdate": pa.array(random.integers(_DAY_0, _DAY_0 + _DAYS, rows).astype(np.int32)).cast(pa.date32()),
            "l_shipmode": pa.array(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]).take(
                pa.array(random.integers(0, 7, rows))
            ),
        }
    )


# ---------------------------------------------------------------- The readers


@dataclass(frozen=True, slots=True)
class Question:
    """What is scanned. No filter and no columns: everything."""

    metadata: Path
    where: str | None = None
    columns: tuple[str, ...] | None = None


def _esker(asked: Question) -> pa.Table:
    return esker.open_table(str(asked.metadata)).scan(asked.where, columns=asked.columns).to_arrow()


def _pyiceberg(asked: Question) -> Any:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(f"file://{asked.metadata}")
    where = "true" if asked.where is None else asked.where.replace("DATE ", "")
    return table.scan(where, selected_fields=asked.columns or ("*",)).to_arrow()


def _duckdb(asked: Question) -> Any:
    chosen = ", ".join(asked.columns or ("*",))
    where = "" if asked.where is None else f" WHERE {asked.where}"
    return _connection().execute(f"SELECT {chosen} FROM iceberg_scan('{asked.metadata}'){where}").to_arrow_table()


@cache
def _connection() -> Any:
    import duckdb
    import duckdb_extensions

    for name in ("avro", "iceberg"):
        duckdb_extensions.import_extension(name)
    connection = duckdb.connect()
    connection.execute("SET autoinstall_known_extensions = false; LOAD avro; LOAD iceberg")
    return connection


def _polars(asked: Question) -> Any:
    import polars

    frame = polars.scan_iceberg(f"file://{asked.metadata}")
    if asked.where is not None:
        frame = frame.filter(polars.sql_expr(asked.where))
    return (frame if asked.columns is None else frame.select(asked.columns)).collect()


PEERS: Mapping[str, Callable[[Question], Any]] = {"PyIceberg": _pyiceberg, "DuckDB": _duckdb, "Polars": _polars}

# ---------------------------------------------------------------- The turns


def _row(what: str, asked: Question) -> Comparison:
    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # the one that it has without another package
    readers = {"Esker": _esker, **PEERS}
    sums = {name: _sums(read(asked)) for name, read in readers.items()}  # also the runs that warm up
    for name, found in sums.items():
        if found != sums["Esker"]:
            raise RuntimeError(f"{what}: {name} finds {found}, Esker {sums['Esker']}")
    wall: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(RUNS):
        for name, read in readers.items():
            began, used = time.perf_counter(), time.process_time()
            read(asked)
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - used)
    said = "; ".join(
        f"{name} {median(wall[name]):.3f} s ({min(wall[name]):.3f} to {max(wall[name]):.3f}, CPU {min(cpu[name]):.3f})"
        for name in readers
    )
    say(f"{what}: {said}")
    typical = {name: median(seconds) for name, seconds in wall.items()}
    fastest = min(PEERS, key=lambda name: typical[name])
    ratio = typical["Esker"] / typical[fastest]
    others = ", ".join(f"{name} {typical[name]:.2f} s" for name in PEERS)
    return Comparison(
        f"{what}; fastest peer: {fastest} ({others})",
        f"{typical['Esker']:.2f} s",
        f"{typical[fastest]:.2f} s",
        ratio,
        "at most 1.0 times as long",
        ratio <= 1.0,
    )


def _sums(found: Any) -> tuple[int, int, int]:
    """The number of rows, and sums of two columns that every answer has, in whole hundredths."""
    table = found.select(list(Q6_COLUMNS)) if isinstance(found, pa.Table) else found.select(Q6_COLUMNS).to_arrow()
    price, discount = (
        pc.sum(pc.cast(pc.round(pc.multiply(table[name], 100)), pa.int64())).as_py() for name in Q6_COLUMNS
    )
    return table.num_rows, price, discount
