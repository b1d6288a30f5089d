"""One file for each version of the catalog's tables."""
