"""The log of the server: one JSON object in each line, for requests, for changes and for errors."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from esker.errors import InvalidInput

_ROOT = "esker.serve"


class JsonLines(logging.Formatter):
    """Writes a record as one line. Its ``fields`` become members; a text of a client cannot begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "log": record.name.removeprefix(f"{_ROOT}."),
            "level": record.levelname.lower(),
            **(getattr(record, "fields", None) or {"message": record.getMessage()}),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(found).decode()


def write_log(file: str) -> None:
    """Write the log of the server to a file; ``-`` is standard error. Raises ``InvalidInput`` if it cannot be written.

    A file that was moved away is made again, so that programs that rotate logs need no signal.
    """
    try:
        where: logging.Handler
        if file == "-":
            where = logging.StreamHandler(sys.stderr)
        else:
            from logging.handlers import WatchedFileHandler

            where = WatchedFileHandler(Path(file).absolute(), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write the log {file}: {error.strerror or error}") from None
    where.setFormatter(JsonLines())
    for name, level in ((_ROOT, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [where]
        logger.setLevel(level)
        logger.propagate = False
