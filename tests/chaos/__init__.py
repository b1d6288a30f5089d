"""Kills drivers for real, starts them again, and counts the rows: see `episode.py`."""
