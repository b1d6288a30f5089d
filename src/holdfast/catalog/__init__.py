"""The catalog: which results programs have kept, who holds them, and who may read them."""
