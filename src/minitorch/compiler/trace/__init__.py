"""A function, run once and written down as a Program."""
