"""Tables whose appends were committed in groups, by several threads, read by PyIceberg 0.12 and DuckDB 1.5."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from orders import NAME, orders, rows
from sound_tables import check_sound, rows_of

import esker

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # the peers' own

THREADS, APPENDS = 8, 12


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection: Any = duckdb_with_iceberg()
    yield connection
    connection.close()


@pytest.mark.parametrize("version", [2, 3])
def test_every_acknowledged_append_is_read_once_and_each_snapshot_as_it_was(
    tmp_path: Path, duck: Any, version: int
) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    orders(lake, format_version=version)
    acknowledged: dict[int, int] = {}
    begun = threading.Barrier(THREADS)

    def work(who: int) -> None:
        table = lake.table(NAME)
        begun.wait()
        for at in range(APPENDS):
            acknowledged[who * 100 + at] = table.append(rows([who * 100 + at])).snapshot_id

    threads = [threading.Thread(target=work, args=(who,)) for who in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = check_sound(esker.connect(f"sqlite:///{tmp_path}/catalog.db"), NAME)
    every = sorted(who * 100 + at for who in range(THREADS) for at in range(APPENDS))
    assert sorted(acknowledged) == every
    assert rows_of(table) == every
    assert len(table.metadata.metadata_log) < len(table.snapshots) == len(every)
    in_order = [id_ for snapshot in table.snapshots for id_, own in acknowledged.items() if own == snapshot.snapshot_id]
    assert len(in_order) == len(every)

    catalog = sql.SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")
    theirs = catalog.load_table(NAME)
    for at in (0, len(every) // 2, len(every) - 1):
        id_ = table.snapshots[at].snapshot_id
        expected = sorted(in_order[: at + 1])
        assert sorted(theirs.scan(snapshot_id=id_).to_arrow().column("id").to_pylist()) == expected
        query = f"SELECT id FROM iceberg_scan('{table.metadata_location}', snapshot_from_id={id_}) ORDER BY id"
        assert [row[0] for row in duck.execute(query).fetchall()] == expected
        assert rows_of(table, snapshot_id=id_) == expected
    catalog.engine.dispose()
