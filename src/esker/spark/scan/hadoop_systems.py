"""Hadoop's file systems in a session: whether Spark's own readers can use one to reach a store.

A file system is asked for once per bucket, by opening it on the driver. This sends no request to the store.

Hadoop keeps one open file system per scheme and bucket, whatever the settings of the next reader are. So a bucket that
Esker has settings for gets a scheme of its own, ``s3a-`` and a few letters, which another session, lake or set of keys
does not share. The settings are options of the relation. Spark shows these in no plan, log or page.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.errors import InvalidInput
from esker.ports.storage import HadoopFile
from esker.spark.session.jvm import Jvm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

READER = "read.spark.reader"
"""The property, of a table or of a lake, that chooses who reads the files in Spark."""

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_JARS = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "gcs-connector"}
_SALT = secrets.token_bytes(16)  # so that a scheme says nothing of the keys
_SHORTEST = 8


class Choice(StrEnum):
    """Who reads the files in Spark."""

    AUTO = "auto"  # Spark's own readers where they can, Arrow where they cannot
    NATIVE = "native"  # Spark's own readers; an error if the session cannot reach the files
    ARROW = "arrow"  # Arrow in the workers


def choice_of(given: str | None, properties: Mapping[str, str]) -> Choice:
    """Return what the lake says, else what the table says. Raises ``InvalidInput`` for an unknown word."""
    text = given or properties.get(READER) or Choice.AUTO.value
    try:
        return Choice(text.strip().lower())
    except ValueError:
        raise InvalidInput(
            f"cannot use {READER}={text}: it is auto, native or arrow", property=READER, value=text
        ) from None


@dataclass(frozen=True, slots=True)
class Opening:
    """How Spark opens the files of a bucket: the scheme, as a reader knows it, and options with secrets."""

    scheme: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that Spark's own readers can open."""

    uri: str
    opening: Opening


_Key = tuple[str, str, tuple[tuple[str, str], ...]]
_used: MutableMapping[Any, dict[tuple[str, str], _Key]] = WeakKeyDictionary()
"""By JVM: the settings that a file system without a scheme of its own was opened with."""


class HadoopSystems:
    """Finds the file systems of sessions, and remembers them."""

    def __init__(self) -> None:
        self._known: MutableMapping[Any, dict[_Key, tuple[str, Opening] | str]] = WeakKeyDictionary()

    def open(self, session: SparkSession, jvm: Jvm | None, file: HadoopFile, choice: Choice) -> Opened | str:
        """Return the file for Spark's readers, or the reason why they cannot open it. ``jvm`` is None on Connect."""
        scheme, _, rest = file.uri.partition("://")
        authority, slash, path = rest.partition("/")
        if file.access.obstacle:
            return file.access.obstacle
        if jvm is None:
            # A plan that is sent to a server is written to its event log, so no settings are sent.
            if choice is Choice.NATIVE:
                return Opened(file.uri, Opening(scheme))
            return "on Spark Connect, the server's file systems are not known"
        known = self._known.setdefault(session, {})
        key = (scheme, authority, file.access.settings)
        found = known.get(key)
        if found is None:
            found = known[key] = _found(jvm, key)
        if isinstance(found, str):
            return found
        return Opened(f"{found[0]}://{authority}{slash}{path}", found[1])


def _found(jvm: Jvm, key: _Key) -> tuple[str, Opening] | str:
    from py4j.protocol import Py4JError

    try:
        return _open(jvm, key)
    except Py4JError as error:
        return _reason(key[0], error, key[2])


def _open(jvm: Jvm, key: _Key) -> tuple[str, Opening] | str:
    """Return the scheme to use and how to open it. Raises ``Py4JError`` if Hadoop cannot."""
    scheme, authority, settings = key
    conf = jvm.session.sessionState().newHadoopConf()
    kind = jvm.call("org.apache.hadoop.fs.FileSystem", "getFileSystemClass", scheme, conf).getName()
    used, options = scheme, settings
    if settings and kind == _S3A:
        digest = hashlib.blake2b(repr(key).encode(), key=_SALT, digest_size=5).hexdigest()
        used = f"{scheme}-{digest}"
        options = (*settings, (f"fs.{used}.impl", kind))
    elif _used.setdefault(jvm.gateway, {}).setdefault((scheme, authority), key) != key:
        return f"another lake of this program reads {authority} with other settings"
    for name, value in options:
        conf.set(name, value)
    root = jvm.call("java.net.URI", "create", f"{used}://{authority}/")
    jvm.call("org.apache.hadoop.fs.FileSystem", "get", root, conf)
    return used, Opening(scheme, options)


def _reason(scheme: str, error: Exception, settings: tuple[tuple[str, str], ...]) -> str:
    """Return in one line why Hadoop cannot open a bucket, without the values of settings."""
    text = str(getattr(error, "java_exception", None) or error).splitlines()[0]
    if "ClassNotFoundException" in text or "NoClassDefFoundError" in text or "No FileSystem for scheme" in text:
        jar = f"; put {_JARS[scheme]} on it" if scheme in _JARS else ""
        return f"the session has no file system for {scheme}{jar}"
    for _, value in settings:
        if len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return f"the session cannot open a file system for {scheme}: {text}"
