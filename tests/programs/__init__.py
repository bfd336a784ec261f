"""Whole programs in PyTorch's spelling, each a function main(torch) that returns the numbers it would print."""
