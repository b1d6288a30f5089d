"""What one program keeps with a lifetime, and a second one asks for again."""
