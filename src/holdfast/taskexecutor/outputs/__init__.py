"""What is written on a task executor of a dataset, in one or several outputs."""
