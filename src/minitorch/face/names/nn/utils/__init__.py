"""Addresses of torch.nn.utils that exist only because programs import them."""
