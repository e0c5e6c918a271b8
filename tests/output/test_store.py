"""Result folders: which may be written, what stays in them, what a kill leaves behind."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bayeseval.errors import InputError, addressing_command_line
from bayeseval.output import _locks, _places, store
from bayeseval.output._folders import exchange
from bayeseval.output._locks import try_lock
from bayeseval.output.store import (
    RUN_FILE,
    add_files,
    check_additions,
    check_target,
    read_json,
    read_run,
    results_saved,
    write_folder,
    write_json,
)

RUN = {
    "data_hash": "d" * 64,
    "spec_hash": "s" * 64,
    "engine": "numpyro",
    "seed": 0,
    "pairs_hash": "p" * 64,
    "margin": None,
}
SOURCE = Path(store.__file__).parents[2]


def says(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


def write(folder: Path, text: str = "old", run: Mapping[str, Any] = RUN, **options: Any) -> Path:
    writers = {"posterior.nc": says(text), "tables/a.csv": says(text)}
    return write_folder(folder, writers, run=run, **options)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder but the run file."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != RUN_FILE
    }


@pytest.fixture(params=["exchange", "two renames"])
def each_swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of putting a folder in another's place."""
    if request.param == "two renames":
        monkeypatch.setattr(store, "exchange", lambda first, second: False)
    return str(request.param)


def test_new_folder_with_its_parents(tmp_path: Path) -> None:
    target = tmp_path / "results" / "mega" / "additive"
    assert write(target) == target
    assert contents(target) == {"posterior.nc": "old", "tables/a.csv": "old"}
    run = read_run(target)
    assert {key: run[key] for key in RUN} == RUN
    assert run["files"] == ["posterior.nc", "run.json", "tables/a.csv"]
    assert [path.name for path in target.parent.iterdir()] == ["additive"]


@pytest.mark.usefixtures("each_swap")
def test_same_run_replaces_and_drops_what_it_no_longer_writes(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write_folder(target, {"figures/a.png": says("x"), "posterior.nc": says("old")}, run=RUN)
    write(target, "new")
    assert contents(target) == {"posterior.nc": "new", "tables/a.csv": "new"}
    assert not (target / "figures").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("key", "value", "theirs", "ours"),
    [
        ("seed", 1, "seed 0", "seed 1"),
        ("engine", "pymc", "engine numpyro", "engine pymc"),
        ("data_hash", "e" * 64, "data dddddddddddd", "data eeeeeeeeeeee"),
        ("spec_hash", "t" * 64, "spec ssssssssssss", "spec tttttttttttt"),
        ("pairs_hash", "q" * 64, "pairs pppppppppppp", "pairs qqqqqqqqqqqq"),
        ("margin", 2.5, "margin default", "margin 2.5"),
    ],
)
def test_another_run_is_refused_unless_forced(
    tmp_path: Path, key: str, value: object, theirs: str, ours: str
) -> None:
    target = tmp_path / "run"
    write(target)
    other = {**RUN, key: value}
    expected = (
        f"{target} holds a run with {theirs}, this one has {ours}; "
        "choose another folder or overwrite it with force=True"
    )
    for attempt in (lambda: check_target(target, other), lambda: write(target, "new", other)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value) == expected
        assert contents(target)["posterior.nc"] == "old"
    check_target(target, other, force=True)
    write(target, "new", other, force=True)
    assert contents(target)["posterior.nc"] == "new"
    assert read_run(target)[key] == value


def test_a_run_of_an_earlier_version_has_unknown_pairs(tmp_path: Path) -> None:
    earlier = {key: value for key, value in RUN.items() if key not in ("pairs_hash", "margin")}
    write(tmp_path / "run", run=earlier)
    with pytest.raises(InputError, match="holds a run with pairs unknown, this one has pairs ppp"):
        check_target(tmp_path / "run", RUN)
    # What is not known of this run is not compared.
    check_target(tmp_path / "run", earlier)


def test_all_differences_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "run")
    with pytest.raises(
        InputError, match="with engine numpyro, seed 0, this one has engine ml, seed 2;"
    ):
        check_target(tmp_path / "run", {**RUN, "engine": "ml", "seed": 2})


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_not_ours_is_refused_even_when_forced(tmp_path: Path, force: bool) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is not empty and holds no run\.json"):
        check_target(tmp_path / "thesis", RUN, force=force)
    with pytest.raises(InputError, match="not a result folder"):
        write(tmp_path / "thesis", force=force)
    assert contents(tmp_path / "thesis") == {"draft.tex": "years of work"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run")
    assert contents(tmp_path / "run")["posterior.nc"] == "old"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(InputError, match="run is a file, not a folder"):
        check_target(tmp_path / "run", RUN)
    with pytest.raises(InputError, match=r"run is a file, not a folder; choose another folder"):
        check_target(tmp_path / "run" / "below", RUN)


def test_the_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "run"
    write(target)
    monkeypatch.chdir(target / "tables")
    for folder in (".", "..", target):
        with pytest.raises(InputError, match="is the current folder or above it"):
            check_target(folder, RUN)
    check_target("deeper", RUN)


def test_a_mount_point_is_refused() -> None:
    with pytest.raises(InputError, match="/proc is a mount point"):
        check_target("/proc", RUN)


def test_a_folder_mounted_from_the_same_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tmp_path / "my run")
    escaped = str(target).replace(" ", r"\040")

    def mounted(place: str) -> None:
        line = f"61 29 254:0 /home {place} rw,relatime shared:1 - ext4 /dev/vda rw\n"
        monkeypatch.setattr(Path, "read_bytes", lambda path: line.encode())

    # As `mount --bind`, which needs more rights than a test has.
    mounted(f"{escaped}-other")
    check_target(target, RUN)
    mounted(escaped)
    with pytest.raises(InputError, match="my run is a mount point and cannot be replaced"):
        check_target(target, RUN)
    mounted(f"{escaped}/tables")
    with pytest.raises(
        InputError, match="as a whole, because .*/my run/tables is a mount point; choose"
    ):
        check_target(target, RUN)


def test_a_folder_of_an_image_of_a_container_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tmp_path / "run")
    real = Path.rename

    def rename(path: Path, other: Path) -> Path:
        if path == target:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(path, other)

    monkeypatch.setattr(Path, "rename", rename)
    check_target(target, RUN)
    monkeypatch.setattr(_places, "_mounts", lambda: {"/": "overlay"})
    with pytest.raises(InputError, match="run is part of a lower layer of an overlay file system"):
        check_target(target, RUN)
    # What only adds to it, and what is new, needs no renaming.
    check_additions(target)
    check_target(tmp_path / "new", RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    monkeypatch.setattr(Path, "rename", real)
    check_target(target, RUN)
    assert contents(target)["posterior.nc"] == "old"


def test_a_folder_without_permission_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    # Permissions do not bind root, so the answer of the system is played here.
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and real(path, mode))
    with pytest.raises(InputError, match=f"no permission to read and write {closed}; choose"):
        check_target(closed / "results" / "run", RUN)
    check_target(tmp_path / "open", RUN)


@pytest.mark.parametrize("below", ["run", "several/folders/down/run"])
def test_a_place_that_takes_no_folder_is_refused_early(tmp_path: Path, below: str) -> None:
    # To root every permission says yes here; only trying tells.
    with pytest.raises(
        InputError, match=f"/proc/{below} cannot be written: /proc takes no new"
    ) as e:
        check_target(f"/proc/{below}", RUN)
    assert str(e.value).endswith("choose another folder")
    check_target(tmp_path / below, RUN)
    # Tried and taken away again.
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_found_before_sampling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="takes no new folder .No space left on device."):
        check_target(tmp_path / "run", RUN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [240, 300])
def test_a_name_that_the_temporary_folder_makes_too_long_is_refused_early(
    tmp_path: Path, length: int
) -> None:
    with pytest.raises(InputError, match="File name too long|longer than the system allows") as e:
        check_target(tmp_path / ("x" * length), RUN)
    assert "\n" not in str(e.value)
    check_target(tmp_path / ("x" * 200), RUN)


def test_additions_to_a_folder_are_refused_early_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tmp_path / "run")
    check_additions(target)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(InputError, match="no such result folder"):
        check_additions(tmp_path / "absent")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != target and real(path, mode))
    with pytest.raises(InputError, match=f"no permission to read and write {target}"):
        check_additions(target)
    # Commands that add to a result folder have no option for another place.
    with (
        addressing_command_line(),
        pytest.raises(InputError, match="; allow writing there, or copy the result folder else"),
    ):
        check_additions(target)


def test_additions_to_an_edited_folder_are_refused(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    (target / "mine.csv").write_text("a user's own")
    check_additions(target)
    # Listed, but not there: a process was killed while it added the file.
    run = read_run(target)
    del run["run_sha256"]
    store.write_json({**run, "files": [*run["files"], "tables/b.csv"]}, target / RUN_FILE)
    check_additions(target)
    (target / "tables" / "a.csv").write_text("edited")
    with pytest.raises(InputError, match=r"tables/a\.csv was edited or is damaged: its SHA-256"):
        check_additions(target)


def test_a_command_may_write_its_own_edited_files_again(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    added = ("tables/next.csv", "tables/next_comparison.csv", "tables/plan.csv", "report.html")
    store.add_files(target, {name: says("ours") for name in added}, run={})
    for name in ("tables/next.csv", "tables/next_comparison.csv", "report.html"):
        (target / name).write_text("edited")
    check_additions(target, "next")
    # What another command has written is not written again, and its command is named.
    with pytest.raises(InputError, match=r"next\.csv was edited .* or run bayeseval next again$"):
        check_additions(target, "plan")
    with pytest.raises(InputError, match=r"report\.html was edited .* run bayeseval report again$"):
        check_additions(target)
    (target / "tables" / "a.csv").write_text("edited")
    with pytest.raises(InputError, match=r"a\.csv was edited .* or run bayeseval fit again$"):
        check_additions(target, "next")


def test_damaged_run_file(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write(target)
    (target / RUN_FILE).write_text('{"seed": ')
    with pytest.raises(
        InputError, match=r"run\.json is damaged: not JSON .*; choose another folder"
    ):
        check_target(target, RUN)
    (target / "notes.txt").write_text("mine")
    write(target, "new", force=True)
    # It does not say which files were ours: those of the same name are taken to be.
    assert contents(target) == {"notes.txt": "mine", "posterior.nc": "new", "tables/a.csv": "new"}


@pytest.mark.usefixtures("each_swap")
def test_the_users_own_files_stay(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write(target)
    (target / "notes.txt").write_text("mine")
    (target / "tables" / "mine.csv").write_text("also mine")
    (target / "paper" / "figures").mkdir(parents=True)
    (target / "link").symlink_to("notes.txt")
    (target / "dangling").symlink_to("nowhere")
    for text in ("new", "newer"):
        write(target, text)
        assert contents(target) == {
            "link": "mine",
            "notes.txt": "mine",
            "posterior.nc": text,
            "tables/a.csv": text,
            "tables/mine.csv": "also mine",
        }
    assert (target / "paper" / "figures").is_dir()
    assert (target / "link").readlink() == Path("notes.txt")
    assert (target / "dangling").readlink() == Path("nowhere")


def test_a_users_file_of_a_name_we_need_is_kept_beside(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write(target)
    (target / "figures").mkdir()
    (target / "figures" / "a.png").write_text("mine")
    for _ in range(2):
        write_folder(target, {"figures/a.png": says("ours")}, run=RUN)
        assert contents(target) == {"figures/a.png": "ours", "figures/a.png.orig": "mine"}


@pytest.mark.usefixtures("each_swap")
def test_a_file_that_is_displaced_takes_no_other_one_s_place(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write(target)
    (target / "figures").mkdir()
    (target / "figures" / "a.png").write_text("mine")
    (target / "figures" / "a.png.orig").write_text("mine before")
    for _ in range(2):
        write_folder(target, {"figures/a.png": says("ours")}, run=RUN)
        assert contents(target) == {
            "figures/a.png": "ours",
            "figures/a.png.orig": "mine before",
            "figures/a.png.orig.2": "mine",
        }


def test_a_name_that_is_displaced_twice_keeps_both_files(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write(target)
    plan = "tables/plan.csv"
    for text in ("mine", "mine again", "mine a third time"):
        (target / plan).write_text(text)
        add_files(target, {plan: says("ours")}, run={})
        add_files(target, {"tables/other.csv": says("ours")}, run={}, without=[plan])
    kept = {name: text for name, text in contents(target).items() if "plan" in name}
    assert kept == {
        f"{plan}.orig": "mine",
        f"{plan}.orig.2": "mine again",
        f"{plan}.orig.3": "mine a third time",
    }


def test_files_are_copied_where_they_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("no links here")

    target = tmp_path / "run"
    write(target)
    (target / "notes.txt").write_text("mine")
    monkeypatch.setattr(os, "link", refuse)
    write(target, "new")
    assert contents(target)["notes.txt"] == "mine"


def test_a_link_to_itself_is_refused_early(tmp_path: Path) -> None:
    link = tmp_path / "run"
    link.symlink_to(link)
    with pytest.raises(InputError, match=f"^{link} is a link that leads to itself; choose another"):
        check_target(link, RUN)


@pytest.mark.usefixtures("each_swap")
def test_a_linked_folder_is_written_where_it_is(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "run"
    link = tmp_path / "results"
    real.mkdir(parents=True)
    link.symlink_to(real)
    for text in ("old", "new"):
        assert write(link, text) == real
        assert link.is_symlink()
        assert contents(real)["posterior.nc"] == text
        assert read_run(link)["seed"] == 0


@pytest.mark.usefixtures("each_swap")
def test_the_permissions_of_the_folder_stay(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    target.chmod(0o750)
    write(target, "new")
    assert target.stat().st_mode & 0o777 == 0o750


@pytest.mark.usefixtures("each_swap")
def test_a_writer_that_fails_leaves_the_previous_results(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise KeyError("a bug")

    target = write(tmp_path / "run")
    with pytest.raises(KeyError, match="a bug"):
        write_folder(target, {"posterior.nc": says("new"), "tables/a.csv": fail}, run=RUN)
    assert contents(target) == {"posterior.nc": "old", "tables/a.csv": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(InputError, match="could not be written .*: No space left on device") as e:
        write_folder(tmp_path / "run", {"posterior.nc": full}, run=RUN)
    assert "\n" not in str(e.value)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_writes_nothing_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"the writer of tables/a\.csv wrote nothing"):
        write_folder(tmp_path / "run", {"tables/a.csv": lambda path: None}, run=RUN)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "tables/../../x", "run.json", "."])
def test_names_outside_the_folder_are_a_bug(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a result file"):
        write_folder(tmp_path / "run", {name: says("x")}, run=RUN)


def test_leftovers_of_the_dead_go_those_of_the_living_stay(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    dead = tmp_path / ".run.tmp-99999-0123abcd"
    living = tmp_path / ".run.tmp-99999-deadbeef"
    others = [tmp_path / name for name in (".run.tmp-notes", ".other.tmp-1-0123abcd", ".run.tmp")]
    for path in (dead, living, *others):
        path.mkdir()
        (path / "posterior.nc").write_text("half")
    lock = try_lock(living)
    assert lock is not None
    write(target, "new")
    os.close(lock)
    assert not dead.exists()
    assert living.is_dir()
    assert all(path.is_dir() for path in others)
    write(target, "newer")
    assert not living.exists()


def test_a_backup_is_restored_when_the_name_is_empty(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    backup = tmp_path / ".run.old-99999-0123abcd"
    target.rename(backup)
    assert read_run(target)["seed"] == 0
    assert contents(target)["posterior.nc"] == "old"
    assert not backup.exists()


def test_leftovers_of_additions_and_of_single_files_go_too(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    for name in (".run.tmp-99999-0123abcd", ".trial-99999-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("half")
    check_additions(target)
    assert not (tmp_path / ".trial-99999-0123abcd").exists()
    store.add_files(target, {"tables/b.csv": says("b")}, run={})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    dead, living, other = (tmp_path / f".x.txt-{i}0123abc.part" for i in "12z")
    for path in (dead, living, other):
        path.write_text("half")
    lock = try_lock(living)
    assert lock is not None
    store.replace_file(partial(store.write_text, "whole"), tmp_path / "x.txt")
    os.close(lock)
    assert sorted(p.name for p in tmp_path.iterdir()) == [living.name, other.name, "run", "x.txt"]


def test_nothing_is_added_to_the_results_of_another_run(tmp_path: Path) -> None:
    """Another process may replace the folder while its results are read and drawn."""
    target = write(tmp_path / "run")

    def replace(path: Path) -> None:
        write(target, "new", run={**RUN, "seed": 1}, force=True)
        path.write_text("a page of the old run")

    with pytest.raises(InputError) as caught, results_saved(target, ["the report"], "again"):
        store.add_files(target, {"report.html": replace}, run=RUN)
    # Nor does the message say that our results are saved there.
    assert str(caught.value) == (
        f"{target} holds a run with seed 1 by now, and what was to be added is of one with seed 0; "
        "another process has replaced it"
    )
    assert contents(target)["posterior.nc"] == "new"
    assert "report.html" not in contents(target)
    store.add_files(target, {"report.html": says("page")}, run={**RUN, "seed": 1})
    assert contents(target)["report.html"] == "page"


@pytest.fixture
def foreign_lock(tmp_path: Path) -> Iterator[int]:
    """A process that has locked the folder of the results; its number."""
    # What it is called acts on a terminal.
    code = "'\x1b[2J'; import fcntl, os, sys; "
    code += "fcntl.flock(os.open(sys.argv[1], 0), 2); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def _is_listed(process: int, folder: Path) -> bool:
    """Whether Linux lists the lock by the device that the file system says, which not all do."""
    status, locks = folder.stat(), Path("/proc/locks")
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    listed = locks.read_text() if locks.exists() else ""
    return f" {process} {device}:{status.st_ino} " in listed


def test_a_lock_of_another_process_is_said_and_not_waited_for_forever(
    tmp_path: Path,
    foreign_lock: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_locks, "_SILENT", 0.0)
    monkeypatch.setattr(_locks, "_PATIENCE", 0.2)
    with pytest.raises(InputError) as caught:
        check_target(tmp_path / "run", RUN)
    who = "another process"
    if _is_listed(foreign_lock, tmp_path):
        who = f"process {foreign_lock} ({sys.executable} -c '\\x1b[2J'; import"
    assert str(caught.value).startswith(f"{tmp_path} has been locked by {who}")
    assert str(caught.value).endswith("; end that process, or choose a folder elsewhere")
    said = capsys.readouterr().err
    assert said.startswith(f"waiting for {who}")
    assert said.count("\n") == 1


def test_a_file_beyond_the_limit_of_the_system_is_one_line(tmp_path: Path) -> None:
    """Of a large posterior, by way of HDF5: the earlier result stays whole, nothing lies about."""
    code = """
import resource, sys
from functools import partial
from pathlib import Path
import numpy as np, xarray as xr
from bayeseval.errors import InputError
from bayeseval.output.store import write_folder, write_text, write_tree
run = dict.fromkeys(["data_hash", "spec_hash", "engine", "seed", "pairs_hash", "margin"])
target = Path(sys.argv[1]) / "run"
write_folder(target, {"posterior.nc": partial(write_text, "old")}, run=run)
draws = np.random.default_rng(0).normal(size=100_000)
tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", draws)})})
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    write_folder(target, {"posterior.nc": partial(write_tree, tree)}, run=run)
except InputError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'run'} could not be written: File too large\n"
    assert contents(tmp_path / "run") == {"posterior.nc": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_texts_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    name = os.fsdecode(b"b\xff.csv")
    write_json({"benchmark": name}, tmp_path / "x.json")
    assert (tmp_path / "x.json").read_bytes() == b'{\n  "benchmark": "b\\udcff.csv"\n}\n'
    assert read_json(tmp_path / "x.json") == {"benchmark": name}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(attrs={"source": name})})
    store.write_tree(tree, tmp_path / "x.nc")
    assert store.read_tree(tmp_path / "x.nc")["posterior"].attrs["source"] == "b\\udcff.csv"


def test_a_reader_waits_for_a_writer_between_two_renames(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    backup = tmp_path / ".run.old-99999-0123abcd"
    lock = try_lock(tmp_path)
    assert lock is not None
    target.rename(backup)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_run, target)
        with pytest.raises(TimeoutError):
            reading.result(timeout=0.2)
        assert backup.is_dir()
        shutil.copytree(backup, target)
        os.close(lock)
        assert reading.result()["seed"] == 0
    # The writer is alive and removes its backup itself.
    assert backup.is_dir()


def test_checking_before_sampling_restores_too(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    target.rename(tmp_path / ".run.old-99999-0123abcd")
    with pytest.raises(InputError, match="holds a run with seed 0"):
        check_target(target, {**RUN, "seed": 5})
    assert target.is_dir()


def test_reading_what_is_not_a_result_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: no such result folder"):
        read_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"holds no run\.json"):
        read_run(tmp_path)
    (tmp_path / RUN_FILE).write_text("[1, 2]")
    with pytest.raises(InputError, match="a JSON mapping was expected"):
        read_run(tmp_path)


def test_json_of_what_a_run_holds(tmp_path: Path) -> None:
    value = {
        "b": np.float64(0.1),
        "a": [np.int64(3), np.nan, float("inf"), np.array([1.5, np.nan])],
        "text": "中文",
        "path": Path("x/y"),
        "flag": np.bool_(True),
        "none": None,
        "deep": {"tuple": (1, "x"), "set": {"b", "a"}},
    }
    write_json(value, tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert "中文" in text
    assert read_json(tmp_path / "x.json") == {
        "b": 0.1,
        "a": [3, None, None, [1.5, None]],
        "text": "中文",
        "path": "x/y",
        "flag": True,
        "none": None,
        "deep": {"tuple": [1, "x"], "set": ["a", "b"]},
    }
    assert list(read_json(tmp_path / "x.json")) == list(value)


def test_exchange_swaps_or_does_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    swapped = exchange(first, second)
    assert (first / "name").read_text() == ("second" if swapped else "first")
    assert (second / "name").read_text() == ("first" if swapped else "second")
    assert exchange(first, tmp_path / "absent") is False


def test_a_file_is_replaced_behind_its_link_and_a_pipe_is_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x.txt", tmp_path / "x.txt"
    target.write_text("old")
    link.symlink_to(target)
    store.replace_file(partial(store.write_text, "new\n"), link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        store.replace_file(partial(store.write_text, "piped"), pipe)
        assert read.result(timeout=60) == "piped"
    assert pipe.is_fifo()
    with pytest.raises(InputError, match=r"none/x\.txt could not be written: there is no folder "):
        store.replace_file(partial(store.write_text, ""), tmp_path / "none" / "x.txt")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    target = write_folder(tmp_path / "r", {"a.csv": lambda path: path.write_text("a")}, run=RUN)
    mine = target / "tables" / "next.csv"
    said = f"{mine} is a folder, and a file of this name is to be written; rename or move"
    for listed in (False, True):
        if listed:
            # A file of ours that somebody replaced by a folder.
            shutil.rmtree(mine)
            store.add_files(target, {"tables/next.csv": Path.touch}, run={})
            mine.unlink()
        mine.mkdir(parents=True)
        (mine / "mine.txt").write_text("mine")
        before = (target / RUN_FILE).read_bytes()
        writers = {"b.csv": lambda path: path.write_text("b"), "tables/next.csv": Path.touch}
        for given, without in ((writers, ()), ({"b.csv": Path.touch}, ("tables/next.csv",))):
            with pytest.raises(InputError, match=re.escape(said)):
                store.add_files(target, given, run={}, without=without)
        assert (mine / "mine.txt").read_text() == "mine"
        assert (target / RUN_FILE).read_bytes() == before
        assert not (target / "b.csv").exists()


def test_an_edited_run_file_is_refused(tmp_path: Path) -> None:
    target = write_folder(
        tmp_path / "r",
        {"a.csv": lambda path: path.write_text("a")},
        run={**RUN, "seconds": float("nan"), "margin": 0.1, "notes": ["\udce9t\u00e9"]},
    )
    path = target / RUN_FILE
    # Adding files writes the hash again; the order of keys and white space are no contents.
    store.add_files(target, {"b.csv": lambda path: path.write_text("b")}, run={})
    run = read_run(target)
    path.write_text(json.dumps(dict(reversed(run.items()))))
    assert read_run(target) == run
    original = path.read_bytes()
    for change in ({"seed": 4}, {"margin": 0.2}, {"notes": []}, {"new": None}, {"run_sha256": ""}):
        path.write_text(json.dumps({**run, **change}))
        said = f"{path} was edited or is damaged: its contents have another SHA-256 than run_sha256"
        with pytest.raises(InputError, match=re.escape(said)):
            read_run(target)
        with pytest.raises(InputError, match=re.escape(said)):
            store.add_files(target, {"c.csv": Path.touch}, run={})
    assert not (target / "c.csv").exists()
    path.write_bytes(original)
    assert read_run(target) == run
    # Results of earlier versions have no such hash.
    path.write_text(json.dumps({k: v for k, v in run.items() if k != "run_sha256"} | {"seed": 4}))
    assert read_run(target)["seed"] == 4


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="a system without /proc")
def test_files_that_would_be_read_for_ever_are_refused(tmp_path: Path) -> None:
    target = write(tmp_path / "run")
    table = target / "tables" / "a.csv"
    with table.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError) as caught:
        check_additions(target)
    assert str(caught.value) == (
        f"{table} was edited or is damaged: most of its 1,099,511,627,776 bytes were never "
        "written; put the original back, or run bayeseval fit again"
    )
    # As /proc/kmsg, which gives lines as they come and has no end.
    for path in (table, target / RUN_FILE):
        path.unlink()
        path.symlink_to("/proc/version")
        with pytest.raises(InputError, match=f"^{path} is made by the kernel while it is read"):
            check_additions(target)
