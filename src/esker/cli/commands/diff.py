"""``esker diff``: the differences between two snapshots in totals, columns, properties, files and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.cli.screen import Screen
    from esker.model.schema import Schema
    from esker.read.scan_changes import ChangeScan
    from esker.table import Table
    from esker.tree.snapshot import Snapshot
    from esker.tree.table_metadata import TableMetadata


# ---------------------------------------------------------------- columns and properties


def schema_changes(table: Table, before: Snapshot | None, after: Snapshot | None) -> dict[str, Any]:
    """Columns added, removed and changed. They are compared by id, so a rename is not a new column."""
    old, new = _schema_of(table, before), _schema_of(table, after)
    both = [id_ for id_ in new.by_id if id_ in old.by_id]
    changed = [{"id": id_, "name": old.name_by_id[id_], "changes": _differences(old, new, id_)} for id_ in both]
    return {
        "from_schema_id": old.schema_id,
        "to_schema_id": new.schema_id,
        "added": [_column(new, id_) for id_ in new.by_id if id_ not in old.by_id],
        "removed": [_column(old, id_) for id_ in old.by_id if id_ not in new.by_id],
        "changed": [column for column in changed if column["changes"]],
    }


def _schema_of(table: Table, snapshot: Snapshot | None) -> Schema:
    known = table.metadata.schema_by_id
    if snapshot is None or snapshot.schema_id is None:
        return table.schema
    return known.get(snapshot.schema_id, table.schema)


def _column(schema: Schema, id_: int) -> dict[str, Any]:
    return {"id": id_, "name": schema.name_by_id[id_], "type": str(schema.by_id[id_].type)}


def _differences(old: Schema, new: Schema, id_: int) -> list[str]:
    from esker.model.types import is_nested

    was, now = old.by_id[id_], new.by_id[id_]
    said = []
    if was.name != now.name:
        said.append(f"renamed to {now.name}")
    if not is_nested(now.type) and was.type != now.type:
        said.append(f"{was.type} became {now.type}")
    if was.required != now.required:
        said.append("became not null" if now.required else "may now be null")
    if was.doc != now.doc:
        said.append("comment changed")
    return said


def property_changes(table: Table, before: Snapshot | None, after: Snapshot | None) -> dict[str, Any] | None:
    """Properties set, removed and changed; None if a metadata file of that time cannot be read any more."""
    then, now = _metadata_of(table, before), _metadata_of(table, after)
    if then is None or now is None:
        return None
    old, new = then.properties, now.properties
    return {
        "added": {key: new[key] for key in sorted(new) if key not in old},
        "removed": {key: old[key] for key in sorted(old) if key not in new},
        "changed": {key: [old[key], new[key]] for key in sorted(new) if key in old and old[key] != new[key]},
    }


def _metadata_of(table: Table, snapshot: Snapshot | None) -> TableMetadata | None:
    """The metadata file that a snapshot was committed with: the first one written at its time or later."""
    from esker.errors import EskerError
    from esker.wiring import open_table

    metadata = table.metadata
    if snapshot is None:
        return None
    if snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata
    later = [entry for entry in metadata.metadata_log if entry.timestamp_ms >= snapshot.timestamp_ms]
    if not later:
        return metadata
    first = min(later, key=lambda entry: entry.timestamp_ms)
    # The log records the paths at which files were written. If the table was moved, they are beside the current file.
    folder, slash, _ = table.metadata_location.rpartition("/")
    try:
        found = open_table(f"{folder}{slash}{first.metadata_file.rpartition('/')[2]}").metadata
    except (EskerError, OSError):
        return None
    return found if found.snapshot(snapshot.snapshot_id) is not None else None


# ---------------------------------------------------------------- rows


FIRST = ("_change_type", "_commit_snapshot_id")


@dataclass(frozen=True, slots=True)
class ForPeople:
    """The change feed with the kind of change as the first column. The other columns about commits are left out: the
    rows are in the order of the commits."""

    feed: ChangeScan

    @property
    def _names(self) -> list[str]:
        return [*FIRST, *(field.name for field in self.feed.projection)]

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        import pyarrow as pa

        whole = self.feed.schema
        return pa.schema([whole.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return (batch.select(self._names) for batch in self.feed.to_batches())


def print_changed_rows(feed: ChangeScan, shown: int | None, facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print at most ``shown`` changed rows: after the facts in a JSON document, or alone on a screen."""
    from esker.cli.print_rows import print_rows, print_rows_json

    if as_json:
        print_rows_json(feed, shown, facts)
    else:
        print_rows(ForPeople(feed), shown)


# ---------------------------------------------------------------- the command


DEFAULT = 20


@click.command("diff")
@click.argument("table")
@click.argument("a")
@click.argument("b", default="current")
@click.option("--rows", is_flag=True, help="Show the inserted and deleted rows instead of the files.")
@click.option("--where", metavar="PREDICATE", help="Only rows that match a predicate in Spark SQL.")
@click.option("--keys", metavar="A,B,…", help="Columns that identify a row: then updates are shown.")
@limit_options(DEFAULT, "files or rows")
@shared_options
def diff_command(
    table: str, a: str, b: str, rows: bool, where: str | None, keys: str | None, limit: int | None, every: bool
) -> None:
    """Show what changed from snapshot A to snapshot B: files, rows, columns, properties.

    A and B are snapshot ids, branches, tags or times. B is the current snapshot by default.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named

    if not rows and (where is not None or keys is not None):
        raise click.UsageError("--where and --keys are for rows: give --rows as well")
    opened, shown = open_named(table), chosen_limit(limit, every, DEFAULT)
    if rows:
        _answer_rows(opened, (a, b), where, keys, shown)
        return
    facts = diff_facts(opened, a, b, shown)
    answer(facts, lambda screen: _show(screen, facts))


def _answer_rows(table: Table, ends: tuple[str, str], where: str | None, keys: str | None, shown: int | None) -> None:
    from esker.cli.open_table import snapshot_named
    from esker.cli.screen import Screen
    from esker.cli.shared_options import current_settings

    before, after = (snapshot_named(table, end) for end in ends)
    feed = table.scan_changes(
        None if before is None else before.snapshot_id,
        None if after is None else after.snapshot_id,
        where,
        keys=[] if keys is None else [name.strip() for name in keys.split(",")],
    )
    facts = diff_facts(table, *ends, 0)
    del facts["files"]  # shown instead of the files
    as_json = current_settings().as_json
    if not as_json:
        screen = Screen()
        _show_changes(screen, facts)
        screen.show()
    print_changed_rows(feed, shown, facts, as_json=as_json)


def diff_facts(table: Table, a: str, b: str, limit: int | None) -> dict[str, Any]:
    """All differences between the two: the number of files by kind, and the first ``limit`` of them by name."""
    from esker.cli.open_table import snapshot_named
    from esker.cli.table_facts import commit_facts

    before, after = snapshot_named(table, a), snapshot_named(table, b)
    old_id, new_id = (None if s is None else s.snapshot_id for s in (before, after))
    changes = table.inspect.file_changes(old_id, new_id)
    shown = changes if limit is None else changes.slice(0, limit)
    return {
        "name": table.name,
        "location": table.location,
        "from": commit_facts(before),
        "to": commit_facts(after),
        "data": _sums(changes, (0,)),
        "position_deletes": _sums(changes, (1,)),
        "equality_deletes": _sums(changes, (2,)),
        "schema": schema_changes(table, before, after),
        "properties": property_changes(table, before, after),
        "files_total": changes.num_rows,
        "files": [_file(row) for row in shown.to_pylist()],
    }


def _sums(changes: pa.Table, contents: tuple[int, ...]) -> dict[str, Any]:
    import numpy as np

    of_kind = np.isin(changes["content"].to_numpy(), contents)
    words = np.array(changes["change"].to_pylist(), dtype=object)
    rows, size = changes["record_count"].to_numpy(), changes["file_size_in_bytes"].to_numpy()
    sums: dict[str, Any] = {}
    for change in ("added", "removed"):
        chosen = of_kind & (words == change)
        sums[change] = {
            "files": int(np.count_nonzero(chosen)),
            "rows": int(rows[chosen].sum()),
            "bytes": int(size[chosen].sum()),
        }
    return sums


def _file(row: dict[str, Any]) -> dict[str, Any]:
    from esker.cli.commands.files import KINDS

    return {
        "change": row["change"],
        "path": row["file_path"],
        "content": KINDS[row["content"]],
        "rows": row["record_count"],
        "bytes": row["file_size_in_bytes"],
        "partition": row.get("partition"),
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted

    _show_changes(screen, facts)
    if facts["files"]:
        _show_files(screen, facts)
    left = facts["files_total"] - len(facts["files"])
    if left:
        screen.note(f"{counted(left, 'more changed file')} not shown; --all shows them.")


def _show_changes(screen: Screen, facts: dict[str, Any]) -> None:
    screen.title(facts["name"], f"{_side(facts['from'])}  to  {_side(facts['to'])}")
    _show_sums(screen, facts)
    _show_schema(screen, facts["schema"])
    _show_properties(screen, facts["properties"])


def _side(commit: dict[str, Any] | None) -> str:
    from esker.model.display_text import show_ms

    return "nothing" if commit is None else f"{commit['snapshot_id']} ({show_ms(commit['timestamp_ms'])})"


def _show_sums(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import number, size
    from esker.cli.screen import Column

    rows = []
    for kind in ("data", "position_deletes", "equality_deletes"):
        for change, sign in (("added", "+"), ("removed", "-")):
            sums = facts[kind][change]
            if sums["files"]:
                counts = (sign + number(sums["files"]), sign + number(sums["rows"]), sign + size(sums["bytes"]))
                rows.append((kind.replace("_", " "), *counts))
    if not rows:
        screen.note("Both snapshots have the same files.")
        return
    columns = [Column(""), Column("files", right=True), Column("rows", right=True), Column("size", right=True)]
    screen.table(columns, rows)


def _show_schema(screen: Screen, changes: dict[str, Any]) -> None:
    said = [f"+ {column['name']} {column['type']}" for column in changes["added"]]
    said += [f"- {column['name']} {column['type']}" for column in changes["removed"]]
    said += [f"~ {column['name']}: {', '.join(column['changes'])}" for column in changes["changed"]]
    if said:
        screen.card([("schema", "\n".join(said))])


def _show_properties(screen: Screen, changes: dict[str, Any] | None) -> None:
    if changes is None:
        screen.note("The properties of that time are unknown: its metadata files no longer exist.")
        return
    said = [f"+ {key} = {value}" for key, value in changes["added"].items()]
    said += [f"- {key} = {value}" for key, value in changes["removed"].items()]
    said += [f"~ {key}: {old} is now {new}" for key, (old, new) in changes["changed"].items()]
    if said:
        screen.card([("properties", "\n".join(said))])


def _show_files(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.commands.files import partition_text
    from esker.cli.humanize import number, size
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Column

    columns = [
        Column(""),
        Column("rows", right=True),
        Column("size", right=True),
        Column("content"),
        Column("partition", wraps=True),
        Column("file", wraps=True),
    ]
    rows = [
        (
            "+" if file["change"] == "added" else "-",
            number(file["rows"]),
            size(file["bytes"]),
            "" if file["content"] == "data" else file["content"],
            partition_text(file["partition"]),
            relative_path(file["path"], facts["location"]),
        )
        for file in facts["files"]
    ]
    screen.table(columns, rows)
