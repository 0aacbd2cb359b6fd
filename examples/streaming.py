# %% [markdown]
# # Streams into and out of a table
#
# Structured Streaming writes to a table with exactly-once commits, and reads a table as a stream of added rows.
# It needs Spark, as it comes from PyPI.

# %%
import shutil
from pathlib import Path

import esker

checkpoints = Path("lake/checkpoints").absolute()
shutil.rmtree(checkpoints, ignore_errors=True)  # so that this example can be run again
lake = esker.connect("sqlite:///lake/catalog.db")
spark = lake.spark  # the running session, or a local one
esker.spark.register(spark, lake)  # the format "esker" for streams
lake.create_namespace("web", if_not_exists=True)
for name in ("web.clicks", "web.clicks_per_page"):
    lake.drop_table(name, if_exists=True)
clicks = lake.create_table("web.clicks", "user string, page string")

# %% [markdown]
# The source here is a folder of JSON files. Each file that arrives is read once.

# %%
inbox = Path("lake/inbox").absolute()
shutil.rmtree(inbox, ignore_errors=True)
inbox.mkdir(parents=True)
(inbox / "1.json").write_text('{"user": "ann", "page": "/"}\n{"user": "bob", "page": "/shop"}\n')


def ingest() -> None:
    """Write everything that is new to the table, then stop."""
    arriving = spark.readStream.schema("user string, page string").json(str(inbox))
    writer = arriving.writeStream.format("esker").option("checkpointLocation", f"{checkpoints}/clicks")
    writer.trigger(availableNow=True).start("web.clicks").awaitTermination()
    clicks.refresh()


ingest()
print(clicks.scan().count(), "rows in", len(clicks.snapshots), "snapshot")

# %% [markdown]
# A restart continues at the checkpoint: no row is lost, and none is written twice.

# %%
(inbox / "2.json").write_text('{"user": "eve", "page": "/shop"}\n')
ingest()
ingest()  # nothing is new
print(clicks.scan().count(), "rows in", len(clicks.snapshots), "snapshots")

# %% [markdown]
# ## From one table to the next
#
# A table is also a source. Here each batch of added rows is merged into a table of counts.

# %%
counts = lake.create_table("web.clicks_per_page", "page string, clicks bigint")


def add_up(batch, number):
    """Add one batch to the counts."""
    news = batch.groupBy("page").count()
    merge = counts.merge(news, on="t.page = s.page").when_matched_update({"clicks": "t.clicks + s.count"})
    merge.when_not_matched_insert({"page": "s.page", "clicks": "s.count"}).commit()


stream = spark.readStream.format("esker").load("web.clicks")
writer = stream.writeStream.foreachBatch(add_up).option("checkpointLocation", f"{checkpoints}/counts")
writer.trigger(availableNow=True).start().awaitTermination()
print(counts.scan().to_pandas().sort_values("page").to_string(index=False))
