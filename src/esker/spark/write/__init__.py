"""Writing a DataFrame: rows distributed over tasks, written by workers, and the files reported to the driver."""
