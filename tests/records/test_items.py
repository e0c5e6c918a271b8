"""Item-level outcomes: the split of sampling variance, against loops, ANOVA and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from bayeseval.records import ItemVariance, Records, item_variance, reduce_replicates
from bayeseval.records import item_pairs as module
from bayeseval.records.item_pairs import split_variances, sums_of_task

Array = npt.NDArray[np.float64]


def _simulated(seed: int, shape: tuple[int, int, int], sds: tuple[float, ...]) -> Array:
    """Outcomes, shape (items, languages, models), with known standard deviations."""
    rng = np.random.default_rng(seed)
    n_items, n_languages, n_models = shape
    parts = [(n_items, 1, 1), (n_items, n_languages, 1), (n_items, 1, n_models), shape]
    noise = sum(sd * rng.normal(size=part) for sd, part in zip(sds, parts, strict=True))
    means = rng.normal(50.0, 5.0, size=(1, n_languages, n_models))
    total: Array = means + noise
    return total


def _records(x: Array, *, task: str = "a", **more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"model": f"m{m}", "language": f"l{lang}", "task": task, "item": f"q{i}", "score": v}
            | more
            for (i, lang, m), v in np.ndenumerate(x)
            if np.isfinite(v)
        ]
    )


def _of(frame: pd.DataFrame) -> ItemVariance:
    records = Records.from_frame(frame, name="t", units=(None, None))
    found = item_variance(records, reduce_replicates(records))
    assert found is not None
    return found


def _four(found: ItemVariance, task: int = 0) -> list[float]:
    parts = (found.task, found.language_task, found.model_task, found.record)
    return [float(part[task]) for part in parts]


def test_complete_items_give_the_estimates_of_the_analysis_of_variance() -> None:
    shape = (40, 3, 4)
    x = _simulated(1, shape, (3.0, 2.0, 1.5, 4.0))
    n_items, n_languages, n_models = shape
    z = x - x.mean(axis=0, keepdims=True)
    item = z.mean(axis=(1, 2), keepdims=True)
    by_language = z.mean(axis=2, keepdims=True) - item
    by_model = z.mean(axis=1, keepdims=True) - item
    rest = z - item - by_language - by_model
    df = n_items - 1
    ms_item = n_languages * n_models * (item**2).sum() / df
    ms_language = n_models * (by_language**2).sum() / (df * (n_languages - 1))
    ms_model = n_languages * (by_model**2).sum() / (df * (n_models - 1))
    ms_rest = (rest**2).sum() / (df * (n_languages - 1) * (n_models - 1))
    expected = [
        (ms_item - ms_language - ms_model + ms_rest) / (n_languages * n_models),
        (ms_language - ms_rest) / n_models,
        (ms_model - ms_rest) / n_languages,
        ms_rest,
    ]
    assert min(expected) > 0
    found = _of(_records(x))
    assert _four(found) == pytest.approx([value / n_items for value in expected], rel=1e-9)
    se = np.sort((x.std(axis=0, ddof=1) / np.sqrt(n_items)).ravel())
    assert np.sort(found.se) == pytest.approx(se, rel=1e-9)


def test_incomplete_items_against_a_loop_over_pairs_of_cells() -> None:
    x = _simulated(2, (12, 3, 3), (3.0, 2.0, 2.0, 2.0))
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    cells = [(lang, m) for lang in range(3) for m in range(3)]
    sums: dict[tuple[bool, bool], list[Array]] = {}
    for a in cells:
        for b in cells:
            first, second = x[:, a[0], a[1]], x[:, b[0], b[1]]
            both = np.isfinite(first) & np.isfinite(second)
            n_a, n_b, n_ab = np.isfinite(first).sum(), np.isfinite(second).sum(), both.sum()
            product = ((first - np.nanmean(first)) * (second - np.nanmean(second)))[both].sum()
            # The expectation of the product, from the definition: C times the trace of
            # (centring at a) (centring at b)' over the shared items.
            centre_a = np.eye(12) - np.isfinite(first)[None, :] / n_a
            centre_b = np.eye(12) - np.isfinite(second)[None, :] / n_b
            shared = np.diag(both.astype(float))
            factor = np.trace((centre_a @ shared @ centre_b.T)[np.ix_(both, both)])
            overlap = n_ab / (n_a * n_b)
            sums.setdefault((a[0] == b[0], a[1] == b[1]), []).append(
                np.array([product, factor, overlap])
            )
    cov = {
        key: sum(v[0] for v in values)
        / sum(v[1] for v in values)
        * float(np.mean([v[2] for v in values]))
        for key, values in sums.items()
    }
    task = cov[False, False]
    expected = [task, cov[True, False] - task, cov[False, True] - task]
    expected.append(cov[True, True] - sum(expected))
    assert min(expected) > 0
    assert _four(_of(_records(x))) == pytest.approx(expected, rel=1e-9)


def test_blocks_of_items_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = _records(_simulated(3, (11, 2, 3), (3.0, 1.0, 1.0, 2.0)))
    whole = _four(_of(frame))
    monkeypatch.setattr(module, "_BLOCK", 20)
    assert _four(_of(frame)) == pytest.approx(whole, rel=1e-9)


def test_the_split_predicts_the_covariance_of_means_over_test_sets() -> None:
    """200 test sets with known components: the average estimate hits them."""
    sds, n_items = (3.0, 2.0, 1.5, 4.0), 30
    language, model = np.divmod(np.arange(9), 3)
    item, cell = np.divmod(np.arange(n_items * 9), 9)
    found = []
    for seed in range(200):
        x = _simulated(seed, (n_items, 3, 3), sds)
        centred = (x - x.mean(axis=0)).ravel()
        found.append(split_variances(sums_of_task(cell, item, centred, language, model)))
    estimates = np.array(found)
    truth = np.array(sds) ** 2 / n_items
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    assert (np.abs(estimates.mean(axis=0) - truth) < 5 * error).all()
    # The control: components in another order are many standard errors away.
    assert (np.abs(estimates.mean(axis=0) - truth[[1, 0, 3, 2]]) > 5 * error).all()


def test_languages_with_their_own_items_share_nothing() -> None:
    frame = _records(_simulated(4, (50, 3, 4), (3.0, 2.0, 1.5, 4.0)))
    own = frame.assign(item=frame["language"] + frame["item"])
    shared, nested = _four(_of(frame)), _four(_of(own))
    assert (nested[0], nested[2]) == (0.0, 0.0)
    assert nested[1] == pytest.approx(shared[0] + shared[1], rel=1e-9)
    assert nested[3] == pytest.approx(shared[2] + shared[3], rel=1e-9)


def test_right_and_wrong_answers_with_seeds_beside_a_task_without_items() -> None:
    """Binary outcomes: the standard error is that of a proportion; tasks stay apart."""
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(60, 1, 1)) + rng.normal(size=(60, 2, 3)) > 0).astype(float)
    seeds = pd.concat([_records(x).assign(seed=s) for s in (0, 1)])
    plain = pd.DataFrame(
        {"model": ["m0", "m1"], "language": ["l0", "l1"], "task": "b", "score": [0.5, 0.25]}
    )
    records = Records.from_frame(pd.concat([seeds, plain]), name="t")
    cells = reduce_replicates(records)
    found = item_variance(records, cells)
    assert found is not None
    assert records.coords["task"] == ("a", "b")
    on_a = cells.codes["task"] == 0
    p = cells.mean[on_a]
    assert found.se[on_a] == pytest.approx(np.sqrt(p * (1 - p) / 59), rel=1e-9)
    assert np.isnan(found.se[~on_a]).all()
    assert np.isnan(_four(found, task=1)).all()
    assert _four(found) == pytest.approx(_four(_of(_records(x))), rel=1e-9)
    assert found.task[0] > found.language_task[0]


def test_no_items_no_split() -> None:
    frame = pd.DataFrame({"model": ["a", "b"], "language": ["x", "y"], "score": [1.0, 2.0]})
    records = Records.from_frame(frame, name="t")
    assert item_variance(records, reduce_replicates(records)) is None
