"""Scores that are shares of n items: whose errors are known, and what that identifies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval
from bayeseval import names
from bayeseval.design import Design, build_design, restore_design
from bayeseval.design.fitted_shares import fitted_shares
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.errors import DesignError
from bayeseval.records import Records
from bayeseval.spec import load_spec

EVENNESS = {"name": "evenness", "interactions": ["model:language"]}


def _table(
    right: np.ndarray,
    n: Any,
    *,
    task: str = "t:score",
    digits: int | None = None,
    upper: float = 100.0,
) -> pd.DataFrame:
    """Shares of n right ones, models down and languages across."""
    model, language = np.indices(right.shape)
    score = upper * right / n
    return pd.DataFrame(
        {
            "model": [f"m{i}" for i in model.ravel()],
            "language": [f"l{i:02d}" for i in language.ravel()],
            "task": task,
            "score": (score if digits is None else score.round(digits)).ravel(),
            "n": np.broadcast_to(n, right.shape).ravel(),
        }
    )


def _right(n: int, *, seed: int = 0, shape: tuple[int, int] = (4, 6)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(n, rng.uniform(0.2, 0.9, shape)).astype(np.float64)


def _design(frame: pd.DataFrame, spec: Any = "additive", **more: Any) -> Design:
    records = Records.from_frame(frame, name="shares", **({"units": (0, 100)} | more))
    return build_design(records, load_spec(spec))


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the records of a design."""
    return Records.from_frame(frame, name="shares", units=(None, None)).table


def _fitted(right: np.ndarray, n: int, frame: pd.DataFrame) -> np.ndarray:
    """Shares of the cells of a frame, which test_fitted_shares.py is about."""
    factors = [pd.factorize(frame[factor])[0] for factor in ("language", "model")]
    return fitted_shares(right / n, np.full(len(frame), float(n)), factors)


# Whose errors are known ----------------------------------------------------------------------


@pytest.mark.parametrize("upper", [1.0, 100.0])
def test_the_binomial_error_of_a_share(upper: float) -> None:
    right = _right(80)
    right[0, 0], right[1, 1] = 0.0, 80.0
    frame = _in_order(_table(right, 80, upper=upper))
    design = _design(frame, units=(0, upper))
    k = frame["score"].to_numpy() / upper * 80
    p = _fitted(k, 80, frame)
    expected = upper * np.sqrt(p * (1 - p) / 80)
    assert design.se == pytest.approx(expected, rel=1e-9)
    assert design.known_sds["se"] == pytest.approx(expected, rel=1e-9)
    # None right, or all: an error of about an item, not none.
    assert design.se is not None
    assert 80 * design.se.min() / upper == pytest.approx(1.15, abs=0.05)
    assert design.notes[0] == (
        "n: 24 scores of t:score are shares of n items, so they have known "
        "binomial standard errors; "
        "columns={'n': None} ignores n"
    )
    assert not any("not used by this model" in note for note in design.notes)


def test_n_can_be_left_out() -> None:
    frame = _table(_right(80), 80)
    design = _design(frame, columns={"n": None})
    assert design.se is None
    assert not any(note.startswith("n") for note in design.notes)


def test_numbers_that_are_no_shares_keep_an_unknown_error() -> None:
    """BLEU of 80 sentences: score times n is no whole number."""
    frame = _table(_right(80), 80)
    frame["score"] += np.random.default_rng(1).uniform(0.2, 0.8, len(frame))
    design = _design(frame)
    assert design.se is None
    assert design.notes[:2] == (
        "columns not used by this model: n",
        "n not used for t:score: score times n is not a whole number, so scores are not shares of "
        "n items",
    )


@pytest.mark.parametrize(
    ("task", "digits", "n", "used"),
    [
        # Steps of 0.05: one decimal leaves no step apart from another.
        ("t:score", 1, 2000, False),
        ("t:bleu", 1, 2000, False),
        ("t:accuracy", 1, 2000, True),
        ("t:Exact Match", 1, 2000, True),
        ("t:acc,none", 1, 2000, True),
        # Steps of 1.25: two decimals tell each of them.
        ("t:score", 2, 80, True),
    ],
)
def test_printed_digits_and_names_of_metrics(task: str, digits: int, n: int, used: bool) -> None:
    design = _design(_table(_right(n), n, task=task, digits=digits))
    assert (design.se is not None) == used
    assert any("have too few digits" in note for note in design.notes) != used


def test_stated_numbers_of_right_items_decide() -> None:
    right = _right(2000)
    frame = _table(right, 2000, digits=1)
    assert _design(frame).se is None
    design = _design(frame.assign(k=right.ravel()))
    ordered = _in_order(frame.assign(k=right.ravel()))
    p = _fitted(ordered["k"].to_numpy(), 2000, ordered)
    assert design.se == pytest.approx(100 * np.sqrt(p * (1 - p) / 2000), rel=1e-9)


def test_tasks_are_asked_one_by_one() -> None:
    other = _table(_right(80, seed=1), 80, task="b:bleu")
    other["score"] += 0.3
    frame = _in_order(pd.concat([_table(_right(80), 80, task="a:acc"), other]))
    design = _design(frame)
    first = (frame["task"] == "a:acc").to_numpy()
    assert design.se is not None
    assert (design.se[first] > 2.0).all()
    assert (design.se[~first] == 0.0).all()
    assert any(note.startswith("n not used for b:bleu") for note in design.notes)


def test_unbounded_scores_have_no_such_error() -> None:
    design = _design(_table(_right(80), 80), units=(None, None))
    assert design.se is None
    assert any("not declared to lie in 0-1 or 0-100" in note for note in design.notes)


@pytest.mark.parametrize(
    "columns", [{"se": 3.0}, {"boot_sd": 3.0}, {"seed_sd": 3.0, "n_seeds": 5, "boot_sd": 3.0}]
)
def test_noise_that_is_told_otherwise_counts_once(columns: dict[str, float]) -> None:
    frame = _table(_right(80), 80).assign(**columns)
    with_n, without = _design(frame), _design(frame.drop(columns="n"))
    assert (with_n.se is None) == (without.se is None)
    if with_n.se is not None:
        assert with_n.se == pytest.approx(without.se, rel=1e-12)
    assert set(with_n.known_sds) == set(without.known_sds)


def _by_seed(n: int, *, n_seeds: int = 3, off: float = 0.0) -> pd.DataFrame:
    """Rows by seed whose shares, though not their means, are whole numbers of n."""
    right = _right(n, shape=(4, 6))
    tables = [_table((right + s * (s > 1)) % (n + 1), n).assign(seed=s) for s in range(n_seeds)]
    rows = pd.concat(tables)
    return rows.assign(score=rows["score"] + off)


@pytest.mark.parametrize("pool", [True, False])
def test_items_of_several_seeds(pool: bool) -> None:
    """One run's error for the mean as well: the seeds answer the same items."""
    rows = _by_seed(80)
    spec = {"name": "seeds", "replicates": {"pool": pool}}
    design = _design(rows, spec)
    keys = ["model", "language"]
    cells = rows.groupby(keys)["score"]
    mean = cells.mean()
    right = mean.to_numpy() / 100 * 80
    p = _fitted(right, 80, mean.reset_index())
    se = 100 * np.sqrt(p * (1 - p) / 80)
    assert design.known_sds["se"] == pytest.approx(se, rel=1e-9)
    # Their mean is no share of 80 items: 80 p = k + 2/3.
    assert (np.abs(right - np.round(right)) > 0.3).sum() > 20
    seeds = 0.0 if pool else cells.var().to_numpy() / 3
    assert design.se == pytest.approx(np.sqrt(se**2 + seeds), rel=1e-9)
    if pool:
        (source,) = design.sources
        assert source.name == "seed"
        assert source.share == pytest.approx(1 / 3)
    assert design.notes[:2] == (
        "n: 24 scores of t:score are shares of n items, so they have known "
        "binomial standard errors; "
        "columns={'n': None} ignores n",
        "in 24 cells the sds of seeds and of test sets both include the seed x test-set "
        "interaction, so the noise of one run and of means is an upper bound there, and the "
        "variance left for other terms a lower bound",
    )
    # Negative control: rows that are no shares.
    other = _design(_by_seed(80, off=0.4), spec)
    assert "se" not in other.known_sds
    assert any(note.startswith("n not used for t:score: score times n") for note in other.notes)


@pytest.mark.parametrize(
    ("columns", "used", "reason"),
    [
        ({"seed_sd": 3.0, "n_seeds": 3}, True, ""),
        ({"seed_sd": 3.0, "n_seeds": 2}, False, "score times n is not a whole number"),
        ({"seed_sd": 3.0}, False, "score times n is not a whole number"),
        ({"n_seeds": 3}, False, "scores are means of seeds without seed_sd"),
    ],
)
def test_items_behind_the_mean_of_seeds(columns: dict[str, float], used: bool, reason: str) -> None:
    rows = _by_seed(80)
    means = rows.groupby(["model", "language", "task"], as_index=False)["score"].mean()
    design = _design(means.assign(n=80, **columns))
    assert ("se" in design.known_sds) == used
    notes = [note for note in design.notes if note.startswith("n not used for t:score")]
    assert [reason in note for note in notes] == ([] if used else [True])
    if used:
        p = _fitted(means["score"].to_numpy() / 100 * 80, 80, means)
        assert design.se == pytest.approx(100 * np.sqrt(p * (1 - p) / 80), rel=1e-9)


def test_seeds_and_bootstraps_or_items_leave_n_alone() -> None:
    rows = _by_seed(80)
    again = rows.assign(score=rows["score"] + 1.25, boot=1)
    boots = pd.concat([rows.assign(boot=0), again])
    assert "se" not in _design(boots).known_sds
    items = pd.concat([rows.assign(item=i) for i in range(40)])
    items["score"] = np.random.default_rng(0).choice([0.0, 100.0], len(items))
    assert "se" not in _design(items).known_sds


def test_counts_keep_their_own_noise() -> None:
    frame = _table(_right(80), 80)
    design = _design(frame, {"name": "counts", "likelihood": "binomial"})
    assert design.se is None
    assert design.outcome.n is not None


def test_mega_has_no_numbers_of_items() -> None:
    design = build_design(bayeseval.load("mega"), load_spec("additive"))
    assert design.se is None
    assert design.known_sds == {}


# What known errors identify ------------------------------------------------------------------


def _uneven(seed: int, *, sd: float = 4.0, n: int = 500) -> pd.DataFrame:
    """One task: ten models on 24 languages, with gaps of a known sd."""
    rng = np.random.default_rng(seed)
    models, languages = rng.normal(0.0, 8.0, (10, 1)), rng.normal(0.0, 10.0, (1, 24))
    share = np.clip(55.0 + models + languages + rng.normal(0.0, sd, (10, 24)), 3.0, 97.0) / 100.0
    return _table(rng.binomial(n, share).astype(np.float64), n)


def test_the_gaps_of_a_one_task_table_are_recovered() -> None:
    found = []
    for seed in range(3):
        design = _design(_uneven(seed), EVENNESS)
        assert not design.spec.priors
        # A hundredth of the errors, which are near sqrt(0.25 / 500).
        assert design.priors[names.SD_RESIDUAL].scale == pytest.approx(0.0219, abs=0.0005)
        draws = load_engine("marginal")(design, SamplerSettings(draws=250, chains=2, seed=seed))
        assert draws.attrs["path"] == "importance"
        low, high = np.quantile(draws.posterior["sd_model_language"], [0.025, 0.975])
        assert low < 4.0 < high
        found.append(draws.posterior["sd_model_language"].mean())
        assert draws.posterior["sd_residual"].max() < 0.1
    # 207 degrees of freedom: 6 % for each table.
    assert np.mean(found) == pytest.approx(4.0, rel=0.1)
    # Negative control: plain residuals have the items' errors of 2.1 in them.
    plain = _design(_uneven(0), "additive", columns={"n": None})
    draws = load_engine("marginal")(plain, SamplerSettings(draws=250, chains=2, seed=0))
    assert draws.posterior["sd_residual"].mean() > found[0] + 0.3


def test_without_known_errors_the_gaps_are_the_residual() -> None:
    refused = r"model:language has one task in each of its 240 cells, so it is confounded"
    with pytest.raises(DesignError, match=refused):
        _design(_uneven(0), EVENNESS, columns={"n": None})
    # One record without: its gap and its error are one unknown.
    frame = _uneven(0)
    frame.loc[17, "n"] = np.nan
    with pytest.raises(DesignError, match=refused):
        _design(frame, EVENNESS)
    # Given errors do as well.
    design = _design(_uneven(0).drop(columns="n").assign(se=2.0), EVENNESS)
    assert design.priors[names.SD_RESIDUAL].scale == pytest.approx(0.02)
    assert design.term("model:language").n_levels == design.n_records
    # Beside the sds of seeds as well.
    both = _design(_uneven(0).assign(seed_sd=2.0), EVENNESS)
    assert both.se == pytest.approx(np.sqrt(4.0 + both.known_sds["se"] ** 2))
    # Seeds alone say nothing of test sets.
    seeds = _uneven(0).drop(columns="n").assign(seed_sd=2.0)
    with pytest.raises(DesignError, match=refused):
        _design(seeds, EVENNESS)


def test_sampled_errors_hold_the_residual_too() -> None:
    """Seeds and bootstraps with sds of their own, and nothing known."""
    summary = {"seed_sd": 2.0, "n_seeds": 4, "boot_sd": 3.0, "n_boot": 20}
    design = _design(_uneven(0).drop(columns="n").assign(**summary), EVENNESS)
    assert design.se is None
    # sqrt(2^2 / 4 + 3^2) / 100
    assert design.priors[names.SD_RESIDUAL].scale == pytest.approx(0.0316, abs=1e-4)


def test_a_residual_of_ones_own_beside_such_gaps() -> None:
    prior = {"sd_residual": {"dist": "half_normal", "scale": 3.0, "relative": False}}
    design = _design(_uneven(0), EVENNESS | {"priors": prior})
    assert design.priors[names.SD_RESIDUAL].scale == 3.0
    with pytest.raises(DesignError, match="model:language has a cell for every record") as caught:
        _design(_uneven(0), EVENNESS | {"residual_by": "model"})
    assert "\n" not in str(caught.value)
    # Beside the main effects alone the residual is what it was.
    additive = _design(_uneven(0))
    assert additive.priors[names.SD_RESIDUAL].scale > 5.0


def test_a_saved_result_is_restored_with_its_residual() -> None:
    design = _design(_uneven(0), EVENNESS)
    groups = {"observed_data": design.observed_data(), "constant_data": design.constant_data()}
    again = restore_design(xr.DataTree.from_dict(groups), design.spec)
    assert again.se == pytest.approx(design.se, rel=1e-12)
    assert set(again.priors) == set(design.priors)
    for name, prior in design.priors.items():
        assert again.priors[name].scale == pytest.approx(prior.scale, rel=1e-9), name
    # Beside the main effects alone the residual has its usual prior.
    plain = _design(_uneven(0))
    groups = {"observed_data": plain.observed_data(), "constant_data": plain.constant_data()}
    again = restore_design(xr.DataTree.from_dict(groups), plain.spec)
    assert again.priors[names.SD_RESIDUAL].scale > 5.0
