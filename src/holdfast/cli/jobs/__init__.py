"""`holdfast jobs`: what runs, what can be gone on with, and what has ended."""
