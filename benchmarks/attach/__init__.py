"""What attaching a session costs where nothing is kept that could be read."""
