"""The engine: the node, the record of an op, the walk backwards, and who wrote into what when."""
