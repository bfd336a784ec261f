"""The `minitorch` command."""
