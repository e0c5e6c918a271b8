"""Low-rank interactions: density by hand, what is identified, priors, predictions, refusals."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayeseval as be
from bayeseval.checks.gaussian import why_no_closed_form
from bayeseval.checks.prior import draw_prior, prior_tree
from bayeseval.design import Design, build_design, choose_model, restore_design
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import (
    low_rank_posterior,
    random_point,
    sampled_variables,
    to_posterior,
)
from bayeseval.engines._leave_out_mixture import leave_out_mixture, why_no_mixture
from bayeseval.engines.base import linear_predictor, pointwise_log_likelihood
from bayeseval.errors import BayesevalError, DesignError, EngineError
from bayeseval.estimands import derive, read_arrays
from bayeseval.estimands.cell_noise import read_measurement_noise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.correlations import model_correlations
from bayeseval.estimands.frames import draws_of
from bayeseval.estimands.plan_variances import read_plan_variances
from bayeseval.fitting.gate import Check, Gate, convergence_gate, gate_advice
from bayeseval.fitting.report.correlation_figure import correlations_figure
from bayeseval.fitting.report.tables import result_tables
from bayeseval.records import Records
from bayeseval.spec import ModelSpec, load_spec
from tests.helpers import assert_within_mcse

LANGUAGE, TASK = "low_rank:model:language", "low_rank:model:task"
LANGUAGE_SD, OF_MODEL = "sd_low_rank_model_language", "low_rank_model_language_of_model"


def spec(**keys: Any) -> ModelSpec:
    return load_spec({"name": "low", **keys})


def table(n_tasks: int = 1) -> Records:
    """Five models in seven languages, 32 or 126 records."""
    return be.simulate(
        "additive", n_languages=7, n_tasks=n_tasks, n_models=5, observed_share=0.9, seed=2
    ).records


def design(n_tasks: int = 1, **keys: Any) -> Design:
    return build_design(table(n_tasks), spec(**(keys or {"low_rank": {"model:language": 2}})))


BOTH = {"low_rank": {"model:language": 2, "model:task": 1}, "interactions": ["language:task"]}


def test_the_backends_have_the_density_computed_by_hand() -> None:
    made = design(4, **BOTH)
    rng = np.random.default_rng(3)
    density = pymc_engine.density_function(made)
    for _ in range(3):
        point = random_point(made, rng)
        ours, theirs = density(point), numpyro_engine.log_density(made, point)
        assert set(ours) == set(theirs) == {*sampled_variables(made), "score"}
        for name, value in ours.items():
            assert theirs[name] == pytest.approx(value, rel=1e-8, abs=1e-8), name
        for name in (LANGUAGE, TASK):
            term = made.term(name)
            model, other = (point[one] for one in term.drawn_loadings)
            sd = point[f"sd_{term.dim}"]
            assert model.shape == (term.rank, 5)
            assert np.abs(model.sum(axis=1)).max() < 1e-12
            # Zero-sum normals have one degree of freedom less than values.
            prior = -0.5 * (model**2).sum() - term.rank * 4 * 0.5 * np.log(2.0 * np.pi)
            assert ours[term.drawn_loadings[0]] == pytest.approx(prior, rel=1e-10)
            assert ours[term.drawn_loadings[1]] == pytest.approx(stats.norm.logpdf(other).sum())
            scale = made.outcome.linear.std(ddof=1) / 2.0
            assert ours[f"sd_{term.dim}"] == pytest.approx(
                stats.halfnorm.logpdf(sd, 0, scale).sum()
            )
        eta = np.full(made.n_records, point["intercept"])
        posterior = to_posterior(made, point)
        for term in made.terms:
            if not term.rank:
                eta += posterior[term.effect][term.index]
                continue
            model, other = (point[one] for one in term.drawn_loadings)
            at, to = (term.members[factor][term.index] for factor in term.factors)
            for r in range(term.rank):
                eta += point[f"sd_{term.dim}"][r] * model[r, at] * other[r, to]
        np.testing.assert_allclose(linear_predictor(made, posterior), eta, rtol=1e-12)
        likelihood = pointwise_log_likelihood(made, posterior).sum()
        assert ours["score"] == pytest.approx(likelihood, rel=1e-8)


def test_the_comparison_sees_a_loading_that_differs() -> None:
    """Negative control: the loadings of languages moved by a thousandth."""
    made = design()
    point = random_point(made, np.random.default_rng(4))
    name = made.term(LANGUAGE).drawn_loadings[1]
    moved = {**point, name: point[name] * 1.001}
    ours, theirs = (numpyro_engine.log_density(made, at) for at in (point, moved))
    assert ours["score"] != pytest.approx(theirs["score"], rel=1e-8)
    assert ours[name] != pytest.approx(theirs[name], rel=1e-8)


def test_signs_order_and_rotation_of_the_products_do_not_change_what_is_reported() -> None:
    made = design()
    term = made.term(LANGUAGE)
    model, other = term.drawn_loadings
    rng = np.random.default_rng(5)
    drawn = {model: rng.standard_normal((2, 5)), other: rng.standard_normal((2, 7))}
    sd = np.array([2.0, 5.0])
    first = low_rank_posterior(term, sd, drawn)
    assert first[LANGUAGE_SD].tolist() == [5.0, 2.0]
    np.testing.assert_allclose(
        first[term.effect].reshape(5, 7), 2.0 * np.outer(drawn[model][0], drawn[other][0])
        + 5.0 * np.outer(drawn[model][1], drawn[other][1]),
    )  # fmt: skip
    flipped = low_rank_posterior(term, sd, {k: [[-1.0], [1.0]] * v for k, v in drawn.items()})
    swapped = low_rank_posterior(term, sd[::-1], {k: v[::-1] for k, v in drawn.items()})
    for again in (flipped, swapped):
        np.testing.assert_allclose(again[term.effect], first[term.effect], rtol=1e-12)
        np.testing.assert_array_equal(again[LANGUAGE_SD], first[LANGUAGE_SD])
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    equal = np.array([3.0, 3.0])
    turned = low_rank_posterior(term, equal, {k: turn @ v for k, v in drawn.items()})
    straight = low_rank_posterior(term, equal, drawn)
    np.testing.assert_allclose(turned[term.effect], straight[term.effect], rtol=1e-10, atol=1e-12)
    # Negative control: the sign of one of the two loadings.
    wrong = low_rank_posterior(term, sd, {**drawn, model: -drawn[model]})
    assert np.abs(wrong[term.effect] - first[term.effect]).max() > 1.0


def test_the_gate_looks_at_effects_and_not_at_loadings() -> None:
    """Loadings of two chains that differ in sign have an R-hat far from 1, effects have not."""
    made = design()
    rng = np.random.default_rng(6)
    drawn = draw_prior(made, rng, 800)
    posterior = {k: v.reshape(2, 400, *v.shape[1:]).copy() for k, v in drawn.items()}
    for name in made.term(LANGUAGE).loadings:
        posterior[name] = np.abs(posterior[name]) * np.array([1.0, -1.0])[:, None, None, None]

    def gate(names: list[str]) -> Any:
        tree = prior_tree(made, rng, 800)
        group = tree["posterior"].to_dataset().isel(chain=[0, 0], draw=slice(400))
        for name in names:
            group[name] = (group[name].dims, posterior[name])
        tree["posterior"] = group
        return convergence_gate(tree)

    effect = made.term(LANGUAGE).effect
    everything = [effect, *made.term(LANGUAGE).loadings, LANGUAGE_SD, *drawn]
    checks = {check.name: check for check in gate(everything).checks}
    assert "_of_" not in checks["r_hat"].where
    assert checks["r_hat"].value < 1.1
    posterior[effect] = posterior[effect] + np.array([0.0, 50.0])[:, None, None]
    failed = {check.name: check for check in gate(everything).checks}["r_hat"]
    assert failed.value > 1.5
    assert failed.where.startswith(effect)


def test_prior_effects_have_the_documented_scale() -> None:
    made = design()
    drawn = draw_prior(made, np.random.default_rng(7), 6000)
    sd = drawn[LANGUAGE_SD]
    assert (sd[:, 0] >= sd[:, 1]).all()
    scale = made.outcome.linear.std(ddof=1) / 2.0
    # The squares of two half-normal sds, whatever their order.
    assert_within_mcse((sd**2).sum(axis=1), 2.0 * scale**2)
    effect = drawn[made.term(LANGUAGE).effect].reshape(-1, 5, 7)
    np.testing.assert_allclose(effect.sum(axis=1), 0.0, atol=1e-10)
    unit = effect[:, 2, 3] ** 2 / (sd**2).sum(axis=1)
    assert_within_mcse(unit, 4.0 / 5.0)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(unit, 1.0)


def test_a_fit_is_read_back_and_predicts_new_levels_from_their_populations() -> None:
    made = design()
    tree = prior_tree(made, np.random.default_rng(8), 4000)
    again = restore_design(tree, made.spec)
    term, restored = made.term(LANGUAGE), again.term(LANGUAGE)
    assert (restored.rank, restored.labels) == (2, term.labels)
    np.testing.assert_array_equal(restored.index, term.index)
    arrays = read_arrays(tree)
    cells = arrays.term(LANGUAGE)
    assert cells is not None and cells.loadings is not None
    np.testing.assert_allclose(cells.sd**2, (cells.loadings.sd**2).sum(axis=1))

    rows = [("m0", "l1"), ("m0", "new"), ("m1", "new"), ("x", "l1"), ("x", "new"), ("y", "l1")]
    asked = AskedCells(
        labels={"model": tuple(m for m, _ in rows), "language": tuple(one for _, one in rows),
                "task": ("t0",) * len(rows)},
        covariates={}, n_items=np.full(6, np.nan), se=np.full(6, np.nan),
        n_seeds=np.full(6, np.nan),
    )  # fmt: skip
    parts = list(predict_cells(arrays, asked, read_measurement_noise(tree, arrays), seed=1))
    order = np.argsort(np.concatenate([part.cells for part in parts]))
    eta = np.concatenate([part.expected for part in parts], axis=1)[:, order]
    known = arrays.intercept + arrays.main["language"][:, 1] + arrays.main["model"][:, 0]
    np.testing.assert_allclose(eta[:, 0], known + cells.effect[:, 1], rtol=1e-10)
    # What differs between two models in one new language is their own, times its loadings.
    model = cells.loadings.by_factor["model"]
    difference = eta[:, 1] - eta[:, 2] - (arrays.main["model"][:, 0] - arrays.main["model"][:, 1])
    expected = ((model[:, :, 0] - model[:, :, 1]) ** 2).sum(axis=1)
    assert_within_mcse(difference**2 / expected, 1.0)
    # Negative control: were they independent, the squares of both would add up.
    with pytest.raises(AssertionError, match="MCSE away"):
        apart = (model[:, :, :2] ** 2).sum(axis=(1, 2))
        assert_within_mcse(difference**2 / apart, 1.0)
    # Two new models in one known language: main effects, and loadings around a common mean.
    both = eta[:, 3] - eta[:, 5]
    at = (cells.loadings.by_factor["language"][:, :, 1] * cells.loadings.sd) ** 2
    variance = 2.0 * (arrays.main_sd["model"] ** 2 + at.sum(axis=1))
    assert_within_mcse(both**2 / variance, 1.0)


def test_left_out_densities_are_those_of_the_dense_covariance_given_the_loadings() -> None:
    made = design()
    drawn = draw_prior(made, np.random.default_rng(10), 3)
    assert why_no_mixture(made) is None
    found = leave_out_mixture(made, drawn)
    language, model = (made.factor_index[factor] for factor in ("language", "model"))
    prior = made.priors["intercept"]
    assert prior.loc is not None and prior.scale is not None
    error = made.outcome.linear - prior.loc

    def centred(index: Any, n: int) -> Any:
        return (np.eye(n) - 1.0 / n)[np.ix_(index, index)]

    def by_hand(i: int, *, given: bool) -> Any:
        """Rasmussen and Williams (2006), section 5.4.2."""
        sds, loadings = drawn[LANGUAGE_SD][i], drawn[f"{OF_MODEL[:-5]}language"][i]
        of_models, v = centred(model, 5), np.full((made.n_records,) * 2, prior.scale**2)
        v += drawn["sd_language"][i] ** 2 * centred(language, 7) + np.diag(
            np.full(made.n_records, drawn["sd_residual"][i] ** 2)
        )
        v += drawn["sd_model"][i] ** 2 * of_models
        for sd, other in zip(sds, loadings, strict=True):
            # Of independent cells, where the loadings are not given.
            both = np.outer(other[language], other[language])
            v += sd**2 * of_models * (both if given else language[:, None] == language)
        inverse = np.linalg.inv(v)
        variance = 1.0 / np.diag(inverse)
        return stats.norm.logpdf((inverse @ error) * variance, scale=np.sqrt(variance))

    for i in range(3):
        np.testing.assert_allclose(found[i], by_hand(i, given=True), rtol=1e-8, atol=1e-8)
        # Negative control: a cell's effect independent of those in other languages.
        assert np.abs(found[i] - by_hand(i, given=False)).max() > 0.01


def derived(tree: xr.DataTree) -> xr.DataTree:
    additions, estimands = derive(tree, seed=3)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
    tree["estimands"] = xr.DataTree(estimands)
    return tree


def test_correlations_of_models_are_those_of_their_effects() -> None:
    made = design(4, low_rank={"model:language": 2}, interactions=["model:language"])
    tree = derived(prior_tree(made, np.random.default_rng(11), 40))
    tables = result_tables(tree, gate_status="pass", ci_prob=0.9)
    found = tables["tables/model_correlations.csv"].set_index(["model_a", "model_b"])
    assert list(found.index) == list(combinations([f"m{i}" for i in range(5)], 2))
    posterior = tree["posterior"].to_dataset()
    low = draws_of(posterior["low_rank_model_language_effect"]).reshape(40, 5, 7)
    own = draws_of(posterior["model_language_effect"])
    both = low.copy()
    for cell, label in enumerate(posterior["model_language"].to_numpy()):
        model, language = (int(part[1:]) for part in label.split("|"))
        both[:, model, language] += own[:, cell]
    # Nothing is drawn: every model has a score in every language.
    assert own.shape == (40, 35)
    by_draw = np.array([np.corrcoef(one) for one in both])
    for (a, b), row in found.iterrows():
        values = by_draw[:, int(a[1:]), int(b[1:])]
        assert row["correlation_mean"] == pytest.approx(values.mean(), rel=1e-10)
        assert row["correlation_lower"] == pytest.approx(np.quantile(values, 0.05), rel=1e-10)
        assert row["p_positive"] == (values > 0.0).mean()
    # Negative control: without the effects of model:language they are others.
    alone = np.array([np.corrcoef(one) for one in low]).mean(axis=0)
    assert abs(found["correlation_mean"].iloc[0] - alone[0, 1]) > 1e-3
    # What a model adds in all languages does not matter; nor does a model without differences.
    np.testing.assert_allclose(model_correlations(low + 5.0, 1), model_correlations(low, 1))
    assert model_correlations(np.ones((2, 3, 4)), 0).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_figure_of_correlations_puts_similar_models_next_to_each_other() -> None:
    groups = {"a": 1.0, "b": -1.0, "c": 1.0, "d": -1.0}
    rows = [
        {"model_a": a, "model_b": b, "correlation_mean": 0.9 * groups[a] * groups[b]}
        for a, b in combinations(groups, 2)
    ]
    table = pd.DataFrame(rows).assign(correlation_lower=-1.0, correlation_upper=1.0, ci_prob=0.95)
    table.loc[0, "correlation_upper"] = -0.5
    figure = correlations_figure(table, subtitle="x", gate_status="pass")
    axes = figure.axes[0]
    labels = [label.get_text().split()[0] for label in axes.get_yticklabels()]
    assert {frozenset(labels[:2]), frozenset(labels[2:])} == {frozenset("ac"), frozenset("bd")}
    values = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert values[0, 1] == values[3, 2] == 0.9
    assert values[labels.index("a"), labels.index("d")] == -0.9
    assert np.isnan(np.diag(values)).all()
    # Only a and b have an interval without zero: two cells, one on either side of the diagonal.
    assert [text.get_text() for text in axes.texts] == ["-0.9", "-0.9"]
    places = {text.get_position() for text in axes.texts}
    a, b = labels.index("a"), labels.index("b")
    assert places == {(a, b), (b, a)}


def test_other_models_have_no_correlations() -> None:
    made = design(4, interactions=["model:language"])
    tree = derived(prior_tree(made, np.random.default_rng(12), 5))
    assert "tables/model_correlations.csv" not in result_tables(tree, gate_status="pass")


def test_a_plan_counts_low_rank_differences_between_languages() -> None:
    keys = {"low_rank": {"model:language": 1}}
    tree = prior_tree(design(4, **keys), np.random.default_rng(9), 50)
    found = read_plan_variances(tree)
    arrays = read_arrays(tree)
    np.testing.assert_allclose(found.model_language, arrays.cells[0].sd ** 2)
    assert not any("no term model:language" in note for note in found.notes)
    assert any("no term model:task" in note for note in found.notes)


def test_a_spec_keeps_its_hash_and_survives_a_round_trip() -> None:
    low = spec(low_rank={"model:task": 1, "model:language": 3})
    assert low.terms == ("language", "task", "model", LANGUAGE, TASK)
    assert low.ranks == {LANGUAGE: 3, TASK: 1}
    assert load_spec(low.to_dict()) == low
    assert low.content_hash != spec(low_rank={"model:task": 1}).content_hash
    assert "low_rank" not in load_spec("crossed").to_dict()
    # Results of earlier versions have this hash in their run.json.
    assert load_spec("additive").content_hash[:12] == "a73d020e8f1b"


def test_factors_has_the_interactions_of_auto() -> None:
    assert choose_model("factors", table(1)).spec.interactions == ()
    several = table(4)
    found = choose_model("factors", several).spec
    assert found.interactions == choose_model("auto", several).spec.interactions != ()
    assert (found.name, found.low_rank) == ("factors", {"model:language": 2})
    assert not choose_model("auto", several).spec.low_rank
    with pytest.raises(DesignError, match="^simulated-additive: the interactions auto depend on"):
        build_design(several, load_spec("factors"))


SUMS = pd.DataFrame(
    [
        {"model": f"m{m}", "language": f"l{n}", "task": "t", "score": 40.0 + 3.1 * m + 1.7 * n**2}
        for m in range(6)
        for n in range(6)
    ]
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "pair": ({"language:task": 1}, "low_rank: expected 'model:language' or 'model:task', got"),
    "zero": ({"model:task": 0}, "low_rank.model:task: expected a number greater than or equal"),
    "many": ({"model:task": 11}, "low_rank.model:task: expected a number less than or equal to"),
    "one level": ({"model:task": 1}, "low_rank:model:task needs at least two levels .* task has"),
    "levels": ({"model:language": 5}, "has rank 5, and 5 models and 7 languages have effects of"),
    "scores": ({"model:language": 3}, "of rank 3 has 24 free values for 32 scores of 5 models"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_estimated_is_refused_in_one_line(case: str) -> None:
    low_rank, message = REFUSED[case]
    with pytest.raises(BayesevalError, match=message) as caught:
        design(low_rank=low_rank)
    assert "\n" not in str(caught.value)


def test_scores_that_the_other_terms_reproduce_are_refused() -> None:
    with pytest.raises(DesignError, match="intercept \\+ language \\+ model reproduces all 36"):
        build_design(
            Records.from_frame(SUMS, name="sums", units=(0, 100)),
            spec(low_rank={"model:language": 1}),
        )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"population": "models"}, "low_rank: loadings sum to zero over the models of the table"),
        ({"centring": {LANGUAGE: "centred"}}, "centring: the model has no term 'low_rank:model"),
        ({"interactions": ["auto", "model:task"]}, "interactions: auto stands alone"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(BayesevalError, match=message):
        spec(low_rank={"model:language": 1}, **keys)


def test_nothing_that_needs_jointly_normal_effects_is_used_or_recommended() -> None:
    assert why_no_closed_form(design()) == "products of loadings are not normal given the sds"
    assert why_no_closed_form(design(interactions=[])) is None
    gate = Gate("fail", (Check("r_hat", 1.02, 1.01, "sd_model", passed=False),), 1)
    run = {"engine": "numpyro", "settings": {"draws": 100}, "spec": {"likelihood": "normal"}}
    assert "engine='marginal'" in gate_advice(gate, run)
    run["spec"] = spec(low_rank={"model:language": 1}).to_dict()
    assert gate_advice(gate, run).endswith("or with a simpler model.")


def test_engines_that_integrate_effects_out_refuse_products() -> None:
    for engine, message in (("marginal", "products of loadings"), ("ml", LANGUAGE)):
        with pytest.raises(EngineError, match=message):
            be.fit(table(), spec(low_rank={"model:language": 1}), engine=engine)
