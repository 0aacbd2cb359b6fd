"""Step *resolve* of a row change: what each table column receives from each clause, by Spark's store assignment.

The word DEFAULT in INSERT, UPDATE and MERGE is replaced by the column's default. It must be the whole value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.tokens import Token
from esker.model.predicates.predicate_sql import literal_sql, quote_name
from esker.model.schema import Schema
from esker.model.types import STRING, Field, StructType, Type, UnknownType, is_nested
from esker.ports.row_changes import Clause, DeleteRow, InsertRow, RowChange, SqlText, UpdateRow
from esker.spark.expressions.ddl_text import cast_text, type_text
from esker.spark.rows.resolve_expressions import Scope, escaped, named
from esker.spark.rows.store_assignment import FittingNames, can_assign, casts_are_ansi, in_order_of, reordered, stored
from esker.spark.sql.grammar.statements import Query
from esker.spark.sql.grammar.words import Span, Words

# ---------------------------------------------------------------- default word
#
# DEFAULT as a value: what a column gets where INSERT, UPDATE or MERGE says it. It must be the whole value.


_WORD = "default"
_SET_WORDS = ("union", "except", "intersect", "minus")
_BEHIND_LIST = ("from", "where", "group", "having", "order", "limit", "offset", "lateral", "window", "sort", "cluster")
_Run = Sequence[Token]


def default_text(field: Field, verb: str, otherwise: str) -> str:
    """What writers fill in: the column's default as SQL of its type, or null.

    ``InvalidInput`` where the column needs a value and has no default; ``otherwise`` says why it gets none.
    """
    cast = cast_text(field.type)
    if field.write_default is None:
        if field.required:
            raise InvalidInput(
                f"cannot {verb}: column {field.name!r} must have a value, and {otherwise}", column=field.name
            )
        return "NULL" if cast is None else f"CAST(NULL AS {cast})"
    if is_nested(field.type):
        raise Unsupported(
            f"cannot {verb}: give column {field.name!r} a value, its default has parts",
            feature="nested defaults in SQL",
        )
    text = literal_sql(field.type, field.write_default)
    return text if cast is None else f"CAST({text} AS {cast})"


def is_default(expression: str, place: str | None, verb: str) -> bool:
    """Whether the expression is DEFAULT; ``InvalidInput`` where DEFAULT is a part of it, as Spark refuses it too."""
    return _WORD in expression.lower() and _is_whole(Words(expression).tokens.tokens, verb, place)


def with_defaults(query: Query, targets: Sequence[Field] | None) -> Query:
    """The query of an INSERT, each DEFAULT of its VALUES or of its SELECT list replaced by the value that the column of
    its place gets; ``targets`` is None where columns are taken by name, which DEFAULT has none of."""
    if _WORD not in query.text.lower():
        return query
    tokens = [token for token in Words(query.text).tokens.tokens if token.start >= query.body.start]
    while len(tokens) > 1 and _is_sign(tokens[0], "(") and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    edits: list[tuple[Token, str]] = []
    for row in _rows(tokens):
        edits += _replaced(row, targets)
    text = query.text
    for token, new in reversed(edits):
        text = text[: token.start] + new + text[token.end + 1 :]
    return Query(text, Span(query.body.start, query.body.end + len(text) - len(query.text)))


@dataclass(frozen=True, slots=True)
class _Row:
    terms: Sequence[_Run]
    is_list: bool  # of SELECT, where a word may be a column's name


def _rows(tokens: _Run) -> list[_Row]:
    """The rows of VALUES, or the list of one SELECT; nothing of a query that DEFAULT has no place in."""
    first = tokens[0].word if tokens else None
    if first == "values":
        rows = _terms(tokens[1:])
        wrapped = [len(row) > 1 and _is_sign(row[0], "(") and _closing(row, 0) == len(row) - 1 for row in rows]
        return [
            _Row(_terms(row[1:-1]) if is_tuple else [row], is_list=False)
            for row, is_tuple in zip(rows, wrapped, strict=True)
        ]
    outer = [at for at, depth in enumerate(_depths(tokens)) if depth == 0]
    if first != "select" or any(tokens[at].word in _SET_WORDS for at in outer):
        return []
    end = next((at for at in outer if tokens[at].word in _BEHIND_LIST), len(tokens))
    listed = tokens[1:end]
    return [] if not listed or listed[0].word == "distinct" else [_Row(_terms(listed), is_list=True)]


def _replaced(row: _Row, targets: Sequence[Field] | None) -> list[tuple[Token, str]]:
    found = []
    for at, term in enumerate(row.terms):
        if row.is_list and any(token.word == "select" for token in term):
            continue
        if not _is_whole(term, "insert", None):
            continue
        token = next(token for token in term if token.word == _WORD)
        if targets is None:
            raise _refused(token, "insert", "columns are taken by name, and it has none; leave the column out")
        if any(_is_sign(one[-1], "*") for one in row.terms[:at] if one):
            raise _refused(token, "insert", "it is behind *, so its column is not known here; name the columns")
        if at < len(targets):
            found.append((token, default_text(targets[at], "insert", "its DEFAULT is null")))
    return found


def _is_whole(tokens: _Run, verb: str, place: str | None) -> bool:
    """Whether DEFAULT is all that is there, in parentheses or not."""
    said = [at for at, token in enumerate(tokens) if token.word == _WORD and not (at and _is_sign(tokens[at - 1], "."))]
    if not said or any(token.word == "select" for token in tokens):
        return False
    if any(token.word != _WORD and not (token.is_sign and token.text in "()") for token in tokens) or len(said) > 1:
        raise _refused(tokens[said[0]], verb, "it must be the whole value, not a part of an expression", place)
    return True


def _refused(token: Token, verb: str, why: str, place: str | None = None) -> InvalidInput:
    where = place or token.place
    return InvalidInput(f"cannot {verb} DEFAULT (at {where}): {why}", place=where)


def _terms(tokens: _Run) -> list[_Run]:
    """What the commas outside of brackets divide."""
    cuts = [at for at, depth in enumerate(_depths(tokens)) if depth == 0 and _is_sign(tokens[at], ",")]
    return [tokens[a + 1 : b] for a, b in zip([-1, *cuts], [*cuts, len(tokens)], strict=True)]


def _depths(tokens: _Run) -> list[int]:
    """How many brackets are open at each token; one that opens or closes is inside."""
    found, depth = [], 0
    for token in tokens:
        opens = token.is_sign and token.text in ("(", "[")
        depth += opens
        found.append(depth)
        depth -= token.is_sign and token.text in (")", "]")
    return found


def _closing(tokens: _Run, opening: int) -> int:
    depths = _depths(tokens)
    return next(at for at in range(opening, len(tokens)) if depths[at] == depths[opening] and tokens[at].text == ")")


def _is_sign(token: Token, sign: str) -> bool:
    return token.is_sign and token.text == sign


# ---------------------------------------------------------------- outputs
#
# What a clause makes of a row: one expression per column of the table, by Spark's rules of store assignment.


_PLACE = "\x00"  # of a value in the text around it


def written_fields(schema: Schema) -> tuple[Field, ...]:
    """The columns that a file holds; one of unknown type holds nothing."""
    return tuple(field for field in schema.fields if not isinstance(field.type, UnknownType))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Makes the expressions of the clauses of a change."""

    change: RowChange
    schema: Schema
    scope: Scope
    source_columns: Sequence[str] = ()

    def of(self, clause: Clause) -> dict[int, str] | None:
        """By field id the text of each column's new value; None where the row goes."""
        match clause.action:
            case DeleteRow():
                return None
            case UpdateRow(values):
                given = self._given(clause, values)
                above = {part.id for id_ in given for part in self.schema.path_by_id[id_][:-1]}
                fields = written_fields(self.schema)
                return {f.id: _rebuilt(f, f"{self._target}.{named(f.name)}", given, above) for f in fields}
            case InsertRow(values):
                given = self._given(clause, values)
                self._check_whole(given)
                rest = [f for f in written_fields(self.schema) if f.id not in given]
                return given | {f.id: self._default(f) for f in rest}

    def _given(self, clause: Clause, values: Mapping[str, SqlText] | None) -> dict[int, str]:
        named = self._from_source(clause) if values is None else self._named(clause, values)
        by_default = {
            field.id: escaped(default_text(field, self.change.label, "its DEFAULT is null"))
            for field, said in named
            if values is not None and is_default(said.shown, said.place, self.change.label)
        }
        named = [(field, said) for field, said in named if field.id not in by_default]
        label = clause.side.value if self.change.source is not None else self.change.label.upper()
        said = [(f"the value of {field.name!r} in {label}", text) for field, text in named]
        types = self.scope.types(clause.side, said)
        return by_default | {
            field.id: self._assigned(field, type_, text)
            for (field, text), type_ in zip(named, types, strict=True)
            if not isinstance(field.type, UnknownType)
        }

    def _named(self, clause: Clause, values: Mapping[str, SqlText]) -> list[tuple[Field, SqlText]]:
        found: dict[int, tuple[Field, SqlText]] = {}
        for name, text in values.items():
            field = self._column(name, text)
            if field.id in found:
                raise InvalidInput(f"cannot {self.change.label}: column {field.name!r} is set twice", column=field.name)
            found[field.id] = (field, text)
        for field, _ in found.values():
            if inner := next((one for one in _members((field,)) if one.id in found and one is not field), None):
                raise InvalidInput(
                    f"cannot {self.change.label}: column {field.name!r} is set, and so is its member {inner.name!r}",
                    column=field.name,
                )
        return list(found.values())

    def _column(self, name: str, text: SqlText) -> Field:
        """A column of the table or a member of its structs, with or without the table's name before it."""
        prefix = f"{self.change.target_name}."
        is_prefixed = name.lower().startswith(prefix.lower())
        try:
            if is_prefixed:
                with suppress(InvalidInput):  # the prefix may be a struct of the table's name
                    return self._settable(self.schema.find(name[len(prefix) :]), name)
            return self._settable(self.schema.find(name), name)
        except InvalidInput as error:
            where = f" (at {text.place})" if text.place else ""
            raise InvalidInput(
                f"cannot {self.change.label}{where}: {error.message}", column=name, place=text.place
            ) from None

    def _settable(self, field: Field, name: str) -> Field:
        if self.schema.in_repeated(field.id):
            raise Unsupported(
                f"cannot {self.change.label}: {name!r} cannot be set alone, it is inside a list or map; set the whole "
                "column",
                feature="updates inside lists and maps",
            )
        return field

    def _check_whole(self, given: Mapping[int, str]) -> None:
        """A new row has whole columns: there is nothing yet that a member could be set in."""
        top = {field.id for field in self.schema.fields}
        for member in _members(self.schema.fields):
            if member.id in given and member.id not in top:
                raise InvalidInput(
                    f"cannot {self.change.label}: WHEN NOT MATCHED cannot insert {member.name!r} alone; give the whole "
                    "column, by named_struct",
                    column=member.name,
                )

    def _from_source(self, clause: Clause) -> list[tuple[Field, SqlText]]:
        """Every column of the table has one of its name in the source; where columns grow with the source, those that
        it lacks stay as they are."""
        found = []
        given = FittingNames((name, name) for name in self.source_columns)
        for field in self.schema.fields:
            fits = given.fits(field.name)
            if not fits and self.change.evolves:
                continue
            if len(fits) != 1:
                has = "several columns" if fits else "no column"
                raise InvalidInput(
                    f"cannot {self.change.label}: the source has {has} {field.name!r}, which * in {clause.side.value} "
                    "takes from it; give the values one by one",
                    column=field.name,
                )
            text = f"{quote_name(self.change.source_name)}.{quote_name(fits[0])}"
            found.append((field, SqlText.plain(text)))
        return found

    def _assigned(self, field: Field, type_: Type, said: SqlText) -> str:
        where = f" (at {said.place})" if said.place else ""
        try:
            ordered = in_order_of(type_, field.type, field.name)
        except InvalidInput as error:
            raise InvalidInput(
                f"cannot {self.change.label}: {said.shown!r}{where} does not fit column {field.name!r}: {error.message}"
                "; give its members the column's names",
                column=field.name,
                place=said.place,
            ) from None
        if not can_assign(ordered, field.type):
            raise InvalidInput(
                f"cannot {self.change.label}: {said.shown!r}{where} is of type {type_text(type_)}, and column "
                f"{field.name!r} of type {type_text(field.type)}: cast it",
                column=field.name,
                place=said.place,
            )
        value = reordered(_PLACE, type_, field.type, field.name)
        text = stored(value, ordered, field.type, field.name, ansi=casts_are_ansi(self.scope.session))
        return escaped(text).replace(_PLACE, f"({said.text})")  # frames in the value keep their braces

    def _default(self, field: Field) -> str:
        return escaped(default_text(field, self.change.label, "WHEN NOT MATCHED gives none"))

    @property
    def _target(self) -> str:
        return named(self.change.target_name)


def _members(fields: Iterable[Field]) -> Iterator[Field]:
    """Columns and what structs hold, at any depth: what has one value in a row."""
    for field in fields:
        yield field
        if isinstance(field.type, StructType):
            yield from _members(field.type.fields)


def _rebuilt(field: Field, old: str, given: Mapping[int, str], above: Set[int]) -> str:
    """A column's new value: as given, or the old one with those members that are given, which are in the structs of
    the ids ``above``. A struct that was null becomes one whose other members are null, as Spark has it."""
    if field.id in given:
        return given[field.id]
    if not isinstance(field.type, StructType) or field.id not in above:
        return old
    members = (
        f"{escaped(literal_sql(STRING, one.name))}, {_rebuilt(one, f'{old}.{named(one.name)}', given, above)}"
        for one in field.type.fields
    )
    return f"named_struct({', '.join(members)})"


def labelled(clause: Clause, at: int, clauses: Sequence[Clause]) -> str:
    """A clause for a message: which of several."""
    alike = [n for n, one in enumerate(clauses) if one.side is clause.side]
    number = f" (number {alike.index(at) + 1})" if len(alike) > 1 else ""
    return f"{clause.side.value}{number}"
