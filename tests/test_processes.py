"""Work one after the other and in several processes: the same results, in order."""

from __future__ import annotations

import os

import pytest

from bayeseval._processes import run_all, sensible_jobs
from bayeseval.engines import ENGINES, cores_of
from bayeseval.errors import InputError


def test_the_results_do_not_depend_on_the_number_of_processes() -> None:
    told: list[tuple[str, int, int, str]] = []

    def work(shared: None, item: int, beat: object) -> tuple[int, int, bool]:
        return item**2, os.getpid(), beat is None

    def tell(*report: object) -> None:
        told.append(report)  # type: ignore[arg-type]

    here = run_all(work, [3, 1, 2], shared=None, jobs=1, stage="work", progress=tell)
    there = run_all(work, [3, 1, 2], shared=None, jobs=2, stage="work", progress=tell)
    assert [square for square, _, _ in here] == [9, 1, 4]
    assert [square for square, _, _ in there] == [9, 1, 4]
    assert {pid for _, pid, _ in here} == {os.getpid()}
    # Only this process is there to be told of Ctrl-C.
    assert os.getpid() not in {pid for _, pid, _ in there}
    assert [alone for _, _, alone in here + there] == [False] * 3 + [True] * 3
    assert told[:4] == told[4:] == [("work", i, 3, "") for i in range(4)]


def test_what_a_piece_of_work_reports_is_passed_on() -> None:
    told = []

    def work(shared: None, item: int, beat: object) -> int:
        beat("sampling", 1, 2, "")  # type: ignore[operator]
        return item

    run_all(
        work, [7], shared=None, jobs=1, stage="fits", progress=lambda *report: told.append(report)
    )
    assert told == [("fits", 0, 1, ""), ("fits", 0, 1, "sampling"), ("fits", 1, 1, "")]


def test_pieces_that_are_done_are_named() -> None:
    def work(shared: None, item: int, beat: object) -> int:
        return item

    for jobs in (1, 2):
        told: list[tuple[object, ...]] = []
        run_all(
            work,
            [3, 1],
            shared=None,
            jobs=jobs,
            stage="work",
            progress=lambda *report, told=told: told.append(report[1:]),
            labels=["a", "b"],
        )
        # In a log file the last remark would stand for the whole.
        assert (told[0], told[2]) == ((0, 2, ""), (2, 2, ""))
        # Of two processes either may be the first.
        assert told[1] in [(1, 2, name) for name in ("a", "b")[:jobs]]


def test_jobs_are_a_positive_number() -> None:
    assert sensible_jobs(3, cores_each=4) == 3
    with pytest.raises(InputError, match=r"jobs must be at least 1, got 0"):
        sensible_jobs(0, cores_each=1)


def test_as_many_jobs_as_there_are_cores_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10)), raising=False)
    found = {engine: sensible_jobs(None, cores_each=cores_of(engine)) for engine in ENGINES}
    assert found == {"numpyro": 2, "pymc": 2, "marginal": 10, "ml": 10}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert sensible_jobs(None, cores_each=4) == 1


def test_what_is_there_already_is_not_done_again() -> None:
    def work(shared: int, item: int, beat: object) -> int:
        return shared + item

    told: list[tuple[object, ...]] = []
    kept: dict[int, int] = {}
    found = run_all(
        work,
        [1, 2, 3],
        shared=10,
        jobs=1,
        stage="work",
        progress=lambda *report: told.append(report[1:3]),
        keep=kept.__setitem__,
        done={1: 70},
    )
    assert found == [11, 70, 13]
    assert kept == {0: 11, 2: 13}
    assert told == [(1, 3), (2, 3), (3, 3)]
