"""What runs a scheduled program: one room for each."""
