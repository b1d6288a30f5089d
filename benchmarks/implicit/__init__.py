"""Programs that cache nothing themselves, by plain Spark and with the implicit cache."""
