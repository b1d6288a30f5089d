"""A real Spark cluster on one machine: each node is a host with files of its own."""
