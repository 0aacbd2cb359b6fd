# %% [markdown]
# # Quick start
#
# A table on your own machine: create it, write to it, read it, change it, and look at an older snapshot.
# It needs no Spark and no server.

# %%
from datetime import date

import esker

lake = esker.connect("sqlite:///lake/catalog.db")  # a SQLite catalog; the files are beside it
lake.create_namespace("sales", if_not_exists=True)
lake.drop_table("sales.orders", if_exists=True)
orders = lake.create_table(
    "sales.orders",
    "id bigint not null, customer string, amount double, day date",
    partition_by=["day"],
)
print(orders.schema)

# %% [markdown]
# `append` takes lists of dictionaries, pyarrow tables, pandas and Polars frames, and DuckDB results.
# Each call is one atomic snapshot.

# %%
first = orders.append(
    [
        {"id": 1, "customer": "ann", "amount": 10.0, "day": date(2026, 11, 1)},
        {"id": 2, "customer": "bob", "amount": 20.0, "day": date(2026, 11, 1)},
        {"id": 3, "customer": "ann", "amount": 30.0, "day": date(2026, 11, 2)},
    ]
)
print(first.operation, first.summary["added-records"], "rows")

# %% [markdown]
# A scan reads only the files that can have matching rows. `explain` says which condition removed what.

# %%
scan = orders.scan("day = '2026-11-02' AND amount > 5", columns=["id", "amount"])
print(scan.to_pandas().to_string(index=False))
print(scan.explain())

# %% [markdown]
# ## Changing rows
#
# `update`, `upsert` and `delete` change rows, each in one snapshot.

# %%
orders.update({"amount": "amount * 2"}, "customer = 'bob'")
orders.upsert([{"id": 3, "customer": "ann", "amount": 33.0, "day": date(2026, 11, 2)}], on=["id"])
orders.delete("id = 1")
print(orders.scan().to_pandas().sort_values("id").to_string(index=False))

# %% [markdown]
# ## Time travel
#
# Every snapshot can still be read. A tag gives a snapshot a name.

# %%
orders.tag("first-load", snapshot_id=first.snapshot_id)
print(orders.scan(ref="first-load").count(), "rows then,", orders.scan().count(), "now")
print([snapshot.operation for snapshot in orders.snapshots])

# %% [markdown]
# ## A new column
#
# The schema changes in metadata only. No file is rewritten.

# %%
with orders.alter() as change:
    change.add_column("channel", "string")
orders.append([{"id": 4, "customer": "eve", "amount": 5.0, "day": date(2026, 11, 3), "channel": "web"}])
print(orders.scan("channel = 'web'").to_pandas().to_string(index=False))

# %% [markdown]
# A notebook shows a table as a card.

# %%
orders
