"""Which Esker this is."""

VERSION = "0.1.0"
