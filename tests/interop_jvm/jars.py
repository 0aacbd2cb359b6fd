"""Fetch the jars of the reference by Maven: ``jars.py FOLDER GROUP:NAME:VERSION …``.

Exit status 75 says that they cannot be had here (no Java, no Maven, no network), in one line; a version that
is not there is a mistake of ours, and so is anything else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
CANNOT_BE_HAD = 75
SECONDS = 300


def main(folder: Path, artifacts: list[str]) -> int:
    """Bring what is missing; what is not named goes, so that two versions never meet on one class path."""
    named = {artifact: folder / "{1}-{2}.jar".format(*artifact.split(":")) for artifact in artifacts}
    for jar in set(folder.glob("*.jar")) - set(named.values()):
        jar.unlink()
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return _skipped(f"{tool} is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for artifact, jar in named.items():
        status = 0 if jar.exists() else _fetch(artifact, folder)
        if status:
            return status
    return 0


def _fetch(artifact: str, folder: Path) -> int:
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        COPY,
        f"-Dartifact={artifact}",
        f"-DoutputDirectory={folder.resolve()}",
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _skipped(f"Maven did not bring {artifact} within {SECONDS} s")
    if done.returncode == 0:
        return 0
    # Maven remembers what it did not find, and says so in other words the next time
    if "Could not find artifact" in done.stdout or "was not found in" in done.stdout:
        print(f"interop-jvm: there is no {artifact}", file=sys.stderr)
        return 1
    return _skipped(f"Maven cannot bring {artifact}")


def _skipped(reason: str) -> int:
    print(f"interop-jvm: skipped, the jars cannot be had: {reason}")
    return CANNOT_BE_HAD


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
