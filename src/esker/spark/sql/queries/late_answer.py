"""The answer of a statement as a DataFrame that Spark makes only if it is used for more than ``collect``.

Imported late, because it loads PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import Row
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OWN = frozenset(("collect", "_esker_answer"))


class LateAnswer(ClassicFrame):  # type: ignore[misc]
    """A few rows that are known here. ``collect`` returns them without a call to the JVM.

    At the first use of anything else, the object becomes the frame that ``make`` returns, of the same class.
    """

    def __new__(cls, *_: object) -> Self:
        """Return an empty object. Before Spark 4.2, the class of frames takes only two arguments here."""
        return object.__new__(cls)

    def __init__(self, names: Sequence[str], rows: Sequence[tuple[Any, ...]], make: Callable[[], DataFrame]) -> None:
        self.__dict__["_esker_answer"] = (tuple(names), tuple(rows), make)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
            return super().__getattribute__(name)
        made = self._esker_answer[2]()
        held = super().__getattribute__("__dict__")
        held.clear()
        held.update(made.__dict__)
        self.__class__ = type(made)
        return getattr(self, name)

    def collect(self) -> list[Row]:
        """Return the rows."""
        names, rows, _ = self._esker_answer
        kind = Row(*names)
        return [kind(*row) for row in rows]
