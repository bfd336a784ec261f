"""Write the derivations as Markdown. Enters: a folder. Leaves: a page for each, and an index."""

from __future__ import annotations

import sys
from pathlib import Path

from minitorch.course.derivations import index, markdown, pages


def write(folder: Path) -> None:
    """Write every page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(index(), encoding="utf-8")
    for name in pages():
        (folder / f"{name}.md").write_text(markdown(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
