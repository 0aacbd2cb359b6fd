"""Views: their definitions, and the commits of their versions."""
