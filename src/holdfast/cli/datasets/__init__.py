"""`holdfast ls`, `show` and `rm`: what is kept, seen from outside of the program that uses it."""
