"""Models of one family are alike: the density written out in full, and new models of a family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeseval as be
from bayeseval.design import Design, build_design, restore_design, same_family
from bayeseval.engines import Draws, SamplerSettings, choose_engine, to_tree
from bayeseval.engines import numpyro as numpyro_engine
from bayeseval.engines import pymc as pymc_engine
from bayeseval.engines._density import random_point
from bayeseval.engines._marginal_density import build_marginal
from bayeseval.engines._marginal_nuts import log_posterior_function
from bayeseval.errors import DesignError, InputError, SpecError
from bayeseval.estimands import read_arrays
from bayeseval.estimands.cell_noise import MeasurementNoise
from bayeseval.estimands.cell_scores import AskedCells, predict_cells
from bayeseval.estimands.related import NewLevels
from bayeseval.fitting import prepare
from bayeseval.fitting.covariates import covariate_names
from bayeseval.languages.relations import by_family
from bayeseval.records import Covariate
from bayeseval.spec import load_spec

LANGUAGES = ("en", "de", "sw", "fr")
FAMILIES = ("a", "a", "a", "b", "b", "c", None, None)
MODELS = tuple(f"m{i}" for i in range(len(FAMILIES)))
FAMILY = Covariate(
    "family", "model", (), MODELS, [0, 0, 0, 1, 1, 2, np.nan, np.nan], categories=("a", "b", "c")
)
SPEC: dict[str, Any] = {"name": "f", "models": {"family": True}}
SDS = {
    **{"sd_language": 1.5, "sd_family": 2.0, "sd_model": 3.0, "sd_model_family": 5.0},
    **{"sd_task": 1.0, "sd_residual": 2.5},
}
REL = 1e-8
N = 40_000


def make_records() -> be.Records:
    rng = np.random.default_rng(4)
    of_family = {family: rng.normal(50, 8) for family in ("a", "b", "c", None)}
    rows = [
        (model, language, task, of_family[family] + rng.normal(0, 2))
        for model, family in zip(MODELS, FAMILIES, strict=True)
        for language in LANGUAGES
        for task in ("t", "u")
        if rng.random() < 0.85
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    return be.Records.from_frame(frame, name="families")


RECORDS = make_records()


def design_of(**more: Any) -> Design:
    return build_design(RECORDS, load_spec({**SPEC, **more}), [FAMILY])


def covariances(design: Design, sds: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the models' effects (one more, of family b, behind them) and of the scores."""
    n = len(MODELS)
    families = [*FAMILIES, "b"]
    alike = [[a is not None and a == b for b in families] for a in families]
    same = np.where(np.eye(n + 1), 1.0, alike)
    off = np.eye(n + 1)
    off[:, :n] -= 1.0 / n
    effects = off @ (sds["sd_model"] ** 2 * np.eye(n + 1) + sds["sd_model_family"] ** 2 * same)
    effects = effects @ off.T
    at = design.factor_index["model"]
    total = effects[np.ix_(at, at)]
    languages = sds["sd_language"] ** 2 * np.eye(len(LANGUAGES))
    if "sd_family" in design.priors:
        tree = by_family(design.coords["language"]).matrix
        languages = languages + sds["sd_family"] ** 2 * tree
    at = design.factor_index["task"]
    total = total + sds["sd_task"] ** 2 * (np.eye(2) - 0.5)[np.ix_(at, at)]
    centre = np.eye(len(LANGUAGES)) - 1.0 / len(LANGUAGES)
    at = design.factor_index["language"]
    total = total + (centre @ languages @ centre)[np.ix_(at, at)]
    total += float(design.priors["intercept"].scale or 0.0) ** 2
    return effects, total + sds["sd_residual"] ** 2 * np.eye(design.n_records)


def log_density(design: Design, sds: dict[str, float]) -> float:
    mean = np.full(design.n_records, float(design.priors["intercept"].loc or 0.0))
    return float(stats.multivariate_normal(mean, covariances(design, sds)[1]).logpdf(design.score))


def phi_of(design: Design) -> np.ndarray:
    scales = build_marginal(design).scales
    return scales.unconstrained(np.array([[SDS[name] for name in scales.names]]))


@pytest.mark.parametrize("languages", [None, {"family": "glottolog"}])
def test_the_marginal_density_is_that_of_the_dense_normal(languages: Any) -> None:
    design = design_of(languages=languages)
    marginal = build_marginal(design)
    assert "sd_model_family" in marginal.scales.names
    assert ("sd_family" in marginal.scales.names) == (languages is not None)
    value = marginal.log_likelihood(phi_of(design))[0]
    assert value == pytest.approx(log_density(design, SDS), rel=REL)
    # The negative control: models of one family are not independent ones.
    assert value != pytest.approx(log_density(design, {**SDS, "sd_model_family": 0.0}), rel=1e-3)
    if languages is None:
        return
    one_task = RECORDS.subset(RECORDS.codes("task") == 0, name="one")
    both = build_design(one_task, design.spec, [FAMILY])
    assert choose_engine("auto", both).name == "numpyro"
    assert "no effects are independent" in choose_engine("auto", both).reason
    with jax.enable_x64(True):
        theirs = float(jax.jit(log_posterior_function(marginal))(phi_of(design)[0]))
    assert theirs == pytest.approx(marginal.log_posterior(phi_of(design))[0], rel=REL)


def test_both_backends_have_the_same_density() -> None:
    design = design_of(languages={"family": "glottolog"})
    point = random_point(design, np.random.default_rng(1))
    ours = pymc_engine.log_density(design, point)
    theirs = numpyro_engine.log_density(design, point)
    assert set(ours) == set(theirs)
    assert "sd_model_family" in ours
    for name, value in ours.items():
        assert value == pytest.approx(theirs[name], rel=REL), name


def test_a_new_model_of_a_family_has_the_dense_conditional_distribution() -> None:
    design = design_of()
    marginal = build_marginal(design)
    effects = marginal.effects(phi_of(design), np.array([N]), seed=np.random.SeedSequence(1))
    posterior = {name: np.full((1, N), SDS[name]) for name in marginal.scales.names}
    posterior |= {"intercept": effects["intercept"].reshape(1, N)}
    posterior |= {term.effect: effects[term.name][None] for term in design.terms}
    tree = to_tree(
        design, Draws(posterior, {}, SamplerSettings(draws=N, chains=1)), engine="marginal"
    )
    arrays = read_arrays(tree)
    assert list(arrays.related) == ["model"]
    assert arrays.related["model"].used == ("model_family",)
    restored = restore_design(tree, design.spec).term("model").relations
    assert restored is not None
    np.testing.assert_array_equal(restored.matrices[0], same_family(FAMILIES))
    none = np.full(1, np.nan)
    labels = {"model": ("new",), "language": ("sw",), "task": ("t",)}
    related = {"model": NewLevels(("new",), same_family([*FAMILIES, "b"])[None])}
    asked = AskedCells(labels, {}, none, none, none, related=related)
    noise = MeasurementNoise({}, {}, {}, {}, {}, None)
    (block,) = predict_cells(arrays, asked, noise, seed=2)
    # The score of the cell is one more normal variable beside those of the records.
    prior, total = covariances(design, SDS)
    at = RECORDS.coords["language"].index("sw")
    centre = np.eye(len(LANGUAGES)) - 1.0 / len(LANGUAGES)
    language = SDS["sd_language"] ** 2 * centre[at]
    task = SDS["sd_task"] ** 2 * (np.eye(2) - 0.5)[0]
    intercept = design.priors["intercept"]
    both = (
        prior[-1, design.factor_index["model"]]
        + language[design.factor_index["language"]]
        + task[design.factor_index["task"]]
        + float(intercept.scale or 0.0) ** 2
    )
    own = prior[-1, -1] + language[at] + task[0] + float(intercept.scale or 0.0) ** 2
    gain = np.linalg.solve(total, both)
    mean = float(intercept.loc or 0.0) + gain @ (design.score - float(intercept.loc or 0.0))
    sd = np.sqrt(own - gain @ both)
    assert block.expected.mean() == pytest.approx(mean, abs=5 * sd / N**0.5)
    assert block.expected.std() == pytest.approx(sd, rel=5 / (2 * N) ** 0.5)


def test_predictions_read_the_family_of_a_new_model(tmp_path: Path) -> None:
    file = tmp_path / "models.csv"
    rows = [f"{m},{f or ''}" for m, f in zip(MODELS, FAMILIES, strict=True)]
    file.write_text("\n".join(["model,family", *rows, "org/new,b", "late,bx"]) + "\n")
    assert covariate_names(FAMILY) == covariate_names(file) == ()
    fit = be.fit(RECORDS, SPEC, covariate=file, draws=400, chains=2)
    assert "family: none is given for m6, m7" in " ".join(fit.run["notes"])
    components = fit.components(detail=True).set_index("component")
    assert components.loc["model_family", "kind"] == "related"
    cells = pd.DataFrame({"model": ["new", "m3", "other", "late"], "language": "en", "task": "t"})
    table = fit.predict(cells, new="model")
    notes = " ".join(table.attrs["notes"])
    assert "family: model 'new' is read as 'org/new'" in notes
    assert "family: none is given for other" in notes
    assert "family: 'bx' (late) has no model in the table; did you mean 'b'?" in notes
    # Families that models of the table have are not noted.
    assert notes.count("has no model in the table") == 1
    # Of the same family as m3 and m4: near them, and more certain than of no family.
    assert abs(table["expected_mean"][0] - table["expected_mean"][1]) < 5
    assert table["expected_sd"][0] < 0.8 * table["expected_sd"][2]
    alone = tmp_path / "new.csv"
    alone.write_text("model,family\nnew,b\n")
    again = fit.predict(cells[:2], new="model", covariate=alone)
    np.testing.assert_allclose(again["expected_mean"][0], table["expected_mean"][0], atol=1.0)
    file.write_text("\n".join(["model,family", *rows[:-1], "m7,a", "org/new,b"]) + "\n")
    with pytest.raises(InputError, match=r"relations of the table's models have changed since"):
        fit.predict(cells[:1], new="model", covariate=file)


LOOK_ALIKE = (
    "family: names that look alike are families of their own: {}; correct the table of models if "
    "they are one"
)


@pytest.mark.parametrize(
    ("alone", "note"),
    [
        ("Qwenn", ["family: 'Qwenn' has one model; did you mean 'Qwen'?"]),
        ("qwen", [LOOK_ALIKE.format("Qwen, qwen")]),
        ("Qwen\u200b", [LOOK_ALIKE.format("Qwen, Qwen\\u200b")]),
        # Generations are families of their own.
        ("Llama-3", []),
        ("Falcon", []),
    ],
)
def test_a_slip_in_the_name_of_a_family_is_noted(alone: str, note: list[str]) -> None:
    families = ("Llama-2", "Qwen", alone)
    own = Covariate("family", "model", (), MODELS, [0, 0, 0, 1, 1, 1, 1, 2], categories=families)
    design = build_design(RECORDS, load_spec(SPEC), [own])
    assert [one for one in design.notes if one.startswith("family")] == note


def test_families_of_several_models_that_look_alike_are_noted() -> None:
    families = ("Llama 2", "Llama  2", "Falcon")
    own = Covariate("family", "model", (), MODELS, [0, 0, 0, 1, 1, 1, 2, 2], categories=families)
    notes = build_design(RECORDS, load_spec(SPEC), [own]).notes
    assert [one for one in notes if one.startswith("family")] == [
        LOOK_ALIKE.format("Llama 2, Llama  2")
    ]


def test_auto_says_that_it_leaves_families_out(tmp_path: Path) -> None:
    file = tmp_path / "models.csv"
    rows = [f"{m},{f or ''},{i}B" for i, (m, f) in enumerate(zip(MODELS, FAMILIES, strict=True), 1)]
    file.write_text("\n".join(["model,family,parameters", *rows]) + "\n")
    said = (
        "not in the model: family of the table of models, which auto does not take; a spec with "
        "models: {family: true} relates models of one family"
    )
    chosen = prepare(RECORDS, covariate=file)
    assert chosen.model.reasons[-1] == said
    assert said in str(chosen).replace("\n", " ")
    # Not without a table of models, nor of a spec of one's own.
    own = load_spec({"name": "size", "covariates": ["parameters"]})
    assert said not in prepare(RECORDS).model.reasons
    assert prepare(RECORDS, own, covariate=file).model.reasons == ()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"models": {"famly": True}}, r"famly.*did you mean 'family'"),
        ({"effects": {"model": "fixed"}}, "fixed model effects cannot be related"),
        ({"population": "models"}, "they need population: observed"),
        ({"centring": {"model": "centred"}}, "sampled non_centred; remove model"),
        ({"covariates": ["family"]}, "'family' is a covariate and in models"),
    ],
)
def test_what_a_spec_may_not_say(change: dict[str, Any], line: str) -> None:
    with pytest.raises(SpecError, match=line):
        load_spec({**SPEC, **change})


def test_families_have_to_be_known_and_to_differ() -> None:
    with pytest.raises(DesignError, match="relates models by family, and no table of models"):
        build_design(RECORDS, load_spec(SPEC))
    with pytest.raises(DesignError, match="all 8 models are related alike by family.*from models:"):
        own = Covariate("family", "model", (), MODELS, np.zeros(8), categories=("a",))
        build_design(RECORDS, load_spec(SPEC), [own])
    with pytest.raises(DesignError, match="family is text.*or relate models by it with models: {"):
        build_design(RECORDS, load_spec({"name": "x", "covariates": "family"}), [FAMILY])
    with pytest.raises(InputError, match="whole numbers from 0 to 1"):
        Covariate("family", "model", (), ("a", "b"), np.array([0, 2]), categories=("x", "y"))
    plain = load_spec({"name": "f"})
    assert load_spec({**SPEC, "models": {"family": False}}).content_hash == plain.content_hash
    assert load_spec(load_spec(SPEC).to_dict()) == load_spec(SPEC)
