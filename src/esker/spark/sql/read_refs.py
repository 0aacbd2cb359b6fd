"""ALTER TABLE … CREATE, REPLACE and DROP, of branches and tags."""

from __future__ import annotations

from esker.spark.sql.alterations import DropRef, SetRef
from esker.spark.sql.words import Named, Words
from esker.tree.snapshot import RefKind

_KINDS = {"branch": RefKind.BRANCH, "tag": RefKind.TAG}
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000}


def at_ref(words: Words) -> bool:
    """Whether a clause about a branch or tag is next."""
    heads = (("create",), ("create", "or", "replace"), ("replace",), ("drop",))
    return any(words.at(*head, kind) for head in heads for kind in _KINDS)


def read_ref(words: Words, table: Named) -> SetRef | DropRef:
    """The clause."""
    if words.take("drop"):
        kind = _kind(words)
        if_there = words.take("if", "exists")
        found = DropRef(table=table, kind=kind, ref=_ref(words), if_there=if_there)
        words.expect_end()
        return found
    creates = words.take("create")
    replaces = words.take("or", "replace") if creates else words.take("replace")
    kind = _kind(words)
    unless_there = words.take("if", "not", "exists")
    ref = _ref(words)
    snapshot_id = words.whole_number("the id of a snapshot") if words.take("as", "of", "version") else None
    max_ref_age_ms = _time(words) if words.take("retain") else None
    keep, age_ms = _snapshot_retention(words) if kind is RefKind.BRANCH else (None, None)
    words.expect_end()
    return SetRef(
        table=table,
        kind=kind,
        ref=ref,
        creates=creates,
        replaces=replaces,
        unless_there=unless_there,
        snapshot_id=snapshot_id,
        max_ref_age_ms=max_ref_age_ms,
        min_snapshots_to_keep=keep,
        max_snapshot_age_ms=age_ms,
    )


def _kind(words: Words) -> RefKind:
    found = words.take_any(*_KINDS)
    if found is None:
        raise words.refuse("expected BRANCH or TAG")
    return _KINDS[found]


def _ref(words: Words) -> str:
    token = words.peek()
    quoted = token is not None and text_in_quotes(words)
    return words.string("the name") if quoted else words.word("the name of a branch or tag")


def text_in_quotes(words: Words) -> bool:
    """Whether the next token is a string."""
    token = words.peek()
    return token is not None and token.kind.name == "STRING"


def _snapshot_retention(words: Words) -> tuple[int | None, int | None]:
    """``WITH SNAPSHOT RETENTION 5 SNAPSHOTS 7 DAYS``, either alone too."""
    if not words.take("with", "snapshot", "retention"):
        return None, None
    keep: int | None = None
    follows = words.peek(1)
    if follows is not None and follows.word in ("snapshots", "snapshot"):
        keep = words.whole_number("a number of snapshots")
        words.next()
    return keep, (None if words.is_over else _time(words))


def _time(words: Words) -> int:
    number = words.whole_number("a number of days, hours or minutes")
    unit = words.take_any(*_UNIT_MS, *(f"{unit}s" for unit in _UNIT_MS))
    if unit is None:
        raise words.refuse("expected DAYS, HOURS or MINUTES")
    return number * _UNIT_MS[unit.removesuffix("s")]
