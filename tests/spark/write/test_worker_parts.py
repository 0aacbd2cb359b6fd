"""The parts of writing from Spark that need no Spark: batch sizes, settings, keys, and what a task does."""

from __future__ import annotations

import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_writes import lake_at

from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.file_layout import file_layout
from esker.arrow.write.file_locations import data_locations
from esker.errors import InvalidInput
from esker.model.transform import BucketTransform, TruncateTransform, apply_transform
from esker.model.types import STRING, DecimalType
from esker.spark.session.jobs import settings
from esker.spark.workers.arrow_write_worker import Order, carry_out
from esker.spark.workers.transform_worker import KeyOrder, values
from esker.spark.write.distribution import batch_settings
from esker.spark.write.frame_schema import is_spark_frame
from esker.spark.write.written_files import DDL, SCHEMA, files_of, partition_types
from esker.storage.local import LocalStorage

ROWS, BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


class FakeConf(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


class FakeSession:
    def __init__(self, **conf: str) -> None:
        self.conf = FakeConf(conf)


class FakeStruct:
    def __init__(self, *types: Any) -> None:
        self._types = types

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {"type": "struct", "fields": [{"name": "x", "type": type_} for type_ in self._types]}


@pytest.mark.parametrize(
    ("types", "rows"),
    [
        (("long", "timestamp", "decimal(38,2)"), "16384"),
        (("long", "string"), "4096"),
        (("string collate UNICODE",), "4096"),
        (("string", "binary"), "1024"),
        (({"type": "array", "elementType": "int", "containsNull": True},), "1024"),
        (({"type": "struct", "fields": [{"name": "a", "type": "string"}]},), "4096"),
    ],
)
def test_a_batch_has_fewer_rows_where_values_may_be_long(types: tuple[Any, ...], rows: str) -> None:
    session: Any = FakeSession()
    assert batch_settings(session, FakeStruct(*types)) == {ROWS: rows, BYTES: "2147483647"}


def test_a_bound_in_bytes_that_somebody_set_is_kept() -> None:
    session: Any = FakeSession(**{BYTES: "1000000"})
    assert batch_settings(session, FakeStruct("string")) == {ROWS: "16384"}


def test_settings_come_back_whatever_happens_in_between() -> None:
    session: Any = FakeSession(a="1")

    def fail() -> None:
        with settings(session, {"a": "2", "b": "3"}):
            assert session.conf == {"a": "2", "b": "3"}
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert session.conf == {"a": "1"}


@given(st.lists(st.none() | st.text(max_size=8), max_size=20), st.integers(1, 50))
def test_a_bucket_in_a_worker_is_the_specs(texts: list[str | None], buckets: int) -> None:
    transform = BucketTransform(buckets)
    order = KeyOrder(transform=transform, source=STRING, column="x")
    expected = [None if text is None else apply_transform(transform, STRING, text) for text in texts]
    assert values(order, pa.array(texts, pa.string())).to_pylist() == expected
    assert order.spark_type == "int"


def test_a_decimal_is_cut_in_a_worker_as_the_spec_cuts_it() -> None:
    order = KeyOrder(transform=TruncateTransform(50), source=DecimalType(9, 2), column="x")
    found = values(order, pa.array([Decimal("10.65"), None, Decimal("-0.01")], pa.decimal128(9, 2)))
    assert found.to_pylist() == [Decimal("10.50"), None, Decimal("-0.50")]
    assert order.spark_type == "decimal(9,2)"


def test_a_key_that_cannot_be_is_null_since_the_writer_will_say_so_by_name() -> None:
    order = KeyOrder(transform=TruncateTransform(50), source=DecimalType(3, 2), column="x")
    assert values(order, pa.array([Decimal("1000.65")], pa.decimal128(9, 2))).to_pylist() == [None]


def order_at(folder: Path) -> Order:
    table = lake_at(folder).create_table("a.t", "id bigint not null, name string", partition_by=["name"])
    return Order(
        names=("ID", "name"),
        storage=LocalStorage(),
        layout=file_layout(table.metadata, table.schema),
        spec=table.spec,
        partition_types=partition_types(table.metadata),
        locations=data_locations(table.metadata),
        operation_id="op",
        limits=Limits(),
    )


def test_an_order_survives_the_way_and_its_files_come_back_described(tmp_path: Path) -> None:
    order = pickle.loads(pickle.dumps(order_at(tmp_path)))
    batch = pa.record_batch({"c0": pa.array([1, 2, 3]), "c1": pa.array(["a", None, "a"])})
    report = carry_out(order, [batch], task=3, attempt=17)
    assert report.schema == SCHEMA
    files, refusal = files_of(pa.Table.from_batches([report]), order.partition_types)
    assert refusal is None
    assert {(file.partition, file.record_count) for file in files} == {(("a",), 2), ((None,), 1)}
    assert all(Path(file.path).stat().st_size == file.file_size for file in files)
    assert sorted(Path(file.path).name for file in files) == [f"00003-17-op-0000{n}.parquet" for n in (1, 2)]
    assert {file.metrics.null_counts[2] for file in files if file.metrics} == {0, 1}


def test_a_task_does_not_import_pandas(tmp_path: Path) -> None:
    """Its import takes longer than the rest of a small task."""
    code = (
        "import pickle, sys; import pyarrow as pa; from esker.spark.workers.arrow_write_worker import carry_out;"
        "order = pickle.load(sys.stdin.buffer);"
        "rows = pa.ipc.open_stream(sys.stdin.buffer).read_all().to_batches();"
        "carry_out(order, rows, task=0, attempt=0); assert 'pandas' not in sys.modules"
    )
    sink = pa.BufferOutputStream()
    rows = pa.record_batch({"c0": pa.array([1, 2, 3]), "c1": pa.array(["a", None, "b"])})
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    given = pickle.dumps(order_at(tmp_path)) + sink.getvalue().to_pybytes()
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert len(list(tmp_path.rglob("*.parquet"))) == 3


def test_a_task_refuses_by_an_answer_and_leaves_nothing(tmp_path: Path) -> None:
    order = order_at(tmp_path)
    good = pa.record_batch({"c0": pa.array([1]), "c1": pa.array(["a"])})
    bad = pa.record_batch({"c0": pa.array([None], pa.int64()), "c1": pa.array(["a"])})
    report = carry_out(order, [good, bad], task=0, attempt=0)
    files, refusal = files_of(pa.Table.from_batches([report]), order.partition_types)
    assert files == []
    assert isinstance(refusal, InvalidInput)
    assert str(refusal) == "cannot write the rows: column 'id' does not fit: it is required and cannot be null"
    assert refusal.column == "id"
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_the_disk_refuses_is_no_refusal_of_rows(tmp_path: Path) -> None:
    order = order_at(tmp_path)
    Path(order.locations.base).parent.mkdir(parents=True, exist_ok=True)
    Path(order.locations.base).write_text("a file where the folder should be")
    batch = pa.record_batch({"c0": pa.array([1]), "c1": pa.array(["a"])})
    with pytest.raises(Exception, match="cannot create"):
        carry_out(order, [batch], task=0, attempt=0)


def test_both_spellings_of_the_answers_schema_name_the_same_columns() -> None:
    assert [term.split()[0] for term in DDL.replace("<int, ", "<int,").split(", ")] == SCHEMA.names


def test_nothing_but_a_frame_of_sparks_is_one() -> None:
    assert not is_spark_frame(pa.table({"x": [1]}))
    assert not is_spark_frame([{"x": 1}])
