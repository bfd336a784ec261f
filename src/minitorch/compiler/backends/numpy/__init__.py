"""NumPy, value by value: the reference that every other backend is measured against."""
