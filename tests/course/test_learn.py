"""`minitorch learn`: folders, progress, hints; and learner's code that loops, dies, or cannot be read."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minitorch.app import command
from minitorch.course import practice, tensor
from minitorch.course.labs import LABS

SKELETON = '"""Mine."""\n'


def run(capsys, *arguments):
    """Run the command in this process; return its exit code, what it printed, and what it complained."""
    try:
        code = command.main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def folder(tmp_path, capsys):
    """A folder that was just begun."""
    assert run(capsys, "learn", "start", tmp_path / "mine")[0] == 0
    return tmp_path / "mine"


def test_the_list(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "learn")
    assert code == 0
    assert all(lab.name in out for lab in LABS)
    assert "minitorch learn start" in out
    assert list(tmp_path.iterdir()) == []


def test_start_writes_skeletons_and_pages(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["labs", "practice.py", "progress.json", "tensor.py"]
    assert [p.name for p in sorted((folder / "labs").iterdir())] == [lab.page for lab in LABS]
    for name in ("tensor.py", "practice.py"):
        compile((folder / name).read_text(), name, "exec")
    for page in (folder / "labs").iterdir():
        assert "## Hint" not in page.read_text()


def test_nothing_of_the_learners_is_overwritten(folder, capsys):
    (folder / "tensor.py").write_text(SKELETON)
    (folder / "labs" / "01-node.md").write_text("my notes")
    (folder / "labs" / "02-add-mul.md").unlink()
    code, out, _ = run(capsys, "learn", "start", folder)
    assert code == 0
    assert "left as they were" in out
    assert (folder / "tensor.py").read_text() == SKELETON
    assert (folder / "labs" / "01-node.md").read_text() == "my notes"
    assert (folder / "labs" / "02-add-mul.md").exists()
    run(capsys, "learn", "check", "--folder", folder)
    run(capsys, "learn", "hint", "node", "--folder", folder)
    assert (folder / "tensor.py").read_text() == SKELETON


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "learn", "start", tmp_path / "file")
    assert code == 2
    assert "cannot write to" in err
    code, _, err = run(capsys, "learn", "check", "--folder", tmp_path / "nowhere")
    assert code == 2
    assert "minitorch learn start" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["check", "sofmax"], "did you mean softmax?"),
        (["hint", "zzz"], "no lab is called 'zzz'"),
        (["solution", "99"], "no lab is called '99'"),
        (["--lang", "tlh"], "there is no language 'tlh'; there are en"),
        (["chek"], "did you mean check?"),
        (["check", "--seconds", "0"], "whole number from 1"),
    ],
)
def test_wrong_requests(folder, capsys, monkeypatch, arguments, complaint):
    monkeypatch.chdir(folder)
    code, _, err = run(capsys, "learn", *arguments)
    assert code == 2
    assert complaint in err


def test_a_course_from_the_skeleton_to_the_end(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, _ = run(capsys, "learn", "check")
    assert code == 1
    assert "lab 01: Tensor.__init__" in out
    assert "minitorch learn hint node" in out
    shutil.copy(tensor.__file__, folder)
    code, out, _ = run(capsys, "learn", "check", "softmax")
    assert (code, "lab 09 softmax: passed" in out, "Next: lab 01" in out) == (0, True, True)
    assert json.loads((folder / "progress.json").read_text())["passed"] == ["softmax"]
    shutil.copy(practice.__file__, folder)
    code, out, _ = run(capsys, "learn", "check")
    assert code == 0
    assert out.count(": passed") == len(LABS)
    assert "The engine is yours" in out
    code, out, _ = run(capsys, "learn")
    assert out.count("✓") == len(LABS)
    text = (folder / "tensor.py").read_text()
    (folder / "tensor.py").write_text(text.replace("self.grad + contribution", "contribution"))
    code, out, _ = run(capsys, "learn", "check", "add-mul")
    assert code == 1
    assert "[missing-accumulation]" in out
    assert "add-mul" not in json.loads((folder / "progress.json").read_text())["passed"]


BAD_FILES = {
    "an endless loop": ("def __init__(self, data", "while True: pass", "[endless-loop]", "tensor.py, "),
    "an end of the process": (
        "def __init__(self, data",
        "import os; os._exit(3)",
        "[process-died]",
        "exit code 3",
    ),
    "a crash": (
        "def __init__(self, data",
        "import os; os.kill(os.getpid(), 11)",
        "[process-died]",
        "SIGSEGV",
    ),
    "endless recursion": (
        "def __init__(self, data",
        "self.__init__(data)",
        "[endless-recursion]",
        "calls itself",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_code_that_does_not_come_back(name, folder, capsys):
    line, bad, mistake, detail = BAD_FILES[name]
    text = (folder / "tensor.py").read_text()
    head, found, rest = text.partition(line)
    signature, _, body = rest.partition("\n")
    (folder / "tensor.py").write_text(f"{head}{found}{signature}\n        {bad}\n{body}")
    code, out, _ = run(capsys, "learn", "check", "node", "--folder", folder, "--seconds", "1")
    assert code == 1
    assert mistake in out
    assert detail in out


@pytest.mark.parametrize(
    ("text", "mistake", "detail"),
    [
        ("class Tensor:\n    def __init__(self\n", "[syntax-error]", "tensor.py, 2"),
        ("import sys\nprint('noise')\nsys.exit('done')\n", "[import-crash]", "SystemExit: done"),
        ("x = 1\ny = x / 0\n", "[import-crash]", "tensor.py, 2: y = x / 0"),
        ("x = 1\n", "[not-written]", "Tensor"),
        (None, "[file-missing]", "tensor.py"),
    ],
)
def test_files_that_cannot_be_used(text, mistake, detail, tmp_path, capsys, monkeypatch):
    """In this process, as far as importing goes: what the worker calls."""
    from minitorch.course.check import check, load
    from minitorch.course.findings import Mistake, Result
    from minitorch.course.report import render_one

    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    path = tmp_path / "tensor.py"
    if text is not None:
        path.write_text(text)
    try:
        said = str(check(load(str(path), "tensor"), "node"))
    except Mistake as found:
        said = render_one(Result("node", "import", found.name, found.facts))
    assert mistake in said
    assert detail in said


def test_progress_that_cannot_be_read_is_kept_aside(folder, capsys):
    (folder / "progress.json").write_text("{half")
    code, _, err = run(capsys, "learn", "--folder", folder)
    assert code == 0
    assert "progress-unreadable.json" in err
    assert (folder / "progress-unreadable.json").read_text() == "{half"


def test_hints_come_one_after_the_other(folder, capsys):
    seen = [run(capsys, "learn", "hint", "matmul", "--folder", folder)[1] for _ in range(4)]
    assert [f"hint {n} of 3" in text for n, text in zip((1, 2, 3, 3), seen, strict=True)] == [True] * 4
    assert "minitorch learn solution matmul" in seen[-1]
    assert "def __matmul__" in run(capsys, "learn", "solution", "matmul")[1]


def test_the_language_is_remembered(tmp_path, capsys):
    run(capsys, "learn", "start", tmp_path / "en", "--lang", "en")
    assert json.loads((tmp_path / "en" / "progress.json").read_text())["language"] == "en"


def test_ctrl_c_leaves_nothing_running(folder):
    started = folder / "started"
    (folder / "tensor.py").write_text(f"open({str(started)!r}, 'w').close()\nwhile True: pass\n")
    line = [sys.executable, "-m", "minitorch", "learn", "check", "--folder", str(folder)]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not started.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in err
    here = [Path(p) for p in Path("/proc").glob("[0-9]*/cmdline")] if Path("/proc").is_dir() else []
    lines = [p.read_bytes() for p in here if p.exists()]
    assert not [each for each in lines if b"minitorch.course.worker" in each and str(folder).encode() in each]
