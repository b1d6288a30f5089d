"""What a person's own functions on streams are made from."""
