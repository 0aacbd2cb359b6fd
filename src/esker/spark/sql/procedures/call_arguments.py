"""The arguments of CALL, by name, and what procedures need to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.spark.sql.grammar.statements import Argument, Call
from esker.spark.sql.grammar.words import Words
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.queries.query_frames import Answer
from esker.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What procedures need to run."""

    names: LakeNames
    compute: Callable[[str], Any]  # computes an expression in Spark
    moment: Callable[[str], int]  # computes a time in Spark, as milliseconds
    get_spark: Callable[[], SparkSession]

    def table(self, name: object) -> Table:
        """Return the table that an argument names."""
        return self.names.must_find(Words(text_of("table", name)).name("the name of a table")).table


class Given:
    """The arguments of one call. Raises ``InvalidInput`` for unknown or repeated arguments."""

    def __init__(self, call: Call, known: Sequence[str], caller: Caller) -> None:
        self._call, self._caller = call, caller
        self._found: dict[str, Argument] = {}
        for at, argument in enumerate(call.arguments):
            name = argument.name
            if name is None:
                if at >= len(known):
                    raise self._refused(f"takes {len(known)} arguments: {', '.join(known)}", argument)
                if any(earlier.name is not None for earlier in call.arguments[:at]):
                    raise self._refused("takes arguments by place before those by name", argument)
                name = known[at]
            if name not in known:
                raise self._refused(f"has no argument {name!r}: it has {', '.join(known)}", argument)
            if name in self._found:
                raise self._refused(f"takes {name!r} once", argument)
            self._found[name] = argument

    def _refused(self, why: str, argument: Argument) -> InvalidInput:
        return InvalidInput(f"cannot call {self._call.name} (at {argument.place}): it {why}", place=argument.place)

    def get(self, name: str) -> Any:
        """Return the value, or None if it is not given."""
        argument = self._found.get(name)
        if argument is None:
            return None
        return argument.value if argument.is_constant else self._caller.compute(argument.text)

    def need(self, name: str) -> Any:
        """Return the value. Raises ``InvalidInput`` if it is not given."""
        value = self.get(name)
        if value is None:
            raise InvalidInput(
                f"cannot call {self._call.name} (at {self._call.place}): it needs {name}", place=self._call.place
            )
        return value

    def number(self, name: str) -> int | None:
        """Return a whole number, or None. Raises ``InvalidInput`` for another value."""
        value = self.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self._refused(f"takes a whole number for {name}, not {value!r}", self._found[name])
        return value

    def flag(self, name: str) -> bool | None:
        """Return true or false, or None. Raises ``InvalidInput`` for another value."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.refused(f"takes true or false for {name}, not {value!r}", name)
        return value

    def refused(self, why: str, name: str) -> InvalidInput:
        """Return the error for an argument that the call does not accept."""
        return self._refused(why, self._found[name])

    def moment(self, name: str) -> int | None:
        """Return a time in milliseconds, as Spark reads it in the session's time zone."""
        argument = self._found.get(name)
        return None if argument is None else self._caller.moment(argument.text)


Procedure = Callable[[Given, Caller], Answer]


def text_of(name: str, value: object) -> str:
    """Return the value of an argument, which must be text. Raises ``InvalidInput`` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"cannot use {value!r} for {name}: it must be text")
    return value


def mapping_of(name: str, value: object) -> dict[str, str]:
    """Return the value of an argument, which must be a map. It is empty if it is not given."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"cannot use {value!r} for {name}: it must be a map; write map('key', 'value', …)")
    return {str(key): str(one) for key, one in value.items()}
