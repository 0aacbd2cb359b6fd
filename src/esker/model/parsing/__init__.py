"""Parsers of text: tokens, and the grammars of predicates, values, column definitions and partition terms."""
