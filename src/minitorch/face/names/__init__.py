"""Addresses that exist for the programs that import them: each file is PyTorch's module of that name."""
