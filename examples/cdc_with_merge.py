# %% [markdown]
# # Change data capture with MERGE
#
# A database sends its changes: inserted, updated and deleted rows, in order. MERGE applies them to a table on Spark,
# in one snapshot per batch. Then the table itself reports its changes to the next consumer.

# %%
import esker

lake = esker.connect("sqlite:///lake/catalog.db")
spark = lake.spark  # the running session, or a local one
lake.create_namespace("crm", if_not_exists=True)
lake.drop_table("crm.customers", if_exists=True)
customers = lake.create_table(
    "crm.customers",
    "id bigint not null, name string, city string",
    properties={"write.merge.mode": "merge-on-read"},  # small delete files instead of rewritten data files
)
customers.append(
    [
        {"id": 1, "name": "Ann", "city": "Oslo"},
        {"id": 2, "name": "Bob", "city": "Rome"},
        {"id": 3, "name": "Eve", "city": "Bern"},
    ]
)

# %% [markdown]
# One batch of changes. The key 2 occurs twice, so only its last change counts: MERGE refuses a source with two rows
# for one row of the table.

# %%
changes = spark.createDataFrame(
    [
        (1, "update", 2, "Bob", "Lima"),
        (2, "delete", 3, None, None),
        (3, "insert", 4, "Kim", "Cork"),
        (4, "update", 2, "Bob", "Nice"),
    ],
    "position int, op string, id bigint, name string, city string",
)
changes.createOrReplaceTempView("changes")

result = lake.sql("""
    MERGE INTO crm.customers t
    USING (SELECT id, max_by(struct(op, name, city), position) AS last FROM changes GROUP BY id) s
    ON t.id = s.id
    WHEN MATCHED AND s.last.op = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET name = s.last.name, city = s.last.city
    WHEN NOT MATCHED AND s.last.op <> 'delete' THEN INSERT (id, name, city) VALUES (s.id, s.last.name, s.last.city)
""")
result.select("added_records", "updated_records", "deleted_records").show()

# %%
lake.sql("SELECT * FROM crm.customers ORDER BY id").show()

# %% [markdown]
# ## The table's own changes
#
# `scan_changes` returns what a range of snapshots changed. With `keys`, a delete and an insert of the same key are an
# update. A consumer stores the last snapshot that it has read, and starts there the next time.

# %%
customers.refresh()  # see the snapshot that SQL has committed
loaded, merged = [snapshot.snapshot_id for snapshot in customers.snapshots]
feed = customers.scan_changes(loaded, keys=["id"]).to_pandas()
print(feed.sort_values(["id", "_change_type"])[["_change_type", "id", "name", "city"]].to_string(index=False))
