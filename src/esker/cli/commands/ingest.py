"""``esker ingest`` and ``esker replay``: load telemetry and files of rows into tables, exactly once.

They print an account of all records at the end. Replay makes commits that failed before, and decodes dead letters
again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from esker.cli.humanize import counted, number, size
from esker.cli.shared_options import (
    current_settings,
    engine_for,
    engine_option,
    saying_that_spark_starts,
    shared_options,
)

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.ingest.account import Account
    from esker.ingest.otlp.kafka_topics import KafkaTopics
    from esker.lake import Lake


# ---------------------------------------------------------------- the account on a screen


_ODDITIES = {
    "unknown_fields": "fields of a newer protocol",
    "repeated_keys": "attributes sent twice",
    "zero_ids": "ids that are all zeros",
    "empty_containers": "resources, scopes or metrics without a record",
    "far_times": "times far from now",
    "not_castable": "values that do not fit their promoted column",
    "skipped_offsets": "offsets that Kafka no longer has",
    "unused_offsets": "offsets without a message (transactions, compaction)",
    "empty_messages": "messages without a value",
}


def show(screen: Screen, account: Account) -> None:
    """Show how many records went where, the sum that proves it, and what needs attention."""
    screen.title(
        f"Received {counted(account.received, 'record')}",
        f"{_sources(account)}, {counted(account.batches, 'batch', 'batches')} {_duration(account)}",
    )
    pairs = [(table, number(rows)) for table, rows in sorted(account.tables.items())]
    pairs.append(("dead letters", number(account.dead_letters) if account.dead_letters else ""))
    pairs.append(("known files", f"{number(account.known_files)} passed over" if account.known_files else ""))
    pairs.append(("oddities", ", ".join(f"{n:,} {_ODDITIES.get(name, name)}" for name, n in account.oddities.items())))
    pairs.append(("commits", _commits(account)))
    screen.card(pairs)
    screen.line(identity(account), style="" if account.holds else "bold red")
    for file, reason in account.refused:
        screen.warning(f"Refused {file}: {reason}")
    for file, earlier in account.read_twice:
        screen.warning(f"Read twice: a part of {file} was also read as a part of {earlier}")
    for table, error in account.failures:
        screen.warning(f"Pending for {table}: {error}")
    if account.stopped is not None:
        screen.warning(f"Stopped: {account.stopped}")
    if account.pending:
        screen.note("Nothing is lost: files and receipts are kept. Run the same command again, or: esker replay")


def _sources(account: Account) -> str:
    if not account.files and account.requests:  # from Kafka
        return counted(account.requests, "request")
    return f"{counted(account.files, 'file')}, {size(account.bytes)}"


def _duration(account: Account) -> str:
    on = " on Spark" if account.engine == "spark" else ""
    return f"in {account.seconds:.1f} s{on}"


def _commits(account: Account) -> str:
    """Why some commits were slower than others."""
    told = []
    if account.conflicts:
        told.append(f"{counted(account.conflicts, 'conflict')} with other writers, retried")
    if account.folded:
        told.append(f"{number(account.folded)} also merged manifests of the table")
    return ", ".join(told)


def identity(account: Account) -> str:
    """The sum that must be right: what was received equals what was written, buried or is pending."""
    parts = [f"tables {sum(account.tables.values()):,}", f"dead letter {account.dead_letters:,}"]
    parts.append(f"pending {account.pending:,}")
    if account.deduplicated:
        parts.append(f"deduplicated {account.deduplicated:,}")
    if dropped := account.dropped_by_transform.total():
        parts.append(f"dropped {dropped:,}")
    if account.unproved:
        parts.append(f"unproved {account.unproved:,}")
    sign = "=" if account.holds else "≠"
    added = account.added_by_transform.total()
    return (
        f"received {account.received:,}{f' + added {added:,}' if added else ''} {sign} {' + '.join(parts)}      "
        f"lost {account.lost:,}   duplicated {account.duplicated:,}"
    )


# ---------------------------------------------------------------- ``esker ingest``


_PATHS = click.Path(path_type=Path)
_PROFILES = click.Choice(["map", "flat", "variant"])


@click.group("ingest")
@shared_options
def ingest_command() -> None:
    """Load telemetry or files of rows, each batch exactly once, and print an account.

    A plan is recorded beside the lake before it is executed. So the next run continues a run that was killed, and
    running the same command twice adds nothing twice.
    """


@ingest_command.command("otlp")
@click.argument("paths", nargs=-1)
@click.option("--follow", is_flag=True, help="Continue with new files or messages until stopped.")
@click.option("--checkpoint", type=_PATHS, metavar="DIRECTORY", help="Where the progress is recorded.")
@click.option("--pattern", default="*", metavar="GLOB", help="In directories, only files with such names.")
@click.option("--promote", multiple=True, metavar="KEY=TYPE", help="Give an attribute its own column; may be repeated.")
@click.option("--profile", type=_PROFILES, help="How attributes are stored [default: as in the tables, or map].")
@click.option(
    "--partition-by", type=click.Choice(["day", "hour"]), default="day", help="The partitioning of new tables."
)
@click.option("--dedup", type=click.Choice(["span_id"]), help="Leave out spans and logs that were sent twice.")
@click.option("--strict", is_flag=True, help="Make dead letters of JSON with ids in base64 or enums by name.")
@click.option(
    "--most-dead",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Stop if more than this share of a batch is dead letters.",
)
@engine_option
@click.option("--batch-bytes", metavar="SIZE", help="Most bytes of files in one batch [default: 256M; 2G on Spark].")
@click.option("--batch-rows", type=click.IntRange(1), metavar="ROWS", help="Most messages in one batch, about.")
@click.option(
    "--every", default=30.0, show_default=True, metavar="SECONDS", help="With --follow: the time between batches."
)
@click.option(
    "--settle", default=2.0, show_default=True, metavar="SECONDS", help="With --follow: skip files that are younger."
)
@click.option("--idle", type=float, metavar="SECONDS", help="With --follow: end if nothing arrived for that long.")
@click.option("--keep-segments", is_flag=True, help="Keep segments of a spool after their rows are committed.")
@shared_options
def otlp(paths: tuple[str, ...], follow: bool, **given: Any) -> int:
    """Decode OTLP in PATH…, files or directories, into the tables of the namespace otel.

    Framing and compression are detected from the content. Without PATH, --follow reads the spool of esker receive.
    kafka://HOST:PORT/TOPIC instead of PATH reads the messages of a topic, each an Export request.
    """
    from esker.cli.open_table import open_lake
    from esker.ingest.defaults import default_checkpoint
    from esker.ingest.otlp.ingest_otlp import KIND, Asked, check_start, follow_otlp, ingest_otlp

    topics = _topics(paths)
    lake = open_lake(current_settings(), may_make=True)
    asked = Asked(
        paths=() if topics else tuple(map(Path, paths)) or _spool(lake, follow),
        checkpoint=given["checkpoint"] or default_checkpoint(lake, topics.place if topics else KIND),
        pattern=given["pattern"],
        profile=given["profile"],
        promote=pairs_of(given["promote"]),
        partition_by=given["partition_by"],
        dedup=given["dedup"],
        strict=given["strict"],
        most_dead=given["most_dead"],
        engine=engine_for(lake, given["engine"], streams=follow or topics is not None),
        batch_bytes=_bytes(given["batch_bytes"]),
        batch_rows=given["batch_rows"],
        keep_segments=given["keep_segments"],
    )
    if asked.engine == "spark" and (follow or topics):
        check_start(lake, asked, kind=topics.kind if topics else KIND)
    if not follow:
        with saying_that_spark_starts():
            account = (topics.ingest if topics else ingest_otlp)(lake, asked, told=_progress())
        return close(account)
    from esker.ingest.follow import Pace

    pace = Pace(every_s=given["every"], settle_s=given["settle"], idle_s=given["idle"])
    go_on = topics.follow if topics else follow_otlp
    if asked.engine == "spark":
        with saying_that_spark_starts():
            _ = lake.spark  # a session that is starting replaces the signal handlers
    with _stopping() as stop:
        return close(go_on(lake, asked, pace=pace, stop=stop, told=_progress(), told_trouble=_trouble))


@ingest_command.command("files")
@click.argument("paths", nargs=-1, required=True, type=_PATHS)
@click.option("--table", required=True, metavar="NAME", help="The table to add the rows to.")
@click.option("--create", is_flag=True, help="Create the table with the columns of the first file.")
@click.option("--evolve", is_flag=True, help="Add columns that are in the files but not in the table.")
@click.option(
    "--partition-by", multiple=True, metavar="TERM", help="With --create: for example day(ts), bucket(16, id), region."
)
@click.option("--sort-by", multiple=True, metavar="TERM", help="With --create: for example 'ts desc', id.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "json"]),
    help="The format, if the file names do not show it.",
)
@click.option("--delimiter", metavar="SIGN", help="The delimiter of CSV.")
@click.option("--checkpoint", type=_PATHS, metavar="DIRECTORY", help="Where the progress is recorded.")
@click.option("--pattern", default="*", metavar="GLOB", help="In directories, only files with such names.")
@engine_option
@click.option("--batch-bytes", metavar="SIZE", help="Most bytes of files in one batch [default: 256M; 2G on Spark].")
@shared_options
def files(paths: tuple[Path, ...], table: str, form: str | None, **given: Any) -> int:
    """Add the rows of PATH…, files or directories of Parquet, CSV or JSON, to a table.

    A file that does not fit is refused and named. The others are loaded.
    """
    from esker.cli.open_table import open_lake
    from esker.ingest.defaults import default_checkpoint
    from esker.ingest.ingest_rows import ingest_files, kind_of
    from esker.ingest.read_row_files import Reading, RowFormat
    from esker.ingest.row_files_job import Target

    lake = open_lake(current_settings(), may_make=True)
    target = Target(
        name=table,
        create=given["create"],
        evolve=given["evolve"],
        partition_by=given["partition_by"],
        sort_by=given["sort_by"],
    )
    with saying_that_spark_starts():
        account = ingest_files(
            lake,
            paths,
            target,
            checkpoint=given["checkpoint"] or default_checkpoint(lake, kind_of(table)),
            reading=Reading(format=None if form is None else RowFormat(form), delimiter=given["delimiter"]),
            pattern=given["pattern"],
            batch_bytes=_bytes(given["batch_bytes"]),
            engine=engine_for(lake, given["engine"]),
            told=_progress(),
        )
    return close(account)


def close(account: Account) -> int:
    """Show the account and return the exit status: whether the sum is right, and whether commits are pending."""
    from esker.cli.answer import answer
    from esker.cli.failure import FINDING, INTERNAL, USAGE, describe

    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)  # remove the line of progress
    answer(account.facts(), lambda screen: show(screen, account))
    for _, error in account.failures:
        status = describe(error).status
        return status if USAGE < status < INTERNAL else FINDING
    return 0 if account.holds and not account.refused and account.stopped is None else FINDING


def _topics(paths: tuple[str, ...]) -> KafkaTopics | None:
    """The topics to read; None if files are to be read."""
    from esker.kafka.address import is_address, source_of

    if not any(map(is_address, paths)):
        return None
    if len(paths) > 1:
        raise click.UsageError("give either files or one Kafka address; separate several topics by commas")
    from esker.ingest.otlp.kafka_topics import KafkaTopics

    return KafkaTopics(source_of(paths[0]))


def _spool(lake: Lake, follow: bool) -> tuple[Path, ...]:
    from esker.ingest.defaults import default_spool

    spool = default_spool(lake)
    if not follow or spool is None:
        raise click.UsageError("Missing argument 'PATHS...': give files or directories of OTLP")
    spool.mkdir(parents=True, exist_ok=True)  # the receiver may be started later
    return (spool,)


def pairs_of(texts: tuple[str, ...]) -> dict[str, str]:
    """The attributes and types of ``--promote``."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.rpartition("=")
        if not equals or not key or not value:
            raise click.UsageError(f"--promote takes KEY=TYPE, as in http.response.status_code=int, not {text!r}")
        found[key] = value
    return found


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    number = text.strip().lower().rstrip("b")
    unit = units.get(number[-1:], 1)
    digits = number[:-1] if unit > 1 else number
    if not (digits.isascii() and digits.isdecimal()) or not int(digits):
        raise click.UsageError(f"--batch-bytes takes a size such as 64M or 1G, not {text!r}")
    return int(digits) * unit


def _progress() -> Callable[[Account], None]:
    """A line of progress on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        return lambda account: None

    def tell(account: Account) -> None:
        files = f", {account.files:,} files" if account.files else ""
        text = f"{account.received:,} records in {account.batches:,} batches{files}"
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)

    return tell


def _trouble(text: str) -> None:
    click.echo(f"esker: {text}", err=True)


@contextmanager
def _stopping() -> Iterator[Event]:
    """Ctrl-C and SIGTERM end the run after the current batch."""
    stop = Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---------------------------------------------------------------- ``esker replay``


@click.command("replay")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="The checkpoint of the ingest to continue.",
)
@click.option("--dead-letters", is_flag=True, help="Decode dead letters again, and write the records to their tables.")
@click.option("--promote", multiple=True, metavar="KEY=TYPE", help="With --dead-letters: as in the ingest.")
@click.option("--profile", type=click.Choice(["map", "flat", "variant"]), help="With --dead-letters: as in the ingest.")
@click.option("--dedup", type=click.Choice(["span_id"]), help="With --dead-letters: as in the ingest.")
@engine_option
@shared_options
def replay_command(
    checkpoint: Path | None,
    dead_letters: bool,
    promote: tuple[str, ...],
    profile: str | None,
    dedup: str | None,
    engine: str | None,
) -> int:
    """Make the commits that an ingest could not make, from their receipts. No commit is made twice.

    The data files are already written, so this starts no Spark. With --dead-letters, records that could not be decoded
    are tried again by the engine.
    """
    from esker.cli.open_table import open_lake
    from esker.ingest.defaults import default_checkpoint
    from esker.ingest.otlp.ingest_otlp import KIND
    from esker.ingest.otlp.replay import kind_of, replay_letters, replay_receipts

    lake = open_lake(current_settings())
    place = checkpoint or default_checkpoint(lake, KIND)
    if not dead_letters:
        return close(replay_receipts(lake, place, kind=kind_of(place)))
    chosen = engine_for(lake, engine)
    with saying_that_spark_starts():
        account = replay_letters(lake, place, promote=pairs_of(promote), profile=profile, dedup=dedup, engine=chosen)
    return close(account)
