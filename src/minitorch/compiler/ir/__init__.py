"""The program: its primitives with their meaning in NumPy, building and simplifying it, index maps, sizes that vary."""
