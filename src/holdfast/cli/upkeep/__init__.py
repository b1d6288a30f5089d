"""`holdfast gc`, `holdfast verify` and `holdfast catalog`: the upkeep of a storage directory."""
