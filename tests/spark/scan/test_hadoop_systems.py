"""Which of Hadoop's file systems a session can open, by a JVM that is only played: real ones are in other tests."""

from __future__ import annotations

from typing import Any

import pytest

from esker.errors import InvalidInput
from esker.ports.storage import HadoopAccess, HadoopFile
from esker.spark.scan.hadoop_systems import Choice, HadoopSystems, Opened, choice_of

py4j_protocol = pytest.importorskip("py4j.protocol")

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
KEYS = (("fs.s3a.bucket.b.secret.key", "hidden-secret"),)


class Session:
    """Something that can be remembered."""


class PlayedJvm:
    """Answers as a JVM with these file system classes, and records the settings of each that is opened."""

    def __init__(self, classes: dict[str, str], failure: str = "") -> None:
        self.gateway = Session()
        self.session = self
        self.classes = classes
        self.failure = failure
        self.opened: list[tuple[str, dict[str, str]]] = []
        self._conf: dict[str, str] = {}

    def sessionState(self) -> PlayedJvm:  # noqa: N802
        return self

    def newHadoopConf(self) -> PlayedJvm:  # noqa: N802
        self._conf = {}
        return self

    def set(self, name: str, value: str) -> None:
        self._conf[name] = value

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        match method:
            case "getFileSystemClass":
                return _Class(self._class(arguments[0]))
            case "create":
                return arguments[0]
            case _:
                if self.failure:
                    raise py4j_protocol.Py4JError(self.failure)
                self.opened.append((arguments[0], dict(self._conf)))
                return None

    def _class(self, scheme: str) -> str:
        if scheme not in self.classes:
            raise py4j_protocol.Py4JError(f'UnsupportedFileSystemException: No FileSystem for scheme "{scheme}"')
        return self.classes[scheme]


class _Class:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:  # noqa: N802
        return self._name


def file(uri: str, settings: tuple[tuple[str, str], ...] = (), obstacle: str = "") -> HadoopFile:
    return HadoopFile(uri=uri, access=HadoopAccess(settings=settings, obstacle=obstacle))


def opened(jvm: Any, given: HadoopFile, choice: Choice = Choice.AUTO) -> Opened | str:
    return HadoopSystems().open(Session(), jvm, given, choice)  # type: ignore[arg-type]


def test_a_bucket_with_settings_has_a_scheme_of_its_own_that_tells_nothing() -> None:
    jvm = PlayedJvm({"s3a": S3A})
    found = opened(jvm, file("s3a://b/a b%20", KEYS))
    other = opened(jvm, file("s3a://b/a b%20", (("fs.s3a.bucket.b.secret.key", "another-secret"),)))
    assert isinstance(found, Opened)
    assert isinstance(other, Opened)
    scheme = found.uri.partition("://")[0]
    assert scheme.startswith("s3a-")
    assert found.uri == f"{scheme}://b/a b%20"
    assert other.uri != found.uri
    assert dict(found.opening.options) == {**dict(KEYS), f"fs.{scheme}.impl": S3A}
    assert jvm.opened[0] == (f"{scheme}://b/", {**dict(KEYS), f"fs.{scheme}.impl": S3A})
    assert "hidden" not in repr(found)


def test_a_bucket_without_settings_is_the_sessions_own() -> None:
    found = opened(PlayedJvm({"s3a": S3A}), file("s3a://b/f"))
    assert isinstance(found, Opened)
    assert (found.uri, found.opening.options) == ("s3a://b/f", ())


def test_a_file_system_is_opened_once_for_many_files() -> None:
    jvm, systems, session = PlayedJvm({"s3a": S3A}), HadoopSystems(), Session()
    for at in range(3):
        systems.open(session, jvm, file(f"s3a://b/{at}", KEYS), Choice.AUTO)  # type: ignore[arg-type]
    assert len(jvm.opened) == 1


def test_settings_that_two_lakes_cannot_have_at_once_are_not_mixed() -> None:
    jvm = PlayedJvm({"abfss": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"})
    key = "fs.azure.account.key.acct"
    first = file("abfss://c@acct/f", ((key, "one-long-key"),))
    assert isinstance(opened(jvm, first), Opened)
    assert opened(jvm, file("abfss://c@acct/f", ((key, "other-long-key"),))) == (
        "another lake of this program reads c@acct with other settings"
    )
    assert isinstance(opened(jvm, first), Opened)


@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        ("s3a", "the session has no file system for s3a; put hadoop-aws on it"),
        ("abfss", "the session has no file system for abfss; put hadoop-azure on it"),
        ("oss", "the session has no file system for oss"),
    ],
)
def test_a_missing_file_system_is_a_reason(scheme: str, reason: str) -> None:
    assert opened(PlayedJvm({}), file(f"{scheme}://b/f")) == reason


def test_a_failure_is_a_reason_of_one_line_without_secrets() -> None:
    jvm = PlayedJvm({"s3a": S3A}, "IOException: cannot use hidden-secret\n\tat org.apache")
    assert opened(jvm, file("s3a://b/f", KEYS)) == (
        "the session cannot open a file system for s3a: IOException: cannot use ***"
    )


def test_an_obstacle_of_the_storage_is_a_reason() -> None:
    assert opened(PlayedJvm({"s3a": S3A}), file("s3a://b/f", obstacle="it expires")) == "it expires"


def test_no_settings_are_sent_to_a_server_of_spark_connect() -> None:
    given = file("s3a://b/f", KEYS)
    assert opened(None, given) == "on Spark Connect, the server's file systems are not known"
    found = opened(None, given, Choice.NATIVE)
    assert isinstance(found, Opened)
    assert (found.uri, found.opening.options) == ("s3a://b/f", ())


def test_the_lake_chooses_before_the_table() -> None:
    assert choice_of(None, {}) is Choice.AUTO
    assert choice_of(None, {"read.spark.reader": "Arrow"}) is Choice.ARROW
    assert choice_of("native", {"read.spark.reader": "arrow"}) is Choice.NATIVE
    with pytest.raises(InvalidInput, match="auto, native or arrow"):
        choice_of(None, {"read.spark.reader": "jar"})
