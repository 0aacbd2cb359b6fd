"""The vocabulary, pure: types, schemas, transforms, predicates, verdicts."""
