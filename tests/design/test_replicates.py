"""What a table's replicates become: unknown sds, known sds, or one line that refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeseval import names
from bayeseval.checks.prior import draw_prior
from bayeseval.design import Design, build_design, restore_design
from bayeseval.errors import DesignError
from bayeseval.records import Records, reduce_replicates
from bayeseval.spec import load_spec
from tests import replicate_tables as tables

N_CELLS = 22  # 90 % of 4 languages x 2 tasks x 3 models


def _sources(design: Design) -> dict[str, Any]:
    return {source.name: source for source in design.sources}


@pytest.mark.parametrize(
    ("kind", "unknown", "known"),
    [
        ("seeds", {"seed"}, set()),
        ("boots", {"boot"}, set()),
        ("crossed", {"seed", "boot", "seed_boot"}, set()),
        ("unbalanced", {"seed", "boot", "seed_boot"}, set()),
        ("seed_sd with n_seeds", {"seed"}, set()),
        ("seed_sd alone", set(), {"seed"}),
        ("boot_sd with n_boot", {"boot"}, set()),
        ("boot_sd alone", set(), {"boot"}),
        ("both with numbers", {"seed", "boot"}, set()),
        ("seeds counted, boots not", {"seed"}, {"boot"}),
    ],
)
def test_which_sds_are_unknown(kind: str, unknown: set[str], known: set[str]) -> None:
    design = tables.design(kind)
    assert set(_sources(design)) == unknown
    assert set(design.known_sds) == known
    assert design.n_records == N_CELLS
    for source in design.sources:
        assert source.n_cells == N_CELLS
        assert (source.share > 0.0).all()
        for name in (names.source_model_sd(source.name), names.source_log_sd(source.name)):
            assert name in design.priors


def test_shares_of_the_mean_in_each_kind_of_table() -> None:
    crossed = _sources(tables.design("crossed"))
    assert {name: set(s.share) for name, s in crossed.items()} == {
        "seed": {1 / 3},
        "boot": {1 + 1 / 5},
        "seed_boot": {1 / 3 + 1 / 15},
    }
    boots = _sources(tables.design("boots"))
    assert set(boots["boot"].share) == {1 + 1 / 6}
    # A published score stands on the test set itself.
    summary = _sources(tables.design("boot_sd with n_boot"))
    assert set(summary["boot"].share) == {1.0}
    seeds = _sources(tables.design("seed_sd with n_seeds"))
    assert set(seeds["seed"].share) == {1 / 4}


def test_weights_of_the_variances_in_the_expected_mean_squares() -> None:
    """Three seeds on five bootstraps: s2 + w2 (1 + 1/5), t2 + w2 / 3, w2, as in the docstring."""
    replicates = tables.design("crossed").replicates
    assert replicates is not None
    expected = {
        "seed": (1.0, 0.0, 0.0),
        "boot": (0.0, 1.0, 0.0),
        "seed_boot": (1 + 1 / 5, 1 / 3, 1.0),
    }
    for source, weights in expected.items():
        by_square = np.repeat(weights, N_CELLS)
        assert replicates.weight[source] == pytest.approx(by_square, rel=1e-12), source
        assert replicates.cell[source].tolist() == list(range(N_CELLS)) * 3
    assert replicates.df.tolist() == np.repeat([2.0, 4.0, 8.0], N_CELLS).tolist()


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("both with numbers", True), ("seeds counted, boots not", True), ("crossed", False),
     ("unbalanced", False), ("seeds", False), ("boot_sd alone", False)],
)  # fmt: skip
def test_summaries_of_both_are_an_upper_bound(kind: str, bound: bool) -> None:
    notes = [note for note in tables.design(kind).notes if "upper bound" in note]
    assert notes == (
        [
            f"in {N_CELLS} cells the sds of seeds and of test sets both include the seed x "
            "test-set interaction, so the noise of one run and of means is an upper bound there, "
            "and the variance left for other terms a lower bound"
        ]
        if bound
        else []
    )


def test_single_runs_beside_several_have_the_typical_noise_of_a_seed() -> None:
    design = tables.design("single runs")
    language, model = design.factor_index["language"], design.factor_index["model"]
    alone = (np.array(design.coords["language"])[language] == "l0") | (model == 2)
    assert 0 < alone.sum() < len(alone)
    shares = {name: source.share for name, source in _sources(design).items()}
    # One seed on five bootstraps: s2 + t2 (1 + 1/5) + w2 (1 + 1/5); three seeds otherwise.
    assert shares["seed"] == pytest.approx(np.where(alone, 1.0, 1 / 3))
    assert shares["boot"] == pytest.approx(np.full(len(alone), 1.2))
    assert shares["seed_boot"] == pytest.approx(np.where(alone, 1.2, 1 / 3 + 1 / 15))
    for name in ("seed", "seed_boot"):
        source = _sources(design)[name]
        assert np.isnan(source.raw_sd).tolist() == alone.tolist()
        # Model m2 has the geometric mean of the other models' typical sds.
        drawn = np.array([[1.0, 4.0, 99.0], [9.0, 1.0, 99.0]])
        assert source.typical_sd(drawn) == pytest.approx(np.array([[1, 4, 2.0], [9, 1, 3.0]]))
        typical = draw_prior(design, np.random.default_rng(1), 3)[names.source_model_sd(name)]
        assert typical[:, 2] == pytest.approx(np.sqrt(typical[:, 0] * typical[:, 1]))
    assert _sources(design)["boot"].over_models is None
    assert design.notes == (
        f"{alone.sum()} cells of a single run take the typical seed sd of their model; 1 model "
        "without replicates takes that of the others, and how much models differ in it is left out",
        "cells share nothing of their test sets, as far as the column boot shows; their sampling "
        "errors are taken as independent",
    )


def test_given_standard_errors_are_those_of_the_means_as_they_are() -> None:
    design = tables.design("mixed")
    task = np.array(design.coords["task"])[design.factor_index["task"]]
    own = task == "t3"
    assert own.any()
    assert design.se is not None
    assert design.known_sds["se"][own].tolist() == [1.5] * own.sum()
    assert design.se[own] == pytest.approx(np.full(own.sum(), 1.5), rel=1e-12)
    assert np.isnan(design.known_sds["se"][~own]).all()
    assert (design.se[~own] == 0.0).all()


def test_labels_and_models_of_the_sds() -> None:
    design = tables.design("mixed")
    seed = _sources(design)["seed"]
    for label, record, model in zip(seed.labels, seed.record, seed.model, strict=True):
        own = [design.coords[f][design.factor_index[f][record]] for f in names.FACTORS]
        assert label == "|".join(own)
        assert design.coords["model"][model] == own[2]
    # Three of four tasks have seeds; only the first one has test sets.
    tasks = {source: {label.split("|")[1] for label in s.labels} for source, s in
             _sources(design).items()}  # fmt: skip
    assert tasks == {"seed": {"t0", "t1", "t2"}, "boot": {"t0"}, "seed_boot": {"t0"}}
    assert {"seed_cell", "boot_cell", "seed_boot_cell"} <= set(design.coords)


def test_squares_and_degrees_of_freedom_are_those_of_the_rows() -> None:
    records = tables.records("seeds")
    design = tables.design(records)
    replicates = design.replicates
    assert replicates is not None
    for i in range(design.n_records):
        own = [design.coords[f][design.factor_index[f][i]] for f in names.FACTORS]
        rows = records.table
        for factor, label in zip(names.FACTORS, own, strict=True):
            rows = rows[rows[factor].astype(str) == label]
        x = rows["score"].to_numpy()
        at = int(np.flatnonzero(replicates.cell["seed"] == i)[0])
        assert replicates.df[at] == len(x) - 1 == 3
        assert replicates.squares[at] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-9)
        assert design.score[i] == pytest.approx(x.mean(), rel=1e-12)
    assert (replicates.weight["seed"] == 1.0).all()


def test_log_sds_that_clearly_differ_are_drawn_as_such() -> None:
    given = {"n_seeds": 30, "sds": {"sd_log_seed": 1.0}}
    clear = tables.design(Records.from_frame(tables.frame("seeds", **given), name="clear"))
    assert clear.sources[0].centred
    given["sds"] = {"sd_log_seed": 0.0}
    alike = tables.design(Records.from_frame(tables.frame("seeds", **given), name="alike"))
    assert not alike.sources[0].centred
    assert alike.sources[0].drawn != clear.sources[0].drawn
    assert alike.sources[0].typical_df == 29.0


# Not pooled ------------------------------------------------------------------------------


def test_own_sds_are_known_when_nothing_is_pooled() -> None:
    records = tables.records("crossed")
    design = tables.design(records, replicates={"pool": False})
    assert design.replicates is None
    assert not {p for p in design.priors if "seed" in p or "boot" in p}
    cells = reduce_replicates(records)
    omega2 = cells.cross.mean_square
    sigma2 = np.maximum(cells.seed.mean_square - omega2 * (1 + 1 / 5), 0.0)
    tau2 = np.maximum(cells.boot.mean_square - omega2 / 3, 0.0)
    for source, expected in (("seed", sigma2), ("boot", tau2), ("seed_boot", omega2)):
        assert design.known_sds[source] == pytest.approx(np.sqrt(expected), rel=1e-12)
    of_mean = (sigma2 + omega2 * (1 + 1 / 5)) / 3 + tau2 * (1 + 1 / 5)
    assert design.se == pytest.approx(np.sqrt(of_mean), rel=1e-12)


def test_given_sds_are_known_as_they_are_when_nothing_is_pooled() -> None:
    records = tables.records("both with numbers")
    design = tables.design(records, replicates={"pool": False})
    table = records.table
    assert design.known_sds["seed"] == pytest.approx(table["seed_sd"].to_numpy())
    assert design.known_sds["boot"] == pytest.approx(table["boot_sd"].to_numpy())
    expected = np.sqrt(table["seed_sd"] ** 2 / 4 + table["boot_sd"] ** 2).to_numpy()
    assert design.se == pytest.approx(expected, rel=1e-12)


# What cannot be ---------------------------------------------------------------------------


def test_incomplete_cells_have_no_sds_of_their_own() -> None:
    with pytest.raises(DesignError, match=r"^unbalanced: \d+ cells lack some pairs") as caught:
        tables.design("unbalanced", replicates={"pool": False})
    assert "\n" not in str(caught.value)
    assert "replicates: {pool: false}" in str(caught.value)
    # Pooled, the same table is fine.
    assert tables.design("unbalanced").replicates is not None


@pytest.mark.parametrize("kind", ["seeds", "crossed", "unbalanced", "seed_sd with n_seeds"])
def test_replicates_with_heavy_tails_are_refused(kind: str) -> None:
    with pytest.raises(DesignError, match="replicates need the likelihood normal") as caught:
        tables.design(kind, spec="robust")
    assert "\n" not in str(caught.value)


def test_known_sds_with_heavy_tails_are_fine() -> None:
    design = tables.design("boot_sd alone", spec="robust")
    assert design.se is not None
    assert (design.se > 0.0).all()


# Nothing to see in the replicates ------------------------------------------------------------


def _greedy(share: float) -> Records:
    """Replicates of the first cells, a share of all, equal as under greedy decoding."""
    table = tables.frame("seeds")
    cell = table.groupby(list(names.FACTORS), observed=True, sort=False).ngroup()
    same = table.groupby(cell)["score"].transform("mean")
    equal = cell < share * (cell.max() + 1)
    return Records.from_frame(table.assign(score=table["score"].where(~equal, same)), name="greedy")


def test_equal_replicates_are_counted_and_said() -> None:
    design = tables.design(_greedy(0.25))
    (note,) = [n for n in design.notes if "equal or nearly" in n]
    # 25 % of 22 cells, rounded up.
    assert note.startswith("seed: the replicates of 6 of 22 cells are equal or nearly equal")
    replicates = design.replicates
    assert replicates is not None
    assert (replicates.squares > 0.0).all()
    smallest = np.sqrt(replicates.squares / replicates.df)
    assert np.sort(smallest)[:6] == pytest.approx(np.full(6, smallest.min()))
    others = tables.design("seeds").replicates
    assert others is not None
    kept = smallest > 1.01 * smallest.min()
    assert smallest[kept] == pytest.approx(np.sqrt(others.squares / others.df)[kept])
    assert not any("equal or nearly" in n for n in tables.design("seeds").notes)


def test_replicates_that_are_all_equal_say_zero() -> None:
    design = tables.design(_greedy(1.0))
    assert design.replicates is None
    note = "seed: the replicates of every cell are equal; their sd is set to 0"
    assert design.notes.count(note) == 1
    assert design.known_sds["seed"].tolist() == [0.0] * N_CELLS
    assert design.se is not None
    assert (design.se == 0.0).all()


def test_a_product_of_nothing_leaves_seeds_and_test_sets() -> None:
    """Every seed scatters alike on every test set: x_sb = e_s + e_b exactly."""
    table = tables.frame("crossed")
    keys = list(names.FACTORS)
    by = {s: table.groupby([*keys, s], observed=True)["score"].transform("mean") for s in
          ("seed", "boot")}  # fmt: skip
    whole = table.groupby(keys, observed=True)["score"].transform("mean")
    # On a grid of 1/64, so that differences are exact.
    additive = (64.0 * (by["seed"] + by["boot"] - whole)).round() / 64.0
    seeds, boots = ((64.0 * (by[s] - whole)).round() / 64.0 for s in ("seed", "boot"))
    table = table.assign(score=(64.0 * whole).round() / 64.0 + seeds + boots)
    assert (table["score"] - additive).abs().max() < 0.1
    design = tables.design(Records.from_frame(table, name="additive"))
    product = [n for n in design.notes if n.startswith("seed_boot:")]
    assert product
    for source in design.sources:
        assert np.isfinite(source.log_sd).all()
    assert {"seed", "boot"} <= set(_sources(design))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_equal_replicates_in_incomplete_cells(share: float) -> None:
    table = tables.frame("unbalanced")
    cell = table.groupby(list(names.FACTORS), observed=True, sort=False).ngroup()
    equal = cell < share * (cell.max() + 1)
    same = table.groupby(cell)["score"].transform("first")
    table = table.assign(score=table["score"].where(~equal, same))
    records = Records.from_frame(table, name="greedy")
    design = tables.design(records)
    assert any("incomplete cells are equal" in note for note in design.notes)
    if share == 1.0:
        assert design.replicates is None
        return
    assert design.replicates is not None
    lost = design.replicates.unbalanced
    assert lost is not None
    variance = lost.square / lost.n_pairs
    # Equal replicates have an sd of 1 % of the median one among those that differ.
    own = reduce_replicates(records).unbalanced
    assert own is not None
    differ = own.square / own.n_pairs > 1e-12
    assert 0 < (~differ).sum() < len(own) / 2
    np.testing.assert_allclose(variance[differ], (own.square / own.n_pairs)[differ], rtol=1e-12)
    np.testing.assert_allclose(variance[~differ], 1e-4 * np.median(variance[differ]), rtol=1e-12)
    for source in design.sources:
        assert np.isfinite(source.log_sd).all()


def test_one_seed_says_nothing_about_seeds() -> None:
    table = tables.frame("seeds")
    one = Records.from_frame(table[table["seed"].astype(str) == "0"], name="one")
    design = build_design(one, load_spec("additive"))
    assert design.replicates is None
    assert design.known_sds == {}
    summary = tables.summaries(("seed_sd", "n_seeds")).table.assign(n_seeds=1)
    alone = tables.design(Records.from_frame(pd.DataFrame(summary), name="alone"))
    assert alone.replicates is None
    assert alone.se is None


def test_a_fit_with_unknown_sds_cannot_restore_its_design_and_promises_no_way() -> None:
    design = tables.design("seeds")
    groups = {"observed_data": design.observed_data(), "constant_data": design.constant_data()}
    with pytest.raises(DesignError) as caught:
        restore_design(xr.DataTree.from_dict(groups), design.spec)
    assert str(caught.value) == (
        "not available for a model that estimates noise of replicates (seeds, bootstraps, "
        "prompts), because a fit does not keep all data on them"
    )
