"""`minitorch check`: proves every op on this machine. Enters: arguments. Leaves: a table, an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import minitorch


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="minitorch", description="The PyTorch you can read.")
    top.add_argument("--version", action="version", version=f"minitorch {minitorch.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="prove every op's derivative on this machine, and print a certificate",
        description="Compare every op's first and second derivative with finite differences in float64.",
    )
    check.add_argument("--html", type=Path, metavar="FILE", help="also write the certificate as a page")
    check.add_argument("--only", metavar="TEXT", help="only ops whose name contains TEXT")
    check.add_argument(
        "--trials", type=int, default=5, metavar="N", help="repeat each case with other numbers"
    )
    return top


def _progress(done: int, total: int, op: str) -> None:
    if sys.stderr.isatty():
        bar = "█" * (30 * done // total)
        end = "\n" if done == total else ""
        print(f"\r{bar:░<30} {done}/{total} {op:18}", end=end, file=sys.stderr, flush=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either as before or complete, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check(html: Path | None, only: str | None, trials: int) -> int:
    """Run the proof; return 0 if every op is proven, else 1."""
    from minitorch.proof import certificate

    if html is not None and not html.parent.is_dir():
        print(f"minitorch check: the folder {html.parent} does not exist", file=sys.stderr)
        return 2
    if trials < 1:
        print(f"minitorch check: --trials must be at least 1, got {trials}", file=sys.stderr)
        return 2
    made = certificate.make(trials, only, _progress)
    if not made.lines:
        print(f"minitorch check: no op's name contains {only!r}", file=sys.stderr)
        return 2
    print(made.text())
    if html is not None:
        write_whole(html, made.html())
        print(f"written to {html}")
    return 0 if made.ok else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    chosen = parser().parse_args(arguments)
    try:
        return check(chosen.html, chosen.only, chosen.trials)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
