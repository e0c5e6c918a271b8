"""Comparison of models: elpd and its differences, left-out groups, the verdict, the command."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import pytest

from bayeseval import Fit, fit, load, names
from bayeseval.cli import main
from bayeseval.comparison import Comparison, compare, find_fits, prepare_comparison
from bayeseval.comparison.bridge import bridge
from bayeseval.comparison.figure import comparison_figure
from bayeseval.comparison.refits import refit_units
from bayeseval.comparison.report import format_comparison
from bayeseval.comparison.scores import Scores
from bayeseval.comparison.sentences import comparison_table, verdict
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings, load_engine
from bayeseval.engines._evidence import leave_group_out, without
from bayeseval.engines.base import pointwise_log_likelihood
from bayeseval.errors import InputError
from bayeseval.fitting import prepare
from bayeseval.output.store import RUN_ID
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests import bounded_tables

MODELS = ("additive", "interaction")


def table(truth: str, *, seed: int = 2) -> Records:
    sds = {"sd_residual": 4.0} | ({"sd_language_task": 9.0} if truth == "interaction" else {})
    return simulate(truth, n_languages=12, sds=sds, seed=seed).records


@pytest.fixture(scope="module")
def records() -> Records:
    return table("interaction")


@pytest.fixture(scope="module")
def compared(records: Records) -> Comparison:
    return compare(records, MODELS)


def loo(one: Fit) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        # ArviZ calls pandas in a way that new versions deprecate, and warns of k-hats.
        warnings.simplefilter("ignore")
        found = arviz_stats.loo(one.leave_one_out(), pointwise=True)
    return np.asarray(found.elpd_i), np.asarray(found.pareto_k)


def test_the_table_is_that_of_left_out_densities(compared: Comparison) -> None:
    assert list(compared.table["spec"]) == ["interaction", "additive"]
    best, other = compared.table.iloc[0], compared.table.iloc[1]
    elpd = {name: loo(compared.fits[name])[0] for name in MODELS}
    n = len(elpd["additive"])
    for row in (best, other):
        own = elpd[row["spec"]]
        np.testing.assert_allclose(row["elpd"], own.sum(), rtol=1e-12)
        np.testing.assert_allclose(row["se"], np.sqrt(n) * own.std(ddof=1), rtol=1e-12)
        np.testing.assert_allclose(compared.pointwise[row["spec"]], own, rtol=1e-12)
        density = compared.fits[row["spec"]].data["log_likelihood"]["score"].to_numpy()
        flat = density.reshape(-1, n)
        lppd = np.log(np.exp(flat).mean(axis=0)).sum()
        np.testing.assert_allclose(row["p_eff"], lppd - own.sum(), rtol=1e-9)
    # The best is zero, the others lie below it.
    assert (best["elpd_diff"], best["diff_se"]) == (0.0, 0.0)
    difference = elpd["additive"] - elpd["interaction"]
    np.testing.assert_allclose(other["elpd_diff"], difference.sum(), rtol=1e-12)
    np.testing.assert_allclose(other["diff_se"], np.sqrt(n) * difference.std(ddof=1), rtol=1e-12)
    assert other["elpd_diff"] < -10.0
    # A paired error: smaller than that of two independent elpds.
    assert other["diff_se"] < np.hypot(best["se"], other["se"]) - 0.5
    assert list(compared.table["n_bad_k"]) == [0, 0]


def test_the_verdict_names_the_winner_and_what_its_terms_buy(compared: Comparison) -> None:
    first = compared.verdict[0]
    lead = -compared.table.loc[1, "elpd_diff"]
    assert first.startswith("interaction predicts a left-out record best: elpd ")
    assert f"elpd {lead:.1f} (SE " in first
    assert first.endswith("ahead of additive.")
    parts = {name: one.components(detail=True) for name, one in compared.fits.items()}
    rows = {name: part.set_index("component") for name, part in parts.items()}
    mean, lower, upper = (
        100.0 * rows["interaction"].loc["language:task", f"share_{part}"]
        for part in ("mean", "lower", "upper")
    )
    before, after = (rows[name].loc["residual", "sd_mean"] for name in MODELS)
    assert (
        f"interaction adds language:task {mean:.0f} % [{lower:.0f}, {upper:.0f}] of the variance; "
        f"the residual sd goes from {before:.1f} to {after:.1f}."
    ) in compared.verdict
    moves = compared.moves.set_index("quantity")
    means = {
        name: compared.fits[name].potential(detail=True).set_index("language")["potential_mean"]
        for name in MODELS
    }
    expected = means["additive"].corr(
        means["interaction"].reindex(means["additive"].index), method="spearman"
    )
    np.testing.assert_allclose(moves.loc["language_potential", "spearman"], expected, rtol=1e-9)
    assert 0.5 < expected < 1.0


def test_without_a_difference_there_is_no_winner() -> None:
    found = compare(table("additive", seed=5), MODELS)
    assert abs(found.table.loc[1, "elpd_diff"]) < 4.0
    assert found.verdict[0].startswith("No clear winner: ")
    assert found.verdict[0].endswith("whatever its standard error.")


def test_likelihoods_are_compared_in_score_units_whatever_their_scale() -> None:
    """Scores by logits: the plain model loses, and both elpds are densities of one score."""
    sds = {"sd_residual": 0.8, "sd_task": 1.5}
    drawn = simulate("logit", n_languages=12, intercept=85.0, sds=sds, seed=1).records
    found = compare(drawn, ["additive", {"name": "by-card", "likelihood": "logit_normal"}])
    rows = found.table.set_index("spec")
    assert found.table["spec"].iloc[0] == "by-card"
    assert rows.loc["additive", "elpd_diff"] < -2.0 * rows.loc["additive", "diff_se"]
    # A forgotten Jacobian, log(100 share (1 - share)) a record, is worth hundreds.
    share = drawn.scores / 100.0
    assert np.log(100.0 * share * (1.0 - share)).sum() > 300.0
    assert abs(rows["elpd_diff"]).max() < 150.0
    assert any("logit scale" in sentence for sentence in found.verdict)


@pytest.mark.parametrize("by", ["language", "task"])
def test_left_out_groups_are_ratios_of_marginal_likelihoods(
    records: Records, compared: Comparison, by: str
) -> None:
    found = compare(records, MODELS, by=by, fits=compared.fits)  # type: ignore[arg-type]
    assert list(found.pointwise.index) == list(records.coords[by])  # type: ignore[index]
    for name in MODELS:
        design = build_design(records, load_spec(name))
        # Of every other group, with another seed.
        units = range(0, len(found.pointwise), 2)
        exact = leave_group_out(design, by=by, units=units, seed=7)  # type: ignore[arg-type]
        # Both are estimates; a tenth of a nat is what their errors add up to at k-hats
        # below 0.7, and far below what the groups differ by.
        np.testing.assert_allclose(found.pointwise[name].iloc[::2], exact.log_density, atol=0.25)
        assert np.ptp(exact.log_density) > 5.0
    assert list(found.table["n_bad_k"]) == [0, 0]
    # Negative control: a level's density is not the sum of its records' own.
    alone = compared.pointwise["additive"]
    groups = alone.groupby(records.codes(by)).sum()  # type: ignore[arg-type]
    assert np.abs(groups.to_numpy() - found.pointwise["additive"].to_numpy()).max() > 0.5


HEAVY = {"name": "heavy", "likelihood": "student_t"}


@pytest.fixture(scope="module")
def tailed() -> tuple[Records, Fit]:
    records = table("additive", seed=3)
    return records, fit(records, HEAVY, draws=600, tune=600, chains=2)


def test_heavy_tails_are_compared_by_psis(tailed: tuple[Records, Fit]) -> None:
    records, heavy = tailed
    found = compare(records, ["additive", HEAVY], fits={"heavy": heavy}, refits=0)
    row = found.table.set_index("spec").loc["heavy"]
    elpd, k_hat = plain(heavy)
    assert found.table.set_index("spec").loc["additive", "method"].startswith("exact")
    assert (k_hat <= names.K_HAT_MAX).all()
    assert row["method"] == "PSIS"
    assert row["n_bad_k"] == 0
    np.testing.assert_allclose(row["elpd"], elpd.sum(), atol=0.05)
    routes = found.routes.set_index("spec")
    np.testing.assert_allclose(routes.loc["heavy", "elpd_psis"], row["elpd"], rtol=1e-12)
    own = plain(found.fits["additive"])
    np.testing.assert_allclose(routes.loc["additive", "elpd_psis"], own[0].sum(), atol=0.05)
    # The exact route is another one.
    assert routes.loc["additive", "elpd_psis"] != routes.loc["additive", "elpd"]
    with pytest.raises(
        InputError, match=r"it takes 12 refits, more than the 11 allowed; allow them"
    ):
        compare(records, ["additive", HEAVY], by="language", fits={"heavy": heavy}, refits=11)


def test_plain_importance_sampling_is_no_fallback(
    tailed: tuple[Records, Fit], monkeypatch: pytest.MonkeyPatch
) -> None:
    records, heavy = tailed
    module = import_module("bayeseval.comparison.scores")
    monkeypatch.setattr(module, "why_no_mixture", lambda design: "for this test")
    honest = module._psis

    def broken(tree: object) -> tuple[np.ndarray, np.ndarray]:
        elpd, k_hat = honest(tree)
        # As where single scores move effects: 400 too high in all, and known to be.
        elpd[[3, 8]] += 200.0
        k_hat[[3, 8]] = 1.2
        return elpd, k_hat

    monkeypatch.setattr(module, "_psis", broken)
    found = module.score(
        build_design(records, load_spec(HEAVY)),
        heavy,
        "record",
        seed=0,
        refits=0,
        jobs=1,
        progress=lambda stage, done, total, remark: None,
    )
    assert np.flatnonzero(np.isnan(found.elpd)).tolist() == [3, 8]
    assert found.method == "PSIS; 2 records not computed"
    assert found.notes == (
        f"heavy: 2 left-out records of {len(records)} have no reliable density (k-hat above 0.7) "
        "and 0 refits were allowed, so its elpd was not computed; refits=2 "
        "computes it",
    )
    # What it would have said stands beside, for comparison only.
    assert found.plain is not None
    assert np.isfinite(found.plain[0]).all()
    other = Scores(found.plain[0] - 1.0, np.zeros(len(records)), 0.0, "exact")
    ranked = comparison_table({"heavy": found, "other": other})
    assert list(ranked["spec"]) == ["other", "heavy"]
    assert ranked.loc[0, "elpd_diff"] == 0.0
    assert ranked.loc[1, ["elpd", "elpd_diff", "diff_se", "p_eff"]].isna().all()
    shown = format_comparison(ranked, ["Said."], by="record")
    row = next(line for line in shown.splitlines() if line.strip().startswith("heavy "))
    assert row.split() == ["heavy", "-", "-", "-", "-", "-", "2"]
    moves = hand_made()[1].assign(against="other", spec="heavy").head(1)
    figure = comparison_figure(ranked, moves, by="record", subtitle="s", gate_status="pass")
    assert "Not computed: heavy." in " ".join(text.get_text() for text in figure.texts)


def test_the_records_with_the_worst_k_hats_are_refitted_first(
    tailed: tuple[Records, Fit], monkeypatch: pytest.MonkeyPatch
) -> None:
    records, heavy = tailed
    module = import_module("bayeseval.comparison.scores")
    monkeypatch.setattr(module, "why_no_mixture", lambda design: "for this test")
    honest = module._psis
    judged = {3: 0.8, 8: 1.2, 11: 0.9}

    def broken(tree: object) -> tuple[np.ndarray, np.ndarray]:
        elpd, k_hat = honest(tree)
        k_hat[list(judged)] = list(judged.values())
        return elpd, k_hat

    monkeypatch.setattr(module, "_psis", broken)
    found = module.score(
        build_design(records, load_spec(HEAVY)),
        heavy,
        "record",
        seed=0,
        refits=1,
        jobs=1,
        progress=lambda stage, done, total, remark: None,
    )
    assert np.flatnonzero(np.isnan(found.elpd)).tolist() == [3, 11]
    # A refit's mean over draws has no k-hat; what was not refitted keeps its own.
    assert np.flatnonzero(np.isnan(found.k_hat)).tolist() == [8]
    assert found.k_hat[[3, 11]].tolist() == [0.8, 0.9]
    assert found.elpd[8] == pytest.approx(plain(heavy)[0][8], abs=0.2)
    assert found.method == "PSIS; 1 record by refits; 2 records not computed"
    (note,) = found.notes
    assert note.startswith(f"heavy: 2 left-out records of {len(records)} have no reliable density")
    assert note.endswith("refits=3 computes it")


def test_a_refit_without_a_record_agrees_with_psis(tailed: tuple[Records, Fit]) -> None:
    records, heavy = tailed
    design = build_design(records, load_spec(HEAVY))
    elpd, k_hat = plain(heavy)
    # The most surprising record that PSIS can do.
    unit = int(np.argmin(np.where(k_hat < 0.5, elpd, 0.0)))
    told: list[str] = []
    found, judged = refit_units(
        design,
        "record",
        [unit],
        seed=1,
        jobs=1,
        progress=lambda stage, done, total, remark: told.append(stage),
    )
    # PSIS from 600 draws has an error of a few hundredths, the refit from 2000 likewise.
    assert found[0] == pytest.approx(elpd[unit], abs=0.2)
    assert np.isnan(judged[0])
    assert set(told) == {"heavy: refits without each record"}
    # Negative control: within the sample the record is less of a surprise.
    inside = heavy.data["log_likelihood"]["score"].to_numpy()[..., unit]
    assert np.log(np.exp(inside).mean()) > found[0] + 0.2


@pytest.mark.parametrize("by", ["language", "model"])
def test_a_bridge_between_two_fits_is_the_density_of_the_group(by: str) -> None:
    records = table("additive", seed=3)
    design = build_design(records, load_spec("additive"))
    exact = leave_group_out(design, by=by, units=[0, 1, 2])  # type: ignore[arg-type]
    whole = log_likelihood_of(design, design)
    for unit in range(3):
        own = design.factor_index[by] == unit
        rest = log_likelihood_of(design, without(design, by=by, unit=unit))[..., own].sum(axis=-1)
        found = bridge(whole[..., own].sum(axis=-1), rest)
        assert found.is_good
        assert abs(found.value - exact.log_density[unit]) < 5.0 * max(found.error, 0.02)
        # Negative control: within the sample.
        inside = whole[..., own].sum(axis=-1).mean()
        assert inside - exact.log_density[unit] > 1.0


def test_a_bridge_that_does_not_carry_says_so() -> None:
    rng = np.random.default_rng(0)
    rest = rng.normal(-100.0, 5.0, (4, 500))
    assert not bridge(rest + 100.0, rest).is_good
    # A group that says nothing: the same likelihood at every draw.
    same = bridge(np.full((4, 10), -3.0), np.full((4, 10), -3.0))
    assert same == (pytest.approx(-3.0), 0.0, pytest.approx(0.5))
    assert same.is_good
    # Draws that rule the group out have likelihood zero, as a very small one.
    never = rng.normal(-5.0, 1.0, (4, 500))
    whole = never[:, :250] + 0.5
    lost, tiny = never.copy(), never.copy()
    lost[:, ::5], tiny[:, ::5] = -np.inf, -1e6
    assert bridge(whole, lost) == pytest.approx(bridge(whole, tiny))
    assert bridge(whole, lost).value < bridge(whole, never).value - 0.1
    # One chain cannot tell its own error.
    assert bridge(whole[:1], never[:1]).error == np.inf
    # No draw without the group can have it: the harmonic mean of the others, and no bridge.
    impossible = bridge(whole, np.full_like(whole, -np.inf))
    assert impossible.value == pytest.approx(-np.log(np.mean(np.exp(-whole))))
    assert not impossible.is_good


def log_likelihood_of(design: Design, fitted: Design) -> np.ndarray:
    """Of all records of `design` at draws of the fit to `fitted`, on (chain, draw, record)."""
    drawn = load_engine("marginal")(fitted, SamplerSettings(draws=500, chains=4, seed=2))
    flat = {k: np.asarray(v).reshape(-1, *v.shape[2:]) for k, v in drawn.posterior.items()}
    return pointwise_log_likelihood(design, flat).reshape(4, 500, -1)


def test_groups_of_counts_are_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    design = bounded_tables.design(likelihood="binomial")
    settings = SamplerSettings(draws=250, tune=250, chains=2, seed=4)
    # `bayeseval.compare` is the function; its module is reached by import.
    monkeypatch.setattr(import_module("bayeseval.comparison.refits"), "_SETTINGS", settings)
    drawn = load_engine("numpyro")(design, settings)
    flat = {k: np.asarray(v).reshape(-1, *v.shape[2:]) for k, v in drawn.posterior.items()}
    density = pointwise_log_likelihood(design, flat).reshape(2, 250, -1)
    joint = density[..., design.factor_index["language"] == 1].sum(axis=-1)
    elpd, k_hat = refit_units(
        design,
        "language",
        [1],
        seed=1,
        jobs=1,
        progress=lambda stage, done, total, remark: None,
        whole=joint[None],
    )
    assert np.isnan(k_hat[0])
    # The plain mean over draws without the group is noisier, and right.
    rest = load_engine("numpyro")(without(design, by="language", unit=1), settings).posterior
    own = {k: np.asarray(v).reshape(-1, *v.shape[2:]) for k, v in rest.items()}
    group = pointwise_log_likelihood(design, own)[:, design.factor_index["language"] == 1]
    plain_mean = np.log(np.mean(np.exp(group.sum(axis=1))))
    assert elpd[0] == pytest.approx(plain_mean, abs=0.5)
    # Negative control: within the sample.
    assert joint.mean() > elpd[0] + 1.0


def hand_made() -> tuple[pd.DataFrame, pd.DataFrame]:
    table = pd.DataFrame(
        {
            "spec": ["b", "a", "c"],
            "elpd": [-10.0, -12.0, -30.0],
            "elpd_diff": [0.0, -2.0, -20.0],
            "diff_se": [0.0, 1.5, 4.0],
            "n_bad_k": [0, 3, 0],
            "n": [13, 13, 13],
        }
    )
    moves = pd.DataFrame(
        {
            "spec": ["b", "c", "b", "c"],
            "against": "a",
            "quantity": ["language_potential"] * 2 + ["standardised_score"] * 2,
            "spearman": [0.9, 0.8, np.nan, 1.0],
            "kendall": [0.8, 0.7, np.nan, 1.0],
            "moved": ["de 1 [1, 2] to 3 [2, 4]", "", "", ""],
        }
    )
    return table, moves


def test_the_figure_shows_differences_and_orders() -> None:
    table, moves = hand_made()
    figure = comparison_figure(table, moves, by="task", subtitle="mine", gate_status="pass")
    left, right = figure.axes
    solid, hollow = (np.asarray(left.collections[i].get_offsets()) for i in (-2, -1))
    np.testing.assert_allclose(solid, [[0.0, 0.0], [-20.0, 2.0]])
    np.testing.assert_allclose(hollow, [[-2.0, 1.0]])
    assert [label.get_text() for label in left.get_yticklabels()] == ["b", "a", "c"]
    drawn = [np.asarray(points.get_offsets())[:, 0].tolist() for points in right.collections[:2]]
    assert drawn == [[0.8, 0.7], [1.0]]
    words = " ".join(text.get_text() for text in figure.texts)
    assert "Hollow points" in words


def test_the_words_are_careful(compared: Comparison) -> None:
    table, moves = hand_made()
    fits = dict(zip("abc", [*compared.fits.values()] * 2, strict=False))
    said = verdict(table, moves, fits, "task")
    assert said[0] == (
        "No clear winner: b is 2.0 (SE 1.5) ahead of a, less than 4: a smaller difference "
        "says nothing, whatever its standard error."
    )
    assert said[1] == "The standard errors are based on only 13 left-out tasks and are rough."
    assert said[2].startswith("a: 3 of 13 left-out tasks have too few draws")
    assert "Scores of models are not reported by both a and b, and cannot be compared." in said
    # None of the fits has a model:language term.
    assert said[-1] == (
        "The sds of gaps over languages are not estimated by a, b, c, for lack of a "
        "model:language term, and are not compared."
    )
    assert said[-5].endswith("largest changes of median ranks: de 1 [1, 2] to 3 [2, 4].")
    clear = table.assign(elpd_diff=[0.0, -9.0, -7.0], diff_se=[0.0, 2.0, 5.0], n_bad_k=0, n=500)
    said = verdict(clear, moves, fits, "record")
    assert said[0] == "b predicts a left-out record best: elpd 9.0 (SE 2.0) ahead of a."
    assert said[1] == "Not clearly worse than b either: c 7.0 (SE 5.0)."
    # Bad k-hats alone take a clear lead away.
    said = verdict(clear.assign(n_bad_k=[1, 0, 0]), moves, fits, "record")
    assert said[0].startswith("No clear winner: b is 9.0")
    assert said[0].endswith("but some left-out densities are unreliable.")
    assert (
        "b: 1 of 500 left-out records have too few draws (k-hat above 0.7, or a refit or bridge "
        "whose chains disagree); its elpd has a large Monte-Carlo error."
    ) in said
    # A model without an elpd is named and not compared.
    unknown = clear.assign(elpd=[-10.0, -12.0, np.nan], elpd_diff=[0.0, -9.0, np.nan])
    said = verdict(unknown, moves, fits, "record")
    assert said[:2] == [
        "b predicts a left-out record best: elpd 9.0 (SE 2.0) ahead of a.",
        "Not computed, and not compared: c (see below).",
    ]
    alone = verdict(unknown.assign(elpd=[-10.0, np.nan, np.nan]), moves, fits, "record")
    assert alone[0] == "No comparison: fewer than two models have an elpd."


def plain(one: Fit) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = arviz_stats.loo(one.data, pointwise=True)
    return np.asarray(found.elpd_i), np.asarray(found.pareto_k)


def test_what_cannot_be_compared_is_refused(records: Records, compared: Comparison) -> None:
    with pytest.raises(InputError, match="a comparison needs a model"):
        compare(records, [])
    with pytest.raises(InputError, match="or a list of these; got int"):
        compare(records, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'additive' is named twice"):
        compare(records, ["additive", "additive"])
    # What auto is on this table.
    with pytest.raises(InputError, match="'crossed' is named twice"):
        compare(records, ["crossed", "auto"])
    with pytest.raises(InputError, match="did you mean 'record'"):
        compare(records, MODELS, by="recrod")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="engine ml gives a point estimate"):
        compare(records, MODELS, engine="ml")
    with pytest.raises(InputError, match=r"refits must be zero or more, got -1"):
        compare(records, MODELS, refits=-1)
    (one_task,) = records.coords["task"][:1]
    alone = records.subset(records.table["task"].to_numpy() == one_task, name="alone")
    with pytest.raises(InputError, match=f"there is one task, {one_task}: without it nothing"):
        compare(alone, MODELS, by="task")
    with pytest.raises(InputError, match="the fit given for additive is of another table"):
        compare(table("additive"), MODELS, fits=compared.fits)
    with pytest.raises(InputError, match="the fit given for additive is of another spec"):
        compare(records, MODELS, fits={"additive": compared.fits["interaction"]})


def test_scores_of_models_are_compared_on_the_chosen_pairs(
    records: Records, compared: Comparison, tmp_path: Path
) -> None:
    pairs = records.table[["language", "task"]].drop_duplicates()
    few = pairs[pairs["task"] == records.coords["task"][0]].head(2)
    fits = {name: fit(records, name, pairs=few) for name in MODELS}
    found = compare(records, MODELS, pairs=few, fits=fits)
    # What is left out is a score: pairs have no say in its density.
    pd.testing.assert_frame_equal(found.table, compared.table)
    means = [one.ranking(detail=True).set_index("model")["score_mean"] for one in fits.values()]
    expected = means[0].corr(means[1].reindex(means[0].index), method="spearman")
    moved = found.moves.set_index("quantity").loc["standardised_score"]
    np.testing.assert_allclose(moved["spearman"], expected, rtol=1e-9)
    made = compare(records, MODELS, pairs=few)
    pd.testing.assert_frame_equal(made.moves, found.moves)
    for name in MODELS:
        asked, own, plain = (
            one.ranking(detail=True).set_index("model")["score_mean"].sort_index()
            for one in (fits[name], made.fits[name], compared.fits[name])
        )
        pd.testing.assert_series_equal(own, asked)
        assert (own - plain).abs().min() > 0.1
    with pytest.raises(InputError, match="has its scores on other language-task pairs .given.;"):
        compare(records, MODELS, fits=fits)
    folder = found.save(tmp_path / "out", figures=False)
    assert json.loads((folder / "run.json").read_text())["pairs"] == "given"
    with pytest.raises(InputError, match="holds a run with pairs"):
        compared.save(folder, figures=False)


def test_results_on_other_pairs_are_not_taken_for_those_asked_for(
    records: Records, compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compared.fits["additive"].save(f"results/{records.name}/additive-marginal-seed0", figures=False)
    wanted = [prepare(records, "additive")]
    assert list(find_fits(wanted)) == ["additive"]
    # No comparison depends on the margin.
    assert list(find_fits([prepare(records, "additive", margin=3.0)])) == ["additive"]
    two = tmp_path / "two.csv"
    records.table[["language", "task"]].head(2).to_csv(two, index=False)
    wanted_on_two = [prepare(records, "additive", pairs=two)]
    assert find_fits(wanted_on_two) == {}
    on_two = fit(records, "additive", pairs=two)
    on_two.save(f"results/{records.name}/additive-marginal-seed0-two", figures=False)
    kept = find_fits(wanted_on_two)
    assert kept["additive"].run["pairs"] == str(two)
    # Whatever lies in the default folder.
    on_two.save(f"results/{records.name}/additive-marginal-seed0", figures=False, force=True)
    assert find_fits(wanted) == {}


def test_the_command_uses_results_that_are_there(
    records: Records,
    compared: Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    records.to_csv(tmp_path / "scores.csv")
    compared.fits["additive"].save("results/scores/additive-marginal-seed0", figures=False)
    same = Records.from_frame(records.table, name="scores", mixed_scales="allow")
    assert list(find_fits(prepare(same, name) for name in MODELS)) == ["additive"]
    arguments = ["compare", "--benchmark", "scores.csv", "--models", "additive,interaction"]
    assert main([*arguments, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "interaction predicts a left-out record best" in shown
    folder = tmp_path / "results" / "scores" / "additive-interaction-by-record-compare-seed0"
    written = pd.read_csv(folder / "tables" / "comparison.csv")
    assert list(written.columns[:7]) == [
        *("spec", "elpd", "se", "elpd_diff", "diff_se", "p_eff", "n_bad_k"),
    ]
    np.testing.assert_allclose(written["elpd"], compared.table["elpd"], rtol=1e-9)
    assert {path.name for path in (folder / "tables").iterdir()} == {
        *("comparison.csv", "k_hats.csv", "moves.csv", "pointwise.csv", "routes.csv"),
    }
    assert (folder / "figures" / "comparison.png").stat().st_size > 10_000
    run = json.loads((folder / "run.json").read_text())
    assert run["models"] == {"additive": "marginal", "interaction": "marginal"}
    assert run["verdict"][0].startswith("interaction predicts")
    prepared = prepare_comparison(load("scores.csv"), MODELS)
    assert prepared.default_folder == folder.relative_to(tmp_path)
    expected = prepared.identity
    assert set(expected) == set(RUN_ID) - {"margin"}
    assert expected == {key: run[key] for key in expected}
    assert main([*arguments[:-1], ","]) == 2
    assert "--models has an empty name in ','" in capsys.readouterr().err
