"""How Spark reads the partitions of a task executor: over WebHDFS."""
