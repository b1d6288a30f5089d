"""Streams on Spark: DataFrames of batches, and how records get to the driver and into files."""
