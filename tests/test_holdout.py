"""Scores left out of the fits: splits, scores of predictions, two-way means, and the answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import bayeseval as be
from bayeseval import estimands
from bayeseval.cli import main
from bayeseval.comparison import HeldOut, PreparedHoldout, prepare_holdout
from bayeseval.comparison.held_out import main_table, sentences
from bayeseval.comparison.holdout import measured_cells, measured_values
from bayeseval.comparison.predictive import (
    clustered_se,
    normal_scores,
    sampled_scores,
    summarised,
)
from bayeseval.comparison.splits import split_records
from bayeseval.comparison.two_way import TWO_WAY, cross_validated_sd, two_way_means
from bayeseval.engines import Draws, SamplerSettings, to_tree
from bayeseval.errors import InputError
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.read import read_arrays
from bayeseval.fitting import prepare
from bayeseval.fitting.gate import Gate
from bayeseval.names import FACTORS
from bayeseval.records import Records, Units
from bayeseval.reporting import read_saved
from bayeseval.simulation import simulate
from tests import bounded_tables

# Splits -----------------------------------------------------------------------------------


def table(**more: Any) -> Records:
    """Two metrics of each of three datasets, and two seeds of everything."""
    shape = {"n_languages": 6, "n_tasks": 6, "n_models": 5, "n_metrics": 2, "n_seeds": 2}
    return simulate("replicates", **shape | {"seed": 3} | more).records  # type: ignore[arg-type]


def cell_of(records: Records) -> np.ndarray:
    """Model, language and dataset of every record."""
    frame, of = records.table, records.datasets
    columns = (frame["model"], frame["language"], frame["task"].map(of))
    return np.array(["|".join(one) for one in zip(*columns, strict=True)])


def cells(records: Records, rows: np.ndarray) -> set[str]:
    return set(cell_of(records)[rows])


def test_whole_cells_are_left_out_and_every_level_keeps_a_score() -> None:
    records = table()
    everything = np.ones(len(records), dtype=bool)
    n_cells = len(cells(records, everything))
    splits = split_records(records, 0.5, by="record", repeats=4, seed=1)
    assert (splits.what, splits.n_units, splits.n_held) == ("cell", n_cells, round(0.5 * n_cells))
    assert splits.held.shape == (4, len(records))
    for held in splits.held:
        out, left = cells(records, held), cells(records, ~held)
        assert len(out) == splits.n_held
        # No metric and no seed of a cell stays behind.
        assert not out & left
        for factor in FACTORS:
            assert set(records.table[factor][~held]) == set(records.coords[factor])
    assert len({held.tobytes() for held in splits.held}) == 4
    # Each number is one cell.
    assert len(set(zip(splits.unit, cell_of(records), strict=True))) == n_cells


def test_splits_depend_on_the_seed_alone() -> None:
    records = table()
    splits = split_records(records, 0.3, by="record", repeats=2, seed=1)
    longer = split_records(records, 0.3, by="record", repeats=3, seed=1)
    np.testing.assert_array_equal(longer.held[:2], splits.held)
    shuffled = Records.from_frame(records.table.sample(frac=1.0, random_state=0), units=(0, 100))
    again = split_records(shuffled, 0.3, by="record", repeats=2, seed=1)
    for one, other in zip(splits.held, again.held, strict=True):
        assert cells(records, one) == cells(shuffled, other)
    # A larger share leaves out the same and more.
    assert cells(records, splits.held[0]) < cells(
        records, split_records(records, 0.4, by="record", repeats=1, seed=1).held[0]
    )
    other_seed = split_records(records, 0.3, by="record", repeats=2, seed=2)
    assert (other_seed.held != splits.held).any(axis=1).all()


@pytest.mark.parametrize(
    ("by", "what", "n"),
    [("language", "language", 6), ("model", "model", 5), ("task", "dataset", 3)],
)
def test_whole_levels_are_left_out(by: str, what: str, n: int) -> None:
    records = table()
    splits = split_records(records, 0.34, by=by, repeats=2, seed=0)  # type: ignore[arg-type]
    assert (splits.what, splits.n_units, splits.n_held) == (what, n, round(0.34 * n))
    column = records.table[by]
    labels = column.map(records.datasets) if by == "task" else column
    for held in splits.held:
        out, left = set(labels[held]), set(labels[~held])
        assert (len(out), len(out & left)) == (splits.n_held, 0)
        for factor in set(FACTORS) - {by}:
            assert set(records.table[factor][~held]) == set(records.coords[factor])


def test_more_than_a_table_can_spare_is_refused_and_what_is_advised_works() -> None:
    records = simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=2).records
    with pytest.raises(InputError) as caught:
        split_records(records, 0.9, by="record", repeats=3, seed=0)
    message = str(caught.value)
    n = len(records)
    assert message.startswith(
        f"{records.name}: 90 % of {n} cells cannot be left out: the effects of all other "
        "models, languages and tasks must stay identified; "
    )
    found = re.search(r"(\d+) cells can be left out: give holdout=(0\.\d+) or less$", message)
    assert found is not None, message
    split_records(records, float(found[2]), by="record", repeats=3, seed=0)
    # As many as possible: the rest has one cell for each main effect, and identifies them all.
    n_effects = 1 + sum(len(records.coords[factor]) - 1 for factor in FACTORS)
    assert int(found[1]) == n - n_effects
    most = split_records(records, (n - n_effects) / n, by="record", repeats=3, seed=0)
    columns = pd.get_dummies(records.table[list(FACTORS)]).to_numpy(dtype=float)
    for held in most.held:
        assert (~held).sum() == n_effects == np.linalg.matrix_rank(columns[~held])
    with pytest.raises(InputError, match="must stay identified"):
        split_records(records, (int(found[1]) + 1) / n, by="record", repeats=3, seed=0)
    two = records.subset(records.codes("task") < 2, name="two")
    with pytest.raises(InputError, match=r"2 tasks must stay, .*; the table is too small to "):
        split_records(two, 0.5, by="task", repeats=1, seed=0)


# Scores of predictions --------------------------------------------------------------------


def test_scores_of_draws_by_hand() -> None:
    draws = np.array([[0.0, 5.0], [2.0, 5.0]])
    density = np.log([[0.1, 0.5], [0.3, 0.5]])
    found = sampled_scores(draws, density, np.array([1.0, 7.0]))
    assert list(found) == ["mean", "median", "lower", "upper", "crps", "log_score", "in_90"]
    assert found["mean"].tolist() == [1.0, 5.0]
    # E|X - y| = 1 less half of E|X - X'| = 1; of a point the absolute error.
    np.testing.assert_allclose(found["crps"], [0.5, 2.0])
    np.testing.assert_allclose(found["log_score"], np.log([0.2, 0.5]))
    np.testing.assert_allclose(found[["lower", "upper"]], [[0.1, 1.9], [5.0, 5.0]])
    assert found["in_90"].tolist() == [1.0, 0.0]


def test_scores_of_normal_predictions_are_integrals() -> None:
    mean, sd, observed = np.array([3.0, 50.0]), 4.0, np.array([5.5, 41.0])
    found = normal_scores(mean, sd, observed)
    for i in range(2):
        below, _ = integrate.quad(
            lambda x, i=i: stats.norm.cdf(x, mean[i], sd) ** 2, mean[i] - 60, observed[i]
        )
        above, _ = integrate.quad(
            lambda x, i=i: stats.norm.sf(x, mean[i], sd) ** 2, observed[i], mean[i] + 60
        )
        assert found["crps"][i] == pytest.approx(below + above, rel=1e-6)
    np.testing.assert_allclose(found["log_score"], stats.norm.logpdf(observed, mean, sd))
    np.testing.assert_allclose(stats.norm.cdf(found["lower"], mean, sd), 0.05)
    np.testing.assert_allclose(stats.norm.cdf(found["upper"], mean, sd), 0.95)
    # Draws agree: quantiles of the distribution, and densities given its centre.
    centre = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    draws = mean + 4.0 * centre[:, None]
    # N(m, 4^2) is a mixture of N(m + 3 z, 7) over z.
    density = stats.norm.logpdf(observed, mean + 3.0 * centre[:, None], np.sqrt(7.0))
    sampled = sampled_scores(draws, density, observed)
    # The grid leaves out tails beyond one in 8,000.
    for name in found:
        np.testing.assert_allclose(sampled[name], found[name], rtol=2e-3)


def test_the_standard_error_takes_repeated_cells_as_one() -> None:
    values = np.array([1.0, 2.0, 6.0, 3.0])
    alone = clustered_se(values, np.arange(4))
    assert alone == pytest.approx(np.std(values, ddof=1) / 2.0)
    # Mean 3; sums of the deviations are -3 of two and 3 of two.
    assert clustered_se(values, np.array([7, 7, 2, 2])) == pytest.approx(np.sqrt(2 * 18) / 4)
    # The same values again in another repeat say nothing new.
    twice = clustered_se(np.tile(values, 2), np.tile(np.arange(4), 2))
    assert twice == pytest.approx(alone)
    assert np.isnan(clustered_se(values, np.zeros(4, dtype=int)))


DENSITIES: dict[str, dict[str, Any]] = {
    "normal": {"residual_by": "task"},
    "normal with errors": {},
    "student_t": {"interactions": ["model:task"]},
    "logit_normal": {},
    "beta": {"residual_by": "model"},
    "binomial": {"interactions": ["language:task", "model:language"]},
    "beta_binomial": {},
}


@pytest.mark.parametrize("likelihood", DENSITIES)
def test_densities_of_measured_cells_are_those_of_the_engines(likelihood: str) -> None:
    family, _, errors = likelihood.partition(" with ")
    given = None
    if errors:
        given = bounded_tables.frame()[["model", "language", "task", "score"]]
        given = given.assign(se=np.linspace(1.0, 9.0, len(given)))
    design = bounded_tables.design(given, likelihood=family, **DENSITIES[likelihood])
    rng = np.random.default_rng(0)
    drawn = {name: np.exp(rng.normal(0.0, 0.1, (2, 5))) for name in design.priors}
    for name, dims in design.dims().items():
        drawn[name] = rng.normal(0.0, 0.2, (2, 5, *(len(design.coords[dim]) for dim in dims)))
        if name.startswith(("sd_", "dispersion_")):
            drawn[name] = np.exp(drawn[name])
    tree = to_tree(design, Draws(drawn, {}, SamplerSettings(draws=5, chains=2)), engine="numpyro")
    arrays = read_arrays(tree)
    value, nothing = measured_values(design), np.full(design.n_records, np.nan)
    asked = AskedCells(
        labels={
            factor: tuple(design.coords[factor][i] for i in index)
            for factor, index in design.factor_index.items()
        },
        covariates={},
        n_items=nothing if design.outcome.n is None else design.outcome.n,
        se=design.known_sds.get("se", nothing),
        n_seeds=nothing,
        observed=value,
    )
    found = np.full((10, design.n_records), np.nan)
    for block in predict_cells(arrays, asked, read_measurement_noise(tree, arrays), seed=0):
        assert block.log_density is not None
        found[:, block.cells] = block.log_density + design.outcome.log_units[block.cells]
    expected = tree["log_likelihood"]["score"].to_numpy().reshape(10, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def predictions(crps: dict[str, list[float]], **more: Any) -> pd.DataFrame:
    start = {"repeat": [1, 1, 2], "unit": [0, 1, 0], "score": [10.0, 20.0, 10.0]}
    other = {"mean": 12.0, "median": 11.0, "lower": 10.0, "upper": 15.0, "log_score": -2.0} | more
    other = {"in_90": [1.0, 0.0, 1.0]} | other
    return pd.concat(
        [
            pd.DataFrame({"spec": name, **start, **other, "crps": values})
            for name, values in crps.items()
        ],
        ignore_index=True,
    )


def test_models_are_compared_on_the_same_scores() -> None:
    found = summarised(
        predictions({"b": [2.0, 5.0, 2.0], TWO_WAY: [4.0, 3.0, 8.0], "a": [1.0] * 3})
    )
    assert found["spec"].tolist() == ["a", "b", TWO_WAY]
    np.testing.assert_allclose(found["crps"], [1.0, 3.0, 5.0])
    np.testing.assert_allclose(found["crps_diff"], [0.0, 2.0, 4.0])
    # Differences 1, 4, 1 and 3, 2, 7 of units 0, 1, 0.
    errors = [0.0, np.sqrt(2 * (4 + 4)) / 3, np.sqrt(2 * (4 + 4)) / 3]
    np.testing.assert_allclose(found["crps_diff_se"], errors)
    np.testing.assert_allclose(found["rmse"], np.sqrt((4 + 64 + 4) / 3))
    np.testing.assert_allclose(found["mae"], (1 + 9 + 1) / 3)
    np.testing.assert_allclose(found["coverage_90"], 2 / 3)
    assert found["log_score"].tolist() == [-2.0] * 3
    assert (found["n"].tolist(), found["n_units"].tolist()) == ([3] * 3, [2] * 3)


# Two-way means ----------------------------------------------------------------------------

#: Two models on the pairs (0, 0), (0, 1), (1, 0).
CODES = {
    "model": np.array([0, 0, 0, 1, 1]),
    "language": np.array([0, 0, 1, 0, 1]),
    "task": np.array([0, 1, 0, 0, 0]),
}
SCORE = np.array([10.0, 20.0, 30.0, 14.0, 36.0])


def test_two_way_means_by_hand() -> None:
    asked = {
        "model": np.array([1, 1, 2, 1, 1, 2]),
        "language": np.array([0, 1, 0, 2, 0, 2]),
        "task": np.array([1, 1, 0, 0, 2, 2]),
    }
    # Grand mean 22; models 20 and 25; languages 44/3 and 33; tasks 22.5 and 20.
    expected = [
        25 + 20 - 22,  # the mean of its pair
        25 + (33 + 20 - 22) - 22,  # a pair without scores
        22 + 12 - 22,  # a new model
        25 + 22.5 - 22,  # a new language
        25 + 44 / 3 - 22,  # a new task
        22,  # nothing is known
    ]
    np.testing.assert_allclose(two_way_means(CODES, SCORE, asked), expected)


def test_the_noise_of_two_way_means_is_that_of_units_left_out() -> None:
    unit = np.array([4, 4, 9, 1, 1])
    squares = []
    for one in (4, 9, 1):
        left = unit != one
        kept, out = ({f: own[rows] for f, own in CODES.items()} for rows in (left, ~left))
        squares += list((SCORE[~left] - two_way_means(kept, SCORE[left], out)) ** 2)
    found = cross_validated_sd(CODES, SCORE, unit, rng=np.random.default_rng(0))
    assert found == pytest.approx(np.sqrt(np.mean(squares)))
    # Negative control: within the sample the errors are smaller.
    seen = np.sqrt(np.mean((SCORE - two_way_means(CODES, SCORE, CODES)) ** 2))
    assert found > 1.5 * seen


# Predictions of a small table -------------------------------------------------------------


@pytest.fixture(scope="module")
def records() -> Records:
    return simulate("additive", n_languages=5, n_tasks=3, n_models=4, seed=5).records


@pytest.fixture(scope="module")
def held_out(records: Records) -> HeldOut:
    return be.compare(records, "additive", holdout=0.2, repeats=2, jobs=1)


def test_all_models_of_a_repeat_are_fitted_before_the_next_repeat(records: Records) -> None:
    """Ten repeats of one model said nothing of the time that the next model takes."""
    told: list[str] = []
    found = be.compare(
        records,
        ["additive", "interaction"],
        holdout=0.2,
        repeats=2,
        jobs=1,
        progress=lambda stage, done, total, remark: told.append(remark),
    )
    assert [remark for remark in told if "repeat" in remark] == [
        "additive, repeat 1 of 2",
        "interaction, repeat 1 of 2",
        "additive, repeat 2 of 2",
    ]
    # Every model has its own predictions, whatever their order.
    alone = be.compare(records, "interaction", holdout=0.2, repeats=2, jobs=1)
    pd.testing.assert_frame_equal(
        found.table.query("spec == 'interaction'")[["spec", "crps", "rmse"]].reset_index(drop=True),
        alone.table.query("spec == 'interaction'")[["spec", "crps", "rmse"]].reset_index(drop=True),
    )


def test_an_interrupted_comparison_continues(
    records: Records, held_out: HeldOut, tmp_path: Path
) -> None:
    def stop_after_one(stage: str, done: int, total: int, remark: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    asked = prepare_holdout(records, "additive", holdout=0.2, repeats=2)
    with pytest.raises(KeyboardInterrupt):
        asked.run(jobs=1, work=tmp_path, progress=stop_after_one)
    (part,) = asked.kept_in(tmp_path).iterdir()
    assert '"additive, repeat 1 of 2"' in part.read_text()
    told: list[int] = []
    found = asked.run(
        jobs=1, work=tmp_path, progress=lambda stage, done, total, remark: told.append(done)
    )
    assert told[0] == 1
    pd.testing.assert_frame_equal(found.predictions, held_out.predictions, check_exact=True)
    pd.testing.assert_frame_equal(found.table, held_out.table, check_exact=True)
    assert found.gates == held_out.gates
    assert found.run == held_out.run


def changed(records: Records, rows: np.ndarray) -> Records:
    """The same table with other scores in some rows."""
    frame = records.table
    frame.loc[rows, "score"] = 100.0 - frame.loc[rows, "score"]
    return Records.from_frame(frame, name=records.name, units=(None, None))


@pytest.mark.parametrize("by", ["record", "language"])
def test_left_out_scores_do_not_reach_the_predictions(
    by: str, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"holdout": 0.2, "repeats": 1, "by": by, "jobs": 1}
    records = Records.from_frame(records.table, name="t", units=(None, None))
    (held,) = prepare_holdout(records, "additive", holdout=0.2, repeats=1, by=by).splits.held  # type: ignore[arg-type]
    shown = ["model", "language", "task", "mean", "lower", "upper"]

    def predicted(one: Records) -> pd.DataFrame:
        found = be.compare(one, "additive", **asked)
        return found.predictions.set_index("spec")[shown]

    before = predicted(records)
    assert len(before) == 2 * held.sum()
    pd.testing.assert_frame_equal(predicted(changed(records, held)), before)
    # Negative controls: a score that stays moves them, and so does one that leaks.
    first = int(np.flatnonzero(~held)[0])
    moved = predicted(changed(records, np.arange(len(records)) == first))
    assert (moved["mean"] != before["mean"]).any()
    if by == "record":
        monkeypatch.setattr(Records, "subset", lambda own, keep, *, name: own)
        leaking = predicted(changed(records, held)).loc["additive", "mean"]
        assert (leaking != before.loc["additive", "mean"]).all()


def test_refits_do_without_estimands(
    held_out: HeldOut, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("estimands are not needed")

    monkeypatch.setattr(estimands, "derive", refused)
    with pytest.raises(AssertionError, match="not needed"):
        prepare(records, "additive").run()
    asked = prepare_holdout(records, "additive", holdout=held_out.share, repeats=1)
    once = asked.run(jobs=1).predictions.query("spec == 'additive'")
    before = held_out.predictions.query("spec == 'additive' and repeat == 1")
    pd.testing.assert_frame_equal(once, before)


def test_a_cell_is_predicted_with_the_noise_of_its_own_measurement(records: Records) -> None:
    frame = records.table.assign(se=0.5)
    frame.loc[::2, "se"] = 40.0
    noisy = Records.from_frame(frame, name="noisy", units=(None, None))
    found = be.compare(noisy, "additive", holdout=0.3, repeats=1, jobs=1)
    own = found.predictions.query("spec == 'additive'").merge(frame)
    assert set(own["se"]) == {0.5, 40.0}
    width = own["upper"] - own["lower"]
    # 90 % of N(0, 40^2) are 132 wide; without it effects and residuals leave less than 100.
    assert ((width > 120) == (own["se"] == 40.0)).all()
    # What counts of items and seeds of a cell are, and which errors a model takes.
    cells = measured_cells(prepare(noisy, "additive"))
    assert cells.se.tolist() == frame["se"].tolist()
    assert np.isnan(cells.n_seeds).all()
    several = table()
    seeds = several.table.groupby(["model", "language", "task"], sort=False).size()
    assert measured_cells(prepare(several, "additive")).n_seeds.tolist() == seeds.tolist()
    counts = bounded_tables.records()
    spec = {"name": "b", "likelihood": "binomial"}
    assert measured_cells(prepare(counts, spec)).n_items.tolist() == counts.numbers("n").tolist()


def test_the_answer_is_that_of_its_predictions(held_out: HeldOut, records: Records) -> None:
    table, found = held_out.table, held_out.predictions
    assert table["spec"].tolist() == ["additive", TWO_WAY]
    pd.testing.assert_frame_equal(table, summarised(found))
    assert list(found["spec"].unique()) == ["additive", TWO_WAY]
    splits = split_records(records, 0.2, by="record", repeats=2, seed=0)
    for spec in ("additive", TWO_WAY):
        for repeat, held in enumerate(splits.held):
            own = found[(found["spec"] == spec) & (found["repeat"] == repeat + 1)]
            own = own.reset_index(drop=True)
            left = records.table[held].reset_index(drop=True)
            for column in ("model", "language", "task", "score"):
                assert own[column].tolist() == left[column].tolist()
            assert own["unit"].tolist() == splits.unit[held].tolist()
    # Two-way means of what the second repeat leaves, with the noise that it has there.
    held = splits.held[1]
    codes = {factor: records.codes(factor) for factor in FACTORS}
    kept, out = ({f: own[rows] for f, own in codes.items()} for rows in (~held, held))
    mean = two_way_means(kept, records.scores[~held], out)
    own = found.query("spec == @TWO_WAY and repeat == 2")
    np.testing.assert_allclose(own["mean"], mean)
    np.testing.assert_allclose(own["lower"] + own["upper"], 2 * mean)
    assert held_out._failed() is False
    assert (held_out.by, held_out.what, held_out.share, held_out.repeats) == (
        "record",
        "cell",
        0.2,
        2,
    )
    assert list(held_out.named_gates) == ["additive, repeat 1", "additive, repeat 2"]
    assert held_out.verdict[0].startswith("additive predicts left-out cells best: its CRPS is ")
    n = table["n_units"][0]
    assert held_out.verdict[1:] == (
        f"The standard errors are based on only {n} left-out cells and are rough.",
    )
    lines = held_out.summary().splitlines()
    assert lines[0] == "Predictions of left-out scores, 20 % of the cells at a time, 2 repeats"
    assert lines[1].split() == [
        *("model", "RMSE", "MAE", "CRPS", "difference", "SE", "log", "score", "in", "90", "%"),
    ]  # fmt: skip
    best = table.iloc[0]
    assert lines[2].split()[:4] == [
        "additive", *(f"{best[name]:.2f}" for name in ("rmse", "mae", "crps"))
    ]  # fmt: skip


def test_what_it_writes_and_draws(held_out: HeldOut, records: Records, tmp_path: Path) -> None:
    folder = held_out.save(tmp_path / "out", figures="svg")
    assert (folder / "figures" / "holdout.svg").is_file()
    written = pd.read_csv(folder / "tables" / "holdout.csv")
    pd.testing.assert_frame_equal(written[list(held_out.table)], held_out.table, rtol=1e-5)
    assert written["gate"].tolist() == ["pass", "pass"]
    every = pd.read_csv(folder / "tables" / "holdout_predictions.csv")
    assert len(every) == len(held_out.predictions)
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    prepared = prepare_holdout(records, "additive", holdout=0.2, repeats=2)
    assert {key: run[key] for key in prepared.identity} == prepared.identity
    assert (run["by"], run["holdout"], run["repeats"]) == ("record", 0.2, 2)
    assert run["models"] == {"additive": "marginal"}
    assert run["gates"] == {TWO_WAY: "pass", "additive": "pass"}
    assert run["verdict"] == list(held_out.verdict)
    with pytest.raises(InputError, match="predictions of left-out scores, of which there are no"):
        read_saved(folder)
    (axes,) = held_out.plot().axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["additive", TWO_WAY]
    dots = axes.collections[-1].get_offsets()
    np.testing.assert_allclose(dots[:, 0], held_out.table["crps_diff"])


def test_other_holdouts_are_other_results(records: Records) -> None:
    def prepared(**more: Any) -> PreparedHoldout:
        asked = {"specs": ["additive"], "holdout": 0.2, "repeats": 2} | more
        return prepare_holdout(records, **asked)

    several = [
        prepared(),
        prepared(repeats=1),
        prepared(holdout=0.3),
        prepared(by="language"),
        prepared(specs=["interaction"]),
        prepared(engine="numpyro"),
        prepared(seed=1),
    ]
    assert len({tuple(map(str, one.identity.values())) for one in several}) == 7
    # The engine is part of the identity and, as in other comparisons, not of the name.
    assert len({str(one.default_folder) for one in several}) == 6
    assert several[0].default_folder.name == (
        "additive-by-record-holdout0.2-repeats2-compare-seed0"
    )
    assert several[0].identity == prepared().identity
    assert prepared(repeats=None).repeats == 5


def test_simulated_tables_are_predicted_as_well_as_they_can_be() -> None:
    drawn = simulate(
        "additive", n_languages=12, n_tasks=4, n_models=6, observed_share=0.35, seed=11,
        sds={"sd_residual": 5.0},
    )  # fmt: skip
    found = be.compare(drawn.records, "additive", holdout=0.3, repeats=3, jobs=1)
    table = found.table.set_index("spec")
    additive, peer = table.loc["additive"], table.loc[TWO_WAY]
    # 108 predictions of 100 scores: the sds of the noise, and estimated effects on top. Three
    # standard errors of an sd from 70 values are a quarter of it.
    assert 0.75 * 5.0 < additive["rmse"] < 1.5 * 5.0
    # Of 90 %, three binomial standard errors of 75 different scores.
    assert abs(additive["coverage_90"] - 0.9) < 3 * np.sqrt(0.9 * 0.1 / 75)
    assert peer["crps_diff"] > 2 * peer["crps_diff_se"]
    assert found.verdict[0].startswith("additive predicts left-out cells best")
    # Negative control: intervals without the noise of a measurement miss most scores.
    own = found.predictions.query("spec == 'additive'")
    narrow = (own["score"] - own["mean"]).abs() < 0.3 * (own["upper"] - own["mean"])
    assert narrow.mean() < 0.9 - 3 * np.sqrt(0.9 * 0.1 / 75)


# Sentences --------------------------------------------------------------------------------


def gates(*statuses: str) -> tuple[Gate, ...]:
    return tuple(Gate(status=status, checks=(), n_quantities=0) for status in statuses)  # type: ignore[arg-type]


def said(crps: dict[str, list[float]], what: str = "cell", **more: Any) -> list[str]:
    own = {name: gates("pass") for name in crps if name != TWO_WAY} | more.pop("gates", {})
    units = more.pop("units", {})
    return list(sentences(main_table(predictions(crps, **more), own), own, units, what=what))


FEW = "The standard errors are based on only 2 left-out cells and are rough."


def test_the_verdict_is_careful() -> None:
    # Differences 4.0, 4.4, 4.0 of units 0, 1, 0: their standard error is 0.18.
    assert said({"a": [1.0, 1.0, 1.0], TWO_WAY: [5.0, 5.4, 5.0]}) == [
        "a predicts left-out cells best: its CRPS is 4.13 (SE 0.18) below that of two-way means.",
        FEW,
    ]
    assert said({"a": [1.0, 1.0, 1.0], "b": [1.0, 3.0, 1.0], TWO_WAY: [1.0, 4.0, 1.0]}) == [
        "No clear winner: a is first, its CRPS 0.67 (SE 0.89) below that of b, less than two "
        "standard errors.",
        "Not clearly worse than a either: two-way means 1.00 (SE 1.33).",
        FEW,
    ]
    # Equal models have no winner.
    assert said({"a": [1.0] * 3, TWO_WAY: [1.0] * 3})[0] == (
        "No clear winner: a is first, its CRPS 0.00 (SE 0.00) below that of two-way means, less "
        "than two standard errors."
    )
    assert said({"a": [2.0] * 3, TWO_WAY: [1.0, 1.1, 1.0]}, what="language")[1:] == [
        "No model predicts better than two-way means.",
        FEW.replace("cells", "languages"),
    ]
    assert said({"a": [2.0] * 3, TWO_WAY: [1.0] * 3}, unit=[3, 3, 3], what="dataset") == [
        "No clear winner: two-way means is first, its CRPS 1.00 below that of a; of one left-out "
        "dataset there is no standard error.",
        "No model predicts better than two-way means.",
    ]


def test_errors_on_a_scale_from_0_to_1_keep_three_digits(held_out: HeldOut) -> None:
    assert said({"a": [0.0612] * 3, TWO_WAY: [0.0654, 0.0649, 0.0654]})[0] == (
        "a predicts left-out cells best: its CRPS is 0.0040 (SE 0.0002) below that of two-way "
        "means."
    )
    scaled = {name: 0.01 * held_out.table[name] for name in ("rmse", "mae", "crps", "crps_diff")}
    best = scaled["crps"].iloc[0]
    assert 0.01 < best < 0.1
    text = replace(held_out, table=held_out.table.assign(**scaled)).summary()
    assert f" {best:.4f} " in text
    # On a scale from 0 to 100 two decimals are enough.
    assert f" {100 * best:.2f} " in held_out.summary()


def test_scales_and_gates_are_told() -> None:
    percent, unknown = Units(0, 100), Units(None, None)
    scores = {"a": [1.0] * 3, TWO_WAY: [5.0, 5.4, 5.0]}
    assert said(scores, units={"x": percent, "y": percent, "z": unknown})[-1] == FEW
    assert said(scores, units={"x": percent, "y": Units(-1, 1)})[-1] == (
        "The tasks have different scales: errors of those with wide scales weigh most; "
        "tables/holdout_predictions.csv has every score's own."
    )
    failed = {"a": gates("pass", "fail", "fail")}
    assert said(scores, gates=failed)[0] == (
        "Not converged, so nothing here is reliable: a (in 2 repeats of 3). Take more draws, "
        "or leave these models out."
    )
    table = main_table(predictions(scores), failed)
    assert table["gate"].tolist() == ["fail", "pass"]
    assert "gate" not in main_table(predictions(scores), {"a": gates("pass", "pass")})


# What is refused --------------------------------------------------------------------------


def test_what_cannot_be_asked_is_refused(records: Records) -> None:
    fixed = {"name": "fixed", "effects": {"language": "fixed"}}
    for more, message in (
        ({"holdout": 0.0}, "holdout is the share of the scores to leave out, more than 0 and less "
         "than 1, as in 0.3; got 0"),
        ({"holdout": 1}, "holdout is the share of the scores to leave out, more than 0 and less "
         "than 1, as in 0.3; got 1"),
        ({"holdout": float("nan")}, "holdout is the share of .*; got nan"),
        ({"holdout": "0.3"}, "holdout must be a number, got '0.3'"),
        ({"holdout": 0.3, "repeats": 0}, "repeats must be at least 1, got 0"),
        ({"holdout": 0.3, "repeats": 10**9}, "repeats must be at most 200, got 1000000000"),
        ({"repeats": 3}, "repeats are given, and no share to leave out; add holdout=0.3"),
        ({"holdout": 0.3, "fits": {}}, "fits are given, and with holdout every model is fitted to "
         "a part of the table; leave fits out"),
        ({"holdout": 0.3, "by": "recrod"}, "cannot leave out one 'recrod' at a time; did"),
        ({"holdout": 0.3, "by": "language", "specs": fixed}, "fixed has fixed language effects, "
         "which do not predict scores of a language that was left out; leave fixed out, or choose"),
        ({"holdout": 0.3, "engine": "ml", "specs": "paper"}, "engine ml gives a point estimate"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"^{message}"):
            be.compare(records, **{"specs": "additive", "jobs": 1} | more)  # type: ignore[call-overload]


def test_related_languages_predict_those_that_are_left_out(records: Records) -> None:
    codes = dict(zip(records.coords["language"], ("de", "fr", "ru", "uk", "ar"), strict=True))
    frame = records.table.assign(language=records.table["language"].astype(str).map(codes))
    table = Records.from_frame(frame, name="scripts")
    near = {"name": "near", "languages": {"place": 1000}}
    found = be.compare(table, near, holdout=0.3, repeats=1, by="language", jobs=1)
    assert isinstance(found, HeldOut)
    own = found.predictions[found.predictions["spec"] == "near"]
    assert len(own) and np.isfinite(own["log_score"]).all() and (own["lower"] < own["upper"]).all()


def test_the_heading_counts_levels(records: Records) -> None:
    found = be.compare(records, "additive", holdout=0.4, by="model", repeats=1, jobs=1)
    assert isinstance(found, HeldOut)
    # 0.4 of 4 models are not a whole number of them.
    assert found.summary().splitlines()[0] == (
        "Predictions of left-out scores, 2 models at a time, 1 repeat"
    )


# The command ------------------------------------------------------------------------------


def test_the_command_writes_what_it_prints(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    records.to_csv(tmp_path / "t.csv")
    asked = ["compare", "--benchmark", "t.csv", "--models", "additive", "--jobs", "1"]
    assert main([*asked, "--repeats", "2"]) == 2
    assert "no share to leave out; add --holdout 0.3" in capsys.readouterr().err
    assert main([*asked, "--holdout", "1.5"]) == 2
    assert "--holdout is the share of the scores" in capsys.readouterr().err
    # What is advised of too large a share works when pasted.
    assert main([*asked, "--holdout", "0.95", "--repeats", "1"]) == 2
    advised = re.search(r"give (--holdout [\d.]+)", " ".join(capsys.readouterr().err.split()))
    assert advised is not None
    options = ["--quiet", "--no-figures", "--out", "out", "--repeats", "1"]
    assert main([*asked, *advised[1].split(), *options]) == 0
    assert "Predictions of left-out scores" in capsys.readouterr().out
    (table,) = Path("out/tables").glob("holdout.csv")
    assert pd.read_csv(table)["spec"].nunique() == 2
    # Another share is another result.
    assert main([*asked, "--holdout", "0.1", *options]) == 2
    assert "out holds a run with spec" in capsys.readouterr().err
