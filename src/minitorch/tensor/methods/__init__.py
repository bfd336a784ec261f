"""Tensor's methods by family. Each file holds one class that tensor.py mixes into Tensor."""
