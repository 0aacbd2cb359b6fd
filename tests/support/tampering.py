"""Tables with one file tampered with, read in a process of its own: what a hostile or broken file can make happen.

    python tampering.py SEED COUNT TABLE…

prints one JSON document. The process has a limit on memory, refuses every connection, and tells which files it
opened, so that a crash, a hang, a bomb, a network access or a read elsewhere is seen from outside.
"""

from __future__ import annotations

import io
import json
import random
import resource
import socket
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro

from esker import EskerError, col
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.ports.catalog import TableState
from esker.storage.memory import MemoryStorage
from esker.storage.relocated import RelocatedStorage
from esker.table import Table
from esker.wiring import current_metadata_file, workings_on

ROOT = "/table"
MEMORY = 6 << 30
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**64, 1e308, "", "x", "\x00", "../../x", [],
    {}, [[]], "/etc/passwd", "s3://bucket/x", "file:///etc/passwd", "decimal(99, 3)", "fixed[-1]", {"type": "list"},
)  # fmt: skip


# ---------------------------------------------------------------- mutations


def tampered(name: str, data: bytes, rng: random.Random) -> bytes:
    """The file with something wrong in it; half of the time in a form that still parses."""
    if rng.random() < 0.5:
        if name.endswith(".json"):
            return _tampered_json(data, rng)
        if name.endswith(".avro"):
            return _tampered_avro(data, rng)
    return _tampered_bytes(data, rng)


def _tampered_bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data)) if data else 0
    end = len(data) - rng.randrange(1, 64) if rng.random() < 0.3 else at  # footers are where the secrets are
    at = max(0, end)
    match rng.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :] if data else b"\x00"
        case 2:
            return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at + rng.randrange(9) :]
        case 3:
            return data[:at] + b"\xff" * rng.randrange(1, 9) + data[at + 8 :]
        case 4:
            return data[:at] + b"\x00" * rng.randrange(1, 33) + data[at + 32 :]
        case _:
            return data[at:] + data[:at]


def _tampered_json(data: bytes, rng: random.Random) -> bytes:
    try:
        document = json.loads(data)
    except ValueError:
        return _tampered_bytes(data, rng)
    holder, key = rng.choice(list(_places(document)))
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(STRANGE)
    return json.dumps(document).encode()


def _places(node: Any) -> Any:
    """Every spot of a document where something else could stand."""
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, part in parts:
        yield node, key
        yield from _places(part)


def _tampered_avro(data: bytes, rng: random.Random) -> bytes:
    """A container that is well formed and says something strange."""
    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema = json.loads(reader.metadata["avro.schema"])
        text = json.dumps(list(reader), default=_as_text)
        header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    except Exception:  # not one fastavro can take apart
        return _tampered_bytes(data, rng)
    for _ in range(20):
        parts = [json.loads(text, object_hook=_as_bytes), dict(header), json.loads(json.dumps(schema))]
        places = list(_places(parts[rng.choice([0, 0, 0, 1, 2])]))
        if not places:  # v1 lists of early writers have no header at all
            continue
        holder, key = rng.choice(places)
        holder[key] = rng.choice(_alike(holder[key]))
        out = io.BytesIO()
        try:
            fastavro.writer(out, fastavro.parse_schema(parts[2]), parts[0], metadata=parts[1])
            return out.getvalue()
        except Exception:  # the schema cannot hold that: try another
            continue
    return _tampered_bytes(data, rng)


def _alike(value: Any) -> list[Any]:
    """Strange values that could stand in the same place."""
    if isinstance(value, bytes):
        return [None, b"", b"\xff" * 20, b"\x80", value + value]
    same = [one for one in STRANGE if type(one) is type(value)]
    return [None, *same, *same]


def _as_text(value: Any) -> Any:
    return {"bytes": value.hex()} if isinstance(value, bytes) else str(value)


def _as_bytes(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["bytes"]) if value.keys() == {"bytes"} else value


# ---------------------------------------------------------------- reading


class Shelf(MemoryStorage):
    """A table's files in memory, one of them exchanged at a time."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files
        self.used: set[str] = set()

    def read(self, location: str) -> bytes:
        self._objects = {location: (self.files[location], 0)} if location in self.files else {}
        self.used.add(location)
        return super().read(location)


def read_everything(shelf: Shelf, metadata_file: str) -> int:
    """A table from its metadata file down to its rows, filtered and not."""
    metadata = decode_table_metadata(metadata_file, shelf.files[metadata_file])
    storage = RelocatedStorage(shelf, recorded=metadata.location, actual=ROOT)
    state = TableState(metadata=metadata, metadata_location=metadata_file)
    table = Table(name="t", state=state, workings=workings_on(storage), reload=lambda: state)
    scan = table.scan()
    rows = sum(batch.num_rows for batch in scan.to_batches())
    scan.count()
    fields = [f for f in metadata.schema if f.name]
    if fields:
        table.scan(col("`" + fields[0].name.replace("`", "``") + "`").is_not_null()).to_arrow()
    if len(metadata.snapshots) > 1:
        with suppress(EskerError):  # what a scan reads must be whole; of the past, files may be gone
            table.scan_changes(None).to_arrow()
    return rows


def attempt(shelf: Shelf, metadata_file: str) -> str:
    """How reading ends: ``read``, or the name of the error; anything but an error of ours starts with ``BAD``."""
    try:
        read_everything(shelf, metadata_file)
    except EskerError as error:
        named = error.facts.get("file")
        if type(error).__name__ == "Corrupt" and not (isinstance(named, str) and named):
            return f"BAD {error!r} names no file"
        return type(error).__name__
    except BaseException as error:
        import traceback

        return f"BAD {type(error).__name__}: {error} at {traceback.format_exc().splitlines()[-3:-1]}"[:600]
    return "read"


def load(table: Path) -> tuple[dict[str, bytes], str]:
    """The files of the table by where they stand, and which of them is its metadata."""
    root = table.resolve()
    files = {f"{ROOT}/{p.relative_to(root).as_posix()}": p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
    return files, f"{ROOT}/{current_metadata_file(root).relative_to(root).as_posix()}"


def watch(events: Counter[str]) -> None:
    """Count connections, and files opened under no folder where Python or the project lies."""
    ours = tuple(
        {*sys.path, sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[2]), "/usr", "/proc"} - {""}
    )

    def look(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and not args[0].startswith(ours):
            events[f"open {args[0]}"] += 1
        elif event in ("socket.connect", "socket.getaddrinfo"):
            events[event] += 1
            raise ConnectionRefusedError("no network here")

    sys.addaudithook(look)
    socket.setdefaulttimeout(1)


def main(seed: int, count: int, tables: list[str]) -> None:
    """Tamper ``count`` times with files of the tables in turn."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = random.Random(seed)
    loaded = [(name, *load(Path(name))) for name in tables]
    used: dict[str, list[str]] = {}
    for name, files, metadata_file in loaded:  # as they are, they read; and everything lazy is loaded
        shelf = Shelf(files)
        assert attempt(shelf, metadata_file) == "read", name
        used[name] = sorted({metadata_file, *shelf.used})
    ends: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    bad: list[str] = []
    watch(seen)
    for at in range(count):
        name, files, metadata_file = loaded[at % len(loaded)]
        victim = rng.choice(used[name])
        print(f"{at} {name} {victim}", file=sys.stderr, flush=True)  # the last line tells what a crash was about
        shelf = Shelf({**files, victim: tampered(victim, files[victim], rng)})
        end = attempt(shelf, metadata_file)
        ends[end.partition(" ")[0]] += 1
        if end.startswith("BAD"):
            bad.append(f"seed {seed} try {at}: {name} {victim}: {end}")
    print(json.dumps({"ends": ends, "bad": bad[:20], "seen": seen}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
