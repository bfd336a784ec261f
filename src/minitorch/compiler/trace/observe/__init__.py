"""Observing the run that is recorded: what it reads from outside, and what it changes there."""
