"""Fetch the jars of the reference by Maven: ``jars.py FOLDER GROUP:NAME:VERSION …``; with ``--with-dependencies`` in
front, those that they need to run as well. One jar of several is named GROUP:NAME:VERSION:jar:CLASSIFIER.

Exit status 75 says that they cannot be had here (no Java, no Maven, no network), in one line; a version that
is not there is a mistake of ours, and so is anything else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
ALL = "--with-dependencies"
PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>esker</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
CANNOT_BE_HAD = 75
SECONDS = 300


def main(folder: Path, artifacts: list[str]) -> int:
    """Bring what is missing; what is not named goes, so that two versions never meet on one class path."""
    named = {artifact: folder / _file_name(artifact) for artifact in artifacts}
    for jar in set(folder.glob("*.jar")) - set(named.values()):
        jar.unlink()
    if lacking := _lacking():
        return lacking
    folder.mkdir(parents=True, exist_ok=True)
    for artifact, jar in named.items():
        status = 0 if jar.exists() else _fetch(artifact, folder, "copy", f"-Dartifact={artifact}")
        if status:
            return status
    return 0


def main_with_dependencies(folder: Path, artifacts: list[str]) -> int:
    """Bring artifacts and what they need, unless these very ones were brought before."""
    project = PROJECT.format("".join(map(_dependency, artifacts)))
    brought = folder / "pom.xml"  # written when all jars are there
    if brought.exists() and brought.read_text() == project:
        return 0
    if lacking := _lacking():
        return lacking
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = folder / "wanted.xml"
    wanted.write_text(project)
    status = _fetch(" ".join(artifacts), folder, "copy-dependencies", f"--file={wanted.name}", "-DincludeScope=runtime")
    if not status:
        wanted.rename(brought)
    return status


def _file_name(artifact: str) -> str:
    _, name, version, *rest = artifact.split(":")
    return "-".join((name, version, *rest[1:])) + ".jar"


def _dependency(artifact: str) -> str:
    group, name, version, *rest = artifact.split(":")
    classifier = f"<classifier>{rest[1]}</classifier>" if rest else ""
    return DEPENDENCY.format(group, name, version, classifier)


def _lacking() -> int:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return _skipped(f"{tool} is not installed")
    return 0


def _fetch(what: str, folder: Path, goal: str, *options: str) -> int:
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"{PLUGIN}:{goal}",
        *options,
        f"-DoutputDirectory={folder.resolve()}",
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _skipped(f"Maven did not bring {what} within {SECONDS} s")
    if done.returncode == 0:
        return 0
    # Maven remembers what it did not find, and says so in other words the next time
    if "Could not find artifact" in done.stdout or "was not found in" in done.stdout:
        print(f"interop-jvm: there is no {what}", file=sys.stderr)
        return 1
    return _skipped(f"Maven cannot bring {what}")


def _skipped(reason: str) -> int:
    print(f"interop-jvm: skipped, the jars cannot be had: {reason}")
    return CANNOT_BE_HAD


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main_with_dependencies(Path(given[1]), given[2:]) if given[0] == ALL else main(Path(given[0]), given[1:]))
