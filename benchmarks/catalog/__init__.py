"""What sharing results costs, and what it saves."""
