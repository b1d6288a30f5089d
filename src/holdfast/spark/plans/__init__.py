"""Facts of what Spark is about to run: its optimized form, its sizes, what of it is kept."""
