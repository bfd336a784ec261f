"""What is computed together, in which order, and where values lie. Knows no machine."""
