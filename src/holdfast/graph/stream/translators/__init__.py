"""How a transformation of each type becomes nodes and edges."""
