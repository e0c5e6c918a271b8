"""Related languages in the engines: the density written out in full, and draws of the effects.

That the log densities of PyMC and NumPyro agree is a test of all shipped models, `test_density`.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

from bayeseval import Records
from bayeseval.checks.prior import draw_prior
from bayeseval.design import Design, Relations, build_design, restore_design
from bayeseval.engines import SamplerSettings, choose_engine, to_tree
from bayeseval.engines._density import to_posterior
from bayeseval.engines._leave_out import leave_out_log_density
from bayeseval.engines._leave_out_mixture import leave_out_mixture
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.engines._marginal_nuts import log_posterior_function
from bayeseval.engines.marginal import sample
from bayeseval.engines.ml import sample as maximum_likelihood
from bayeseval.errors import DesignError, EngineError
from bayeseval.languages.relations import by_family, by_place, by_script
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec
from tests.helpers import assert_within_mcse

CODES = ("de", "nl", "es", "ja", "ru", "uk")
ALL: dict[str, Any] = {"place": "1000 km", "family": "glottolog", "script": True}
SDS = {
    **{"sd_language": 3.0, "sd_place": 5.0, "sd_family": 2.0, "sd_script": 4.0},
    **{"sd_task": 6.0, "sd_model": 7.0, "sd_residual": 2.5},
}
# The backends order their sums differently; the project's bound.
REL = 1e-8


def records_of(seed: int = 2) -> Records:
    frame = simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=seed).records.table
    labels = dict(zip(sorted(set(frame["language"])), CODES, strict=True))
    return Records.from_frame(frame.assign(language=frame["language"].map(labels)), name="t")


RECORDS = records_of()


def design_of(languages: dict[str, Any] | None = None, **more: Any) -> Design:
    spec = {"name": "x", "languages": ALL if languages is None else languages, **more}
    return build_design(RECORDS, load_spec(spec))


def indicators(index: np.ndarray, size: int) -> np.ndarray:
    return np.eye(size)[index]


def covariances(design: Design, sds: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Prior covariance of the languages' effects and of the scores, written out in full."""
    labels = design.coords["language"]
    n = len(labels)
    kernels = {"place": by_place(labels, km=1000), "family": by_family(labels)}
    kernels["script"] = by_script(labels)
    effects = sds["sd_language"] ** 2 * np.eye(n)
    for name, related in kernels.items():
        effects = effects + sds.get(f"sd_{name}", 0.0) ** 2 * related.matrix
    centre = np.eye(n) - 1.0 / n
    effects = centre @ effects @ centre
    language = indicators(design.factor_index["language"], n)
    total = language @ effects @ language.T
    for factor in ("task", "model"):
        size = len(design.coords[factor])
        own = indicators(design.factor_index[factor], size) @ (np.eye(size) - 1.0 / size)
        total += sds[f"sd_{factor}"] ** 2 * own @ own.T
    total += float(design.priors["intercept"].scale or 0.0) ** 2
    return effects, total + sds["sd_residual"] ** 2 * np.eye(design.n_records)


def log_density(design: Design, sds: dict[str, float]) -> float:
    mean = np.full(design.n_records, float(design.priors["intercept"].loc or 0.0))
    return float(stats.multivariate_normal(mean, covariances(design, sds)[1]).logpdf(design.score))


def phi_of(design: Design, sds: dict[str, float]) -> np.ndarray:
    scales = build_marginal(design).scales
    return scales.unconstrained(np.array([[sds[name] for name in scales.names]]))


@pytest.mark.parametrize("languages", [ALL, {"place": 300}, {"family": "glottolog"}])
def test_the_marginal_density_is_that_of_the_dense_normal(languages: dict[str, Any]) -> None:
    design = design_of(languages)
    marginal = build_marginal(design)
    assert marginal.scales.names == tuple(name for name in design.priors if "sd_" in name)
    used = {name: SDS[name] for name in marginal.scales.names}
    value = marginal.log_likelihood(phi_of(design, SDS))[0]
    if languages == {"place": 300}:
        # Not what 1000 km would give: the distance is read.
        assert value != pytest.approx(log_density(design, used), rel=1e-4)
        return
    assert value == pytest.approx(log_density(design, used), rel=REL)
    # The negative control: languages that are alike are not independent ones.
    wrong = {**used, "sd_family": 0.0}
    assert value != pytest.approx(log_density(design, wrong), rel=1e-4)


def test_nuts_on_the_marginal_density_has_the_same_density() -> None:
    design = design_of()
    phi = phi_of(design, SDS)
    with jax.enable_x64(True):
        theirs = float(jax.jit(log_posterior_function(build_marginal(design)))(phi[0]))
    assert theirs == pytest.approx(build_marginal(design).log_posterior(phi)[0], rel=REL)


def test_effects_are_drawn_from_their_exact_distribution() -> None:
    design = design_of()
    n = 20_000
    drawn = build_marginal(design).effects(
        phi_of(design, SDS), np.array([n]), seed=np.random.SeedSequence(1)
    )["language"]
    effects, total = covariances(design, SDS)
    language = indicators(design.factor_index["language"], len(CODES))
    gain = effects @ language.T @ np.linalg.inv(total)
    mean = gain @ (design.score - float(design.priors["intercept"].loc or 0.0))
    covariance = effects - gain @ language @ effects
    np.testing.assert_allclose(drawn.sum(axis=1), 0.0, atol=1e-9)
    for level in range(len(CODES)):
        assert_within_mcse(drawn[:, level], mean[level])
        assert_within_mcse((drawn[:, level] - mean[level]) ** 2, covariance[level, level])
    product = (drawn[:, 0] - mean[0]) * (drawn[:, 1] - mean[1])
    assert_within_mcse(product, covariance[0, 1])


def test_left_out_densities_are_those_of_the_dense_normal() -> None:
    design = design_of()
    posterior = {name: np.array([value]) for name, value in SDS.items()}
    by_language = leave_out_log_density(design, posterior, by="language")[0]
    whole, kept = log_density(design, SDS), design.factor_index["language"] != 2
    _, total = covariances(design, SDS)
    mean = np.full(int(kept.sum()), float(design.priors["intercept"].loc or 0.0))
    rest = stats.multivariate_normal(mean, total[np.ix_(kept, kept)]).logpdf(design.score[kept])
    assert by_language[2] == pytest.approx(whole - rest, rel=REL)
    # Records, by the route of other likelihoods, which has its own code for the prior.
    tree = to_tree(design, sample(design, SamplerSettings(draws=4, chains=1)), engine="marginal")
    draws = {
        str(name): values.to_numpy()[0] for name, values in tree["posterior"].data_vars.items()
    }
    sds = {name: draws[name] for name in SDS}
    np.testing.assert_allclose(
        leave_out_mixture(design, draws), leave_out_log_density(design, sds), rtol=REL
    )


def test_effects_of_the_offsets_have_the_covariance_of_the_spec() -> None:
    design = design_of()
    unit = np.eye(len(CODES)) - 1.0 / len(CODES)
    point = {name: np.full(len(CODES), value) for name, value in SDS.items()}
    drawn = {**point, "intercept": np.zeros(len(CODES)), "language_effect_offset": unit}
    for factor in ("task", "model"):
        term = design.term(factor)
        name = term.effect if term.centred else term.offset
        drawn[name] = np.zeros((len(CODES), term.n_levels))
    rows = to_posterior(design, drawn)["language_effect"]
    np.testing.assert_allclose(rows.T @ rows, covariances(design, SDS)[0], atol=1e-9)


def test_the_marginal_engine_fits_it_and_maximum_likelihood_does_not() -> None:
    design = design_of({"place": 1000})
    assert choose_engine("auto", design).name == "marginal"
    with pytest.raises(EngineError):
        maximum_likelihood(design, SamplerSettings())


def test_prior_draws_have_related_effects() -> None:
    design = design_of()
    draws = draw_prior(design, np.random.default_rng(3), 20_000)
    effects, sds = draws["language_effect"], ("sd_language", "sd_place", "sd_family", "sd_script")
    mean_square = {name: float(np.mean(draws[name] ** 2)) for name in sds}
    expected, _ = covariances(design, {**SDS, **{k: v**0.5 for k, v in mean_square.items()}})
    assert_within_mcse(effects[:, 0] * effects[:, 1], expected[0, 1])
    assert_within_mcse(effects[:, 0] ** 2, expected[0, 0])


def test_restored_from_a_result_it_is_the_same() -> None:
    design = design_of()
    tree = to_tree(design, sample(design, SamplerSettings(draws=4, chains=1)), engine="marginal")
    again = restore_design(tree, design.spec).term("language").relations
    theirs = design.term("language").relations
    assert isinstance(again, Relations) and isinstance(theirs, Relations)
    assert again.used == theirs.used == ("place", "family", "script")
    np.testing.assert_array_equal(again.matrices, theirs.matrices)


def test_languages_that_are_not_known_or_related_alike_are_refused() -> None:
    frame = RECORDS.table
    odd = Records.from_frame(frame.replace({"language": {"de": "ours"}}), name="t")
    with pytest.raises(DesignError, match=r"t: languages: 'ours': no known language.*ISO 639"):
        build_design(odd, load_spec({"name": "x", "languages": {"place": 1000}}))
    latin = Records.from_frame(frame[frame["language"].isin(["de", "nl", "es"])], name="t")
    line = "all 3 languages are related alike by script.*remove script from languages"
    with pytest.raises(DesignError, match=line):
        build_design(latin, load_spec({"name": "x", "languages": {"script": True}}))
