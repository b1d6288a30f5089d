"""What applications and starts of jobs have on a task executor."""
