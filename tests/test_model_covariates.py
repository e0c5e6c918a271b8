"""Covariates of models, from the file to predictions of new models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import bayeseval as be
from bayeseval.design import build_design
from bayeseval.engines import Draws, SamplerSettings, to_tree
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.errors import DesignError, InputError, addressing_command_line
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import MeasurementNoise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.covariates import covariates_table, read_slopes, variance_by_facet
from bayeseval.estimands.effects import read_effects
from bayeseval.estimands.inference import gap_is_estimated
from bayeseval.estimands.plan_variances import read_plan_variances
from bayeseval.fitting.covariates import covariate_names, find_covariates, given_covariate
from bayeseval.fitting.fitted import Fit
from bayeseval.records import Covariate
from bayeseval.spec import load_spec
from tests.engines.exact_gaussian import write_out

MODELS = tuple(f"m{i:02}" for i in range(10))
LOG_SIZE = np.random.default_rng(3).uniform(28, 40, len(MODELS))
LANGUAGES = ("en", "de", "sw", "fr")
SPEC = load_spec({"name": "size", "covariates": ["parameters"]})
N = 40_000


@pytest.fixture(scope="module")
def records() -> be.Records:
    """Scores that rise by 3 with every doubling of the parameters."""
    rng = np.random.default_rng(5)
    rows = [
        (model, language, "t", 3 * size + 2 * j + own + rng.normal(0, 2))
        for model, size in zip(MODELS, LOG_SIZE, strict=True)
        for own in [rng.normal(0, 3)]
        for j, language in enumerate(LANGUAGES)
        if rng.random() < 0.9
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    return be.Records.from_frame(frame, name="sizes")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of these models and of two without records."""
    path = tmp_path_factory.mktemp("facts") / "models.csv"
    lines = [
        f"{model},{2**size:.6g},{2020 + i % 4},{'en de' if i % 2 else 'sw'}"
        for i, (model, size) in enumerate(zip(MODELS, LOG_SIZE, strict=True))
    ]
    lines += ["org/new,1T,2025-01,en sw cy", "empty,,2025,"]
    path.write_text("\n".join(["model,parameters,released,trained_on", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def fitted(records: be.Records, file: Path) -> Fit:
    spec = {"name": "facts", "covariates": ["parameters", "trained_on"]}
    return be.fit(records, spec, covariate=file, draws=400, chains=2)


def known(values: np.ndarray) -> Covariate:
    return Covariate("parameters", "model", (), MODELS, values)


def test_a_table_of_models_has_all_covariates_of_a_model(records: be.Records, file: Path) -> None:
    two = load_spec({"name": "two", "covariates": ["released", "parameters"]})
    assert [one.name for one in find_covariates(records, two, file)] == ["released", "parameters"]
    assert covariate_names(file) == ("parameters", "released", "trained_on")
    auto = be.fit(records, covariate=file, draws=4, chains=1, progress=False).spec
    assert [term.name for term in auto.covariates] == ["parameters", "released", "trained_on"]
    with pytest.raises(InputError, match=r"no column 'params'; did you mean 'parameters'\?"):
        find_covariates(records, load_spec({"name": "x", "covariates": ["params"]}), file)


def test_the_table_says_what_the_slope_explains_of_models(fitted: Fit) -> None:
    table = covariates_table(fitted.data).set_index("covariate")
    assert table["by"].to_dict() == {"parameters": "model", "trained_on": "model:language"}
    # Without model:language, the order of the sds of gaps would follow from trained_on alone.
    assert not gap_is_estimated(read_arrays(fitted.data))
    row, posterior = table.loc["parameters"], fitted.data["posterior"]
    # Raw slopes are per doubling: the simulated one is 3.
    assert row["raw_slope_lower"] < 3 < row["raw_slope_upper"]
    x = (LOG_SIZE - LOG_SIZE.mean()) / LOG_SIZE.std(ddof=1)
    slope, sd = (posterior[name].to_numpy().ravel() for name in ("parameters_slope", "sd_model"))
    effect = posterior["model_effect"].transpose("chain", "draw", "model").to_numpy()
    spread = slope**2
    share = spread / (spread + sd**2)
    finite = spread / (spread + effect.reshape(len(slope), -1).var(axis=1, ddof=1))
    assert row["explained_mean"] == pytest.approx(share.mean(), rel=1e-4)
    assert row["explained_finite_mean"] == pytest.approx(finite.mean(), rel=1e-4)
    assert row["covariate_mean"] == pytest.approx(LOG_SIZE.mean(), abs=1e-4)
    # Standardised values have the sample sd of one.
    assert row["sd_mean"] == pytest.approx(np.abs(slope).mean(), rel=1e-4)
    found, _ = read_slopes(posterior.to_dataset(), fitted.data["constant_data"].to_dataset())
    facets = variance_by_facet(found)
    assert list(facets) == ["model"]
    np.testing.assert_allclose(facets["model"], slope**2 * np.mean(x**2), rtol=1e-4)
    assert given_covariate(fitted.run) == fitted.run["covariates"]["parameters"]["source"]
    assert fitted.run["covariates"]["parameters"]["n_models"] == len(MODELS) + 2


def test_scores_contain_the_covariate_and_its_values_make_no_gap(records: be.Records) -> None:
    fit = be.fit(records, SPEC, covariate=known(LOG_SIZE), draws=100, chains=1)
    posterior, arrays = fit.data["posterior"], read_arrays(fit.data)
    x = (LOG_SIZE - LOG_SIZE.mean()) / LOG_SIZE.std(ddof=1)
    slope = posterior["parameters_slope"].to_numpy()[0, :, None]
    effects = posterior["model_effect"].transpose(..., "model").to_numpy()[0]
    expected = posterior["intercept"].to_numpy()[0, :, None] + effects + slope * x
    cells = pd.DataFrame({"model": list(MODELS) * 4, "language": np.repeat(LANGUAGES, 10)})
    drawn = fit.predict(cells.assign(task="t"), draws=True)["expected"].to_numpy()
    scores = drawn.reshape(-1, 4, 10).mean(axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert not gap_is_estimated(arrays)
    # The effects of the planner are the same.
    language, model = (index.reshape(-1) for index in np.indices((4, 10)))
    at = np.array([records.coords["language"].index(one) for one in LANGUAGES])[language]
    means = read_effects(arrays, seed=0).predictor(model, at, np.zeros(40, dtype=int))
    np.testing.assert_allclose(means, drawn.reshape(-1, 40).mean(axis=0), rtol=1e-9)
    plan = read_plan_variances(fit.data).model
    spread = slope[:, 0] ** 2 * np.mean(x**2)
    np.testing.assert_allclose(plan, posterior["sd_model"].to_numpy()[0] ** 2 + spread, rtol=1e-9)
    with pytest.raises(InputError, match="has no covariate of languages and does not relate them"):
        be.forecast(fit)


def test_forecasts_leave_covariates_of_models_aside(fitted: Fit) -> None:
    made = be.forecast(fitted, check=False)
    new = made.table[~made.table["observed"]]
    assert list(new["language"]) == ["cy"]
    assert "parameters" not in new.columns
    # No model of the table lists Welsh.
    assert list(new["trained_on"]) == [0.0]


def test_a_new_model_has_the_dense_conditional_distribution(records: be.Records) -> None:
    """Given the sds: slope times its value, and the variance of an effect that is not known."""
    design = build_design(records, SPEC, [known(LOG_SIZE)])
    dense, marginal = write_out(design), build_marginal(design)
    sds = {"sd_language": 1.5, "sd_model": 4.0, "sd_residual": 2.0}
    phi = marginal.scales.unconstrained(np.array([[sds[n] for n in marginal.scales.names]]))
    effects = marginal.effects(phi, np.array([N]), seed=np.random.SeedSequence(1))
    posterior = {name: np.full((1, N), value) for name, value in sds.items()}
    posterior |= {name: effects[name].reshape(1, N) for name in ("intercept", "parameters_slope")}
    posterior |= {term.effect: effects[term.name][None] for term in design.terms}
    drawn = Draws(posterior, {}, SamplerSettings(draws=N, chains=1))
    arrays = read_arrays(to_tree(design, drawn, engine="marginal"))
    raw = 41.0
    x = (raw - LOG_SIZE.mean()) / LOG_SIZE.std(ddof=1)
    none = np.full(1, np.nan)
    labels = {"model": ("new",), "language": ("sw",), "task": ("t",)}
    asked = AskedCells(labels, {"parameters": (np.array([x]), np.zeros(1))}, none, none, none)
    noise = MeasurementNoise({}, {}, {}, {}, {}, None)
    (block,) = predict_cells(arrays, asked, noise, seed=2)
    # Without the library's effects: models and languages as free levels, their means taken off.
    row = np.zeros(dense.columns.shape[1])
    row[dense.place["intercept"]] = 1.0
    row[dense.place["parameters_slope"]] = x
    at = records.coords["language"].index("sw")
    row[dense.place["language"]] = dense.contrast["language"][at]
    mean, covariance = dense.conditional(sds)
    sd = np.sqrt(row @ covariance @ row + 4.0**2 * (1 + 1 / len(MODELS)))
    assert block.expected.mean() == pytest.approx(row @ mean, abs=5 * sd / N**0.5)
    assert block.expected.std() == pytest.approx(sd, rel=5 / (2 * N) ** 0.5)
    # Negative control: without its value the mean is another one.
    assert abs(mean[dense.place["parameters_slope"]][0] * x) > 10 * sd / N**0.5


def test_new_models_need_their_values(fitted: Fit, tmp_path: Path) -> None:
    cells = pd.DataFrame({"model": ["new", "m01"], "language": ["cy", "cy"], "task": ["t", "t"]})
    table = fitted.predict(cells, new=["model", "language"])
    notes = " ".join(table.attrs["notes"])
    assert "parameters: model 'new' is read as 'org/new'" in notes
    assert "has no value" not in notes
    for missing in ("empty", "nwe"):
        line = rf"has no value for the model '{missing}' in .*models.csv.*missing: model"
        with pytest.raises(InputError, match=line) as caught:
            fitted.predict(cells.assign(model=[missing, "m01"]), new=["model", "language"])
        # A row without a value is no slip in a name.
        assert "did you mean" not in str(caught.value)
    other = tmp_path / "other.csv"
    other.write_text("model,parameters,trained_on\nnew,1T,en sw cy\n")
    with pytest.raises(InputError, match=r"trained_on has no value for the model 'm01' in .*other"):
        fitted.predict(cells, new=["model", "language"], covariate=other)
    other.write_text("model,parameters,trained_on\nnew,1T,en sw cy\nm01,,en de\n")
    same = fitted.predict(cells, new=["model", "language"], covariate=other)
    np.testing.assert_allclose(same["expected_mean"], table["expected_mean"], rtol=1e-12)
    other.write_text("model,parameters,trained_on\nnew,1B,en sw cy\nm01,,en de\n")
    smaller = fitted.predict(cells, new=["model", "language"], covariate=other)
    assert smaller["expected_mean"][0] < same["expected_mean"][0] - 10
    assert smaller["expected_mean"][1] == pytest.approx(same["expected_mean"][1], rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        (("m08-x", "zzz"), "; the row 'm08-x' matches no model; did you mean 'm08'?"),
        (("zzz", "M09b", "m08-x"), "; the row 'M09b' matches no model; did you mean 'm09'?"),
        # The rows that are like them have models of their own.
        ((), ""),
        (("zzz",), ""),
        # m08 has its row, which is empty.
        (("m08", "m08-"), ""),
    ],
)
def test_models_without_a_row_are_looked_for_in_rows_without_a_model(
    records: be.Records, rows: tuple[str, ...], hint: str
) -> None:
    values = [*LOG_SIZE[:8], *(np.nan if row in MODELS else 30.0 for row in rows)]
    given = Covariate("parameters", "model", (), (*MODELS[:8], *rows), values)
    with pytest.raises(DesignError) as caught, addressing_command_line():
        build_design(records, SPEC, [given])
    entry = "covariates: [{name: parameters, missing: model}]"
    assert str(caught.value) == (
        f"{records.name}: parameters has no value for 2 of 10 models (m08, m09){hint};"
        f" add them, or set {entry} in a spec (--model FILE)"
    )
    build_design(records, load_spec({"name": "x", **yaml.safe_load(entry)}), [given])


def test_a_model_that_allows_missing_values_predicts_without(records: be.Records) -> None:
    spec = {"name": "x", "covariates": [{"name": "parameters", "missing": "model"}]}
    fit = be.fit(records, spec, covariate=known(LOG_SIZE), draws=50, chains=1)
    cells = pd.DataFrame({"model": ["new"], "language": ["en"], "task": ["t"]})
    table = fit.predict(cells, new="model", covariate=known(LOG_SIZE))
    assert table.attrs["notes"][-1] == (
        "parameters has no value for new: predicted for a model drawn from those of the table"
    )


def test_a_permuted_covariate_gets_no_evidence(records: be.Records) -> None:
    def evidence(spec: object, given: Covariate | None = None) -> float:
        fit = be.fit(records, spec, covariate=given, draws=250, chains=2)
        return float(fit.data["posterior"].attrs["log_marginal_likelihood"])

    without, rng = evidence("additive"), np.random.default_rng(1)
    assert evidence(SPEC, known(LOG_SIZE)) > without + 3
    assert evidence(SPEC, known(rng.permutation(LOG_SIZE))) < without + 0.5
