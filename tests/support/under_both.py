"""One program, printed by PyTorch and under the torch face. Enters: its text. Leaves: what each has printed."""

import contextlib
import io
import runpy
import subprocess
import sys
import warnings

import minitorch
from pytorch import torch


def printed_by_both(program, folder, *options):
    """Return what minitorch's face prints (out and err), and what PyTorch prints. options: of Python's, for the face."""
    path = folder / "program.py"
    path.write_text(program)
    theirs = io.StringIO()
    with contextlib.redirect_stdout(theirs), warnings.catch_warnings():
        if options:
            warnings.simplefilter("ignore")
        runpy.run_path(str(path), run_name="__main__")
    assert torch.__version__ != minitorch.__version__  # it was PyTorch that printed
    words = [sys.executable, *options, "-m", "minitorch", "run", str(path)]
    ours = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ours.returncode == 0, ours.stderr
    return ours.stdout, ours.stderr, theirs.getvalue()
