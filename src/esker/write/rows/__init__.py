"""Changes of rows: update, delete and merge, from the files an engine is shown to the deletes that a commit writes."""
