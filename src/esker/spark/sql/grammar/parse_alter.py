"""Parses ALTER TABLE: Spark's clauses, and those of Iceberg's extensions (partition fields, write order, branches,
tags)."""

from __future__ import annotations

from esker.model.parsing.predicate_text import parse
from esker.model.predicates.predicate_sql import quote_name
from esker.model.predicates.unbound_predicate import Comparison, Literal, Same
from esker.spark.sql.grammar.alter_statements import (
    AddColumn,
    AddPartition,
    AlterTable,
    Change,
    ChangeColumn,
    DropColumn,
    DropPartition,
    DropRef,
    IdentifierFields,
    RenameColumn,
    SetLocation,
    SetProperties,
    SetRef,
    UnsetProperties,
    WriteOrder,
)
from esker.spark.sql.grammar.parse_definitions import NAMESPACE_WORDS, read_alter_namespace, read_alter_view
from esker.spark.sql.grammar.statements import AlterNamespace, AlterView, CreateLakeView, RenameTable, RenameView
from esker.spark.sql.grammar.words import Elsewhere, Named, Territory, Words
from esker.tree.snapshot import RefKind

_KINDS = {"branch": RefKind.BRANCH, "tag": RefKind.TAG}
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000}


def at_ref(words: Words) -> bool:
    """Return whether a clause about a branch or tag is next."""
    heads = (("create",), ("create", "or", "replace"), ("replace",), ("drop",))
    return any(words.at(*head, kind) for head in heads for kind in _KINDS)


def read_ref(words: Words, table: Named) -> SetRef | DropRef:
    """Parse a clause about a branch or tag."""
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
    """Return whether the next token is a string."""
    token = words.peek()
    return token is not None and token.kind.name == "STRING"


def _snapshot_retention(words: Words) -> tuple[int | None, int | None]:
    """Parse ``WITH SNAPSHOT RETENTION 5 SNAPSHOTS 7 DAYS``, or one half of it."""
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


Altering = AlterNamespace | AlterTable | RenameTable | SetRef | DropRef | AlterView | RenameView | CreateLakeView
_FIELD = ("partition", "field")
_COLUMN_CLAUSES = ("not", "default", "comment", "first", "after")


def read_alter(words: Words, territory: Territory) -> Altering:
    """Parse the rest of ALTER."""
    if words.take("view"):
        return read_alter_view(words, territory)
    if words.take_any(*NAMESPACE_WORDS):
        return read_alter_namespace(words, territory)
    if not words.take("table"):
        raise Elsewhere
    name = territory.table(words.name("the name of a table"))
    if at_ref(words):
        return read_ref(words, name)
    _check_no_partition(words)
    if words.take("rename", "to"):
        return RenameTable(name=name, to=_finished(words, words.name("the new name")))
    changes = _changes(words)
    words.expect_end()
    return AlterTable(name, changes)


def _check_no_partition(words: Words) -> None:
    """Refuse ADD, DROP and RENAME PARTITION, as Iceberg's runtime does. Rows alone decide which partitions exist."""
    if words.at("partition"):
        raise words.unsupported("ALTER TABLE … PARTITION", "the values of a row decide its partition; use UPDATE")
    if words.at("recover", "partitions"):
        raise words.unsupported(
            "RECOVER PARTITIONS", "the table's metadata lists its files; use add_files to add others"
        )
    for verb, guard, instead in (
        ("add", ("if", "not", "exists"), "a partition exists when it has rows; use INSERT"),
        ("drop", ("if", "exists"), "use DELETE FROM … WHERE, which changes only metadata"),
    ):
        if words.at(verb, *guard, "partition") or (words.at(verb, "partition") and not words.at(verb, *_FIELD)):
            raise words.unsupported(f"{verb.upper()} PARTITION", instead)


def _finished(words: Words, found: Named) -> Named:
    words.expect_end()
    return found


def _changes(words: Words) -> tuple[Change, ...]:
    match words.take_any("add", "drop", "rename", "alter", "change", "replace", "write", "set", "unset"):
        case "add":
            return _add(words)
        case "drop":
            return _drop(words)
        case "rename":
            words.expect("column")
            name = _dotted(words)
            words.expect("to")
            return (RenameColumn(name, words.word("the column's new name")),)
        case "alter" | "change":
            return _alter_columns(words)
        case "replace":
            return _replace_partition(words)
        case "write":
            return (_write_order(words),)
        case "set":
            return _set(words)
        case "unset":
            words.expect("tblproperties")
            words.take("if", "exists")
            return (UnsetProperties(words.property_keys()),)
        case _:
            raise words.refuse(
                "expected ADD, DROP, RENAME, ALTER, REPLACE PARTITION FIELD, WRITE, SET, UNSET, CREATE BRANCH or TAG"
            )


def _add(words: Words) -> tuple[Change, ...]:
    if words.take("partition", "field"):
        return (_partition(words),)
    if not (words.take("columns") or words.take("column")):
        raise words.refuse("expected COLUMN, COLUMNS or PARTITION FIELD")
    unless_there = words.take("if", "not", "exists")
    wrapped = words.take_sign("(")
    found = [_new_column(words, unless_there)]
    while words.take_sign(","):
        found.append(_new_column(words, unless_there))
    if wrapped:
        words.expect_sign(")")
    return tuple(found)


def _new_column(words: Words, unless_there: bool) -> AddColumn:
    name = _dotted(words)
    type_ = words.text_of(words.until(*_COLUMN_CLAUSES))
    required, doc, first = False, None, False
    default: Literal | None = None
    after: str | None = None
    while (clause := words.take_any(*_COLUMN_CLAUSES)) is not None:
        match clause:
            case "not":
                words.expect("null")
                required = True
            case "default":
                default = _literal(words)
            case "comment":
                doc = words.string("the comment")
            case "first":
                first = True
            case _:
                after = words.word("the column before it")
    return AddColumn(
        name=name,
        type=type_,
        required=required,
        default=default,
        doc=doc,
        first=first,
        after=after,
        unless_there=unless_there,
    )


def _literal(words: Words) -> Literal:
    """Parse a default: any literal that a predicate may compare with."""
    span = words.until(*_COLUMN_CLAUSES)
    head = words.in_place(span)[: span.start]
    # the test is in the blanks before the value, so that an error has the value's place
    test = (head[:-6] if len(head) >= 6 else "") + "x <=> " + words.text_of(span)
    match parse(test):
        case Same(_, literal) | Comparison(_, _, literal):
            return literal
        case _:
            raise words.refuse("a default is a literal, not a condition; before")


def _alter_columns(words: Words) -> tuple[Change, ...]:
    words.take("column")
    found = [_changed_column(words)]
    while words.take_sign(","):
        found.append(_changed_column(words))
    return tuple(found)


def _changed_column(words: Words) -> ChangeColumn:
    name = _dotted(words)
    if words.take("type"):
        return ChangeColumn(name=name, type=words.text_of(words.until()))
    if words.take("comment"):
        return ChangeColumn(name=name, doc=words.string("the comment"))
    if words.take("first"):
        return ChangeColumn(name=name, first=True)
    if words.take("after"):
        return ChangeColumn(name=name, after=words.word("the column before it"))
    if words.take("drop", "not", "null"):
        return ChangeColumn(name=name, optional=True)
    if words.take("drop", "default"):
        return ChangeColumn(name=name, default=Literal(None, None))
    if words.take("set", "default"):
        return ChangeColumn(name=name, default=_literal(words))
    if words.take("set", "not", "null"):
        return ChangeColumn(name=name, required=True)
    raise words.refuse("expected TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET DEFAULT or DROP DEFAULT")


def _drop(words: Words) -> tuple[Change, ...]:
    if words.take("partition", "field"):
        return (DropPartition(_term(words)),)
    if words.take("identifier", "fields"):
        return (IdentifierFields(_several_dotted(words), drop=True),)
    if not (words.take("columns") or words.take("column")):
        raise words.refuse("expected COLUMN, COLUMNS, PARTITION FIELD, IDENTIFIER FIELDS, BRANCH or TAG")
    if_there = words.take("if", "exists")
    wrapped = words.take_sign("(")
    names = _several_dotted(words)
    if wrapped:
        words.expect_sign(")")
    return tuple(DropColumn(name, if_there) for name in names)


def _partition(words: Words) -> AddPartition:
    term = _term(words)
    return AddPartition(term, words.word("a name") if words.take("as") else None)


def _replace_partition(words: Words) -> tuple[Change, ...]:
    words.expect("partition", "field")
    old = _term(words)
    words.expect("with")
    return DropPartition(old), _partition(words)


def _term(words: Words) -> str:
    return words.text_of(words.until("as", "with"))


def _write_order(words: Words) -> WriteOrder:
    """Parse the write order, as Iceberg does: ORDERED BY sorts over all tasks, LOCALLY within each, BY PARTITION by
    hash."""
    by_partition, unordered, locally = False, False, False
    terms: tuple[str, ...] | None = None
    start = words.place
    while not words.is_over:
        if not by_partition and words.take("distributed"):
            words.expect("by", "partition")
            by_partition = True
        elif terms is None and not unordered and words.take("unordered"):
            unordered = True
        elif terms is None and not unordered:
            locally = words.take("locally")
            words.expect("ordered", "by")
            terms = _order(words)
        else:
            raise words.refuse("did not expect")
    if words.place == start:
        raise words.refuse("expected ORDERED BY, LOCALLY ORDERED BY, DISTRIBUTED BY PARTITION or UNORDERED")
    if unordered:
        return WriteOrder(terms=(), distribution="hash" if by_partition else "none")
    if by_partition:
        return WriteOrder(terms=terms, distribution="hash")
    return WriteOrder(terms=terms, distribution=None if locally else "range")


def _order(words: Words) -> tuple[str, ...]:
    """Parse ``a DESC, bucket(4, b)``, with or without parentheses."""
    opening = words.peek()
    if opening is not None and opening.is_sign and opening.text == "(":
        return words.terms(words.parenthesised())
    found = [words.text_of(words.until("distributed"))]
    while words.take_sign(","):
        found.append(words.text_of(words.until("distributed")))
    return tuple(found)


def _set(words: Words) -> tuple[Change, ...]:
    if words.take("tblproperties"):
        return (SetProperties(words.properties()),)
    if words.take("identifier", "fields"):
        return (IdentifierFields(_several_dotted(words), drop=False),)
    if words.take("location"):
        return (SetLocation(words.string("the location")),)
    raise words.refuse("expected TBLPROPERTIES, LOCATION or IDENTIFIER FIELDS")


def _dotted(words: Words) -> str:
    """Return a column's path for the methods of an alteration. A part that has a dot stays in backticks."""
    return ".".join(map(quote_name, words.name("the name of a column").parts))


def _several_dotted(words: Words) -> tuple[str, ...]:
    found = [_dotted(words)]
    while words.take_sign(","):
        found.append(_dotted(words))
    return tuple(found)
