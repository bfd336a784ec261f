"""The command: what it prints, writes and returns; Ctrl-C, kill -9, and going on afterwards."""

import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import minitorch
from minitorch.app import command, plots, progress
from minitorch.app.experiments.grammar import GrammarForms
from minitorch.app.train import Run

ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def run(capsys, *arguments):
    """Run the command in this process; return its exit code, what it printed, and what it complained."""
    try:
        code = command.main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def events(text):
    return [json.loads(line) for line in text.splitlines()]


def test_list_shows_one_line_each(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()[:7]]
    assert names == ["xor", "grammar", "grammar-onehot", "grammar-forms", "digits", "digits-cnn", "gpt"]
    assert all(len(line) <= 110 for line in out.splitlines())


def test_check_still_proves(capsys, tmp_path):
    code, out, _ = run(capsys, "check", "--only", "exp", "--trials", "1", "--html", tmp_path / "c.html")
    assert code == 0
    assert "exp" in out
    assert (tmp_path / "c.html").read_text().startswith("<!")
    assert run(capsys, "check", "--only", "nothing-like-it")[0] == 2
    assert run(capsys, "check", "--trials", "0")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "digit"], "no experiment is called 'digit'; did you mean digits? `minitorch list`"),
        (["train", "gramar"], "did you mean grammar?"),
        (["train", "zzz"], "no experiment is called 'zzz'; `minitorch list` shows them all"),
        (["train"], "the following arguments are required: NAME"),
        (["train", "xor", "--epoch", "3"], "unrecognized arguments: --epoch 3; did you mean --epochs?"),
        (["train", "xor", "--sede=3"], "did you mean --seed?"),
        (["train", "xor", "--epochs", "0"], "expects a whole number from 1 on, got '0'"),
        (["train", "xor", "--epochs", "many"], "expects a whole number from 1 on, got 'many'"),
        (["train", "xor", "--seed", "x"], "expects a whole number from 0 to 2**63 - 1, got 'x'"),
        (["train", "xor", "--seed", str(2**70)], "from 0 to 2**63 - 1"),
        (["train", "xor", "--device", "tpu"], "invalid choice: 'tpu'"),
        (["train", "xor", "--compile", "--device", "cuda"], "--compile makes code for the CPU"),
        (["train", "xor", "--fresh", "--resume"], "not allowed with"),
        (["tarin", "xor"], "did you mean train?"),
        ([], "required: COMMAND"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_are_explained(capsys, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert complaint in err
    assert out == ""
    assert os.listdir(tmp_path) == []


def test_no_gpu_is_explained(capsys, tmp_path):
    if importlib.util.find_spec("cupy"):
        pytest.skip("there may be one")
    code, _, err = run(capsys, "train", "xor", "--device", "cuda", "--out", tmp_path)
    assert code == 2
    assert "--device cuda" in err
    assert "CuPy" in err or "cupy" in err


def test_missing_scikit_learn_is_explained(capsys, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else found(name))
    code, _, err = run(capsys, "train", "digits", "--out", tmp_path)
    assert code == 2
    assert "digits needs scikit-learn; in minitorch's folder: pip install '.[app]'" in err


def test_missing_llvmlite_is_explained(capsys, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llvmlite" else found(name))
    code, _, err = run(capsys, "train", "xor", "--compile", "--out", tmp_path)
    assert code == 2
    assert "--compile needs llvmlite; in minitorch's folder: pip install '.[compile]'" in err


def test_missing_matplotlib_means_no_plot(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert plots.curves([{"epoch": 1, "loss": 1.0, "accuracy": 0.5}], "x", tmp_path / "c.png") is None
    assert os.listdir(tmp_path) == []


def test_the_plots_axes_count_whole_epochs_and_its_curves_have_names(tmp_path, monkeypatch):
    figure_module = pytest.importorskip("matplotlib.figure")
    drawn = []
    save = figure_module.Figure.savefig
    monkeypatch.setattr(
        figure_module.Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))
    )
    for epochs in (1, 2, 4, 7, 40):
        history = [
            {"epoch": e + 1, "loss": 1 / (e + 1), "end_loss": 0.5 / (e + 1), "accuracy": 0.5}
            for e in range(epochs)
        ]
        plots.curves(history, "xor", tmp_path / "c.png")
        for axes in drawn[-1].axes:
            low, high = axes.get_xlim()
            ticks = [t for t in axes.get_xticks() if low <= t <= high]
            assert ticks
            assert all(t == int(t) for t in ticks)
        labels = [text.get_text() for text in drawn[-1].axes[0].get_legend().get_texts()]
        assert labels == ["training", "at the epoch's end"]


def test_a_folder_that_cannot_be_is_explained(capsys, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run(capsys, "train", "xor", "--out", tmp_path / "file")
    assert code == 2
    assert "cannot write to" in err


def test_train_writes_json_lines_and_its_files(capsys, tmp_path):
    code, out, err = run(capsys, "train", "xor", "--json", "--out", tmp_path, "--seed", 0)
    assert (code, err) == (0, "")
    start, *epochs, end = events(out)
    assert start["event"] == "start"
    assert (start["experiment"], start["parameters"], start["resumed"]) == ("xor", 33, False)
    assert all(e["event"] == "epoch" for e in epochs)
    assert end["event"] == "end"
    assert end["loss"] < 0.01
    folder = tmp_path / "xor"
    assert {"checkpoint.npz", "metrics.jsonl", "report.json"} <= set(os.listdir(folder))
    metrics = events((folder / "metrics.jsonl").read_text())
    assert metrics == [{k: v for k, v in e.items() if k != "event"} for e in epochs]
    assert json.loads((folder / "report.json").read_text())["loss"] == end["loss"]
    state = minitorch.load(folder / "checkpoint.npz")
    assert {"model", "optimizer", "scheduler", "random", "epoch", "history", "seed"} <= set(state)
    # again: nothing left to do, and said so
    code, out, _ = run(capsys, "train", "xor", "--json", "--out", tmp_path)
    assert code == 0
    assert [e["event"] for e in events(out)] == ["start", "end"]
    assert events(out)[0]["resumed"] is True
    # another seed is refused, and --fresh begins anew
    code, _, err = run(capsys, "train", "xor", "--out", tmp_path, "--seed", 3)
    assert code == 1
    assert "start anew with --fresh" in err
    (folder / "mine.txt").touch()
    code, out, _ = run(capsys, "train", "xor", "--json", "--out", tmp_path, "--seed", 3, "--fresh")
    assert code == 0
    assert events(out)[0]["seed"] == 3
    assert (folder / "mine.txt").exists()


def test_resume_needs_a_run(capsys, tmp_path):
    code, _, err = run(capsys, "train", "grammar-forms", "--out", tmp_path, "--resume")
    assert code == 2
    assert "--resume: there is no run in" in err
    assert run(capsys, "train", "grammar-forms", "--out", tmp_path, "--epochs", 1)[0] == 0
    code, out, _ = run(
        capsys, "train", "grammar-forms", "--json", "--out", tmp_path, "--epochs", 2, "--resume"
    )
    assert code == 0
    assert [e["epoch"] for e in events(out) if e["event"] == "epoch"] == [2]


def test_grammar_trains_both(capsys, tmp_path):
    code, out, _ = run(capsys, "train", "grammar", "--json", "--out", tmp_path, "--epochs", 1)
    assert code == 0
    assert [e["experiment"] for e in events(out) if e["event"] == "end"] == [
        "grammar-onehot",
        "grammar-forms",
    ]


# --- what a person at a terminal sees ----------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self):
        return True


def shown(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("rich", [True, False])
def test_a_terminal_shows_live_progress_and_the_report(tmp_path, monkeypatch, rich):
    if rich:
        pytest.importorskip("rich")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "120")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    screen = Screen()
    display = progress.choose(screen)
    assert type(display) is (progress.Rich if rich else progress.Terminal)
    monkeypatch.setattr(display, "last", -1e9)
    monkeypatch.setattr(progress.time, "monotonic", iter(range(10**6)).__next__)  # every batch is due
    Run(GrammarForms, tmp_path, epochs=2, progress=display).go()
    text = shown(screen.getvalue())
    assert "grammar-forms: " in text
    assert "parameters, 2 epochs, seed 0" in text
    if not rich:
        assert re.search(
            r"epoch 1/2  loss \d\.\d{4}  accuracy \d+\.\d%  [\d,]+ samples/s  \d+:\d\d left", text
        )
    else:
        assert "epoch 2/2" in text
        assert "samples/s" in text
    assert "new forms of known verbs" in text
    assert f"metrics and checkpoint: {tmp_path}" in text.replace("\n", "")
    assert ("curves: " in text) or ("matplotlib is missing" in text)
    again = Screen()
    Run(GrammarForms, tmp_path, epochs=2, progress=progress.choose(again)).go()
    assert "already trained, 2 epochs" in shown(again.getvalue())
    more = Screen()
    Run(GrammarForms, tmp_path, epochs=3, progress=progress.choose(more)).go()
    assert "continues after epoch 2 of 3" in shown(more.getvalue())


def test_no_terminal_means_plain_lines_and_json_is_asked_for():
    assert type(progress.choose(io.StringIO())) is progress.Lines
    assert type(progress.choose(io.StringIO(), json_lines=True)) is progress.JsonLines
    assert type(progress.choose(Screen(), json_lines=True)) is progress.JsonLines


def test_plain_lines_say_it_in_words(capsys, tmp_path):
    code, out, err = run(capsys, "train", "grammar-forms", "--epochs", 2, "--out", tmp_path)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\r" not in out
    first, second, *epochs = out.splitlines()
    assert first.startswith("grammar-forms: ")
    assert second.endswith("parameters, 2 epochs, seed 0")
    line = r"epoch {}/2  loss \d\.\d{{4}}  accuracy \d+\.\d%  validation \d+\.\d%  [\d,]+ samples/s"
    for number in (1, 2):
        assert re.fullmatch(line.format(number), epochs[number - 1])
    assert epochs[2].startswith("new forms of known verbs: ")
    assert epochs[-1] == f"metrics and checkpoint: {tmp_path / 'grammar-forms'}"


# --- a goal reached before the last epoch -----------------------------------------------------------


def test_a_run_that_stops_early_says_why_and_can_go_on(capsys, tmp_path):
    code, out, _ = run(capsys, "train", "xor", "--out", tmp_path)
    assert code == 0
    assert "33 parameters, at most 40 epochs (it stops when the loss is below 0.01), seed 0" in out
    stopped = re.search(r"^stopped after epoch (\d+) of 40: the loss is below 0\.01$", out, re.M)
    assert stopped
    reached = int(stopped[1])
    assert reached < 40
    code, out, _ = run(capsys, "train", "xor", "--out", tmp_path)
    assert f"already trained, {reached} epochs; --epochs N goes on to N, --fresh starts anew" in out
    assert stopped[0] in out
    # who names an epoch gets there
    code, out, _ = run(capsys, "train", "xor", "--out", tmp_path, "--epochs", reached + 2)
    assert code == 0
    assert f"continues after epoch {reached} of {reached + 2} epochs" in out
    assert f"epoch {reached + 2}/{reached + 2}  loss" in out
    assert "stopped" not in out
    report = json.loads((tmp_path / "xor" / "report.json").read_text())
    assert (report["epochs"], report["stopped_by"]) == (reached + 2, "")


def test_json_says_why_it_stopped(capsys, tmp_path):
    _, out, _ = run(capsys, "train", "xor", "--json", "--out", tmp_path)
    assert events(out)[0]["goal"] == events(out)[-1]["stopped_by"] == "the loss is below 0.01"


def test_resume_fails_where_nothing_is_left(capsys, tmp_path):
    assert run(capsys, "train", "xor", "--out", tmp_path)[0] == 0
    code, out, err = run(capsys, "train", "xor", "--out", tmp_path, "--resume")
    assert (code, out) == (2, "")
    assert f"--resume: the run in {tmp_path / 'xor'} is finished; --epochs N goes on to epoch N" in err
    assert run(capsys, "train", "xor", "--out", tmp_path, "--resume", "--epochs", 20)[0] == 0


def test_resume_of_two_goes_on_with_what_is_left(capsys, tmp_path):
    def resume(epochs):
        return run(capsys, "train", "grammar", "--json", "--out", tmp_path, "--resume", "--epochs", epochs)

    assert resume(1)[0] == 2
    assert run(capsys, "train", "grammar-onehot", "--out", tmp_path, "--epochs", 1)[0] == 0
    code, out, _ = resume(1)  # the first is done, the second was not reached
    assert code == 0
    assert [(e["epoch"], "new_verbs_accuracy" in e) for e in events(out) if e["event"] == "epoch"] == [
        (1, True)
    ]
    assert resume(1)[0] == 2
    assert resume(2)[0] == 0


# --- interrupted ------------------------------------------------------------------------------------


def start_training(folder, epochs):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "minitorch",
            "train",
            "grammar-forms",
            "--json",
            "--out",
            folder,
            "--epochs",
            str(epochs),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def wait_for_epochs(process, count):
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "epoch" and event["epoch"] >= count:
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_continued_is_as_if_nothing_had_been(tmp_path, how):
    process = start_training(tmp_path, 100_000)
    try:
        wait_for_epochs(process, 3)
        process.send_signal(how)
        rest, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    said = 3 + sum(json.loads(line)["event"] == "epoch" for line in rest.splitlines() if line.endswith("}"))
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert (
            f"Go on with: minitorch train grammar-forms --epochs 100000 --json --out {tmp_path}" in complaint
        )
        assert "Traceback" not in complaint
    else:
        assert process.returncode == -signal.SIGKILL
    reached = minitorch.load(tmp_path / "grammar-forms" / "checkpoint.npz")["epoch"]
    assert reached >= said  # nothing that was announced is lost
    continued = Run(GrammarForms, tmp_path / "grammar-forms", epochs=reached + 2)
    assert continued.epoch == reached
    continued.go()
    straight = Run(GrammarForms, tmp_path / "straight", epochs=reached + 2)
    straight.go()
    clocks = ("seconds", "samples_per_second")
    for record, expected in zip(continued.history, straight.history, strict=True):
        assert {k: v for k, v in record.items() if k not in clocks} == {
            k: v for k, v in expected.items() if k not in clocks
        }


def test_ctrl_c_in_this_process(capsys, tmp_path, monkeypatch):
    def interrupted(*anything):
        raise KeyboardInterrupt

    monkeypatch.setattr("minitorch.app.train.step", interrupted)
    code, _, err = run(capsys, "train", "xor", "--seed", 4, "--out", tmp_path)
    assert code == 130
    assert f"Go on with: minitorch train xor --seed 4 --out {tmp_path}" in err
    monkeypatch.undo()
    assert run(capsys, "train", "xor", "--seed", 4, "--out", tmp_path)[0] == 0


def test_a_closed_pipe_is_no_error():
    process = subprocess.run(
        f"{sys.executable} -m minitorch list | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout.startswith("xor")
    assert process.stderr == ""


def test_options_to_go_on_name_what_was_not_default():
    chosen = SimpleNamespace(
        seed=0, epochs=None, device="cpu", compile=False, json=False, out=command.Path("runs"), ranks=None
    )
    assert command._options_to_resume(chosen) == []
