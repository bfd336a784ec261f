"""Ctrl-C between two calls that a function makes. Enters: what it calls. Leaves: the same, interrupted once."""


class Interrupted:
    """A list or a context variable; Ctrl-C comes as soon as one of its methods has done what it does, once."""

    def __init__(self, of, method):
        self.of, self.method = of, method

    def __getattr__(self, name):
        found = getattr(self.of, name)

        def call(*args):
            result = found(*args)
            if name == self.method:
                self.method = None
                raise KeyboardInterrupt
            return result

        return call

    def __contains__(self, each):
        return each in self.of
