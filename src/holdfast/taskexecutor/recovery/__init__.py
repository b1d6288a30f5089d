"""How later starts of a job come by what earlier ones have left on a task executor."""
