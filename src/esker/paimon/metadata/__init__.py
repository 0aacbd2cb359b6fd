"""The JSON files of a Paimon table, its data types, and where its files are."""
