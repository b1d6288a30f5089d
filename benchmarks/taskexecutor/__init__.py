"""What a task executor costs: serving files, and Spark's scans through it."""
