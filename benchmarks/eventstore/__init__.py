"""What recording the events of a job costs, and reading them back."""
