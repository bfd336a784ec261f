"""The program: its primitives with their meaning in NumPy, how to build and simplify it, index maps, sizes that vary."""
