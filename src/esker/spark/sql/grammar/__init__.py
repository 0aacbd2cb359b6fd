"""The parser: the text of a statement becomes one of the types in ``statements``. No name is resolved here."""
