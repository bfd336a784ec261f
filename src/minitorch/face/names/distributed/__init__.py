"""Addresses below torch.distributed that exist only under the torch face."""
