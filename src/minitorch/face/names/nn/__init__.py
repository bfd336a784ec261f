"""Addresses of torch.nn that exist only because programs import them."""
