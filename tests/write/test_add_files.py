"""Taking in files where they lie: described from their footers, listed once, never copied."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, rows_of

import esker
from esker.errors import EskerError, InvalidInput
from esker.lake import Lake
from esker.table import Table

MAPPING = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["region"]},{"field-id":3,"names":["n"]}]'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", allowed_roots=[tmp_path / "given"])


def stored(folder: Path, name: str, data: pa.Table) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, folder / name)
    return str(folder / name)


def mapped(lake: Lake, **how: object) -> Table:
    return orders(lake, properties={"schema.name-mapping.default": MAPPING}, **how)


def test_files_become_part_of_the_table_where_they_lie(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    table.append(rows([1]))
    given = [stored(tmp_path / "given", f"{at}.parquet", rows([10 + at])) for at in range(3)]
    snapshot = table.add_files(given)
    assert snapshot.operation == "append"
    assert snapshot.summary["added-data-files"] == "3"
    assert rows_of(table) == [1, 10, 11, 12]
    assert set(given) < {file.path for file in live_files(table)}
    check_sound(lake, NAME)


def test_files_outside_what_the_lake_may_use_are_refused_and_said_to_be(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    strange = stored(tmp_path / "strange", "a.parquet", rows([1]))
    with pytest.raises(InvalidInput, match=rf"cannot use {strange}: .* name {tmp_path}/strange .* allowed_roots="):
        table.add_files([strange])
    assert table.current_snapshot is None


def test_added_files_are_read_by_those_who_allow_their_place(lake: Lake, tmp_path: Path) -> None:
    mapped(lake).add_files([stored(tmp_path / "given", "a.parquet", rows([1]))])
    uri = f"sqlite:///{tmp_path}/catalog.db"
    assert rows_of(esker.connect(uri, allowed_roots=[tmp_path / "given"]).table(NAME)) == [1]
    with pytest.raises(InvalidInput, match="allowed_roots="):
        rows_of(esker.connect(uri).table(NAME))


def test_statistics_come_from_the_footer(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    table.add_files([stored(tmp_path / "given", "a.parquet", rows([5, 6, 7], "eu"))])
    [file] = live_files(table)
    assert file.metrics is not None
    assert file.record_count == 3
    assert file.metrics.value_counts[1] == 3
    assert int.from_bytes(file.metrics.lower_bounds[1], "little") == 5
    assert int.from_bytes(file.metrics.upper_bounds[1], "little") == 7
    assert table.scan("id > 7").plan().funnel.files_kept == 0


@pytest.mark.parametrize(
    ("term", "partition"), [("region", ("eu",)), ("truncate(10, id)", (20,)), ("bucket(4, region)", None)]
)
def test_a_partition_follows_from_statistics_where_they_decide_it(
    lake: Lake, tmp_path: Path, term: str, partition: tuple[object, ...] | None
) -> None:
    table = mapped(lake, partition_by=[term])
    table.add_files([stored(tmp_path / "given", "a.parquet", rows([21, 25], "eu"))])
    [file] = live_files(table)
    assert partition is None or file.partition == partition
    table.append(rows([22], "eu"))
    assert len({f.partition for f in live_files(table)}) == 1  # as our own writer computes it


def test_a_file_of_two_partitions_is_refused(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake, partition_by=["region"])
    both = stored(tmp_path / "given", "a.parquet", pa.concat_tables([rows([1], "eu"), rows([2], "us")]))
    with pytest.raises(InvalidInput, match="region"):
        table.add_files([both])
    assert table.refresh().current_snapshot is None


def test_b6_a_file_is_listed_once(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    given = stored(tmp_path / "given", "a.parquet", rows([1]))
    with pytest.raises(InvalidInput, match=f"cannot add {given} twice"):
        table.add_files([given, given])
    table.add_files([given])
    for again in (given, f"file://{given}", f"file:{given}"):
        with pytest.raises(InvalidInput, match="it is in the table already"):
            table.add_files([again])
    assert rows_of(table) == [1]
    assert len(table.refresh().snapshots) == 1


def test_b6_a_file_that_was_removed_does_not_come_back(lake: Lake, tmp_path: Path) -> None:
    """Expiring the snapshot that held it first would delete it under the one that holds it now."""
    table = mapped(lake)
    given = stored(tmp_path / "given", "a.parquet", rows([1]))
    table.add_files([given])
    table.delete("id = 1")
    with pytest.raises(InvalidInput, match="the table has removed it"):
        table.add_files([given])
    for at in range(3):  # the list of removed files is not carried on, the snapshot still tells
        table.append(rows([10 + at]))
    with pytest.raises(InvalidInput, match=r"the table has removed it in snapshot \d+; add a copy under another name"):
        table.add_files([given])
    table.add_files([stored(tmp_path / "given", "b.parquet", rows([1]))])
    assert rows_of(table) == [1, 10, 11, 12]


def test_b6_two_writers_that_add_one_file_add_it_once(lake: Lake, tmp_path: Path) -> None:
    mapped(lake)
    given = stored(tmp_path / "given", "a.parquet", rows([1]))
    first, second = lake.table(NAME).transaction(), lake.table(NAME).transaction()
    first.add_files([given])
    second.add_files([given])
    first.commit()
    with pytest.raises(InvalidInput, match="it is in the table already"):
        second.commit()
    assert Path(given).exists()
    assert rows_of(lake.table(NAME)) == [1]


def test_files_of_the_user_are_never_deleted(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    given = stored(tmp_path / "given", "a.parquet", rows([1]))
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:  # noqa: PT012
        tx.add_files([given])
        tx.append(rows([2]))
        raise ZeroDivisionError
    assert Path(given).exists()
    assert not list(Path(table.location).rglob("*.parquet"))


def test_a_file_that_is_missing_or_no_parquet_is_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    text = tmp_path / "given" / "a.parquet"
    text.parent.mkdir()
    text.write_text("no parquet")
    for path in (str(text), str(tmp_path / "given" / "missing.parquet")):
        with pytest.raises(EskerError, match=path):
            table.add_files([path])
    with pytest.raises(InvalidInput, match="cannot add files by a text: give a list of paths"):
        table.add_files(str(text))  # type: ignore[arg-type]
    assert table.refresh().current_snapshot is None


def test_a_file_without_ids_brings_a_name_mapping_with_it(lake: Lake, tmp_path: Path) -> None:
    table = orders(lake)
    shuffled = rows([1, 2]).select(["n", "region", "id"])
    snapshot = table.add_files([stored(tmp_path / "given", "a.parquet", shuffled)])
    assert snapshot.summary["added-data-files"] == "1"
    assert json.loads(table.properties["schema.name-mapping.default"]) == json.loads(MAPPING)
    assert rows_of(table) == [1, 2]
    with table.alter() as change:
        change.rename_column("id", "key")
    assert sorted(table.scan(columns=["key"]).to_arrow()["key"].to_pylist()) == [1, 2]
    check_sound(lake, NAME)


def test_a_column_renamed_meanwhile_is_still_found_under_its_old_name(lake: Lake, tmp_path: Path) -> None:
    table = orders(lake)
    with table.transaction() as tx:
        tx.add_files([stored(tmp_path / "given", "a.parquet", rows([1, 2]))])
        with lake.table(NAME).alter() as change:
            change.rename_column("id", "key")
    assert sorted(table.refresh().scan(columns=["key"]).to_arrow()["key"].to_pylist()) == [1, 2]
    mapped = json.loads(table.properties["schema.name-mapping.default"])
    assert mapped[0] == {"field-id": 1, "names": ["id", "key"]}


def test_files_that_carry_ids_bring_no_name_mapping(lake: Lake, tmp_path: Path) -> None:
    table = orders(lake)
    ids = [field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(rows([1]).schema, 1)]
    table.add_files([stored(tmp_path / "given", "a.parquet", rows([1]).cast(pa.schema(ids)))])
    assert rows_of(table) == [1]
    assert "schema.name-mapping.default" not in table.properties


def test_a_file_that_lacks_a_required_column_is_refused(lake: Lake, tmp_path: Path) -> None:
    table = mapped(lake)
    given = stored(tmp_path / "given", "a.parquet", rows([1]).drop_columns(["id"]))
    with pytest.raises(InvalidInput, match="'id'"):
        table.add_files([given])
