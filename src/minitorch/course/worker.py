"""The process that runs a learner's code. Enters: a folder, names of labs. Leaves: JSON lines on its standard output.

    python -m minitorch.course.worker FOLDER LIMIT LAB …

Whatever the learner's code prints goes to standard error, so that it cannot be taken for a result. If a check takes
longer than LIMIT seconds, where it stands is written there too; whoever started the process ends it.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from minitorch.course.check import load, run
from minitorch.course.findings import Mistake, Result
from minitorch.course.labs import ENGINE, Lab, find

MEMORY = 8 << 30


def main(folder: Path, limit: float, labs: list[Lab]) -> int:
    """Check the labs, in order, up to the first that fails."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _limit_memory()
    sys.path.insert(0, str(folder))

    def tell(**event: Any) -> None:
        print(json.dumps(event), file=results, flush=True)

    def begin(lab: Lab, check: str) -> None:
        faulthandler.dump_traceback_later(limit)
        tell(event="check", lab=lab.name, check=check)

    modules: dict[str, Any] = {}
    for lab in labs:
        try:
            for file in dict.fromkeys((ENGINE, lab.file)):
                if file not in modules:
                    begin(lab, "import")
                    modules[file] = load(str(folder / file), file.removesuffix(".py"))
        except Mistake as mistake:
            return _finish(results, tell, Result(lab.name, "import", mistake.name, mistake.facts))
        for result in run(lab, modules, functools.partial(begin, lab)):
            tell(event="result", **result.as_dict())
            if not result.ok:
                return _finish(results, tell)
        tell(event="passed", lab=lab.name)
    return _finish(results, tell)


def _finish(results: TextIO, tell: Any, last: Result | None = None) -> int:
    faulthandler.cancel_dump_traceback_later()
    if last is not None:
        tell(event="result", **last.as_dict())
    tell(event="done")
    results.close()
    return 0


def _limit_memory() -> None:
    """An array that is far too large becomes an error and not a machine that stands still (where the system can)."""
    if sys.platform == "linux":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), [find(word) for word in sys.argv[3:]]))
