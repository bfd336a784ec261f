"""Scheduling: what is computed together, in which order, and where it lies in memory. Knows no machine.

machine    what is asked of a machine: the only door to it
groups     a Group: values computed together
grouping   which value is in which group, and what each reads
fuse       growing groups: folds.py reductions, merge.py two groups as one
stored     what lies in memory, and what is computed again
updates    outputs that replace inputs, in place
order      in which order groups run
memory     one arena for what lies in memory
schedule   all of this, one after the other: a Schedule
report     what became of it
"""
