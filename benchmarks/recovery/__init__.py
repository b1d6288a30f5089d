"""What recovery costs, and what it saves."""
