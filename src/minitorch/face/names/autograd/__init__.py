"""Addresses below torch.autograd that exist only under the torch face."""
