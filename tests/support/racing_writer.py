"""A program that appends to ``sales.orders`` again and again: catalog URI, its number, how many times."""

from __future__ import annotations

import sys

import pyarrow as pa

from esker.wiring import connect


def main(uri: str, who: int, times: int) -> None:
    """Append rows with ids that no other writer uses; begin when told so on standard input."""
    lake = connect(uri)
    table = lake.table("sales.orders")
    print("ready", flush=True)
    sys.stdin.readline()
    for at in range(times):
        table.append(pa.table({"id": pa.array([who * 1000 + at], pa.int64())}), summary={"who": f"{who}/{at}"})
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
