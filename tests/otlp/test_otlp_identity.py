"""Records are the same exactly where all that was sent of them is, however their columns are cut or stored."""

from __future__ import annotations

import io
import random
from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_decoding import decoded, plain_rows, request
from otlp_messages import random_request

from esker.ingest.otlp.resent_records import common, hints_of, key_columns, keys_of
from esker.otlp.decoding.decode import Options
from esker.otlp.protocol.messages import Signal
from esker.otlp.schemas import TEXTS, Profile

SIGNALS = {"logs": Signal.LOGS, "spans": Signal.TRACES}


def rows_of(name: str, seed: int, profile: Profile) -> pa.Table | None:
    """Few values in many requests, so that some records are alike."""
    made = [random_request(SIGNALS[name], random.Random(seed % 50 + at)).SerializeToString() for at in (0, 0, 1, 2)]
    batch = decoded([request(one, signal=SIGNALS[name]) for one in made], Options(profile=profile))
    return batch.tables.get(name)


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", SIGNALS)
@given(seed=st.integers(0, 1 << 32))
def test_keys_are_equal_exactly_where_what_was_sent_is(name: str, profile: Profile, seed: int) -> None:
    rows = rows_of(name, seed, profile)
    if rows is None:
        return
    columns = key_columns(name, profile)
    keys = keys_of(rows, columns).to_pylist()
    sent = [str(row) for row in plain_rows(rows.select(columns))]
    by_key, by_sent = defaultdict(set), defaultdict(set)
    for key, row in zip(keys, sent, strict=True):
        if key is not None:
            by_key[key].add(row)
            by_sent[row].add(key)
    assert all(len(alike) == 1 for alike in by_key.values())
    assert all(len(alike) == 1 for alike in by_sent.values())


@pytest.mark.parametrize("name", SIGNALS)
@given(seed=st.integers(0, 1 << 32), cut=st.integers(0, 20))
def test_keys_outlast_slices_and_files(name: str, seed: int, cut: int) -> None:
    rows = rows_of(name, seed, Profile.MAP)
    if rows is None:
        return
    columns = key_columns(name, Profile.MAP)
    keys = keys_of(rows, columns)
    assert keys_of(rows.slice(cut), columns).to_pylist() == keys.slice(cut).to_pylist()
    file = io.BytesIO()
    pq.write_table(rows, file)
    stored = pq.read_table(pa.BufferReader(file.getvalue()))
    assert keys_of(stored, columns).to_pylist() == keys.to_pylist()
    assert hints_of(stored, name).to_pylist() == hints_of(rows, name).to_pylist()


def log(**values: object) -> pa.Table:
    """A row with two columns of text and a map, and times."""
    held = {
        "TimeUnixNano": 1,
        "ObservedTimeUnixNano": 0,
        "Body": None,
        "BodyType": None,
        "LogAttributes": None,
    } | values
    types = {"Body": pa.string(), "BodyType": pa.string(), "LogAttributes": TEXTS}
    return pa.table({name: pa.array([value], types.get(name, pa.int64())) for name, value in held.items()})


def test_values_beside_each_other_are_not_taken_for_one() -> None:
    made = [
        log(Body="ab", BodyType="c"),
        log(Body="a", BodyType="bc"),
        log(Body="ab"),
        log(BodyType="ab"),
        log(Body=""),
        log(),
        log(LogAttributes=[]),
        log(LogAttributes=[("a", "b")]),
        log(LogAttributes=[("a", None)]),
        log(LogAttributes=[("a", "~")]),
        log(LogAttributes=[("a", "b"), ("c", "d")]),
        log(LogAttributes=[("a", "b1:c1:d")]),
    ]
    keys = [keys_of(one, one.column_names)[0].as_py() for one in made]
    assert len(set(keys)) == len(made)


def test_common_keys_are_those_of_both_and_nothing_is_nobodys() -> None:
    keys = pa.array([b"a", None, b"b", b"a"])
    others = [pa.array([b"b", None]), pa.array([], pa.binary()), pa.array([b"c", b"b"])]
    assert common(keys, others).to_pylist() == [b"b"]
    assert common(keys, []).to_pylist() == []
