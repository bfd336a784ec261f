"""Packages built on PyTorch, run on minitorch and compared with PyTorch's numbers. Enters: programs/. Leaves: a table.

python check.py                 every program, on minitorch, against expected.json; exit code 1 if anything differs
python check.py timm_ pyro_     these
python check.py --record PYTHON write expected.json, by a Python that has PyTorch (and these packages beside it)
"""

import json
import math
import os
import site
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
# What is known to differ, and why: the table says so instead of failing.
KNOWN = json.loads((HERE / "known.json").read_text(encoding="utf-8"))


def run(command, name):
    """Run a program; return its numbers by part, and what it said when it failed as a whole."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([*command, name], capture_output=True, text=True, env=environment, timeout=900)
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    parts = dict(json.loads(line) for line in lines)
    if done.returncode or not parts:
        said = done.stderr.strip().splitlines() or ["nothing was printed"]
        parts["(the whole)"] = said[-1]
    return parts


def difference(ours, theirs, scale=1e-3):
    """Return how two results differ, in words; None where they agree."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return f"{sorted(ours)} instead of {sorted(theirs)}"
        if "shape" in theirs and ours["shape"] != theirs["shape"]:
            return f"shape {ours['shape']} instead of {theirs['shape']}"
        if "shape" in theirs:  # a weighed sum of many numbers: as far off as all of them may be
            size = max([1.0, *(abs(v) for v in theirs["first"])]) * math.sqrt(
                max(1, math.prod(theirs["shape"]))
            )
            if not _near(ours["sum"], theirs["sum"], scale, size):
                return f"a weighed sum of {ours['sum']:.6g} instead of {theirs['sum']:.6g}"
            return difference(ours["first"], theirs["first"], scale)
        return next((d for k in theirs if (d := difference(ours[k], theirs[k], scale))), None)
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{len(ours)} results instead of {len(theirs)}"
        return next((d for a, b in zip(ours, theirs) if (d := difference(a, b, scale))), None)
    if isinstance(theirs, float) and isinstance(ours, float):
        return None if _near(ours, theirs, scale, 1.0) else f"{ours:.6g} instead of {theirs:.6g}"
    return None if ours == theirs else f"{str(ours)[:300]} instead of {str(theirs)[:100]}"


def _near(a, b, scale, size):
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return repr(a) == repr(b)
    return abs(a - b) <= scale * max(abs(b), size)


def record(python, names):
    """Write what PyTorch gives."""
    here = [p for p in site.getsitepackages()][0]
    start = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); sys.path.append({here!r}); import runpy; sys.argv[0] = {str(HERE / 'one.py')!r}; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    for name in names:
        expected[name] = run([python, "-c", start], name)
        print(name, {k: v for k, v in expected[name].items() if isinstance(v, str)} or "recorded", flush=True)
    lines = [
        f"{json.dumps(n)}: {{\n"
        + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(expected[n].items()))
        + "\n}"
        for n in sorted(expected)
    ]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def check(names):
    """Run programs on minitorch; print a row for each part that differs, and count."""
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "minitorch", "run", str(HERE / "one.py")]
    wrong = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, ours in zip(names, pool.map(lambda name: run(command, name), names)):
            good, rows = 0, []
            for part in {**expected[name], **ours}:
                found = difference(ours.get(part, "nothing"), expected[name].get(part, "nothing"))
                good += found is None
                if found:
                    why = KNOWN.get(f"{name}.{part}")
                    wrong += why is None
                    rows.append(f"    {part}: {found}" + (f"  (known: {why})" if why else ""))
            print(f"{name.rstrip('_'):24} {good} of {good + len(rows)} agree", *rows, sep="\n", flush=True)
    print("everything agrees" if not wrong else f"{wrong} parts differ")
    return int(wrong > 0)


if __name__ == "__main__":
    words = sys.argv[1:]
    python = None
    if words[:1] == ["--record"]:
        python, words = words[1], words[2:]
    chosen = words or sorted(p.stem for p in (HERE / "programs").glob("*.py"))
    sys.exit(record(python, chosen) if python else check(chosen))
