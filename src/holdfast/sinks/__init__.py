"""Where the rows of a job that recovers are written, so that each is there exactly once."""
