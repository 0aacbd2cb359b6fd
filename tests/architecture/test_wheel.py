"""The wheel that README says how to build has all that the package needs, compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from documentation import ROOT

COMMAND = "pip wheel --no-deps --wheel-dir dist ."
PARTS = ("src", "pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.mark.slow
def test_a_wheel_is_built_as_readme_says_and_has_the_compiled_parts(tmp_path: Path) -> None:
    assert COMMAND in (ROOT / "README.md").read_text()
    built = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")  # what is here must not help
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=built)
        else:
            shutil.copyfile(ROOT / name, tmp_path / name)
    # with the tools of this environment: a test asks no registry for others
    asked = [sys.executable, "-m", *COMMAND.split(), "--quiet", "--no-build-isolation"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "dist").glob("esker-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for module in ("arrow/flat/_parquet", "avro/_shred", "iceberg/metadata/_split", "otlp/_walk", "otlp/_variants"):
        assert any(name.startswith(f"esker/{module}.") and name.endswith((".so", ".pyd")) for name in names), module
    sources = {f"esker/{path.relative_to(ROOT / 'src/esker')}" for path in (ROOT / "src/esker").rglob("*.py")}
    assert sources <= names
    assert {"esker/py.typed", "esker/spark/scan/FileFrames.java"} <= names
