"""Files of this machine: read, written, locked and removed so that others see no half of it."""
