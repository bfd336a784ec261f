"""A learner's code in a process of its own. Enters: a folder and labs. Leaves: results; a hang, a crash are results."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minitorch.course.findings import Result
from minitorch.course.labs import Lab

SECONDS = 60.0  # for one check; training on the slowest machine takes a few
START = 60.0  # for the process to start at all, on a busy machine


def check_folder(folder: Path, labs: Sequence[Lab], seconds: float = SECONDS) -> Iterator[Result | Lab]:
    """Check the learner's files, in order, up to the first lab that fails; give results, and each lab that passed."""
    by_name = {lab.name: lab for lab in labs}
    command = [sys.executable, "-m", "minitorch.course.worker", str(folder), str(seconds), *by_name]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8",
            env={**os.environ, **one_thread, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=folder,
        )  # fmt: skip
        try:
            lab, check = labs[0].name, "import"
            for event in _events(process, seconds + 1.0):
                if event is None:
                    process.kill()
                    yield Result(lab, check, "endless-loop", _stuck(said, folder, seconds))
                    return
                if event["event"] == "check":
                    lab, check = event["lab"], event["check"]
                elif event["event"] == "passed":
                    yield by_name[event["lab"]]
                elif event["event"] == "result":
                    yield Result(**{key: value for key, value in event.items() if key != "event"})
                elif event["event"] == "done":
                    return
            code = process.wait()
            yield Result(lab, check, "process-died", {"what": _reason(code), "error": _last_words(said)})
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _events(process: subprocess.Popen[str], patience: float) -> Iterator[dict[str, Any] | None]:
    """Give what the process says; None when it has said nothing for too long; end when it ends."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    first = START
    while True:
        try:
            line = lines.get(timeout=patience + first)
            first = 0.0
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        yield json.loads(line)


def _stuck(said: Any, folder: Path, seconds: float) -> dict[str, str]:
    """Find the learner's line in what faulthandler wrote when the time was up."""
    lines = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', _text(said))
    facts = {"what": f"{seconds:g} s"}
    for file, line, name in lines:
        if Path(file).parent == folder.resolve() or Path(file).parent == folder:
            return {**facts, "line": f"{Path(file).name}, {line}: {name}"}
    return facts


def _reason(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _last_words(said: Any) -> str:
    lines = [line.strip() for line in _text(said).splitlines() if line.strip()]
    return " / ".join(lines[-3:])[:400]


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace"))
