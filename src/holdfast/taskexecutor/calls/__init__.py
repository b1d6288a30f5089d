"""What a task executor is asked, in the same process or over the network."""
