"""The notebooks: every cell runs, in order, as it is written."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem == "05-compiling" and importlib.util.find_spec("llvmlite") is None:
        pytest.skip("compiles with llvmlite, which is not installed")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert notebook["cells"][0]["source"][0].startswith("# ")
    space = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert not [o for o in cell["outputs"] if o["output_type"] == "error"]
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), space)
    assert list(tmp_path.iterdir()) == []
