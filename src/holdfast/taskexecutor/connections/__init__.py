"""Which applications and jobs are connected to a task executor."""
