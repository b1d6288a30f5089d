"""The page of `holdfast ui`."""
