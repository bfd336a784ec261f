"""Addresses below torch.utils that exist only under the torch face."""
