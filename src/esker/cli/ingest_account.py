"""The account of an ingest, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esker.cli.wording import counted, number, size

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.ingest.account import Account

_ODDITIES = {
    "unknown_fields": "fields of a newer protocol",
    "repeated_keys": "attributes sent twice",
    "zero_ids": "ids of nothing but zeros",
    "empty_containers": "resources, scopes or metrics without a record",
    "far_times": "times far from now",
    "not_castable": "values that fit no promoted column",
    "skipped_offsets": "offsets that Kafka has no more",
    "unused_offsets": "offsets without a message (transactions, compaction)",
    "empty_messages": "messages without a value",
}


def show(screen: Screen, account: Account) -> None:
    """Where everything went, the identity, and what needs a person."""
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
        screen.warning(f"Read twice: a part of {file} was read before, as a part of {earlier}")
    for table, error in account.failures:
        screen.warning(f"Pending for {table}: {error}")
    if account.stopped is not None:
        screen.warning(f"Stopped: {account.stopped}")
    if account.pending:
        screen.note("Nothing is lost: files and receipts are kept. Run the same command again, or: esker replay")


def _sources(account: Account) -> str:
    if not account.files and account.requests:  # of Kafka
        return counted(account.requests, "request")
    return f"{counted(account.files, 'file')}, {size(account.bytes)}"


def _duration(account: Account) -> str:
    on = " on Spark" if account.engine == "spark" else ""
    return f"in {account.seconds:.1f} s{on}"


def _commits(account: Account) -> str:
    """What made commits slower than others."""
    told = []
    if account.conflicts:
        told.append(f"{counted(account.conflicts, 'conflict')} with other writers, tried again")
    if account.folded:
        told.append(f"{number(account.folded)} folded the table's manifests as well")
    return ", ".join(told)


def identity(account: Account) -> str:
    """The sum that must come out."""
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
