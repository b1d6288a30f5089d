"""`holdfast advise`: what caching would have saved."""
