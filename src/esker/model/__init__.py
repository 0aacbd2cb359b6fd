"""The model: types, schemas, transforms, predicates and pruning. Pure functions and values, without I/O."""
