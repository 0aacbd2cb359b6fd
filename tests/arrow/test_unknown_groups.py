"""Groups that Hive annotates as unknown: the annotation says nothing of a group, and the rows are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unknown_groups import ROWS, SCHEMA, annotated

import esker
from esker.arrow.read.open_parquet import open_parquet
from esker.errors import Corrupt


@pytest.mark.parametrize("names", [("place",), ("place", "key_value"), ("schema",)])
def test_a_group_annotated_as_unknown_is_read(names: tuple[str, ...]) -> None:
    source = pa.BufferReader(annotated(*names))
    mended, file = open_parquet(source)
    assert file.read().to_pylist() == pa.Table.from_pylist(ROWS, schema=SCHEMA).to_pylist()
    assert file.num_row_groups == 4
    mended.seek(0)
    assert mended.read(4) == b"PAR1"
    assert mended.read_at(4, mended.size() - 4) == b"PAR1"


def test_pyarrow_itself_refuses_such_a_file() -> None:
    """Else the mending could go."""
    with pytest.raises((pa.ArrowException, OSError)):
        pq.ParquetFile(pa.BufferReader(annotated("place")))


def test_a_sound_file_is_left_as_it_is() -> None:
    source = pa.BufferReader(annotated())
    assert open_parquet(source)[0] is source


@pytest.mark.parametrize("cut", [0, 4, 11, 40, 400])
def test_a_file_that_makes_no_sense_stays_refused(cut: int) -> None:
    whole = annotated("place")
    with pytest.raises((pa.ArrowException, OSError)):
        open_parquet(pa.BufferReader(whole[:cut] + whole[-8:] if cut else b""))


def test_a_table_with_such_a_file_is_scanned_and_pruned(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.t", SCHEMA)
    given = Path(table.location) / "hive.parquet"
    given.write_bytes(annotated("place"))
    table.add_files([str(given)])
    assert table.scan().to_arrow().num_rows == 39
    found = table.scan("id > 35 and place.zip < 38", columns=["id", "place"]).to_arrow()
    assert found.column("id").to_pylist() == [36, 37]
    assert found.column("place").to_pylist()[0] == {"city": "c36", "zip": 36}
    given.write_bytes(annotated("place")[:-20] + b"x" * 12 + b"PAR1")
    with pytest.raises(Corrupt, match=r"hive\.parquet is corrupt"):
        table.scan().to_arrow()
