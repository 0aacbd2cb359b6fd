"""``esker refs``, ``esker tag`` and ``esker branch``: list a table's branches and tags, create them and drop them.

A tag stays at one snapshot. A branch moves with every commit to it. Both can expire after an age such as ``7d``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


# ---------------------------------------------------------------- ages such as ``7d``, ``12h``, ``90 days``


_AGE = re.compile(r"\s*(\d{1,12})\s*([a-z]+)\s*")
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400_000),
}
_LONGEST_MS = (1 << 63) - 1


class Age(click.ParamType[int]):
    """The value of an option that is a length of time, in milliseconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds: ``7d`` is 604,800,000. Reports a usage error for anything else."""
        if isinstance(value, int):
            return value
        found = _AGE.fullmatch(str(value).lower())
        if found is None or found[2] not in _UNITS:
            self.fail(f"{value!r} is not a length of time: write 7d, 12h, 30m or '90 days'", param, ctx)
        age = int(found[1]) * _UNITS[found[2]]
        if not 0 < age <= _LONGEST_MS:
            self.fail(f"{value!r} is out of range", param, ctx)
        return age


# ---------------------------------------------------------------- ``esker refs``


DEFAULT = 50


@click.command("refs")
@click.argument("table")
@limit_options(DEFAULT, "refs")
@shared_options
def refs_command(table: str, limit: int | None, every: bool) -> None:
    """List a table's branches and tags, and how long each is kept."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named

    facts = refs_facts(open_named(table), chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))


def refs_facts(table: Table, limit: int | None) -> dict[str, Any]:
    """``main`` first, then other branches, then tags."""
    named = table.metadata.all_refs
    ordered = sorted(named, key=lambda name: (name != "main", named[name].kind.value, name))
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots}
    return {
        "name": table.name,
        "total": len(ordered),
        "refs": [
            {
                "ref": name,
                "kind": named[name].kind.value,
                "snapshot_id": named[name].snapshot_id,
                "timestamp_ms": snapshots[named[name].snapshot_id].timestamp_ms
                if named[name].snapshot_id in snapshots
                else None,
                "max_ref_age_ms": named[name].max_ref_age_ms,
                "min_snapshots_to_keep": named[name].min_snapshots_to_keep,
                "max_snapshot_age_ms": named[name].max_snapshot_age_ms,
            }
            for name in ordered[:limit]
        ],
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, when
    from esker.cli.screen import Column

    screen.title(facts["name"], counted(facts["total"], "ref"))
    if not facts["total"]:
        screen.note("No branches or tags: nothing has been written to this table yet.")
        return
    columns = [
        Column("ref", style="cyan", wraps=True),
        Column("kind"),
        Column("snapshot", right=True),
        Column("committed", wraps=True),
        Column("kept", wraps=True),
    ]
    rows = [
        (
            ref["ref"],
            ref["kind"],
            str(ref["snapshot_id"]),
            "expired" if ref["timestamp_ms"] is None else when(ref["timestamp_ms"]),
            kept_text(ref),
        )
        for ref in facts["refs"]
    ]
    screen.table(columns, rows)
    if facts["total"] > len(rows):
        screen.note(f"{counted(facts['total'] - len(rows), 'more ref')} not shown; --all shows them.")


def kept_text(ref: dict[str, Any]) -> str:
    """How long a ref and its snapshots are kept; empty if only the table's own properties decide."""
    from esker.cli.humanize import duration

    said = []
    if ref["max_ref_age_ms"] is not None:
        said.append(f"itself for {duration(ref['max_ref_age_ms'])}")
    if ref["min_snapshots_to_keep"] is not None:
        said.append(f"at least {ref['min_snapshots_to_keep']} snapshots")
    if ref["max_snapshot_age_ms"] is not None:
        said.append(f"snapshots for {duration(ref['max_snapshot_age_ms'])}")
    return ", ".join(said)


# ---------------------------------------------------------------- what ``esker tag`` and ``esker branch`` have in
# common


Kind = Literal["tag", "branch"]


def wanted_snapshot(table: Table, snapshot_id: int | None, as_of: str | None, ref: str | None) -> int | None:
    """The id that the options select; None for the current snapshot."""
    from esker.cli.open_table import chosen_snapshot

    if snapshot_id is None and as_of is None and ref is None:
        return None
    found = chosen_snapshot(table, snapshot_id, as_of, ref)
    return None if found is None else found.snapshot_id


def refuse_with_drop(**given: Any) -> None:
    """Report a usage error if options for creating a ref are given with --drop."""
    for option, value in given.items():
        if value not in (None, False):
            raise click.UsageError(f"--drop and --{option.replace('_', '-')} exclude each other")


def drop_named(table: Table, name: str, kind: Kind) -> dict[str, Any]:
    """Drop a ref of that kind. The facts have its snapshot, so that the user can create it again."""
    from esker.errors import InvalidInput

    before = table.refs.get(name)
    if before is not None and before.kind.value != kind and name != "main":
        raise InvalidInput(
            f"cannot drop {kind} {name!r}: it is a {before.kind.value}; use esker {before.kind.value} --drop", ref=name
        )
    table.drop_ref(name)
    return {
        "name": table.name,
        "ref": name,
        "kind": kind,
        "change": "dropped",
        "snapshot_id": None if before is None else before.snapshot_id,
    }


def made_facts(table: Table, name: str, kind: Kind) -> dict[str, Any]:
    """The facts about a ref that was created or moved."""
    ref = table.metadata.all_refs[name]
    return {
        "name": table.name,
        "ref": name,
        "kind": kind,
        "change": "made",
        "snapshot_id": ref.snapshot_id,
        "max_ref_age_ms": ref.max_ref_age_ms,
        "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        "max_snapshot_age_ms": ref.max_snapshot_age_ms,
    }


def show_named(screen: Screen, facts: dict[str, Any]) -> None:
    """Show one line, and for a dropped ref how to undo it."""

    where = f"snapshot {facts['snapshot_id']}"
    if facts["change"] == "made":
        kept = kept_text(facts)
        screen.line(f"{facts['name']}: {facts['kind']} {facts['ref']} at {where}" + (f"; keeps {kept}" if kept else ""))
        return
    screen.line(f"{facts['name']}: dropped {facts['kind']} {facts['ref']}, which was at {where}")
    back = f"esker {facts['kind']} {facts['name']} {facts['ref']} --snapshot-id {facts['snapshot_id']}"
    screen.note(f"The snapshot stays until it expires. To undo: {back}")


# ---------------------------------------------------------------- ``esker tag``


@click.command("tag")
@click.argument("table")
@click.argument("name")
@snapshot_options
@click.option("--retain", type=Age(), metavar="AGE", help="How long the tag is kept: 7d, 12h [default: for ever].")
@click.option("--replace", is_flag=True, help="Move the tag if it exists.")
@click.option("--drop", is_flag=True, help="Remove the tag; its snapshot stays until it expires.")
@shared_options
def tag_command(
    table: str,
    name: str,
    snapshot_id: int | None,
    as_of: str | None,
    ref: str | None,
    retain: int | None,
    replace: bool,
    drop: bool,
) -> None:
    """Give a snapshot of TABLE a name, by default the current one. The tag stays at this snapshot."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_to_change

    if drop:
        refuse_with_drop(snapshot_id=snapshot_id, as_of=as_of, ref=ref, retain=retain, replace=replace)
    opened = open_to_change(table)
    if drop:
        facts = drop_named(opened, name, "tag")
    else:
        chosen = wanted_snapshot(opened, snapshot_id, as_of, ref)
        opened.tag(name, chosen, max_ref_age_ms=retain, replace=replace)
        facts = made_facts(opened, name, "tag")
    answer(facts, lambda screen: show_named(screen, facts))


# ---------------------------------------------------------------- ``esker branch``


@click.command("branch")
@click.argument("table")
@click.argument("name")
@snapshot_options
@click.option("--retain", type=Age(), metavar="AGE", help="How long the branch is kept: 7d, 12h [default: for ever].")
@click.option("--retain-snapshots", type=click.IntRange(min=1), metavar="N", help="Expiry keeps at least N snapshots.")
@click.option("--retain-snapshots-for", type=Age(), metavar="AGE", help="Expiry keeps snapshots younger than AGE.")
@click.option("--replace", is_flag=True, help="Move the branch if it exists.")
@click.option("--drop", is_flag=True, help="Remove the branch; its snapshots stay until they expire.")
@shared_options
def branch_command(table: str, name: str, drop: bool, **given: Any) -> None:
    """Create a branch of TABLE at a snapshot, by default the current one."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_to_change

    if drop:
        refuse_with_drop(**given)
    opened = open_to_change(table)
    if drop:
        facts = drop_named(opened, name, "branch")
    else:
        opened.branch(
            name,
            wanted_snapshot(opened, given["snapshot_id"], given["as_of"], given["ref"]),
            min_snapshots_to_keep=given["retain_snapshots"],
            max_snapshot_age_ms=given["retain_snapshots_for"],
            max_ref_age_ms=given["retain"],
            replace=given["replace"],
        )
        facts = made_facts(opened, name, "branch")
    answer(facts, lambda screen: show_named(screen, facts))
