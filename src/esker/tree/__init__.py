"""The four levels below the catalog's pointer, frozen, with no I/O."""
