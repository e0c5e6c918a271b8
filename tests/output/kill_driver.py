"""Kill a process at every step of writing a result folder and look at what is left.

Run as ``python kill_driver.py FOLDER SCENARIO``; prints one JSON object. Forked
children kill themselves at the n-th operation on files, for n = 1, 2, ... until a
child lives to the end; or the n-th operation is refused, or all from there on. It is
a program of its own because a process that has loaded JAX must not be forked.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bayeseval.errors import InputError
from bayeseval.output import store

RUN = {"data_hash": "d", "spec_hash": "s", "engine": "e", "seed": 0}
FILES = ("posterior.nc", "tables/a.csv", "figures/a.png")
# What the user put there, in places of their own and beside ours.
NOTES = {"notes.txt": "mine", "figures/mine.txt": "mine too", "paper/draft.tex": "and this"}
WATCHED = ("os.", "shutil.", "open", "fcntl.", "ctypes.", "tempfile.")
# Locks apart: where they are refused, there are none.
REFUSED = ("os.", "shutil.", "open", "tempfile.")
LAST_STEP = 2000
TURNS = 40


def write(target: Path, content: str) -> None:
    """Write a folder whose files all say `content`, in two steps each."""

    def writer(path: Path) -> None:
        with path.open("w") as file:
            file.write(content[:2])
            file.flush()
            file.write(content[2:])

    store.write_folder(target, dict.fromkeys(FILES, writer), run={**RUN, "content": content})


def careless_write(target: Path, content: str) -> None:
    """The negative control: file by file into the folder itself."""
    for name in FILES:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (target / store.RUN_FILE).write_text(json.dumps({**RUN, "content": content}))


def add(target: Path, content: str) -> None:
    """Add a table to a folder."""

    def writer(path: Path) -> None:
        path.write_text(content)

    store.add_files(target, {"tables/plan.csv": writer}, run={})


def added(target: Path) -> str:
    """Which table was added; what is wrong with the folder otherwise."""
    run = store.read_run(target)
    if state(target, notes=True) != "old results":
        return f"broken: {state(target, notes=True)}"
    names = [name for name in run["files"] if name != store.RUN_FILE]
    store.check_files(target, run, names)
    return (target / "tables" / "plan.csv").read_text()


def prepare(target: Path) -> None:
    """Put old results and the user's files into a folder."""
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir()
    write(target, "old results")
    for name, text in NOTES.items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(text)


def additions(folder: Path) -> dict[str, object]:
    """Kill a process at every step of replacing a table that was added before."""
    target = folder / "run"
    counts: dict[str, int] = {}
    leftovers: list[str] = []
    prepare(target)
    add(target, "old plan")
    for step in range(1, LAST_STEP):
        child = os.fork()
        if child == 0:
            die_at(step)
            add(target, "new plan")
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        seen = added(target)
        counts[seen] = counts.get(seen, 0) + 1
        add(target, "old plan")
        if added(target) != "old plan":
            counts["not writable again"] = step
        leftovers += [path.name for path in folder.iterdir() if path != target]
        if os.WIFEXITED(status):
            finished = os.WEXITSTATUS(status) == 0
            return {"finished": finished, "steps": step - 1, "seen": counts, "left": leftovers}
    raise SystemExit(f"the child was still being killed at step {LAST_STEP}")


def state(target: Path, *, notes: bool) -> str:
    """Which whole results a folder holds; what is wrong with it otherwise."""
    if not target.exists():
        return "absent"
    try:
        content = json.loads((target / store.RUN_FILE).read_text())["content"]
        found = {name: (target / name).read_text() for name in FILES}
        if notes and {name: (target / name).read_text() for name in NOTES} != NOTES:
            return "notes lost"
    except (OSError, ValueError) as error:
        return f"broken: {error}"
    return content if set(found.values()) == {content} else f"mixed: {sorted(set(found.values()))}"


def die_at(step: int) -> None:
    """From now on count operations on files, and kill this process at the n-th."""
    count = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if event.startswith(WATCHED):
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def refuse_at(step: int, folder: Path, *, lasting: bool) -> Callable[[], bool]:
    """From now on count operations on files of a folder, and refuse the n-th, or it and all later.

    As when permission is lost midway, which does not bind root. Tells whether any was refused.
    """
    count = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if not (event.startswith(REFUSED) and args and isinstance(args[0], str | Path)):
            return
        # A name without a folder comes with the descriptor of one.
        if str(args[0]).startswith(str(folder)) or not Path(args[0]).is_absolute():
            count += 1
            if count == step or (lasting and count > step):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(args[0]))

    sys.addaudithook(watch)
    return lambda: count >= step


def refusals(folder: Path, *, lasting: bool) -> dict[str, object]:
    """Refuse a process every step of replacing results, once or from there on."""
    target = folder / "run"
    seen: dict[str, int] = {}
    said: set[str] = set()
    left: list[str] = []
    prepare(target)
    # Once is refused at every step; where all later steps are refused, too, a third shows the same.
    for step in range(1, LAST_STEP, 3 if lasting else 1):
        read, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            refused = refuse_at(step, folder, lasting=lasting)
            try:
                write(target, "new results")
            except InputError as error:
                os.write(write_end, str(error).replace(str(folder), "").encode())
                os._exit(2)
            os._exit(0 if refused() else 3)
        os.close(write_end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        line = os.read(read, 1000).decode()
        os.close(read)
        found = f"{code}: {state(target, notes=True)}"
        seen[found] = seen.get(found, 0) + 1
        if code == 2:
            said.add(line.partition(" (")[0])
        if not lasting:
            left += [f"{step}: {path.name}" for path in folder.iterdir() if path != target]
        write(target, "old results")
        if state(target, notes=True) != "old results" or list(folder.iterdir()) != [target]:
            seen["not writable again"] = step
        if code == 3:
            return {"steps": step - 1, "seen": seen, "said": sorted(said), "left": left}
    raise SystemExit(f"the child was still being refused at step {LAST_STEP}")


def race(folder: Path) -> dict[str, object]:
    """Let two processes write the same folder again and again."""
    target = folder / "run"
    prepare(target)
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            for turn in range(TURNS):
                write(target, f"results {turn} of {number}")
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return {
        "codes": codes,
        "seen": state(target, notes=True),
        "leftovers": [path.name for path in folder.iterdir() if path != target],
    }


def main(folder: Path, scenario: str) -> dict[str, object]:
    # Flushing guards against a power cut, not against a kill, and takes nearly all the time.
    os.fsync = lambda descriptor: None
    target = folder / "run"
    if scenario == "additions":
        return additions(folder)
    if scenario.startswith("refused"):
        return refusals(folder, lasting=scenario.endswith("from there on"))
    if scenario.startswith("race"):
        if scenario.endswith("two renames"):
            store.exchange = lambda first, second: False
        return race(folder)
    fresh = scenario == "fresh"
    if scenario == "two renames":
        store.exchange = lambda first, second: False
    action = careless_write if scenario == "careless" else write
    counts: dict[str, int] = {}
    after: dict[str, int] = {}
    leftovers: list[str] = []
    prepare(target)
    for step in range(1, LAST_STEP):
        if fresh:
            shutil.rmtree(target)
        child = os.fork()
        if child == 0:
            die_at(step)
            action(target, "new results")
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        # As a process that only looks sees it, then after opening it with our reader.
        seen = state(target, notes=not fresh)
        counts[seen] = counts.get(seen, 0) + 1
        if target.exists() or not fresh:
            store.restore_folder(target)
            opened = state(target, notes=not fresh)
            after[opened] = after.get(opened, 0) + 1
        # What the next step begins with.
        write(target, "old results")
        if state(target, notes=not fresh) != "old results":
            after["not writable again"] = step
        leftovers += [path.name for path in folder.iterdir() if path != target]
        if os.WIFEXITED(status):
            finished = os.WEXITSTATUS(status) == 0
            return {
                "finished": finished,
                "steps": step - 1,
                "seen": counts,
                "opened": after,
                "leftovers": leftovers,
            }
    raise SystemExit(f"the child was still being killed at step {LAST_STEP}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
