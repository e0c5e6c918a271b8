"""Kill commands at random moments, and look at what is left.

    python perf/kill.py [--kills 100] [--commands fit,compare,...] [--seed 0]

Every command runs once as a process of its own, which gives the reference, and once as a
fork of this process (`forked.py`), which has to write the same tables and gives the time.
Then forks of it are started again and again and receive SIGKILL, with all processes that
they have started, after a random time: half of the times lie anywhere in the run, half in
its last third, where files are written. `sensitivity --jobs 2` starts processes of its own,
so it is killed as a whole process, a tenth as often.

`plan`, `next`, `forecast` and `predict` add files to the result of a fit, as `report` does;
`fit --memory` reads answers to items that DuckDB reduces.

Even kills find no earlier result, odd ones a whole one: of `calibrate` with fewer
simulations, which the command continues. Every third kill finds no simulations or languages
that killed runs have finished; the others continue them. After every kill the folder has to
be absent, or whole: every file that `run.json` lists with a hash has that hash, and no
finished work is gone. At the end, and after every tenth kill, the command runs to its end
and takes all that is finished; then its files have to equal the reference byte by byte, and
nothing else may lie in the folder around the results or in that of temporary files. Files
that two undisturbed runs write differently (`run.json` has the date) are not compared;
tables always are.

Writes ``results/kills.csv``, where rows of other commands stay. The exit code is 1 if anything
was lost, left or different.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from forked import ENVIRONMENT, Forked, prepare
from measure import ROOT, print_table, provenance, write_csv

COMMANDS: Final = (
    *("calibrate", "mexa", "report", "fit", "compare", "sensitivity"),
    *("plan", "next", "forecast", "predict", "fit --memory", "compare --holdout"),
    "sensitivity --jobs 2",
)
# Of the result folder of a fit, to which they add files.
_OF_A_FIT: Final = ("report", "plan", "next", "forecast", "predict")
# What `predict` writes beside it.
_PREDICTIONS: Final = "predictions.csv"
# What a command says of a finished piece that it does not take.
_REFUSED: Final = "is made again"
# Between two runs to the end.
_BLOCK: Final = 10
_WHOLE: Final = "sensitivity --jobs 2"
_SIMULATIONS: Final = 6


class Run(Protocol):
    """A command that was started."""

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None if it is still running after so many seconds."""

    def kill(self) -> None:
        """End it and all processes that it has started."""

    def said(self) -> str:
        """What it said on stderr."""


Start = Callable[[Sequence[str]], Run]


class Whole:
    """A command as a process of its own, imports and all."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bayeseval", *words],
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None if it is still running after so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and all processes that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def said(self) -> str:
        """What it said on stderr."""
        return self._log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Outcome:
    """What the kills of one command have left."""

    command: str
    seconds: float
    kills: int = 0
    ended: int = 0
    states: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    faults: list[str] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        """As a row of results."""
        return {
            "killed": self.command,
            "kills": self.kills,
            "ended_before": self.ended,
            "left_absent": self.states["absent"],
            "left_whole": self.states["whole"],
            "left_broken": self.states["broken"],
            "runs_to_the_end_equal": self.compared,
            "faults": len(self.faults),
            "seconds_of_a_run": round(self.seconds, 2),
        }


def write_table(path: Path) -> None:
    """A small table with an effect of every factor."""
    draw = random.Random(1)
    rows = [
        f"m{i},{language},t{k},{50 + 4 * i - 3 * j + 2 * k + draw.gauss(0.0, 2.0):.3f}"
        for i in range(3)
        for j, language in enumerate(("deu", "fra", "spa", "swe", "fin"))
        for k in range(3)
    ]
    path.write_text("\n".join(["model,language,task,score", *rows, ""]), encoding="utf-8")


def write_rows(place: Path) -> None:
    """Answers to eight items of each cell of the small table, in three files; covariate; cells."""
    draw = random.Random(3)
    (place / "rows").mkdir()
    for i in range(3):
        lines = [
            f"m{i},{language},t{k},i{n},{int(draw.random() < 0.5 + 0.1 * i - 0.05 * j)}"
            for j, language in enumerate(("deu", "fra", "spa", "swe", "fin"))
            for k in range(3)
            for n in range(8)
        ]
        text = "\n".join(["model,language,task,item,score", *lines, ""])
        (place / "rows" / f"m{i}.csv").write_text(text, encoding="utf-8")
    alignment = {"deu": 0.9, "fra": 0.8, "spa": 0.7, "swe": 0.6, "fin": 0.5, "hun": 0.4}
    lines = [f"{language},{value}" for language, value in alignment.items()]
    (place / "alignment.csv").write_text("\n".join(["language,alignment", *lines, ""]))
    (place / "cells.csv").write_text("model,language,task\nm0,deu,t1\nm2,fin,t0\n")


def write_model(place: Path) -> None:
    """A model of random weights, and 20 sentences in each of six languages."""
    # Partly annotated libraries.
    tokenizers, torch, transformers = (
        cast("Any", import_module(name)) for name in ("tokenizers", "torch", "transformers")
    )
    words = [f"w{i}" for i in range(40)]
    size = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
    torch.manual_seed(7)
    config = transformers.LlamaConfig(**size, num_attention_heads=4)
    transformers.LlamaModel(config).save_pretrained(place / "model")
    vocabulary = {word: i for i, word in enumerate(["<s>", "</s>", "<unk>", *words])}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", eos_token="</s>"
    ).save_pretrained(place / "model")
    draw = random.Random(2)
    (place / "texts").mkdir()
    for code in ("eng_Latn", "deu_Latn", "fra_Latn", "spa_Latn", "swe_Latn", "fin_Latn"):
        lines = [" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(20)]
        (place / "texts" / f"{code}.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def arguments(command: str, place: Path, *, earlier: bool = False) -> list[str]:
    """The command line that writes ``place/results/out``, or the one of an earlier result."""
    table, out = str(place / "scores.csv"), str(place / "results" / "out")
    data = ["--benchmark", table, "--out", out, "--no-figures", "--quiet"]
    if command == "fit" or (command in _OF_A_FIT and earlier):
        plain = ["--no-report", "--no-checks"] if command in _OF_A_FIT else []
        model = ["--model", "additive"]
        if command == "forecast":
            model = ["--model", "mexa", "--covariate", str(place / "alignment.csv")]
        return ["fit", *data, *model, "--draws", "100", *plain]
    if command == "fit --memory":
        rows = ["--benchmark", str(place / "rows"), *data[2:], "--memory", "1GB"]
        return ["fit", *rows, "--model", "additive", "--draws", "100", "--no-checks"]
    if command.startswith("compare"):
        # Both models of a pair are fitted to the rest of the table twice.
        held_out = ["--holdout", "0.3", "--repeats", "2"] if command.endswith("holdout") else []
        models = ["--models", "additive,interaction", "--jobs", "1", *held_out]
        return ["compare", *data, *models]
    if command in ("plan", "next"):
        # All cells of the table have scores.
        more = ["--languages", "hun"] if command == "next" else []
        return [command, out, "--no-figures", *more]
    if command == "forecast":
        return ["forecast", out, "--no-figures", "--no-check", "--quiet"]
    if command == "predict":
        cells = str(place / "cells.csv")
        return ["predict", out, cells, "--out", str(place / "results" / _PREDICTIONS), "--quiet"]
    if command.startswith("sensitivity"):
        jobs = "2" if command == _WHOLE else "1"
        return ["sensitivity", *data, "--model", "additive", "--drop", "task", "--jobs", jobs]
    if command == "report":
        return ["report", out]
    if command == "calibrate":
        like = ["--like", table, "--model", "additive", "--jobs", "1", *data[2:]]
        number = _SIMULATIONS // 3 if earlier else _SIMULATIONS
        return ["calibrate", *like, "--simulations", str(number)]
    source = ["--model", str(place / "model"), "--parallel", str(place / "texts")]
    return ["mexa", *source, "--sentences", "20", *data[2:]]


def finish(words: Sequence[str], start: Start) -> float:
    """Run a command to its end; its wall time."""
    begun = time.perf_counter()
    run = start(words)
    code = run.wait()
    seconds = time.perf_counter() - begun
    # What killed runs have finished is whole, so that nothing of it may be refused.
    if code not in (0, 3) or _REFUSED in run.said():
        raise SystemExit(f"{' '.join(words)}: exit code {code}: {run.said()}")
    return seconds


def state(out: Path) -> str:
    """Whether a result folder is absent or whole; otherwise what is wrong with it."""
    if not out.exists():
        return "absent"
    try:
        run = json.loads((out / "run.json").read_text(encoding="utf-8"))
        for name, known in run["sha256"].items():
            if hashlib.sha256((out / name).read_bytes()).hexdigest() != known:
                return f"broken: {name} is another file"
    except (OSError, ValueError, KeyError) as error:
        return f"broken: {error!r}"
    return "whole"


def contents(out: Path) -> dict[str, bytes]:
    """All files of a folder, and the predictions beside it."""
    paths = [*sorted(out.rglob("*")), out.parent / _PREDICTIONS]
    return {os.path.relpath(path, out): path.read_bytes() for path in paths if path.is_file()}


def tables(out: Path) -> dict[str, bytes]:
    """All tables of a folder."""
    return {name: content for name, content in contents(out).items() if name.endswith(".csv")}


@dataclass(frozen=True)
class Scene:
    """Folders of one command: a table or a model, results, and temporary files."""

    command: str
    place: Path

    @property
    def results(self) -> Path:
        """Folder around the results."""
        return self.place / "results"

    @property
    def out(self) -> Path:
        """Folder that the command writes."""
        return self.results / "out"

    @property
    def work(self) -> Path:
        """Folder of what a killed run has finished."""
        return self.results / "out.unfinished"

    @property
    def adds(self) -> bool:
        """Whether the command adds to a result folder that there has to be."""
        return self.command in _OF_A_FIT

    def parts(self) -> set[str]:
        """What killed runs have finished."""
        return {path.name for path in self.work.rglob("*.json")} if self.work.is_dir() else set()

    def put(self, earlier: Path | None) -> None:
        """Let the earlier result lie in the folder, or nothing."""
        (self.results / _PREDICTIONS).unlink(missing_ok=True)
        shutil.rmtree(self.out, ignore_errors=True)
        if earlier is not None:
            shutil.copytree(earlier, self.out)

    def litter(self) -> list[str]:
        """What lies around the results and among temporary files besides them."""
        inside = {path.name for path in self.results.iterdir()} - {"out", _PREDICTIONS}
        hidden = {path.name for path in self.out.iterdir() if path.name[0] == "."}
        return sorted(inside | hidden | self.temporary())

    def temporary(self) -> set[str]:
        """What lies in the folder of temporary files."""
        return {path.name for path in (self.place / "tmp").iterdir()}


def kill_often(scene: Scene, kills: int, *, seed: int, start: Start, begin: Start) -> Outcome:
    """Kill one command many times.

    Parameters
    ----------
    scene : Scene
        With what the command reads.
    kills, seed : int
        How often, and what the times are drawn with.
    start : callable
        Starts what is killed.
    begin : callable
        Starts the run that is the reference.
    """
    draw = random.Random(f"{seed} {scene.command}")
    words = arguments(scene.command, scene.place)
    bare, before = scene.place / "bare", scene.place / "before"
    out = scene.out
    if scene.adds or scene.command == "calibrate":
        finish(arguments(scene.command, scene.place, earlier=True), start)
        shutil.copytree(out, bare if scene.adds else before)
    finish(words, begin)
    reference = contents(out)
    scene.put(bare if scene.adds else None)
    outcome = Outcome(scene.command, finish(words, start))
    again = contents(out)
    if tables(out) != {name: reference[name] for name in reference if name.endswith(".csv")}:
        outcome.faults.append("a fork writes other tables than a process")
    # Times of the run stand in run.json.
    reference = {
        name: content
        for name, content in reference.items()
        if name.endswith(".csv") or content == again[name]
    }
    # The cache of a library has the same name in every run.
    usual = scene.temporary()
    if not before.is_dir():
        shutil.copytree(out, before)
    tries = 0
    while outcome.kills < kills and tries < 3 * kills:
        fresh = tries % 2 == 0
        if tries % 3 == 0:
            shutil.rmtree(scene.work, ignore_errors=True)
        scene.put(before if not fresh else bare if scene.adds else None)
        finished = scene.parts()
        low = 0.0 if draw.random() < 0.5 else 0.67
        run = start(words)
        if run.wait(draw.uniform(low, 1.0) * outcome.seconds) is None:
            run.kill()
            outcome.kills += 1
        else:
            outcome.ended += 1
        tries += 1
        found = state(out)
        outcome.states[found.partition(":")[0]] += 1
        if found.startswith("broken") or (found == "absent" and (scene.adds or not fresh)):
            outcome.faults.append(f"kill {outcome.kills}: {found}")
        predicted = scene.results / _PREDICTIONS
        if predicted.is_file() and predicted.read_bytes() != reference[f"../{_PREDICTIONS}"]:
            outcome.faults.append(f"kill {outcome.kills}: half of {_PREDICTIONS}")
        if (lost := finished - scene.parts()) and not _equal(out, reference):
            outcome.faults.append(f"kill {outcome.kills}: lost {', '.join(sorted(lost))}")
        if tries % _BLOCK == 0 or outcome.kills == kills:
            finish(words, start)
            if _equal(out, reference):
                outcome.compared += 1
            else:
                outcome.faults.append(f"after kill {outcome.kills}: other numbers")
            if left := set(scene.litter()) - usual:
                outcome.faults.append(f"after kill {outcome.kills}: left {', '.join(sorted(left))}")
    return outcome


def _equal(out: Path, reference: dict[str, bytes]) -> bool:
    if not out.is_dir():
        return False
    found = contents(out)
    return all(found.get(name) == content for name, content in reference.items())


def stage(command: str, kills: int, *, seed: int) -> Outcome:
    """Kill one command of `bayeseval` many times, in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for name in ("results", "tmp"):
            (place / name).mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(place / "tmp")
        os.environ["BAYESEVAL_CACHE"] = str(place / "cache")
        try:
            write_table(place / "scores.csv")
            write_rows(place)
            if command == "mexa":
                # This process must not compute with torch.
                code = "import kill, pathlib, sys; kill.write_model(pathlib.Path(sys.argv[1]))"
                subprocess.run([sys.executable, "-c", code, scratch], check=True, cwd=ROOT / "perf")
            scene = Scene(command, place)
            log = place / "log"

            def whole(words: Sequence[str]) -> Run:
                return Whole(words, log)

            def forked(words: Sequence[str]) -> Run:
                return Forked(words, log)

            if command == _WHOLE:
                return kill_often(scene, kills // 10, seed=seed, start=whole, begin=whole)
            if scene.adds:
                finish(arguments(command, place, earlier=True), whole)
            prepare(arguments(command, place), place)
            shutil.rmtree(scene.out)
            return kill_often(scene, kills, seed=seed, start=forked, begin=whole)
        finally:
            tempfile.tempdir = None
            del os.environ["TMPDIR"], os.environ["BAYESEVAL_CACHE"]


def main(given: Sequence[str] | None = None) -> int:
    """Print one line per command; 1 when something was lost, left or different."""
    parser = argparse.ArgumentParser(description="Kill commands at random moments.")
    parser.add_argument("--kills", type=int, default=100, help="of every command")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(given)
    said = provenance()
    os.environ.update(ENVIRONMENT)
    sys.path.insert(0, str(ROOT / "src"))
    rows, faults = [], 0
    for command in asked.commands.split(","):
        outcome = stage(command, asked.kills, seed=asked.seed)
        rows.append(outcome.row())
        print_table(rows[-1:])
        for fault in outcome.faults:
            print(f"  {fault}", flush=True)
        faults += len(outcome.faults)
        write_csv("kills", rows, said, key="killed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
