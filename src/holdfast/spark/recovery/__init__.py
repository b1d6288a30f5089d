"""What a job needs of Spark to outlive its driver: cuts, snapshots of sources, parts of a plan."""
