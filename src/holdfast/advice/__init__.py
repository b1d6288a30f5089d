"""What caching would have saved past queries, whoever ran them."""
