"""`minitorch bench`: minitorch beside its peers. Enters: options. Leaves: a table, JSON, a page, an exit code.

The rooms, in the order data walks: plan (what is asked of whom), measure (processes, rounds, progress), results
(every round's number, and what became slower), table (for a terminal), charts and page (for a browser), front (the
command). The workloads themselves are no part of the package: they import the peers, and lie in the checkout's
folder benchmarks/.
"""
