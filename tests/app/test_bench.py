"""`minitorch bench`: what is asked, what is kept, what is said. Nothing here depends on how fast the machine is."""

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

import minitorch
from minitorch.app import command
from minitorch.app.bench import charts, gpu, measure, page, plan, run, table
from minitorch.app.bench.plan import BYTES, INSTRUCTIONS, Ask, Part, Questions
from minitorch.app.bench.results import Results, Row, Section, comparable, compare, load, machine

ROOT = Path(__file__).resolve().parents[2]

# A worker that answers at once, except where it is told to wait, to die, or that it is not installed.
WORKER = """
import json, sys, time
name = sys.argv[2]
print(json.dumps(None if name == "Missing" else "1.0"), flush=True)
for line in sys.stdin:
    if line.startswith("slow"):
        time.sleep(60)
    if line.startswith("die") and name == "Peer":
        raise SystemExit
    answer = {"problem": "too deep"} if line.startswith("fail") else 2.0 if name == "Peer" else 1.0
    if line.startswith("both"):
        answer = {"both, time": 3.0, "both, memory": 4.0}
    print(json.dumps(answer), flush=True)
"""
SUITE = """
from minitorch.app.bench.plan import BYTES, Ask, Questions, Part
GROUPS = [
    Questions("small", "Small things", "worker.py", ("minitorch", "Peer", "Missing"),
          (Ask("one", (Part("one"),), quick=True), Ask("two", (Part("two"),))), rounds=3),
    Questions("long", "Long things", "worker.py", ("minitorch", "Peer"), (Ask("slow", (Part("slow"),)),)),
]
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with tiny workloads, and the command in it."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "worker.py").write_text(WORKER)
    (folder / "suite.py").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "folder", lambda: folder)
    return tmp_path


def bench(capsys, *arguments):
    try:
        code = command.main(["bench", *map(str, arguments)])
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def results(factor=1.0, peers=1.0, unit="seconds", rounds=(1.0, 1.05, 1.1)):
    """Results of four rows, ours and a peer's."""
    made = Results(machine(), versions={"minitorch": "0.1.0", "PyTorch": "2.13.0"}, finished=True)
    made.sections["eager"] = Section("eager", "One small op")
    for name in ("add", "mul", "exp", "sum"):
        values = {"minitorch": [factor * r for r in rounds], "PyTorch": [2 * peers * r for r in rounds]}
        made.sections["eager"].rows[name] = Row(name, unit, values=values)
    return made


# --- what is asked --------------------------------------------------------------------------------------------


def test_the_checkouts_suite_can_be_read_and_chosen_from():
    groups = plan.load(plan.folder())
    names = [group.name for group in groups]
    assert {"eager", "compiled", "size", "steps", "compile", "graph", "memory", "first", "install"} <= set(
        names
    )
    assert len(set(names)) == len(names)
    for group in groups:
        assert (ROOT / "benchmarks" / group.script).is_file()
        rows = [part.row for ask in group.asks for part in ask.parts]
        assert len(set(rows)) == len(rows), group.name
        assert group.asks or group.left_out
        assert group.about or group.name.startswith("limits")
    quick = plan.choose(groups, quick=True)
    assert all(group.rounds <= 2 for group in quick)
    assert sum(len(g.asks) for g in quick) < sum(len(g.asks) for g in groups) / 2
    assert [g.name for g in plan.choose(groups, only="compile time")] == []
    assert [g.name for g in plan.choose(groups, only="compile")] == ["compile"]
    assert {g.name for g in plan.choose(groups, only="compil")} >= {"compile", "compiled"}
    assert "GPT" in plan.choose(groups, only="gpt")[0].asks[0].text
    assert all(g.rounds == 9 for g in plan.choose(groups, rounds=9))


def test_sizes_reach_ten_million_and_graphs_a_million():
    groups = {group.name: group for group in plan.load(plan.folder())}
    assert max(part.x for ask in groups["size"].asks for part in ask.parts) == 10**7
    assert max(part.x for ask in groups["graph"].asks for part in ask.parts) == 10**6


def test_contenders_stand_side_by_side_in_every_round():
    asks = (Ask("a", (Part("a"),)), Ask("b", (Part("b"),)))
    group = Questions("g", "G", "worker.py", ("minitorch", "Peer"), asks, rounds=2)
    order = [(number, ask.text, who) for number, ask, who in measure.order(group)]
    assert [who for *_, who in order] == ["minitorch", "Peer"] * 4
    assert [(n, a) for n, a, _ in order[::2]] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    inside = Questions("g", "G", "worker.py", ("minitorch",), asks, rounds=2, rounds_inside=True)
    assert [(n, a.text) for n, a, _ in measure.order(inside)] == [(1, "a"), (2, "a"), (1, "b"), (2, "b")]


def test_without_a_checkout_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan.minitorch, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    code, _, err = bench(capsys)
    assert code == 2
    assert "make bench" in err


# --- what is kept ---------------------------------------------------------------------------------------------


def test_a_run_shows_writes_and_says_who_is_missing(checkout, capsys):
    code, out, err = bench(capsys, "--only", "small", "--json", "new.json", "--html", "new.html")
    assert code == 0
    assert "Missing is not installed here: left out" in err
    assert "Missing is not installed here: left out" in out
    assert "2.00×" in out
    assert "1.00 s" in out
    read = load(checkout / "new.json")
    assert read.finished
    assert read.sections["small"].rows["one"].values == {"minitorch": [1.0] * 3, "Peer": [2.0] * 3}
    assert read.versions == {"minitorch": "1.0", "Peer": "1.0"}
    assert {"cpu", "cores", "python", "date"} <= set(read.machine)
    assert "Missing is not installed here" in (checkout / "new.html").read_text()
    assert list(checkout.glob(".*part")) == []


def test_rows_can_be_chosen_and_rounds_given(checkout, capsys):
    assert bench(capsys, "--only", "two", "--rounds", "1", "--json", "new.json")[0] == 0
    rows = load(checkout / "new.json").sections["small"].rows
    assert list(rows) == ["two"]
    assert rows["two"].values["minitorch"] == [1.0]
    code, _, err = bench(capsys, "--only", "nothing-like-it")
    assert code == 2
    assert "nothing-like-it" in err
    assert bench(capsys, "--quick", "--only", "one")[0] == 0  # without --json: to a new file in runs/
    assert len(list((checkout / "runs").glob("bench-*.json"))) == 1


def test_wrong_options_are_refused_before_anything_is_measured(checkout, capsys):
    assert bench(capsys, "--json", "nowhere/new.json")[0] == 2
    assert bench(capsys, "--compare", "nothing.json")[0] == 2
    (checkout / "other.json").write_text('{"seconds": {}}')
    code, _, err = bench(capsys, "--compare", "other.json")
    assert code == 2
    assert "was not written by" in err
    assert bench(capsys, "--rounds", "0")[0] == 2
    code, _, err = bench(capsys, "--qick")
    assert code == 2
    assert "did you mean --quick?" in err


def test_a_contender_that_dies_or_fails_is_left_out_there_only(checkout):
    group = Questions("g", "G", "worker.py", ("minitorch", "Peer"),
                  (Ask("die", (Part("die"),)), Ask("fine", (Part("fine"),)), Ask("fail", (Part("fail"),)),
                   Ask("both", (Part("both, time"), Part("both, memory", unit=BYTES)))), rounds=1)  # fmt: skip
    found = Results(machine())
    notes = []
    progress = run.StageLines(sys.stderr)
    progress.note = notes.append
    measure.run([group], checkout / "benchmarks", found, progress, lambda: None)
    rows = found.sections["g"].rows
    assert rows["die"].present == ["minitorch"]
    assert rows["fine"].present == ["minitorch", "Peer"]
    assert "fail" not in rows
    assert rows["both, memory"].best("Peer") == 4.0
    assert "Peer: its process ended at g, die; left out there" in notes
    assert "minitorch, g, fail: too deep" in notes


def test_what_failed_is_not_asked_again_in_the_next_round(checkout):
    worker = checkout / "benchmarks" / "worker.py"
    asked = checkout / "asked"
    worker.write_text(
        worker.read_text().replace("name = ", f"open({str(asked)!r}, 'a').write('started\\n')\nname = ")
    )
    asks = (Ask("die", (Part("die"),)), Ask("fine", (Part("fine"),)))
    group = Questions("g", "G", "worker.py", ("Peer",), asks, rounds=3)
    found = Results(machine())
    measure.run([group], checkout / "benchmarks", found, run.StageLines(sys.stderr), lambda: None)
    assert found.sections["g"].rows["fine"].values["Peer"] == [2.0] * 3
    assert asked.read_text().count("started") == 1 + 3  # once to die, and once in each round
    inside = Questions("h", "H", "worker.py", ("Peer",), asks, rounds=3, rounds_inside=True)
    measure.run([inside], checkout / "benchmarks", found, run.StageLines(sys.stderr), lambda: None)
    assert asked.read_text().count("started") == 4 + 2  # once to die, once for all rounds of what is fine


def test_contenders_that_take_long_are_left_out_of_a_quick_run():
    group = Questions(
        "g", "G", "w.py", ("minitorch", "Slow"), (Ask("a", (Part("a"),), quick=True),), not_quick=("Slow",)
    )
    assert plan.choose([group], quick=True)[0].contenders == ("minitorch",)
    assert plan.choose([group])[0].contenders == ("minitorch", "Slow")


def test_the_rows_that_stand_for_all_as_markdown(checkout, capsys):
    made = results()
    made.sections["eager"].rows["mul"].headline = True
    made.save(checkout / "r.json")
    code, out, _ = bench(capsys, "--from", "r.json", "--markdown")
    assert code == 0
    assert "| mul | 1.00 s | 2.00 s (PyTorch) | 2.00× |" in out
    assert "add" not in out
    assert "`minitorch bench`" in out
    assert str(machine()["cpu"]) in out
    rows = [part for group in plan.load(ROOT / "benchmarks") for ask in group.asks for part in ask.parts]
    assert 10 < sum(part.headline for part in rows) < 25


def test_the_readmes_table_is_the_published_runs():
    published = load(ROOT / "docs" / "benchmarks.json")
    assert published.finished
    assert table.markdown(published) in (ROOT / "README.md").read_text()
    assert (ROOT / "docs" / "benchmarks.html").read_text() == page.page(published)


def test_ctrl_c_keeps_what_was_measured(checkout):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    start = (
        "from minitorch.app import command; from minitorch.app.bench import plan; from pathlib import Path; "
    )
    start += "plan.folder = lambda: Path('benchmarks'); "
    start += "raise SystemExit(command.main(['bench', '--json', 'kept.json', '--html', 'kept.html']))"
    process = subprocess.Popen([sys.executable, "-c", start], env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    for line in process.stderr:  # the small group is through when the long one begins
        if "long" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "what was measured is in kept.json" in out
    kept = load(checkout / "kept.json")
    assert not kept.finished
    assert kept.sections["small"].rows["two"].values["Peer"] == [2.0] * 3
    assert "interrupted" in (checkout / "kept.html").read_text()


def test_results_survive_a_round_trip(tmp_path):
    results().save(tmp_path / "r.json")
    assert load(tmp_path / "r.json") == results() or load(tmp_path / "r.json").sections == results().sections
    assert json.loads((tmp_path / "r.json").read_text())["format"] == 1


# --- the guard ------------------------------------------------------------------------------------------------


def test_a_change_within_the_noise_is_no_change():
    assert not compare(results(), results(1.09)).slower
    assert not compare(results(), results(0.93)).faster
    noisy = results(1.25, rounds=(1.0, 1.4, 1.5))  # the middle round lies 40% above the best
    assert not compare(results(), noisy).slower


def test_slower_and_faster_beyond_the_noise():
    found = compare(results(), results(1.5))
    assert len(found.slower) == len(found.changes) == 4
    assert found.slower[0].factor == pytest.approx(1.5)
    assert {c.contender for c in found.changes} == {"minitorch"}
    assert len(compare(results(), results(0.5)).faster) == 4


def test_a_slower_machine_is_not_blamed_on_the_library():
    found = compare(results(), results(1.5, peers=1.5))
    assert found.drift == {"eager": pytest.approx(1.5)}
    assert not found.slower
    other = results(1.5, peers=1.5)
    other.versions["PyTorch"] = "2.14.0"  # another PyTorch tells nothing about the machine
    assert len(compare(results(), other).slower) == 4


def test_instruction_counts_are_judged_more_strictly():
    still = (1.0, 1.0, 1.0)
    count = lambda factor: results(factor, unit=INSTRUCTIONS, rounds=still)
    assert len(compare(count(1.0), count(1.05)).slower) == 4
    assert not compare(count(1.0), count(1.01)).slower


@pytest.mark.parametrize(("bad", "code"), [(3, 0), (99, 1)], ids=["a bad moment", "a regression"])
def test_what_seems_slower_is_measured_once_more(checkout, capsys, bad, code):
    assert bench(capsys, "--only", "one", "--json", "old.json")[0] == 0
    worker = checkout / "benchmarks" / "worker.py"
    slow = f"""
    if name == "minitorch":
        with open("asked", "a+") as file:
            print(file=file)
            file.seek(0)
            answer = 5.0 if len(file.readlines()) <= {bad} else 1.0
    print(json.dumps(answer)"""
    worker.write_text(worker.read_text().replace("\n    print(json.dumps(answer)", slow))
    found, out, err = bench(capsys, "--only", "one", "--json", "new.json", "--compare", "old.json")
    assert found == code
    assert "1 rows seem slower: they are measured once more" in err
    assert ("1 slower" if code else "0 slower") in out
    rounds = load(checkout / "new.json").sections["small"].rows["one"].values["minitorch"]
    assert rounds == [5.0] * 3 + [5.0 if code else 1.0] * 3


def test_another_machine_is_not_compared():
    other = results()
    other.machine["cpu"] = "an abacus"
    assert "another machine" in comparable(other, results())
    assert comparable(results(), results()) is None


@pytest.mark.parametrize(
    ("factor", "code", "word"), [(1.0, 0, "0 slower"), (2.0, 1, "slower"), (0.4, 0, "faster")]
)
def test_the_exit_code_tells(tmp_path, capsys, factor, code, word):
    results().save(tmp_path / "old.json")
    results(factor).save(tmp_path / "new.json")
    got, out, _ = bench(capsys, "--from", tmp_path / "new.json", "--compare", tmp_path / "old.json")
    assert got == code
    assert word in out


# --- what is said ---------------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """What a page consists of, and whether its elements close."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.links, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [v for k, v in attrs.items() if k in ("href", "src", "xlink:href")]
        if tag in ("svg", "g", "section", "figure", "div", "details", "table"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("svg", "g", "section", "figure", "div", "details", "table"):
            assert self.open.pop() == tag


def full():
    """Results with bars, curves and limits, as a run leaves them."""
    made = results()
    made.sections["limits-1"] = Section("limits-1", "The machine itself")
    made.sections["limits-1"].rows["matmul"] = Row("matmul", flops=1e9, values={"NumPy": [0.02]})
    made.sections["limits-1"].rows["copy"] = Row("copy", traffic=1e8, values={"NumPy": [0.01]})
    made.sections["size"] = Section("size", "Growth <of it>", x="elements", about="a & b", why="kernels")
    for n in (1, 1000, 10**6):
        values = {
            "minitorch": [1e-6 + n * 2e-9] * 2,
            "PyTorch": [2e-6 + n * 1e-9] * 2,
            "NumPy": [1e-7 + n * 1e-9],
        }
        made.sections["size"].rows[f"mul, {n}"] = Row(
            f"mul, {n}", curve="mul", x=n, traffic=12 * n, values=values
        )
    return made


def test_the_page_stands_alone_and_is_well_formed():
    text = page.page(full())
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert all(link.startswith("#") for link in outline.links)
    assert {link[1:] for link in outline.links} <= set(outline.ids)
    assert {"eager", "size", "rules", "better"} <= set(outline.ids)
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.tags.count("svg") > 5
    for word in ("http:", "https:", "<script", "@import", "url(http"):
        assert word not in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_the_two_counts_of_the_page_are_of_the_same_rows():
    made = full()
    rows = made.sections["eager"].rows
    for name, ours, unit in (("level", 1.01, "seconds"), ("behind", 2.0, "seconds"), ("larger", 3.0, BYTES)):
        rows[name] = Row(name, unit, values={"minitorch": [ours] * 2, "PyTorch": [1.0] * 2})
    rows["alone"] = Row("alone", values={"minitorch": [1.0]})
    assert [rows[name].standing for name in ("level", "behind", "larger", "alone")] == [
        "level", "behind", "behind", None,
    ]  # fmt: skip
    text = page.page(made)
    compared = sum(row.standing is not None for row in rows.values())
    assert f"level in 1, behind in 2 of {compared} rows</small>" in text
    assert f"<summary>One small op: 2 of {compared} rows</summary>" in text


def test_the_page_says_what_is_compared_and_where_a_peer_is_better():
    text = page.page(full())
    for word in (
        "donated",
        ".grad",
        "fresh pages",
        "noise",
        "torch.compile",
        "this machine&#x27;s limit",
        "2.00×",
    ):
        assert word in text
    assert "Growth &lt;of it&gt;" in text
    assert "mul, 1000000: PyTorch needs 0.50 of ours" in text
    assert "kernels" in text
    assert "In no row of this run" in page.page(results())
    assert "NumPy needs" not in text  # it computes no gradients: a floor, no contender


def test_limits_are_the_best_that_anyone_reached():
    made = full()
    assert made.limit("flops", 1) == pytest.approx(5e10)
    assert made.limit("traffic", 1) == pytest.approx(1e10)
    assert made.limit("flops", 2) is None
    row = made.sections["size"].rows["mul, 1000000"]
    assert page.least_time(made, made.sections["size"], row) == pytest.approx(1.2e-3)
    assert "50 GFLOP/s" in table.text(made)


def test_a_plot_survives_any_numbers():
    assert charts.log_log([], "x", "seconds", "none") == ""
    one = charts.log_log([charts.Line("minitorch", [(5, 1e-6)], "c-minitorch")], "x", "seconds", "one")
    assert "nan" not in one
    same = charts.log_log([charts.Line("a", [(1, 1.0), (10, 1.0)], "c-a")], "x", BYTES, "same")
    assert "nan" not in same
    assert "1 B" in same
    assert math.isnan(Row("empty").ratio)
    assert table.quantity(math.nan, "seconds") == "–"


def test_plain_lines_when_nobody_watches(capsys):
    lines = run.StageLines(sys.stderr)
    lines.start(4)
    for done in range(4):
        lines.at(done, f"eager, round {1 + done // 2} of 2", "add")
    assert capsys.readouterr().err.splitlines() == ["0/4 eager, round 1 of 2", "2/4 eager, round 2 of 2"]


def test_a_live_bar_where_rich_is_there(capsys):
    pytest.importorskip("rich")
    live = run.Live()
    live.start(2)
    live.at(1, "[half] done")
    live.note("[a] line")
    live.stop()
    assert "[a] line" in "".join(capsys.readouterr())  # as it is: no markup


def test_a_busy_machine_is_named():
    made = full()
    made.machine |= {"load": 5.0, "cores": 2}
    assert "busy when the run began (5 of 2 cores)" in table.text(made)
    assert "busy when the run began" in page.page(made)
    made.machine["load"] = None  # where the system does not tell
    assert "busy" not in table.text(made)


# A contender's script that answers at once; some of them cannot, or are wrong.
OF_GPUS = """
import json, os, sys, time
name, rows = sys.argv[1], sys.argv[2 : sys.argv.index('--seconds')]
assert os.environ["MINITORCH_CACHE"] != os.environ["CUPY_CACHE_DIR"]
for row in rows:
    if name == 'minitorch' and row == 'block': sys.exit('no memory left')
    if name == 'jax' and row == 'block': time.sleep(60)
    shown = [[[4.0]], [[3.0]]]
    if name == 'float64':
        print(json.dumps({'shown': shown} if row != 'softmax' else {'error': 'too wide'}), flush=True)
        continue
    if name == 'jax' and row == 'gelu':
        print(json.dumps({'error': 'what is gelu?'}), flush=True)
        continue
    if name == 'pytorch' and row == 'gelu': shown = [[[4.0]], [[3.9]]]
    print('hello')
    us = 10.0 if name == 'compiled' else 25.0
    print(json.dumps({'us': us, 'first': 0.5, 'version': '7', 'shown': shown}), flush=True)
"""


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """A checkout whose contenders need no GPU."""
    (tmp_path / "gpu.py").write_text(OF_GPUS)
    asked = {"compiled": ("minitorch", "numpy"), "minitorch": ("minitorch eager", "numpy")}
    asked |= {"pytorch": ("PyTorch", "numpy"), "jax": ("JAX", "numpy"), "none": ("another", "no_such_module")}
    monkeypatch.setattr(gpu, "CONTENDERS", asked)
    return tmp_path


def on_a_machine(**of_it):
    return Results({"minitorch": "1", "cpu": "a CPU", "cores": 1, "system": "", "python": ""} | of_it)


def test_a_gpu_is_asked_row_by_row(gpus):
    """The contenders that are installed answer in processes of their own; who cannot is left out, and why."""
    found, said = on_a_machine(gpu="NVIDIA H200, 140 GiB"), []
    rows = ["block", "softmax", "gelu"]
    gpu.bench_gpu(
        gpus,
        found,
        1,
        0.1,
        lambda: None,
        said.append,
        rows=rows,
        contenders=list(gpu.CONTENDERS),
        longest=3.0,
    )
    measured = {name: row.values for name, row in found.sections["gpu"].rows.items()}
    ours, eager, torch, jax = (
        {name: [us]}
        for name, us in (
            ("minitorch", 1e-5),
            ("minitorch eager", 2.5e-5),
            ("PyTorch", 2.5e-5),
            ("JAX", 2.5e-5),
        )
    )
    assert measured == {
        "transformer block 16×1024×768": ours | torch,
        "softmax 65536×1024": ours | eager | torch | jax,
        "gelu(x)·2 + tanh(x), 2²⁸": ours | eager,
    }
    assert found.sections["gpu"].rows["softmax 65536×1024"].ratio == 2.5
    assert found.versions == {"minitorch": "7", "minitorch eager": "7", "PyTorch": "7", "JAX": "7"}
    assert found.left_out == [
        "softmax 65536×1024 was compared with nothing: too wide",
        "transformer block 16×1024×768, minitorch eager: no memory left",
        "gelu(x)·2 + tanh(x), 2²⁸, PyTorch: wrong: step 2 gives 3.9, in float64 3",
        "transformer block 16×1024×768, JAX: it took more than 3 s",
        "gelu(x)·2 + tanh(x), 2²⁸, JAX: what is gelu?",
        "another: no_such_module is not installed",
    ]
    assert found.sections["gpu first"].rows["softmax 65536×1024"].values == {"minitorch": [0.5], "JAX": [0.5]}
    assert len([line for line in said if line.startswith("round")]) == 4
    text, drawn = table.text(found), page.page(found)
    assert "25.0 µs" in text
    assert "NVIDIA H200, 140 GiB" in text
    assert "thread" not in text
    assert "goal 130 µs" in drawn
    assert "130 µs" in text
    assert "one H200" in drawn
    assert "fresh pages" not in drawn  # that is of the CPU's memory
    outline = Outline()
    outline.feed(drawn)
    assert {"gpu", "gpu-first"} <= set(outline.ids)
    assert {link[1:] for link in outline.links} <= set(outline.ids)


def test_goals_are_of_one_gpu(gpus):
    found = on_a_machine(gpu="another GPU")
    gpu.bench_gpu(gpus, found, 1, 0.1, lambda: None, str, rows=["softmax"], contenders=["compiled"])
    assert "goal" not in table.text(found)
    assert "H200" not in page.page(found)


def test_when_the_time_is_over_nobody_is_asked(gpus):
    """One that is slow takes what is left; the others say why there is nothing of them."""
    found, saved = on_a_machine(), []
    gpu.bench_gpu(
        gpus, found, 1, 0.1, lambda: saved.append(1), str, rows=["softmax", "block"],
        contenders=["compiled", "jax", "pytorch"], within=3.0,
    )  # fmt: skip
    assert found.sections["gpu"].rows["softmax 65536×1024"].present == ["minitorch", "JAX"]
    assert found.sections["gpu"].rows["transformer block 16×1024×768"].present == ["minitorch"]
    assert saved == [1] * 3
    assert found.left_out[1:] == [
        "transformer block 16×1024×768, JAX: there was no time left",
        "softmax 65536×1024, PyTorch: there was no time left",
        "transformer block 16×1024×768, PyTorch: there was no time left",
    ]


def test_a_run_that_is_told_to_end_keeps_what_it_has(gpus):
    """As `timeout` tells it: the JSON and the page hold what was measured by then."""
    (gpus / "suite.py").write_text("")
    script = (
        "import sys; from pathlib import Path; from minitorch.app import command\n"
        "from minitorch.app.bench import gpu, plan, run\n"
        "plan.folder = Path.cwd; run.is_available = lambda: True\n"
        "gpu.describe = lambda machine: machine.update(gpu='a GPU')\n"
        "gpu.CONTENDERS = {'compiled': ('minitorch', 'numpy'), 'jax': ('JAX', 'numpy')}\n"
        "sys.exit(command.main(['bench', '--device', 'cuda', '--only', 'gelu,block', '--contenders', 'compiled,jax',"
        " '--json', 'new.json', '--html', 'new.html']))"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    }
    with subprocess.Popen([sys.executable, "-c", script], cwd=gpus, env=environment,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        for _ in range(600):
            if (gpus / "new.html").exists() and load(gpus / "new.json").sections["gpu"].rows.keys() >= {
                "gelu(x)·2 + tanh(x), 2²⁸"
            }:
                break
            time.sleep(0.05)
        process.terminate()
        said = process.stdout.read()
    assert process.returncode == 130
    assert "interrupted" in said
    kept = load(gpus / "new.json")
    assert not kept.finished
    assert kept.sections["gpu"].rows["gelu(x)·2 + tanh(x), 2²⁸"].present == ["minitorch"]
    assert page.INTERRUPTED in (gpus / "new.html").read_text()


@pytest.fixture(scope="module")
def steps():
    """The GPU's workloads, on this processor and small."""
    spec = importlib.util.spec_from_file_location("minitorch_bench_gpu", ROOT / "benchmarks" / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # (its dataclass looks itself up)
    spec.loader.exec_module(module)
    module.DEVICE, module.LAYERS["wide"] = "cpu", (128, 64, 96, 50)
    module.TOKENS, module.WIDTH, module.DEPTH, module.HEADS, module.BLOCK_HEADS = 211, 32, 2, 4, 4
    module.SHAPES.update({
        "block": (2, 16, 32), "block bfloat16": (2, 16, 32), "gpt": (2, 12), "lstm": (6, 4, 16), "conv": (4, 8, 7, 7),
        "cross-entropy": (32, 211), "softmax": (64, 100), "gelu": (1 << 12,),
    })  # fmt: skip
    yield module
    del sys.modules[spec.name]


def test_the_rows_are_the_workloads(steps):
    assert list(steps.ROWS) == list(gpu.ROWS) == list(gpu.GOALS)
    assert {*steps.CONTENDERS} == {*gpu.CONTENDERS, gpu.REFERENCE}


@pytest.mark.parametrize("row", list(gpu.ROWS))
def test_contenders_on_a_gpu_do_the_same(steps, row):
    """From the same weights, as far as they are installed here; and the comparison sees a step that is wrong."""
    pytest.importorskip("ml_dtypes")
    expected = steps.reference(row)["shown"]
    contestants = {"minitorch": _contestant(steps, minitorch, row)}
    if importlib.util.find_spec("torch") is not None:
        contestants["PyTorch"] = _contestant(steps, importlib.import_module("torch"), row)
    if importlib.util.find_spec("jax") is not None:
        contestants["JAX"] = steps.jaxs(row)
    for name, contestant in contestants.items():
        answer = steps.measured(contestant, 0.0)
        assert gpu.disagreement(row, answer["shown"], expected) == "", name
        assert answer["us"] > 0
    off = [[[1.01 * x for x in each] for each in step] for step in expected]
    assert gpu.disagreement(row, off, expected).startswith("wrong: step 1") or row == "block bfloat16"
    still = [expected[0]] * len(expected)  # nothing was learned
    if row not in ("cross-entropy", "softmax", "gelu"):
        assert gpu.disagreement(row, still, expected).startswith("wrong")


def _contestant(steps, library, row):
    step, look = steps.step_of(library, row)
    return steps.Contestant(step, lambda: None, look)


def test_the_gpus_limits_are_refused_elsewhere(capsys):
    assert command.main(["bench", "--seconds", "1"]) == 2
    assert "--device cuda" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["bench", "--device", "cuda", "--seconds", "none"])
    assert "expects seconds" in capsys.readouterr().err
