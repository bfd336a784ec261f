"""Tensor's methods and their functions, by family: the families of ops/. See public.py for how a name is offered.

Each file holds one class that Tensor inherits. arguments.py holds what several of them ask of their arguments.
"""
