"""A Parquet file whose schema is nested without end is refused; it does not end the process."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deep_parquet import deep_parquet

import esker
from esker.arrow.arrow_types import FIELD_ID
from esker.arrow.read import open_parquet as opening
from esker.arrow.read.file_columns import file_columns
from esker.arrow.read.format_reader import blaming
from esker.arrow.read.open_parquet import open_parquet, refuse_deep_schema
from esker.errors import Corrupt, EskerError, InvalidInput


@pytest.mark.parametrize("groups", [1_300, 5_000, 100_000, 400_000])
def test_a_deep_schema_is_refused_before_pyarrow_sees_it(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_HAS_BOUND", False)
    monkeypatch.setattr(pq, "ParquetFile", lambda *_, **__: pytest.fail("pyarrow has seen it"))
    with pytest.raises(pa.ArrowInvalid, match="its schema is nested deeper than 100 levels"):
        open_parquet(pa.BufferReader(deep_parquet(groups)))


def test_a_wide_schema_is_not_a_deep_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_HAS_BOUND", False)
    inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
    sink = io.BytesIO()
    pq.write_table(pa.table({f"c{at}": pa.array([None], inner) for at in range(300)}), sink)
    _, file = open_parquet(pa.BufferReader(sink.getvalue()))
    assert file.metadata.num_columns == 600


def test_a_schema_that_is_too_deep_for_python_is_a_fault_of_its_file() -> None:
    type_ = pa.int64()
    for _ in range(3_000):
        type_ = pa.struct([("a", type_)])
    with pytest.raises(Corrupt, match=r"x\.parquet is corrupt: its schema is nested too deeply"), blaming("x.parquet"):
        file_columns(pa.schema([("a", type_)]), FIELD_ID)


@pytest.mark.parametrize("end", [0, 1, 7, 500])
def test_other_faults_are_left_to_pyarrow(end: int) -> None:
    whole = deep_parquet(5_000)
    refuse_deep_schema(pa.BufferReader(whole[:end]))
    spoilt = whole[4:end].ljust(20_000, b"\xff") + (20_000).to_bytes(4, "little")
    refuse_deep_schema(pa.BufferReader(b"PAR1" + spoilt + b"PAR1"))


@pytest.mark.parametrize(
    ("groups", "error", "reason"),
    [(90, InvalidInput, "the table has no such column"), (101, Corrupt, "deep"), (100_000, Corrupt, "deep")],
)
def test_a_file_with_a_deep_schema_is_not_added(
    tmp_path: Path, groups: int, error: type[EskerError], reason: str
) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", allowed_roots=[str(tmp_path)])
    lake.create_namespace("shop")
    table = lake.create_table("shop.sales", "id bigint")
    path = tmp_path / "a.parquet"
    path.write_bytes(deep_parquet(groups))
    with pytest.raises(error, match=reason):
        table.add_files([str(path)])
    assert table.snapshots == ()
