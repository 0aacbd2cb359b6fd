"""The parser: turns the text of a statement into one of the types in ``statements``. No name is resolved here."""
