"""`holdfast demo`: a play in acts, each a module named `act_…`, over a story told by the data."""
