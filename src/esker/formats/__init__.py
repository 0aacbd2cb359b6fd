"""Table formats besides Iceberg: how they are found, and the table that users hold."""
