"""What people see of a catalog: one model for the commands and the page. Each call only reads."""
