"""The partitions on a task executor: their files, and the book on them."""
