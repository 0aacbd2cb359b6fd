"""What keeps a table small, whole and clean."""
