"""Generated pairs of computations, each by plain Spark and through Holdfast: the rows agree."""
