# %% [markdown]
# # From a folder of Parquet files to a table
#
# Many projects start with Parquet files in folders such as `day=2026-11-01`. Esker adds these files to a table without
# copying them. It reads only their footers.

# %%
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

for day in (1, 2, 3):  # the files that are already there
    folder = Path(f"lake/warehouse/old/day=2026-11-0{day}")
    folder.mkdir(parents=True, exist_ok=True)
    ids = range(day * 1000, day * 1000 + 500)
    pq.write_table(pa.table({"id": ids, "kind": [f"k{number % 3}" for number in ids]}), folder / "part-0.parquet")
print(*sorted(str(file) for file in Path("lake/warehouse/old").rglob("*.parquet")), sep="\n")

# %% [markdown]
# The table has the columns of the files, and the column of the folders' names as its partition.

# %%
import esker

lake = esker.connect("sqlite:///lake/catalog.db")
lake.create_namespace("raw", if_not_exists=True)
lake.drop_table("raw.events", if_exists=True)
events = lake.create_table("raw.events", "id bigint, kind string, day date", partition_by=["day"])
snapshot = events.add_files(["lake/warehouse/old"])
print(snapshot.summary["added-data-files"], "files,", snapshot.summary["added-records"], "rows")

# %% [markdown]
# From now on it is a table: scans are pruned by the partitions and by the statistics in the footers.

# %%
print(events.scan("day = '2026-11-02' AND id < 2100").count(), "rows")
print(events.scan("day = '2026-11-02' AND id < 2100").explain())

# %% [markdown]
# It can be changed like every other table. The old files stay where they are, because older snapshots need them.

# %%
events.delete("kind = 'k0'")
events.append([{"id": 9000, "kind": "new", "day": date(2026, 11, 4)}])
print(events.scan().count(), "rows in", len(events.inspect.files()), "files")

# %% [markdown]
# A check before you switch: the first snapshot has the same rows as the folder.

# %%
import pyarrow.dataset as ds

before = ds.dataset("lake/warehouse/old", partitioning="hive").to_table()
after = events.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
print(sorted(before["id"].to_pylist()) == sorted(after["id"].to_pylist()))
