"""A bad record is a dead letter and nothing else is: the batch goes on, and the letter can be sent again."""

from __future__ import annotations

import gc
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_decoding import WALKS, comparable, decoded, plain_rows, request, using
from otlp_messages import REQUESTS, random_request, to_json
from otlp_rows import INGESTED_AT_US, rows_of

from esker.otlp.decoding.decode import Limits, Options, decode
from esker.otlp.decoding.promote import promotions
from esker.otlp.protocol.messages import Signal
from esker.otlp.schemas import DEAD_LETTER, Profile
from esker.otlp.source.requests import Request, Trouble


def records(message: Any) -> list[tuple[Any, Any, Any]]:
    """Resource, scope and record, of logs or traces."""
    return [
        (resource, scope, record)
        for resource in getattr(message, message.DESCRIPTOR.fields[0].name)
        for scope in getattr(resource, resource.DESCRIPTOR.fields_by_number[2].name)
        for record in getattr(scope, scope.DESCRIPTOR.fields_by_number[2].name)
    ]


def letters(batch: Any) -> list[dict[str, Any]]:
    return batch.dead_letters.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
@given(seed=st.integers(0, 1 << 32))
def test_bad_records_are_letters_and_all_others_are_rows(walk: str, as_json: bool, signal: Signal, seed: int) -> None:
    chance = random.Random(seed)
    message = random_request(signal, chance, most=3)
    good = REQUESTS[signal].FromString(message.SerializeToString())
    bad = 0
    for (_, _, record), (_, scope, twin) in reversed(list(zip(records(message), records(good), strict=True))):
        if chance.random() < 0.3:
            record.trace_id, bad = b"12345", bad + 1
            getattr(scope, scope.DESCRIPTOR.fields_by_number[2].name).remove(twin)
    data = to_json(message) if as_json else message.SerializeToString()
    with using(walk):
        batch = decoded([request(data, json=as_json, signal=signal)])
        assert {name: plain_rows(table) for name, table in batch.tables.items()} == comparable(rows_of(signal, good))
        assert batch.counts.received == len(records(message))
        assert len(letters(batch)) == bad
        for letter in letters(batch):
            assert (letter["signal"], letter["error_class"]) == (signal.value, "bad_id")
            again = decoded([request(letter["raw"], json=as_json, signal=signal)])
            assert [one["raw"] for one in letters(again)] == [letter["raw"]]
            assert again.tables == {}


def test_a_letter_holds_its_record_with_resource_and_scope() -> None:
    message = REQUESTS[Signal.METRICS]()
    resource = message.resource_metrics.add(schema_url="r")
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_metrics.add(schema_url="s")
    scope.scope.name = "lib"
    metric = scope.metrics.add(name="m", unit="s")
    metric.sum.is_monotonic = True
    metric.sum.data_points.add(as_int=1, time_unix_nano=5)
    metric.sum.data_points.add(as_int=2, time_unix_nano=1 << 63)
    scope.metrics.add(name="n").gauge.data_points.add(as_int=3)
    for as_json in (False, True):
        data = to_json(message) if as_json else message.SerializeToString()
        batch = decoded([request(data, json=as_json)])
        assert {name: table.num_rows for name, table in batch.tables.items()} == {"metrics_sum": 1, "metrics_gauge": 1}
        [letter] = letters(batch)
        assert letter["error_class"] == "out_of_range"
        assert letter["error"] == (
            "metrics.sum.data_points: a number does not fit its column: times and counts go up to 2^63 - 1"
        )
        expected = type(message).FromString(message.SerializeToString())
        del expected.resource_metrics[0].scope_metrics[0].metrics[1]
        del expected.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0]
        if as_json:
            assert json.loads(letter["raw"]) == json.loads(to_json(expected))
        else:
            assert type(message).FromString(letter["raw"]) == expected


def test_what_is_wrong_with_a_resource_is_told_of_all_its_records_at_once() -> None:
    good, bad = REQUESTS[Signal.TRACES](), REQUESTS[Signal.TRACES]()
    good.resource_spans.add().scope_spans.add().spans.add(name="fine")
    resource = bad.resource_spans.add()
    resource.resource.attributes.add(key="k").value.string_value = "spoilt"
    resource.scope_spans.add().spans.add(name="one")
    resource.scope_spans.add().spans.add(name="other")
    broken = bad.SerializeToString().replace(b"spoilt", b"\xff" * 6)
    batch = decoded([request(good.SerializeToString() + broken, signal=Signal.TRACES)])
    assert plain_rows(batch.tables["spans"]) == comparable(rows_of(Signal.TRACES, good))["spans"]
    assert [(one["raw"], one["error"]) for one in letters(batch)] == [(broken, "resource_spans: a text is not UTF-8")]


def test_letters_say_where_they_come_from() -> None:
    bad = Request(source="f.jsonl", offset=17, line=3, data=b"{]", json=True)
    trouble = Request(source="g", offset=9, data=b"half", trouble=Trouble("truncated", "the file ends"))
    strange = Request(source="h", offset=0, data=b'{"x": 1}', json=True)
    wrong = Request(source="i", offset=0, data=b'{"resourceLogs": []}', json=True, signal=Signal.TRACES)
    both = Request(source="j", offset=0, data=b'{"resourceLogs": [], "resourceSpans": []}', json=True)
    batch = decoded([bad, trouble, strange, wrong, both])
    assert batch.dead_letters.schema == DEAD_LETTER.schema
    found = [(one["source"], one["offset"], one["raw"], one["error_class"], one["error"]) for one in letters(batch)]
    no_member = "it does not have exactly one signal: resourceSpans, resourceLogs or resourceMetrics"
    assert found == [
        ("f.jsonl", 17, b"{]", "not_json", "line 3: request: the text is not JSON"),
        ("g", 9, b"half", "truncated", "the file ends"),
        ("h", 0, b'{"x": 1}', "unknown_signal", no_member),
        ("i", 0, b'{"resourceLogs": []}', "unknown_signal", no_member),
        ("j", 0, both.data, "unknown_signal", no_member),
    ]
    assert {one["batch"] for one in letters(batch)} == {"q/1"}
    assert batch.counts.received == 5


STRING_INDEX = b"\x0a\x0b\x12\x09\x12\x07J\x05\x0a\x01k\x18\x05"


@pytest.mark.parametrize("walk", WALKS)
def test_texts_given_as_an_index_are_refused(walk: str) -> None:
    with using(walk):
        [letter] = letters(decoded([request(STRING_INDEX, signal=Signal.TRACES)]))
        text = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"keyStrindex":1}]}]}]}]}'
        [other] = letters(decoded([request(text, json=True)]))
    assert letter["error_class"] == other["error_class"] == "string_index"


@pytest.mark.parametrize("walk", WALKS)
def test_values_nested_too_deep_are_refused(walk: str) -> None:
    message = REQUESTS[Signal.LOGS]()
    value = message.resource_logs.add().scope_logs.add().log_records.add().body
    with using(walk):
        for depth in range(100):
            batch = decoded([request(message.SerializeToString(), signal=Signal.LOGS)])
            text = decoded([request(to_json(message), json=True)])
            assert batch.counts.records == text.counts.records == {"logs": int(depth <= 64)} or depth > 64
            assert len(letters(batch)) == len(letters(text)) == int(depth > 64)
            if depth > 66:
                break
            value = value.array_value.values.add()
    assert letters(batch)[0]["error"] == "log_records: a value is nested deeper than 64 times"


def test_many_bad_records_under_a_long_head_make_one_letter() -> None:
    message = REQUESTS[Signal.TRACES]()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="long").value.string_value = "x" * 100_000
    spans = resource.scope_spans.add().spans
    spans.add(name="good")
    for _ in range(500):
        spans.add(trace_id=b"bad")
    batch = decoded([request(message.SerializeToString(), signal=Signal.TRACES)])
    [letter] = letters(batch)
    assert batch.tables == {}
    assert letter["raw"] == message.SerializeToString()
    assert letter["error_class"] == "too_many"
    assert letter["error"].startswith("500 of its records cannot be kept; the first because spans: a trace id is not")


@pytest.mark.parametrize("walk", WALKS)
def test_batches_are_bounded_and_lose_nothing(walk: str) -> None:
    messages = [random_request(Signal.TRACES, random.Random(seed)) for seed in range(30)]
    requests = [request(message.SerializeToString(), signal=Signal.TRACES) for message in messages]
    options = Options(limits=Limits(batch=20_000, request=1 << 20))
    with using(walk):
        batches = list(decode(requests, batch_id="b", ingested_at_us=INGESTED_AT_US, options=options))
    assert len(batches) > 2
    rows = [row for batch in batches for row in plain_rows(batch.tables["spans"])]
    assert rows == [row for message in messages for row in comparable(rows_of(Signal.TRACES, message)).get("spans", [])]
    assert sum(batch.counts.requests for batch in batches) == 30


@pytest.mark.parametrize("walk", WALKS)
def test_a_request_that_needs_too_much_room_is_a_letter_and_the_next_is_not(walk: str) -> None:
    message = REQUESTS[Signal.TRACES]()
    message.resource_spans.add().scope_spans.add().spans.add().name = "fine"
    hostile = REQUESTS[Signal.TRACES]()
    spans = hostile.resource_spans.add().scope_spans.add().spans
    for _ in range(5000):
        spans.add()
    small, large = (request(one.SerializeToString(), signal=Signal.TRACES) for one in (message, hostile))
    options = Options(limits=Limits(batch=60_000, request=60_000))
    with using(walk):
        batches = list(decode([small, large, small], batch_id="b", ingested_at_us=0, options=options))
    assert sum(batch.counts.records["spans"] for batch in batches) == 2
    found = [letter for batch in batches for letter in letters(batch)]
    assert [(one["error_class"], one["error"]) for one in found] == [("too_large", "it decodes to too many bytes")]


def repeated(spans: int, *, size: int) -> Request:
    """A request of few bytes: a resource of that size stands beside each of its spans in the end."""
    message = REQUESTS[Signal.TRACES]()
    resource = message.resource_spans.add()  # type: ignore[attr-defined]
    resource.resource.attributes.add(key="k").value.string_value = "x" * size
    scope = resource.scope_spans.add()
    for _ in range(spans):
        scope.spans.add(name="a")
    return request(message.SerializeToString(), signal=Signal.TRACES)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("profile", Profile)
def test_few_bytes_that_would_become_many_are_a_letter(walk: str, profile: Profile) -> None:
    options = Options(limits=Limits(batch=1 << 20, request=4 << 20), profile=profile)
    sent = [repeated(20, size=50_000), repeated(200, size=50_000), *[repeated(10, size=50_000)] * 6]
    with using(walk):
        parts = list(decode(sent, batch_id="b", ingested_at_us=0, options=options))
    assert [one["error_class"] for part in parts for one in letters(part)] == ["too_large"]
    rows = [part.tables["spans"] for part in parts if part.tables]
    assert sum(table.num_rows for table in rows) == 20 + 6 * 10
    assert len(rows) >= 3
    assert max(table.nbytes for table in rows) < 3 << 20


def test_promoted_columns_are_typed_and_what_does_not_fit_is_counted() -> None:
    message = REQUESTS[Signal.TRACES]()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "h1"
    spans = resource.scope_spans.add().spans
    values = [{"int_value": 200}, {"string_value": "404"}, {"string_value": "odd"}, {"int_value": (1 << 63) - 1}, {}]
    values += [{"string_value": "9999999999999999999"}]
    for value in values:
        attribute = spans.add().attributes.add(key="status")
        attribute.value.SetInParent()
        for name, one in value.items():
            setattr(attribute.value, name, one)
    spans.add()
    asked = promotions({"status": "int", "resource:host.name": "string"})
    batch = decoded([request(message.SerializeToString(), signal=Signal.TRACES)], Options(promote={"spans": asked}))
    table = batch.tables["spans"]
    assert table.column("status").to_pylist() == [200, 404, None, (1 << 63) - 1, None, None, None]
    assert table.column("host.name").to_pylist() == ["h1"] * 7
    assert batch.counts.not_castable == {"status": 2}
    assert dict(table.column("SpanAttributes")[2].as_py()) == {"status": "odd"}


def test_promotions_to_other_types_are_refused() -> None:
    from esker.errors import InvalidInput, Unsupported
    from esker.otlp.schemas import SPANS

    with pytest.raises(Unsupported, match="Cannot promote a as map: use one of string, int"):
        promotions({"a": "map"})
    with pytest.raises(InvalidInput, match="Cannot promote 'SpanName': the table has a column of that name"):
        promotions({"SpanName": "string"}, schema=SPANS.schema)
    with pytest.raises(InvalidInput, match="under the same name"):
        promotions({"a": "string", "resource:a": "string"})


def test_oddities_are_kept_and_counted() -> None:
    message = REQUESTS[Signal.TRACES]()
    span = message.resource_spans.add().scope_spans.add().spans.add(trace_id=bytes(16), span_id=bytes(8))
    for value in ("first", "last"):
        span.attributes.add(key="k").value.string_value = value
    data = message.SerializeToString() + b"\xfa\x07\x01x"
    counts = decoded([request(data, signal=Signal.TRACES)]).counts
    assert (counts.zero_ids, counts.repeated_keys, counts.unknown_fields, counts.far_times) == (2, 1, 1, 1)


@pytest.mark.parametrize("walk", WALKS)
def test_containers_without_records_are_counted(walk: str) -> None:
    traces, metrics = REQUESTS[Signal.TRACES](), REQUESTS[Signal.METRICS]()
    traces.resource_spans.add()  # type: ignore[attr-defined]
    full = traces.resource_spans.add()  # type: ignore[attr-defined]
    full.scope_spans.add()
    full.scope_spans.add().spans.add(name="a")
    scope = metrics.resource_metrics.add().scope_metrics.add()  # type: ignore[attr-defined]
    scope.metrics.add(name="without a kind")
    scope.metrics.add(name="without points").gauge.SetInParent()
    scope.metrics.add(name="whole").sum.data_points.add(as_int=1)
    sent = [(traces, Signal.TRACES), (metrics, Signal.METRICS), (REQUESTS[Signal.LOGS](), Signal.LOGS)]
    with using(walk):
        batch = decoded([request(message.SerializeToString(), signal=signal) for message, signal in sent])
    assert (batch.counts.received, batch.counts.empty_containers) == (2, 4)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("as_json", [False, True])
def test_counts_of_2_to_the_63_and_more_are_letters_and_never_wrap(walk: str, as_json: bool) -> None:
    for largest in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        message = REQUESTS[Signal.METRICS]()
        metrics = message.resource_metrics.add().scope_metrics.add().metrics  # type: ignore[attr-defined]
        metrics.add().histogram.data_points.add(count=largest)
        metrics.add().histogram.data_points.add(bucket_counts=[1, largest])
        metrics.add().exponential_histogram.data_points.add(zero_count=largest)
        metrics.add().exponential_histogram.data_points.add().positive.bucket_counts.extend([largest])
        metrics.add().summary.data_points.add(count=largest)
        data = to_json(message) if as_json else message.SerializeToString()
        with using(walk):
            batch = decoded([request(data, json=as_json, signal=Signal.METRICS)])
        if largest < 1 << 63:
            assert (batch.counts.received, batch.counts.dead_letters) == (5, 0)
            assert batch.tables["metrics_summary"].column("Count").to_pylist() == [largest]
        else:
            assert [one["error_class"] for one in letters(batch)] == ["out_of_range"] * 5


def test_a_batch_is_gone_when_nobody_holds_it() -> None:
    """Not only when Python looks for cycles, which it does rarely: batches are large, and objects few."""
    message = random_request(Signal.METRICS, random.Random(3)).SerializeToString()

    def decode_once() -> int:
        return sum(
            batch.counts.requests
            for batch in decode([request(message, signal=Signal.METRICS)], batch_id="b", ingested_at_us=0)
        )

    decode_once()
    gc.collect()
    gc.disable()
    try:
        assert decode_once() == 1
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("walk", WALKS)
def test_a_bad_record_is_taken_out_of_json_that_is_as_deep_as_can_be(walk: str) -> None:
    deep = b'{"a":' * 250 + b"[" * 250 + b"0" + b"]" * 250 + b"}" * 250
    text = b'{"resourceLogs":[{"unknown":' + deep + b',"scopeLogs":[{"logRecords":[{"traceId":"abcd"},{}]}]}]}'
    with using(walk):
        kept = decoded([request(text, json=True)])
        refused = decoded([request(text.replace(b"[0]", b"[" * 20 + b"0" + b"]" * 20 + b""), json=True)])
    assert (kept.counts.records, [one["error_class"] for one in letters(kept)]) == ({"logs": 1}, ["bad_id"])
    assert deep in letters(kept)[0]["raw"]
    assert [(one["error_class"], one["error"]) for one in letters(refused)] == [
        ("too_deep", "request: its JSON is nested deeper than 512 levels")
    ]
