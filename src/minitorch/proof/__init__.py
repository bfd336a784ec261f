"""Proof you can look at: one table of all ops, and what is read off it.

table.py lists every op with inputs to try it on. certificate.py runs it against finite differences on
the user's own machine (`minitorch check`). The test suite reads the same table against PyTorch, on a
stand-in for a GPU, and with mistakes injected on purpose. conventions.py is the table of answers at
kinks, ties and zeros.
"""
