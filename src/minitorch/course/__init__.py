"""The course: an engine in one file, labs that check a learner's own, and a backward pass to step through."""
