"""The `minitorch` command: run, check, train, list, bench, learn, explore. Enters: words. Leaves: words, an exit code.

Exit codes: 0 done, 1 something failed, 2 a wrong argument, 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import minitorch
from minitorch.serialization import atomically


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest word it knows."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and what may have been meant; exit code 2."""
        unknown = re.search(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'", message)
        if unknown:
            word = (unknown[1] or unknown[2]).partition("=")[0]
            found = difflib.get_close_matches(word, self._words(), 1, 0.5)
            message += f"; did you mean {found[0]}?" if found else ""
        super().error(message)

    def _words(self) -> list[str]:
        words: list[str] = []
        for action in self._actions:
            words += action.option_strings
            if isinstance(action.choices, dict):  # subcommands, and the options of each
                words += action.choices
                words += [word for inner in action.choices.values() for word in inner._option_string_actions]
        return words


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = Parser(prog="minitorch", description="The PyTorch you can read.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"minitorch {minitorch.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run a program that imports torch, on minitorch",
        description="Run a script, -m MODULE or -c CODE as python does, with minitorch in the place of torch.",
        usage="minitorch run SCRIPT [ARGUMENT …] | -m MODULE [ARGUMENT …] | -c CODE [ARGUMENT …]",
        allow_abbrev=False,
    )
    run.add_argument("program", nargs="...", metavar="SCRIPT", help="a Python file, and what it is given")
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
    train = commands.add_parser(
        "train",
        help="train an experiment, with progress, checkpoints and a plot",
        description="Train an experiment. If its folder holds an unfinished run, go on with that.",
        allow_abbrev=False,
    )
    train.add_argument("name", metavar="NAME", help="which experiment; `minitorch list` shows them")
    train.add_argument(
        "--epochs", type=_positive, metavar="N", help="train to epoch N, past the experiment's goal too"
    )
    train.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="same seed, same training (0 if not given)"
    )
    train.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="write to DIR/NAME (DIR is runs if not given)",
    )
    train.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to compute")
    train.add_argument("--compile", action="store_true", help="compile the training step to native code")
    train.add_argument(
        "--ranks",
        type=_positive,
        metavar="N",
        help="train by N processes: the same training, sooner (needs MPI)",
    )
    train.add_argument(
        "--hostfile",
        type=Path,
        metavar="FILE",
        help="with --ranks: the machines, for mpirun, a line for each",
    )
    # For the ranks: whether there is a terminal, which mpirun does not let them see.
    train.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    train.add_argument("--json", action="store_true", help="print JSON, a line for each event, for a program")
    again = train.add_mutually_exclusive_group()
    again.add_argument(
        "--resume", action="store_true", help="go on with an unfinished run, and fail without one"
    )
    again.add_argument("--fresh", action="store_true", help="start anew, even if there is a run")
    commands.add_parser("list", help="show the experiments", allow_abbrev=False)
    bench = commands.add_parser(
        "bench",
        help="measure minitorch beside its peers, in a source checkout",
        description="Every contender in its own process, in turn, the best round of each. `make bench` in a checkout "
        "installs the peers first. Ctrl-C keeps what was measured.",
        allow_abbrev=False,
    )
    bench.add_argument("--quick", action="store_true", help="a part of it, in about two minutes")
    bench.add_argument(
        "--ranks",
        type=_positive,
        metavar="N",
        help="training by N ranks beside one, and beside PyTorch's, instead",
    )
    bench.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: training steps on a GPU, instead"
    )
    bench.add_argument(
        "--only", metavar="WORD", help="only groups or rows with WORD in their name (on a GPU: WORD,WORD,...)"
    )
    bench.add_argument(
        "--contenders", metavar="WORD,...", help="with --device cuda: only these, as compiled,pytorch,jax"
    )
    bench.add_argument(
        "--seconds",
        type=_seconds,
        metavar="S",
        help="with --device cuda: how long each row is measured (0.5)",
    )
    bench.add_argument(
        "--longest",
        type=_seconds,
        metavar="S",
        help="with --device cuda: leave out a row that takes longer (120)",
    )
    bench.add_argument(
        "--within",
        type=_seconds,
        metavar="S",
        help="with --device cuda: end after so long, with what was measured by then",
    )
    bench.add_argument("--rounds", type=_positive, metavar="N", help="ask each contender N times")
    bench.add_argument(
        "--json", type=Path, metavar="FILE", help="write every round there (else to runs/bench-DATE.json)"
    )
    bench.add_argument(
        "--markdown", action="store_true", help="print the few rows that stand for all, for a README"
    )
    bench.add_argument("--html", type=Path, metavar="FILE", help="also write a page with plots")
    bench.add_argument(
        "--compare",
        type=Path,
        metavar="OLD",
        help="say what became slower than in OLD; exit code 1 if anything",
    )
    bench.add_argument(
        "--from", dest="given", type=Path, metavar="FILE", help="measure nothing: show what FILE holds"
    )
    _describe_learn(commands)
    explore = commands.add_parser(
        "explore",
        help="run a script up to its backward(), and write a page to step through it",
        description="Run a script up to its first backward(), and write a page on which it can be stepped through.",
        allow_abbrev=False,
    )
    explore.add_argument("script", type=Path, metavar="SCRIPT", help="a Python file")
    explore.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="what the script is given")
    explore.add_argument(
        "--out",
        type=Path,
        default=Path("explore.html"),
        metavar="FILE",
        help="the page (explore.html if not given)",
    )
    explore.add_argument("--backward", type=_positive, default=1, metavar="N", help="the N-th backward (1)")
    return top


def _describe_learn(commands: Any) -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--lang", metavar="LANGUAGE", help="en or es; a folder remembers the one it was started in"
    )
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        default=argparse.SUPPRESS,
        help="the learner's folder (minitorch-course if not given)",
    )
    learn = commands.add_parser(
        "learn",
        help="the course: write your own tensor.py, and have it checked",
        description="Without a further word: list the labs. `learn start` writes a folder to work in.",
        allow_abbrev=False,
        parents=[common, where],
    )
    learn.set_defaults(action="list", lang=None, folder=None, place=None)
    actions = learn.add_subparsers(metavar="ACTION", parser_class=Parser)
    for name, words in (
        (
            "start",
            "write a folder with skeletons and a page for each lab; nothing that exists is overwritten",
        ),
        ("check", "check your files: one lab, or all in order up to the first that fails"),
        ("hint", "show a lab's next hint"),
        ("solution", "show the course's own lines for a lab"),
    ):
        parents = [common] if name == "start" else [common, where]
        action = actions.add_parser(name, help=words, description=words, allow_abbrev=False, parents=parents)
        action.set_defaults(action=name)
        if name == "start":
            action.add_argument(
                "place", nargs="?", type=Path, metavar="FOLDER", help="minitorch-course if not given"
            )
        else:
            many = {"nargs": "?"} if name == "check" else {}
            action.add_argument("lab", metavar="LAB", help="a lab's name or number", **many)
        if name == "check":
            action.add_argument(
                "--seconds", type=_positive, default=60, metavar="N", help="stop a check after N seconds (60)"
            )


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expects a whole number from 1 on, got {text!r}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"expects seconds, more than none, got {text!r}")
    return number


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"expects a whole number from 0 to 2**63 - 1, got {text!r}")
    return int(text)


def _progress(done: int, total: int, op: str) -> None:
    if sys.stderr.isatty():
        bar = "█" * (30 * done // total)
        end = "\n" if done == total else ""
        print(f"\r{bar:░<30} {done}/{total} {op:18}", end=end, file=sys.stderr, flush=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either as before or complete, never half."""
    with atomically(path) as file:
        file.write(text.encode())


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
        from minitorch.course import derivations

        pages = {op: derivations.html(page) for op, page in derivations.page_of().items()}
        write_whole(html, made.html(pages))
        print(f"written to {html}")
    return 0 if made.ok else 1


def show_list() -> int:
    """Print the experiments, one line each."""
    from minitorch.app.experiments import listing

    for name, summary in listing():
        print(f"{name:16}{summary}")
    print("\nTrain one with: minitorch train NAME")
    return 0


def train(chosen: Any) -> int:
    """Train what a name stands for."""
    from minitorch.app import progress
    from minitorch.app.experiment import Experiment
    from minitorch.app.experiments import find
    from minitorch.app.ranks import Alone, Team, launch, mpirun, team
    from minitorch.app.train import CHECKPOINT, CannotTrain, Run, forget

    def refuse(message: str) -> int:
        print(f"minitorch train: {message}", file=sys.stderr)
        return 2

    try:
        experiments = find(chosen.name)
    except KeyError as error:
        return refuse(error.args[0])
    if chosen.compile and importlib.util.find_spec("llvmlite") is None:
        return refuse("--compile needs llvmlite; in minitorch's folder: pip install '.[compile]'")
    if chosen.compile and chosen.device != "cpu":
        return refuse("--compile makes code for the CPU; leave --device away, or train without --compile")
    missing = [need for each in experiments for need in each.needs if importlib.util.find_spec(need) is None]
    if missing:
        return refuse(
            f"{chosen.name} needs {PACKAGES[missing[0]]}; in minitorch's folder: pip install '.[app]'"
        )
    if chosen.device != "cpu":
        try:
            minitorch.zeros(1).to(chosen.device)
        except (RuntimeError, ImportError) as error:
            return refuse(f"--device {chosen.device}: {error}")
    folders = {experiment: chosen.out / experiment.name for experiment in experiments}
    if chosen.hostfile is not None and not (chosen.ranks and chosen.hostfile.is_file()):
        return refuse(f"--hostfile {chosen.hostfile}: give --ranks N too, and a file that exists")
    if chosen.ranks and not (minitorch.distributed.is_available() and mpirun()):
        return refuse("--ranks needs mpi4py and mpirun; in minitorch's folder: pip install '.[mpi]'")
    if chosen.ranks and chosen.device != "cpu":
        return refuse("--ranks trains on CPUs; leave --device away")
    many = bool(chosen.ranks and chosen.ranks > 1)
    who = Alone() if many else team()

    def open_run(experiment: type[Experiment]) -> Run:
        return Run(
            experiment,
            folders[experiment],
            seed=chosen.seed,
            epochs=chosen.epochs,
            device=chosen.device,
            compiled=chosen.compile,
            progress=progress.choose(json_lines=chosen.json, plain=isinstance(who, Team) and not chosen.live),
            team=who,
        )

    try:
        if chosen.resume:
            kept = [each for each in experiments if (folders[each] / CHECKPOINT).exists()]
            if not kept:
                return refuse(f"--resume: there is no run in {' or '.join(map(str, folders.values()))}")
            if kept == experiments and all(open_run(each).done for each in kept):
                return refuse(
                    f"--resume: the run in {' and '.join(map(str, folders.values()))} is finished; --epochs N goes on "
                    "to epoch N, --fresh starts anew"
                )
        for folder in folders.values() if who.leads else ():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if chosen.fresh:
                    forget(folder)
            except OSError as error:
                return refuse(f"cannot write to {folder}: {error.strerror}")
        if many:
            began = ["-m", "minitorch", "train", chosen.name, *_options_to_resume(chosen, ranks=False)]
            began += ["--live"] if sys.stdout.isatty() else []
            code, who_failed = launch(chosen.ranks, began, chosen.hostfile)
            if code and who_failed:
                again = " ".join(["minitorch train", chosen.name, *_options_to_resume(chosen)])
                print(
                    f"minitorch train: {who_failed}; all ranks have ended, and every finished epoch is saved. "
                    f"Go on with: {again}",
                    file=sys.stderr,
                )
            return code
        for experiment in experiments:
            with _one_thread():
                open_run(experiment).go()
    except CannotTrain as error:
        if who.leads:
            print(f"minitorch train: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if isinstance(who, Team):
            who.fails(error)
        raise
    except KeyboardInterrupt:
        again = " ".join(["minitorch train", chosen.name, *_options_to_resume(chosen)])
        print(f"interrupted; every finished epoch is saved. Go on with: {again}", file=sys.stderr)
        return 130
    return 0


def explore(script: Path, arguments: Sequence[str], out: Path, which: int) -> int:
    """Run a script up to a backward, and write its page."""
    from minitorch.course.explorer.script import run_script

    problem = ""
    if not script.is_file():
        problem = f"there is no file {script}"
    elif not out.parent.is_dir():
        problem = f"the folder {out.parent} does not exist"
    if problem:
        print(f"minitorch explore: {problem}", file=sys.stderr)
        return 2
    found = run_script(script, arguments, which)
    if found is None:
        print(
            f"minitorch explore: {script} makes no backward number {which}, and leaves no tensor called loss",
            file=sys.stderr,
        )
        return 1
    found.write(out)
    print(f"{len(found.nodes)} nodes, written to {out}")
    return 0


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    # The matrices here are small: a second thread in the BLAS waits, spinning, longer than it computes. On
    # a machine that is busy with other things that made training ten times slower.
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    limit: contextlib.AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limit


PACKAGES = {"sklearn": "scikit-learn"}


def _options_to_resume(chosen: Any, ranks: bool = True) -> list[str]:
    """Return the words after `minitorch train NAME` that go on with a run. ranks: with those that say by how many."""
    words: list[Any] = []
    if ranks and chosen.ranks:
        words += ["--ranks", chosen.ranks]
        words += ["--hostfile", chosen.hostfile] if chosen.hostfile else []
    if chosen.seed:
        words += ["--seed", chosen.seed]
    if chosen.epochs:
        words += ["--epochs", chosen.epochs]
    if chosen.compile:
        words.append("--compile")
    if chosen.json:
        words.append("--json")
    if chosen.device != "cpu":
        words += ["--device", chosen.device]
    if chosen.out != Path("runs"):
        words += ["--out", chosen.out]
    return [str(word) for word in words]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["run"] and words[1:2] not in (["-h"], ["--help"]):
        # What follows is the program's own command line: options there are none of this parser's business.
        from minitorch.face.run import run

        return run(words[1:])
    chosen = parser().parse_args(arguments)
    try:
        if chosen.command == "train":
            return train(chosen)
        if chosen.command == "list":
            return show_list()
        if chosen.command == "bench":
            from minitorch.app.bench.run import bench

            return bench(chosen)
        if chosen.command == "learn":
            from minitorch.course.learn import learn

            return learn(chosen)
        if chosen.command == "explore":
            return explore(chosen.script, chosen.arguments, chosen.out, chosen.backward)
        return check(chosen.html, chosen.only, chosen.trials)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
