"""Addresses below torch.fx.experimental that packages ask."""
