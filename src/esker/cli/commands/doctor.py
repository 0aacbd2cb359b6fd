"""``esker doctor``: check this machine and the store, and say what to do about each problem."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import click

from esker.cli.shared_options import Settings, current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen


# ---------------------------------------------------------------- checks: each function checks one thing


Level = Literal["ok", "note", "finding"]
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, and the result."""

    name: str
    level: Level
    said: str
    advice: str | None = None


def every_check(settings: Settings) -> list[Check]:
    """All checks. What is needed most comes first."""
    return [
        check_python(),
        check_package("pyarrow", needed=True, why="reads and writes data files"),
        check_decoder(),
        check_telemetry_decoder(),
        check_package("pyspark", needed=False, why="the engine for large tables; pip install 'esker[spark]'"),
        check_java(),
        check_workers(),
        check_package("duckdb", needed=False, why="SQL on scans without Spark; pip install 'esker[duckdb]'"),
        check_store(settings),
    ]


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Check:
    """Check that Python is new enough."""
    said = sys.version.split()[0]
    if version < OLDEST_PYTHON:
        return Check("python", "finding", said, "Esker needs Python 3.11 or newer.")
    return Check("python", "ok", said)


def check_package(name: str, *, needed: bool, why: str) -> Check:
    """Check that a package is installed, and report its version."""
    try:
        return Check(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(name, "finding" if needed else "note", "not installed", f"{why[0].upper()}{why[1:]}.")


def check_decoder() -> Check:
    """Check that the Avro decoder is compiled. Without it planning is correct but slower."""
    return _compiled("avro decoder", ("esker.avro._shred",), "Planning works")


def check_telemetry_decoder() -> Check:
    """Check that the OTLP decoder and the encoder of variants are compiled. Without them an ingest is correct but
    slower."""
    return _compiled("otlp decoder", ("esker.otlp._walk", "esker.otlp._variants"), "Ingest works")


def _compiled(name: str, modules: tuple[str, ...], what: str) -> Check:
    for module in modules:
        found = util.find_spec(module)
        if found is None or found.origin is None or found.origin.endswith(".py"):
            advice = f"{what} but is slower; install a C compiler, then reinstall esker."
            return Check(name, "finding", "not compiled; the one in pure Python is used", advice)
    return Check(name, "ok", "compiled")


def check_java() -> Check:
    """Check that Java is installed and new enough for Spark."""
    java = _java()
    advice = f"Spark needs Java {OLDEST_JAVA} or newer: install it, or set JAVA_HOME to it."
    if java is None:
        return Check("java", "finding", "not found", advice)
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("java", "finding", f"{java} cannot be run: {error}", advice)
    version = _JAVA_VERSION.search(run.stderr + run.stdout)
    if version is None:
        return Check("java", "finding", f"{java} does not report its version", advice)
    if int(version[1]) < OLDEST_JAVA:
        return Check("java", "finding", f"{version[1]} at {java}", advice)
    return Check("java", "ok", f"{version[1]} at {java}")


def check_workers() -> Check:
    """Check that the Python of Spark's workers has the packages that Esker needs there."""
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    advice = "Spark's workers need pyarrow: set PYSPARK_PYTHON to a Python that has it."
    asked = "import sys, pyarrow, numpy; print(sys.version.split()[0], pyarrow.__version__)"
    try:
        run = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("workers' python", "finding", f"{python} cannot be run: {error}", advice)
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        return Check("workers' python", "finding", f"{python}: {last}", advice)
    version, pyarrow = run.stdout.split()
    if version.split(".")[:2] != [str(part) for part in sys.version_info[:2]]:
        advice = "Spark needs the same Python version in its workers as here: set PYSPARK_PYTHON to such a Python."
        return Check("workers' python", "finding", f"{version} at {python}, here {sys.version.split()[0]}", advice)
    return Check("workers' python", "ok", f"{version} with pyarrow {pyarrow} at {python}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", "java") if home else None
    return str(inside) if inside is not None and inside.is_file() else shutil.which("java")


def check_store(settings: Settings) -> Check:
    """Check that the store refuses to create a file twice. This prevents that two writers commit the same version."""
    from esker.errors import AlreadyExists, EskerError
    from esker.storage.local import LocalStorage
    from esker.storage.location import Location

    place, made_up = _warehouse(settings)
    parsed = Location.parse(place)
    if parsed.scheme != "file":
        return _check_object_store(place, settings)
    folder = Path(parsed.path)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    where = f"{folder} ({made_up})" if made_up else str(folder)
    probe = str(folder / f".esker-doctor-{uuid4().hex}")
    storage = LocalStorage()
    advice = "Commits here could overwrite each other: move the warehouse to a store that refuses this."
    try:
        storage.write_new(probe, b"first")
        try:
            storage.write_new(probe, b"second")
        except AlreadyExists:
            whole = storage.read(probe) == b"first"
            if whole:
                return Check("store", "ok", f"exclusive creates work at {where}")
        return Check("store", "finding", f"{where} let a file be created twice", advice)
    except (OSError, EskerError) as error:
        return Check("store", "finding", f"cannot write at {where}: {error}", "Choose another folder with --warehouse.")
    finally:
        _remove(probe)


def _check_object_store(place: str, settings: Settings) -> Check:
    """The store honours ``If-None-Match``: a directory catalog needs that, a catalog in a database does not."""
    from esker.catalogs.object_folders import check_conditions
    from esker.errors import EskerError, Unsupported
    from esker.storage.objects.configuration import ObjectConfiguration
    from esker.storage.objects.object_storage import ObjectStorage

    storage = ObjectStorage(ObjectConfiguration.of(settings.properties), roots=[place])
    try:
        check_conditions(storage, place)
    except Unsupported as error:
        if error.feature != "conditional create":
            return Check("store", "finding", f"cannot use {place}: {error}")
        advice = "Keep the catalog in a database; a directory catalog is refused here."
        return Check("store", "finding", f"{place} let an object be created twice: it ignores If-None-Match", advice)
    except EskerError as error:
        return Check("store", "finding", f"cannot write at {place}: {error}", "Choose another with --warehouse.")
    return Check("store", "ok", f"conditional creates work at {place}")


def _warehouse(settings: Settings) -> tuple[str, str]:
    """The warehouse to check, and a note if no warehouse was named."""
    from esker.storage.choose import is_remote

    if settings.warehouse is not None:
        return settings.warehouse, ""
    catalog = settings.catalog or ""
    if catalog.startswith("sqlite:///"):
        return str(Path(catalog.removeprefix("sqlite:///")).parent), ""
    if catalog.startswith("file:") or is_remote(catalog):
        return catalog, ""
    if Path("lake").is_dir():
        return "lake", ""
    return tempfile.gettempdir(), "no warehouse was given, so the temporary folder was checked"


def _remove(probe: str) -> None:
    try:
        Path(probe).unlink(missing_ok=True)
    except OSError:
        return


# ---------------------------------------------------------------- the command


SIGNS = {"ok": "ok", "note": "note", "finding": "PROBLEM"}


@click.command("doctor")
@shared_options
def doctor_command() -> None:
    """Check this machine: versions, Java, the compiled decoders, exclusive creates in the store.

    The exit status is 1 if there is a problem.
    """
    from esker.cli.answer import answer
    from esker.cli.failure import FINDING

    checks = every_check(current_settings())
    findings = sum(check.level == "finding" for check in checks)
    facts: dict[str, Any] = {
        "healthy": not findings,
        "findings": findings,
        "checks": [{"check": c.name, "level": c.level, "said": c.said, "advice": c.advice} for c in checks],
    }
    answer(facts, lambda screen: _show(screen, facts))
    if findings:
        click.get_current_context().exit(FINDING)


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted
    from esker.cli.screen import Column

    columns = [Column("check"), Column(""), Column("", wraps=True)]
    rows = []
    for check in facts["checks"]:
        said = check["said"] + (f". {check['advice']}" if check["advice"] else "")
        rows.append((check["check"], SIGNS[check["level"]], said))
    screen.table(columns, rows)
    if facts["healthy"]:
        screen.note("No problems found.")
    else:
        screen.warning(f"{counted(facts['findings'], 'problem')} found.")
