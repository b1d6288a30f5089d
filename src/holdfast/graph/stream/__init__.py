"""From the transformations of a stream to its job's graph: each stage can be printed by itself."""
