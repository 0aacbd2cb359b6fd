"""Spark's JVM through py4j, in few calls: each costs a tenth of a millisecond, and looking up a class one per dot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jvm:
    """What lies behind a classic session; names are looked up once."""

    def __init__(self, session: SparkSession) -> None:
        self.gateway: Any = session.sparkContext._gateway
        self.session: Any = session._jsparkSession
        self._known: dict[object, Any] = {}

    def new(self, name: str, *arguments: Any) -> Any:
        """A new object of a class."""
        return self._class(name)(*arguments)

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """The answer of a static method."""
        return self.once((name, method), lambda: getattr(self._class(name), method))(*arguments)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Something that is the same for every scan, made when it is first asked for."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found

    def sequence(self, items: Iterable[Any]) -> Any:
        """A Scala sequence."""
        made = self.new("java.util.ArrayList")
        for item in items:
            made.add(item)
        return self.call(_PYTHON, "toSeq", made)

    def mapping(self, pairs: Mapping[str, str]) -> Any:
        """A Scala map."""
        made = self.new("java.util.HashMap")
        for key, value in pairs.items():
            made.put(key, value)
        return self.call(_PYTHON, "toScalaMap", made)

    def schema(self, json: str) -> Any:
        """A ``StructType`` of Scala's."""
        return self.call("org.apache.spark.sql.types.DataType", "fromJson", json)

    @property
    def none(self) -> Any:
        """No value, where Scala wants an option."""
        return self.once("none", lambda: self.call("scala.Option", "empty"))

    def _class(self, name: str) -> Any:
        from py4j.java_gateway import JavaClass

        return self.once(name, lambda: JavaClass(name, self.gateway._gateway_client))


_PYTHON = "org.apache.spark.api.python.PythonUtils"
