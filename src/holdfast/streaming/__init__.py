"""What runs the operators of streams inside Spark's Python workers."""
