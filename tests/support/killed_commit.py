"""A program that commits to ``sales.orders`` of a SQLite catalog and kills itself before or after the COMMIT."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tables import with_properties

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sqlite import SqliteDatabase
from esker.catalogs.warehouse import Warehouse
from esker.model.table_names import TableName
from esker.storage.local import LocalStorage


class Dying(sqlite3.Connection):
    """Takes the whole process with it."""

    when = "before"

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = super().execute(statement, *values)
        if statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor


if __name__ == "__main__":
    file, Dying.when = Path(sys.argv[1]), sys.argv[2]
    warehouse = Warehouse(str(file.parent / "warehouse"), LocalStorage())
    catalog = PointerCatalog(SqlPointers(SqliteDatabase(file, connection=Dying), "default"), warehouse)
    name = TableName(("sales",), "orders")
    base = catalog.load(name)
    catalog.swap(name, base, with_properties(base.metadata, {"by": Dying.when}))
