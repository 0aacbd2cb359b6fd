"""``with table.alter() as change:`` makes several changes of a table's definition in one commit, or none if one is
refused.

Each method is checked when it is called, on the result of the calls before it. The commit applies them to the newest
version, which must still have the columns, partitioning or order that the changes refer to (L1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from types import TracebackType
from typing import Any, Self

from esker.errors import Conflict, InvalidInput
from esker.model.evolution import schema_change as columns
from esker.model.evolution.nested_fields import Ids, dotted, parts_of
from esker.model.evolution.partition_change import add_partition, check_column_name, drop_partition
from esker.model.evolution.schema_change import NewColumn, Place
from esker.model.evolution.schema_rules import changes_partition_values
from esker.model.parsing.partition_and_sort_terms import parse_sort_term, sort_field
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.model.transform import VoidTransform
from esker.model.types import Field, Type
from esker.ports.catalog import Catalog, TableState
from esker.tree.table_metadata import TableMetadata
from esker.write.commit import Proposal, commit
from esker.write.context import Tools
from esker.write.definition.draft import Draft, check_empty, check_heads, heads_without_null
from esker.write.definition.new_table import FromArrow, read_type
from esker.write.properties import checked_properties, renamed_column

Step = Callable[[Draft], Draft]


class Part(Flag):
    """The part of a table that a change refers to."""

    NOTHING = 0
    SCHEMA = auto()
    SPEC = auto()
    ORDER = auto()


@dataclass(slots=True, kw_only=True)
class Alteration:
    """Changes of a table's definition that are committed together. ``table.alter()`` returns it.

    Columns in structs have dotted names. Methods raise ``InvalidInput`` for an unknown column or a change that the
    format does not allow. The commit raises ``Conflict`` if another writer has changed the same part of the definition.

        with orders.alter() as change:
            change.add_column("note", "string")
            change.rename_column("qty", "quantity")
    """

    catalog: Catalog
    name: TableName
    base: TableState
    done: Callable[[TableState], None]
    from_arrow: FromArrow | None = None
    get_tools: Callable[[], Tools] | None = None  # to read rows and check locations
    join: Callable[[Alteration | None], None] | None = None  # a transaction that commits it; None: it is given up
    _steps: list[Step] = field(default_factory=list)
    _parts: Part = Part.NOTHING
    _draft: Draft | None = None
    _is_over: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._is_over:
            self.commit()
        elif kind is not None and not self._is_over and self.join is not None:
            self.join(None)
        self._is_over = True

    # ------------------------------------------------------------ columns

    def add_column(
        self,
        name: str,
        type: object,  # the usual word
        *,
        required: bool = False,
        doc: str | None = None,
        default: Any = None,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> None:
        """Add a column; a dotted name adds it to a struct. Existing rows have its default, or null:
        ``change.add_column("price", "decimal(10, 2)", after="qty")``."""
        column = NewColumn(
            name=name,
            type=read_type(type, self.from_arrow),
            required=required,
            doc=doc,
            default=default,
            place=Place(first=first, after=after, before=before),
        )

        self._do(lambda draft: with_column(draft, column), Part.SCHEMA)

    def drop_column(self, name: str) -> None:
        """Remove a column. Its id is never used again, so its values never return."""

        def step(draft: Draft) -> Draft:
            schema, path = columns.drop_column(draft.schema, name, draft.uses())
            return replace(draft, schema=schema, properties=renamed_column(draft.properties, dotted(path), None))

        self._do(step, Part.SCHEMA)

    def rename_column(self, old: str, new: str) -> None:
        """Give a column another name. It stays the same column."""

        def step(draft: Draft) -> Draft:
            schema, path = columns.rename_column(draft.schema, old, new)
            check_column_name(draft.partition, schema, path[-1].id)
            named = ".".join((*(above.name for above in path[:-1]), parts_of(new)[-1]))
            settings = renamed_column(draft.properties, dotted(path), named)
            return replace(draft, schema=schema, properties=settings)

        self._do(step, Part.SCHEMA)

    def widen_column(self, name: str, new_type: object) -> None:
        """Give a column a wider type: int to long, float to double, more digits, and what version 3 adds."""
        type_ = read_type(new_type, self.from_arrow)

        self._do(lambda draft: with_wider(draft, name, type_), Part.SCHEMA)

    def move_column(
        self, name: str, *, first: bool = False, after: str | None = None, before: str | None = None
    ) -> None:
        """Move a column to another place among its siblings."""
        place = Place(first=first, after=after, before=before)
        self._do_schema(lambda draft: columns.move_column(draft.schema, name, place))

    def make_optional(self, name: str) -> None:
        """Allow null in a column."""
        self._do_schema(lambda draft: columns.make_optional(draft.schema, name))

    def make_required(self, name: str) -> None:
        """Forbid null in a column. The rows of every branch are checked first: by the statistics of their files, and by
        reading the files whose statistics do not decide it.

        Raises ``InvalidInput`` if a row has null in the column. The commit raises ``Conflict`` if a branch has changed
        since.
        """
        self._check_open()
        _, old = columns.make_required((self._draft or Draft.of(self.base.metadata)).schema, name)
        if old.required:
            return
        seen = heads_without_null(self.get_tools, self.base.metadata, old.id, name)

        def step(draft: Draft) -> Draft:
            check_heads(self.name, draft.base, seen, name)
            schema, _ = columns.make_required(draft.schema, name)
            return replace(draft, schema=schema)

        self._do(step, Part.SCHEMA)

    def set_default(self, name: str, value: Any) -> None:
        """Set the value that writers use if a row has none (version 3); None removes it."""
        self._do_schema(lambda draft: columns.set_default(draft.schema, name, value, draft.format_version))

    def set_doc(self, name: str, doc: str | None) -> None:
        """Set a column's comment; None removes it."""
        self._do_schema(lambda draft: columns.set_doc(draft.schema, name, doc))

    def set_identifier_fields(self, *names: str) -> None:
        """Set the columns that identify a row; no names removes them."""
        self._do_schema(lambda draft: columns.set_identifier_fields(draft.schema, names))

    # ------------------------------------------------------------ layout

    def add_partition(self, term: str, name: str | None = None) -> None:
        """Partition new data by one more term; existing files stay as they are: ``change.add_partition("day(ts)")``."""
        self._do(
            lambda draft: draft.with_partitioning(
                add_partition(
                    draft.partitioning,
                    draft.schema,
                    term,
                    name,
                    started_with=draft.base.spec.fields,
                    history=reversed(draft.base.specs),
                    format_version=draft.format_version,
                )
            ),
            Part.SCHEMA | Part.SPEC,
        )

    def drop_partition(self, term_or_name: str) -> None:
        """Stop partitioning new data by a term."""
        self._do(
            lambda draft: draft.with_partitioning(
                drop_partition(draft.partitioning, draft.schema, term_or_name, draft.format_version)
            ),
            Part.SCHEMA | Part.SPEC,
        )

    def set_sort_order(self, *terms: str) -> None:
        """Sort new data by these terms; no terms removes the order."""
        parsed = [parse_sort_term(term) for term in terms]
        self._do(
            lambda draft: replace(draft, sort=tuple(sort_field(term, draft.schema) for term in parsed)),
            Part.SCHEMA | Part.ORDER,
        )

    # ------------------------------------------------------------ the table

    def set_properties(self, properties: Mapping[str, str] | None = None, /, **more: str) -> None:
        """Set properties. Raises ``InvalidInput`` or ``Unsupported`` for a value that cannot be used."""
        given = checked_properties({**(properties or {}), **more})
        self._do(lambda draft: replace(draft, properties={**draft.properties, **given}))

    def remove_properties(self, *keys: str) -> None:
        """Remove properties. Keys that are not set are ignored."""
        gone = _all_text(keys)
        self._do(lambda draft: replace(draft, properties={k: v for k, v in draft.properties.items() if k not in gone}))

    def set_location(self, location: str) -> None:
        """Write new files to another location. Existing files stay where they are and stay part of the table.

        Raises ``InvalidInput`` for a location with files: a clean-up of the other table there would remove this one's.
        The commit raises it for a location outside the warehouse and the ``allowed_roots``.
        """
        if not isinstance(location, str) or not location.strip():
            raise InvalidInput(f"cannot move a table to {location!r}: that is not a location")
        place = location.rstrip("/") or location
        if place != self.base.metadata.location:
            check_empty(self.get_tools, place)
        self._do(lambda draft: replace(draft, location=place))

    def upgrade_format(self, version: int) -> None:
        """Upgrade to a later version of the format: 1 to 2 to 3. There is no way back."""
        (self._draft or Draft.of(self.base.metadata)).upgraded(version)  # a lower version is refused
        # another writer may upgrade further in the meantime, which is not an error
        self._do(lambda draft: draft if draft.format_version >= version else draft.upgraded(version))

    # ------------------------------------------------------------ commit

    def commit(self) -> TableState:
        """Commit now, not at the end of the block. Returns the new state. In a transaction, the changes become part of
        it, and the state is the one from before."""
        self._check_open()
        self._is_over = True
        if self.join is not None:
            self.join(self)
            return self.base
        state = commit(self.catalog, self.name, self.base, self) if self._steps else self.base
        self.done(state)
        return state

    def apply(self, metadata: TableMetadata) -> TableMetadata:
        """The metadata with every change; the same object if nothing differs. Raises ``Conflict`` if another writer has
        changed what the changes refer to."""
        _check_unchanged(self.name, self.base.metadata, metadata, self._parts)
        if metadata is self.base.metadata and self._draft is not None:  # already computed while the calls were checked
            return self._draft.finished()
        draft = Draft.of(metadata)
        for step in self._steps:
            draft = step(draft)
        return draft.finished()

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The next version, on a base that still has what the changes refer to."""
        changed = self.apply(base.metadata)
        return None if changed is base.metadata else Proposal(metadata=changed)

    def abandon(self) -> None:
        """Nothing is written before the commit, so nothing has to be deleted."""

    def _do(self, step: Step, parts: Part = Part.NOTHING) -> None:
        self._check_open()
        self._draft = step(self._draft or Draft.of(self.base.metadata))
        self._steps.append(step)
        self._parts |= parts

    def _do_schema(self, change: Callable[[Draft], Schema]) -> None:
        self._do(lambda draft: replace(draft, schema=change(draft)), Part.SCHEMA)

    def _check_open(self) -> None:
        if self._is_over:
            raise InvalidInput("cannot use an alteration that has ended: begin another with alter()")


def with_column(draft: Draft, column: NewColumn) -> Draft:
    """The draft with one more column."""
    ids = Ids(draft.last_column_id)
    schema, added = columns.add_column(draft.schema, column, ids, draft.format_version)
    check_column_name(draft.partition, schema, added.id)
    return replace(draft, schema=schema, last_column_id=ids.last)


def with_wider(draft: Draft, name: str, type_: Type) -> Draft:
    """The draft with a column of a wider type."""
    ids = Ids(draft.last_column_id)
    schema, old, new = columns.widen_column(draft.schema, name, type_, ids, draft.format_version)
    _check_partition_values(draft, name, old, new)
    return replace(draft, schema=schema, last_column_id=ids.last)


def check_same_columns(name: TableName, then: TableMetadata, now: TableMetadata) -> None:
    """Raise ``Conflict`` if another writer has changed the columns that a change was planned for."""
    _check_unchanged(name, then, now, Part.SCHEMA)


def _check_unchanged(name: TableName, then: TableMetadata, now: TableMetadata, parts: Part) -> None:
    """Raise ``Conflict`` if another writer has changed the parts that the user saw (L1)."""
    moved = []
    if Part.SCHEMA in parts and (then.schema, then.last_column_id) != (now.schema, now.last_column_id):
        moved.append("columns")
    if Part.SPEC in parts and (then.spec, then.last_partition_id) != (now.spec, now.last_partition_id):
        moved.append("partitioning")
    if Part.ORDER in parts and then.sort_order != now.sort_order:
        moved.append("sort order")
    if moved:
        raise Conflict(
            f"cannot alter {name}: another writer has changed its {' and '.join(moved)}; refresh and try again",
            table=str(name),
        )


def _check_partition_values(draft: Draft, name: str, old: Field, new: Field) -> None:
    """Partition values of existing files must not change (E7)."""
    if not changes_partition_values(old.type, new.type):
        return
    fields = (*(f for spec in draft.base.specs for f in spec.fields), *draft.partition)
    for partition in fields:
        uses = old.id in (partition.source_id, *partition.other_sources)
        if uses and not isinstance(partition.transform, VoidTransform):
            raise InvalidInput(
                f"cannot widen column {name!r} from {old.type} to {new.type}: data is partitioned by it "
                f"({partition.name!r}), and its partition values would change",
                column=name,
            )


def _all_text(keys: Iterable[str]) -> frozenset[str]:
    found = frozenset(keys)
    if not all(isinstance(key, str) for key in found):
        raise InvalidInput("cannot remove properties: give their names, as text")
    return found
