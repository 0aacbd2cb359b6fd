"""pypaimon 2.1 and pypaimon-rust 0.4 read what Esker writes. Where one of them is wrong, the test says so."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import PEERS, as_peers, python_of, rows_by

import esker
from esker.lake import Lake

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not all(python_of(peer).exists() for peer in PEERS),
        reason="pypaimon and pypaimon-rust are not there: make interop-jvm prepares their environments",
    ),
]


def append_tables(lake: Lake) -> list[str]:
    types = lake.create_table(
        "db.types",
        "id bigint, b boolean, i int, f float, d double, s string, y binary, dt date, ts timestamp_ntz, tz timestamp, "
        "d9 decimal(9,2), d18 decimal(18,1), d38 decimal(38,3), l array<int>, r struct<a: int, b: string>",
    )
    moment = datetime(2026, 1, 2, 3, 4, 5, 123456)
    types.append(
        pa.table(
            {
                "id": [1, 2],
                "b": [True, None],
                "i": pa.array([-7, None], pa.int32()),
                "f": pa.array([1.5, None], pa.float32()),
                "d": [-0.25, None],
                "s": ["ä long text, more than sixteen", ""],
                "y": [b"ab", None],
                "dt": [date(1960, 1, 2), None],
                "ts": [moment, None],
                "tz": pa.array([moment, None], pa.timestamp("us", tz="UTC")),
                "d9": [Decimal("1.25"), None],
                "d18": [Decimal("-12345678901234567.5"), None],
                "d38": [Decimal("12345678901234567890123456789.125"), None],
                "l": pa.array([[1, None], None], pa.list_(pa.int32())),
                "r": [{"a": 1, "b": "q"}, None],
            }
        )
    )
    parts = lake.create_table("db.parts", "id bigint, p string, n int, day date", partition_by=["p", "n", "day"])
    values = {"p": ["x", "a/b=c", None, " "], "n": pa.array([1, 2, None, 3], pa.int32())}
    days = [date(2026, 1, 2), None, date(1960, 1, 1), date(2026, 1, 2)]
    parts.append(pa.table({"id": [1, 2, 3, 4], **values, "day": days}))
    parts.overwrite_partitions(pa.table({"id": [9], "p": ["x"], "n": pa.array([1], pa.int32()), "day": days[:1]}))
    small = lake.create_table("db.small", "id bigint, v string", properties={"bucket": "3", "bucket-key": "id"})
    for number in range(5):
        small.append({"id": [number, number + 100], "v": ["a", None]})
    lake.create_table("db.empty", "id bigint")
    compacted = lake.create_table("db.compacted", "id bigint, v string")
    for number in range(4):
        compacted.append({"id": [number], "v": [str(number)]})
    compacted.compact()
    compacted.append({"id": [50], "v": ["later"]})
    return ["db.types", "db.parts", "db.small", "db.empty", "db.compacted"]


def keyed_tables(lake: Lake) -> list[str]:
    key = {"identifier_fields": ["id", "k"], "properties": {"bucket": "2"}}
    turns: Any = lake.create_table("db.turns", "id bigint not null, k string not null, v double", **key)
    ids = list(range(30))
    turns.append({"id": ids, "k": [f"key number {n}" for n in ids], "v": [n / 2 for n in ids]})
    turns.upsert({"id": [3, 4, 99], "k": ["key number 3", "key number 4", "new"], "v": [0.5, None, 1.0]})
    turns.delete("id in (5, 6) or k = 'new'")
    full: Any = lake.create_table("db.full", "id bigint not null, k string not null, v double", **key)
    full.append({"id": ids, "k": [f"key number {n}" for n in ids], "v": [n / 2 for n in ids]})
    full.delete("id < 10")
    full.compact()
    again: Any = lake.create_table(
        "db.again",
        "p string not null, id bigint not null, v string",
        partition_by=["p"],
        identifier_fields=["p", "id"],
        properties={"bucket": "1"},
    )
    again.append({"p": ["a", "a", "b"], "id": [1, 2, 1], "v": ["x", "y", "z"]})
    again.compact()
    again.upsert({"p": ["a"], "id": [1], "v": ["newer"]})
    again.overwrite_partitions({"p": ["b"], "id": [7], "v": ["only"]})
    alone: Any = lake.create_table(
        "db.alone", "id bigint not null, v string", identifier_fields=["id"], properties={"bucket": "1"}
    )
    alone.append({"id": [1, 50], "v": ["a", "b"]})
    alone.compact()
    alone.delete("id = 50")  # a row that deletes, with no other key beside it in its file
    return ["db.turns", "db.full", "db.again", "db.alone"]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("make", [append_tables, keyed_tables], ids=["append", "keyed"])
def test_a_peer_reads_what_esker_wrote(peer: str, make: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"paimon://{tmp_path}/warehouse")
    names = make(lake)
    found = rows_by(peer, tmp_path / "warehouse", *names)
    assert len(found) == len(names)
    for name, rows in zip(names, found, strict=True):
        assert rows == as_peers(lake.table(name).to_arrow().to_pylist()), name
