"""Iceberg's own compatibility kit for REST catalogs, against ``esker serve`` over SQLite and PostgreSQL.

Its own server has 144 successful tests and 12 that their assumptions end. A test that fails here is a fault of ours.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from tempfile import gettempdir

import pytest
from esker_server import serving
from postgres_server import PostgresServer
from rest_servers import JARS

import esker

AT_LEAST = 145


@pytest.mark.parametrize("catalog", ["sqlite", "postgresql"])
def test_the_kit_finds_no_fault(catalog: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    jars = JARS / "rest-kit"
    if not (jars / "pom.xml").exists():
        pytest.skip(f"the jars of the kit are not in {jars}")
    warehouse = str(tmp_path / "warehouse")
    if catalog == "sqlite":
        lake = esker.connect(
            f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse, allowed_roots=[gettempdir(), tmp_path]
        )
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(server.new_catalog(tmp_path), allowed_roots=[gettempdir(), tmp_path])
    options = ["-Drck.local=false", "-Drck.purge-test-namespaces=true", "-Drck.requires-namespace-create=true"]
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary"]
    kit = ["--select-class", "org.apache.iceberg.rest.RESTCompatibilityKitSuite"]
    with serving(lake) as uri:
        command = ["java", "-Xmx700m", *options, "-cp", f"{jars}/*", *launcher, *kit]
        environment = {**os.environ, "CATALOG_URI": uri}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) tests (\w+)", done.stdout)}
    failed = re.findall(r"methodName = '(\w+)'.*\n\s*=> (.{0,200})", done.stdout)
    assert counts["failed"] == 0, failed
    assert counts["successful"] >= AT_LEAST, counts
