"""Bootstraps of test sets that cells share: the split of their variance, against loops."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from bayeseval.records import BootVariance, Records, boot_variance, reduce_replicates

LANGUAGES, MODELS, BOOTS = 4, 3, 30
PARTS = ("task", "language_task", "model_task", "record")


def table(
    *, sds: tuple[float, float, float, float], seed: int = 0, n_seeds: int = 1
) -> pd.DataFrame:
    """Scores of one task whose bootstraps move all cells, a language, a model and a cell."""
    rng = np.random.default_rng(seed)
    parts = [(BOOTS, 1, 1), (BOOTS, LANGUAGES, 1), (BOOTS, 1, MODELS), (BOOTS, LANGUAGES, MODELS)]
    noise = sum(sd * rng.normal(size=part) for sd, part in zip(sds, parts, strict=True))
    means = rng.normal(50.0, 5.0, size=(LANGUAGES, MODELS))
    return pd.DataFrame(
        [
            {"model": f"m{m}", "language": f"l{one}", "task": "t", "boot": b, "seed": s}
            | {"score": means[one, m] + noise[b, one, m] + rng.normal()}
            for b, one, m, s in np.ndindex(BOOTS, LANGUAGES, MODELS, n_seeds)
        ]
    )


def variances(frame: pd.DataFrame) -> BootVariance:
    records = Records.from_frame(frame, name="t", units=(None, None))
    found = boot_variance(records, reduce_replicates(records))
    assert found is not None
    return found


def by_pairs(frame: pd.DataFrame) -> dict[str, float]:
    """The same parts from the covariances of all pairs of cells."""
    means = frame.groupby(["language", "model", "boot"])["score"].mean().unstack("boot")
    pairs: dict[str, list[float]] = {"task": [], "language_task": [], "model_task": []}
    for (a, x), (b, y) in itertools.combinations(means.iterrows(), 2):
        both = x.notna() & y.notna()
        # The means are those of each cell's own bootstraps.
        product = float(((x - x.mean())[both] * (y - y.mean())[both]).sum())
        n, n_a, n_b = both.sum(), x.notna().sum(), y.notna().sum()
        known = n * (1.0 - 1.0 / n_a - 1.0 / n_b + n / (n_a * n_b))
        same = a[0] == b[0], a[1] == b[1]
        kind = {(False, False): "task", (True, False): "language_task"}.get(same, "model_task")
        pairs[kind].append((product, known))
    mean = {kind: np.sum(found, axis=0) for kind, found in pairs.items()}
    return {kind: float(product / known) for kind, (product, known) in mean.items()}


@pytest.mark.parametrize("n_seeds", [1, 3])
@pytest.mark.parametrize("complete", [True, False])
def test_parts_are_means_of_covariances(n_seeds: int, complete: bool) -> None:
    frame = table(sds=(2.0, 1.5, 1.0, 0.5), n_seeds=n_seeds)
    if not complete:
        # Cells have different bootstraps; all seeds of a cell have the same ones.
        cell = frame["language"] + frame["model"]
        frame = frame[(frame["boot"] + cell.map(hash_of)) % 5 != 0]
    found, expected = variances(frame), by_pairs(frame)
    assert found.task[0] == pytest.approx(expected["task"], rel=1e-9)
    assert found.task[0] + found.language_task[0] == pytest.approx(
        expected["language_task"], rel=1e-9
    )
    assert found.task[0] + found.model_task[0] == pytest.approx(expected["model_task"], rel=1e-9)
    means = frame.groupby(["language", "model", "boot"])["score"].mean().unstack("boot")
    squares = means.sub(means.mean(axis=1), axis=0) ** 2
    within = squares.to_numpy()[means.notna()].sum() / (means.notna().sum(axis=1) - 1).sum()
    total = sum(float(getattr(found, part)[0]) for part in PARTS)
    assert total == pytest.approx(within, rel=1e-9)


def hash_of(cell: str) -> int:
    """A number of the cell that does not depend on the process."""
    return sum(map(ord, cell))


def test_independent_test_sets_share_nothing() -> None:
    """Labels that only count independent resamples find none in 19 of 20 tables and more."""
    shared = [variances(table(sds=(0.0, 0.0, 0.0, 2.0), seed=seed)) for seed in range(60)]
    found = [sum(float(getattr(one, part)[0]) for part in PARTS[:3]) > 0.0 for one in shared]
    # Three parts that are each above two standard errors in 2.3 of 100 tables.
    assert 0 < sum(found) <= 9
    # Negative control: effects as large as the cells' own are always found.
    common = [variances(table(sds=(0.0, 2.0, 0.0, 2.0), seed=seed)) for seed in range(10)]
    assert all(one.language_task[0] > 1.0 for one in common)


def test_labels_of_other_test_sets_hide_what_is_shared() -> None:
    frame = table(sds=(0.0, 2.0, 0.0, 1.0))
    assert variances(frame).language_task[0] == pytest.approx(4.0, rel=0.5)
    rng = np.random.default_rng(3)
    other = {(m, one): rng.permutation(BOOTS) for m in range(MODELS) for one in range(LANGUAGES)}
    frame["boot"] = [
        other[int(m[1]), int(one[1])][b]
        for m, one, b in zip(frame["model"], frame["language"], frame["boot"], strict=True)
    ]
    assert variances(frame).language_task[0] == 0.0


def test_cells_without_several_bootstraps_tell_nothing() -> None:
    frame = table(sds=(0.0, 2.0, 0.0, 1.0))
    single = frame["language"].eq("l0") & frame["model"].eq("m0") & frame["boot"].gt(0)
    alone = frame[frame["language"].ne("l0") | frame["model"].ne("m0")]
    for part in PARTS:
        np.testing.assert_allclose(
            getattr(variances(frame[~single]), part), getattr(variances(alone), part), rtol=1e-12
        )
    records = Records.from_frame(
        frame[frame["boot"].eq(0)].drop(columns=["boot", "seed"]), name="t", units=(None, None)
    )
    assert boot_variance(records, reduce_replicates(records)) is None
