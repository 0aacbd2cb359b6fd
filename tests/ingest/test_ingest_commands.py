"""The commands of feeding: their accounts, their statuses, and the SDK at the other end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from command_line import run, run_json, run_program
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from telemetry_samples import bad_span, logs, span_names, spans, write

import esker
from esker.cli.commands.ingest import close
from esker.cli.commands.ingest import ingest_command as feeding
from esker.errors import Conflict, OutcomeUnknown
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_account_closes_the_run(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(7)), logs(range(3)), b"{broken\n", bad_span(9))
    result = run("ingest", "otlp", "in")
    assert result.exit_code == 0, result.output
    assert "received 12 = tables 10 + dead letter 2 + pending 0      lost 0   duplicated 0" in result.stdout
    document = run_json("ingest", "otlp", "in")
    assert (document["received"], document["known_files"], document["holds"]) == (0, 1, True)


def test_what_is_left_out_is_a_term_of_the_sum(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(1, 8)), spans(range(1, 4)), logs(range(3)))
    result = run("ingest", "otlp", "in", "--dedup", "span_id", "--profile", "flat", "--partition-by", "hour")
    assert result.exit_code == 0, result.output
    assert "received 13 = tables 10 + dead letter 0 + pending 0 + deduplicated 3      lost 0" in result.stdout
    write(tmp_path / "in", "b.jsonl", logs(range(4)))
    document = run_json("ingest", "otlp", "in", "--dedup", "span_id", "--batch-rows", "100")
    assert (document["received"], document["deduplicated"], document["tables"]) == (4, 3, {"otel.logs": 1})
    refused = run("ingest", "otlp", "in", "--profile", "map")
    assert refused.exit_code == 2
    assert "cannot ingest attributes as map into otel.logs: it has them as flat" in refused.stderr
    assert run_json("replay", "--dead-letters", "--profile", "flat", "--dedup", "span_id")["holds"]


def test_rows_and_replays_have_accounts_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    (tmp_path / "b.csv").write_text("id\nx\n")
    document = run_json("ingest", "files", "a.csv", "b.csv", "--table", "shop.sales", "--create", status=1)
    assert (document["received"], document["tables"]) == (2, {"shop.sales": 2})
    assert [one["file"] for one in document["refused"]] == [str(tmp_path / "b.csv")]
    assert run_json("replay", "--checkpoint", "lake/ingest/files-shop.sales")["holds"]
    assert run_json("replay")["received"] == 0
    write(tmp_path / "in", "a.jsonl", b"{broken\n")
    run_json("ingest", "otlp", "in", "--strict")
    assert run_json("replay", "--dead-letters")["holds"]


def test_a_stream_without_a_path_follows_the_spool_beside_the_lake(tmp_path: Path) -> None:
    write(tmp_path / "lake/spool", "a.jsonl", spans([1]))
    document = run_json("ingest", "otlp", "--follow", "--settle", "0", "--idle", "0", "--every", "0.01")
    assert document["tables"] == {"otel.spans": 1}


def test_bad_usage_is_told(tmp_path: Path) -> None:
    for arguments, said in (
        (("ingest", "otlp"), "give files or directories of OTLP"),
        (("ingest", "otlp", "in", "--promote", "a"), "--promote takes KEY=TYPE"),
        (("ingest", "otlp", "in", "--batch-bytes", "many"), "--batch-bytes takes a size"),
        (("ingest", "otlp", "nothing"), "cannot ingest nothing: No such file"),
        (("--catalog", "memory:", "ingest", "otlp", "in"), "give a directory of a local disk with --checkpoint"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert said in result.stderr


def test_a_second_driver_stops_with_the_status_of_a_conflict(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    try:
        result = run_program("ingest", "otlp", "in", "--checkpoint", "checkpoint")
    finally:
        checkpoint.close()
    assert result.returncode == 3
    assert "cannot drive the checkpoint" in result.stderr


class Keeping(SpanExporter):
    """Keeps what the SDK would send, as it would send it."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.requests.append(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def test_what_the_sdk_sends_is_there_with_its_attributes(tmp_path: Path) -> None:
    exporter = Keeping()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    for number in range(20):
        with tracer.start_as_current_span(f"span {number}", attributes={"http.status_code": 200 + number}):
            pass
    provider.shutdown()
    framed = b"".join(len(request).to_bytes(4, "big") + request for request in exporter.requests)
    write(tmp_path / "in", "export.bin", framed)
    document = run_json("ingest", "otlp", "in", "--promote", "http.status_code=int")
    assert (document["received"], document["holds"]) == (20, True)
    lake = esker.connect()
    assert span_names(lake) == Counter(f"span {number}" for number in range(20))
    assert lake.table("otel.spans").scan("`http.status_code` >= 210 and ServiceName = 'shop'").count() == 10


@pytest.mark.slow
def test_memory_is_bounded_by_a_batch_and_not_by_the_input(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from esker.cli.main import cli; status = cli.main(sys.argv[1:], standalone_mode=False); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr); sys.exit(status)"
    )

    def peak(name: str, requests: int) -> int:
        one = spans(range(1000), note="x" * 400)
        write(tmp_path / name, "a.jsonl", *[one] * requests)
        result = run_program("ingest", "otlp", name, "--checkpoint", f"{name}-checkpoint", code=code)
        assert result.returncode == 0, result.stderr
        return int(result.stderr.split()[-1])

    small, large = peak("small", 130), peak("large", 390)  # 64 MiB of columns are about 110 requests
    assert large < 1.4 * small + 50


def test_every_option_of_feeding_is_told_of() -> None:
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    for command in feeding.commands.values():
        assert f"`esker ingest {command.name} " in page
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert any(option in page for option in parameter.opts), parameter.opts


def test_the_status_says_what_is_wrong() -> None:
    for account, status in (
        (Account(), 0),
        (Account(received=1), 1),
        (Account(stopped="so many dead letters"), 1),
        (Account(refused=[("a.csv", "bad")]), 1),
        (Account(received=1, pending=1, failures=[("t", Conflict("another won"))]), 3),
        (Account(received=1, pending=1, failures=[("t", OutcomeUnknown("no answer"))]), 4),
        (Account(received=1, pending=1, failures=[("t", OSError("down"))]), 6),
        (Account(received=1, pending=1, failures=[("t", RuntimeError("down"))]), 1),
    ):
        with click.Context(feeding):
            assert close(account) == status
