"""Changes of schemas and partition specs, each a function from the old to the new one, and their rules."""
