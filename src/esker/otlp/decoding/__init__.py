"""From requests to Arrow tables, with a dead letter for each record that cannot be decoded."""
