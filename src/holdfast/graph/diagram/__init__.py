"""Graphs to show to a person: as text in a terminal, as a drawing in a notebook."""
