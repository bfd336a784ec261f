"""Is a program right for this call? Then run it: keys, guards, entry, verification, reports."""
