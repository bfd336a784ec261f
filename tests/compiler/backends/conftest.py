"""Tests of backends ask for what a program gives, and not for what the function itself gives while it is audited."""

import pytest

from minitorch.compiler.call.audit import Audits


@pytest.fixture(autouse=True)
def no_audit_at_the_second_call(monkeypatch):
    """Let a program answer from its second call on. (An audit runs the function, and returns its own results.)

    A file that tests audits too has a fixture of this name that does nothing.
    """
    begin = Audits.__init__

    def later(self, wanted):
        begin(self, wanted)
        self.put_off()

    monkeypatch.setattr(Audits, "__init__", later)
