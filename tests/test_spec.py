"""Specs: round trips, defaults, and one clear line for what makes no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayeseval.errors import InputError, SpecError
from bayeseval.spec import ModelSpec, Prior, list_models, load_spec

SHIPPED = (
    "additive",
    "bounded",
    "by_task",
    "counts",
    "crossed",
    "dataset",
    "factors",
    "interaction",
    "logit",
    "mexa",
    "paper",
    "related",
    "replicates",
    "robust",
)


def test_the_shipped_models_are_listed_with_their_summaries() -> None:
    models = list_models()
    assert tuple(models) == SHIPPED
    assert "Student-t" in models["robust"]


def test_auto_is_no_spec_without_a_table() -> None:
    with pytest.raises(InputError, match="auto depends on the table.*by_task"):
        load_spec("auto")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_spec_survives_yaml(name: str, tmp_path: Path) -> None:
    spec = load_spec(name)
    path = tmp_path / "again.yaml"
    path.write_text(spec.to_yaml(), encoding="utf-8")
    assert load_spec(path) == spec
    assert spec.name == name


def test_the_file_name_is_the_name_when_none_is_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("likelihood: student_t\n", encoding="utf-8")
    assert load_spec(path).name == "mine"


def test_default_priors_are_the_documented_ones() -> None:
    priors = load_spec("robust").prior_table()
    assert {name: str(prior) for name, prior in priors.items()} == {
        "intercept": "normal(loc=0, scale=2.5) x sd(score)",
        "sd_language": "half_normal(scale=1) x sd(score)",
        "sd_task": "half_normal(scale=1) x sd(score)",
        "sd_model": "half_normal(scale=1) x sd(score)",
        "sd_language_task": "half_normal(scale=0.5) x sd(score)",
        "sd_model_task": "half_normal(scale=0.5) x sd(score)",
        "sd_model_language": "half_normal(scale=0.5) x sd(score)",
        "sd_residual": "half_normal(scale=1) x sd(score)",
        "nu": "gamma(shape=2, rate=0.1, low=1)",
    }


def test_priors_are_put_in_score_units_and_absolute_ones_left_alone() -> None:
    relative = Prior(dist="normal", loc=1.0, scale=2.5).in_units(mean=60.0, sd=20.0)
    assert (relative.loc, relative.scale) == (80.0, 50.0)
    absolute = Prior(dist="half_normal", scale=5.0, relative=False).in_units(mean=60.0, sd=20.0)
    assert absolute.scale == 5.0
    gamma = Prior(dist="gamma", shape=2.0, rate=0.1, low=1.0).in_units(mean=60.0, sd=20.0)
    assert (gamma.shape, gamma.rate, gamma.low) == (2.0, 0.1, 1.0)


def test_an_override_replaces_one_default_and_changes_the_hash() -> None:
    plain = load_spec("additive")
    changed = load_spec(
        {"name": "mine", "priors": {"sd_task": {"dist": "exponential", "scale": 0.5}}}
    )
    assert str(changed.prior_table()["sd_task"]) == "exponential(scale=0.5) x sd(score)"
    assert changed.prior_table()["sd_model"] == plain.prior_table()["sd_model"]
    assert changed.content_hash != plain.content_hash


def test_the_hash_sees_the_model_and_not_its_name() -> None:
    additive = load_spec("additive")
    assert load_spec({"name": "another"}).content_hash == additive.content_hash
    same_prior = {"sd_task": {"dist": "half_normal", "scale": 1.0}}
    assert load_spec({"name": "x", "priors": same_prior}).content_hash == additive.content_hash
    assert load_spec({"name": "x", "population": "models"}).content_hash != additive.content_hash


def test_interactions_have_one_order() -> None:
    first = load_spec({"name": "x", "interactions": ["model:language", "language:task"]})
    assert first.interactions == ("language:task", "model:language")
    assert first.terms == ("language", "task", "model", "language:task", "model:language")


def test_fixed_effects_have_no_sd_parameter() -> None:
    assert list(load_spec("paper").prior_table()) == ["intercept", "sd_model", "sd_residual"]


@pytest.mark.parametrize(
    ("values", "phrases"),
    [
        ({"likelihod": "normal"}, ("unknown key 'likelihod'", "did you mean 'likelihood'?")),
        ({"likelihood": "norml"}, ("likelihood", "did you mean 'normal'?", "'norml'")),
        (
            {"interactions": ["language:taks"]},
            ("interactions", "'language:task'", "'language:taks'"),
        ),
        ({"interactions": ["language:task"] * 2}, ("interactions", "named twice")),
        ({"effects": {"langauge": "fixed"}}, ("'effects.langauge'", "did you mean 'language'?")),
        ({"centring": {"language:task": "centred"}}, ("'language:task'", "has no term")),
        (
            {"priors": {"sd_langage": {"dist": "half_normal", "scale": 1}}},
            ("'sd_langage'", "did you mean 'sd_language'?"),
        ),
        (
            {"priors": {"sd_task": {"dist": "half_normal", "scal": 1}}},
            ("'priors.sd_task.scal'", "did you mean 'scale'?"),
        ),
        ({"priors": {"sd_task": {"dist": "half_normal"}}}, ("half_normal needs scale",)),
        (
            {"priors": {"sd_task": {"dist": "half_normal", "scale": -1}}},
            ("priors.sd_task.scale", "greater than or equal to 0.000001", "-1"),
        ),
        (
            {"priors": {"sd_task": {"dist": "normal", "scale": 1}}},
            ("sd_task needs a positive prior",),
        ),
        (
            {"priors": {"intercept": {"dist": "half_normal", "scale": 1}}},
            ("intercept needs a real-valued prior",),
        ),
        ({"priors": {"sd_task": {"dist": "half_normal", "scale": ".inf"}}}, ("scale",)),
        (
            {"priors": {"sd_task": {"dist": "half_normal", "scale": 1e308}}},
            ("priors.sd_task.scale", "less than or equal to 1000000000", "1e+308"),
        ),
        (
            {"priors": {"intercept": {"dist": "normal", "loc": -1e10, "scale": 1}}},
            ("priors.intercept.loc", "greater than or equal to -1000000000"),
        ),
        ({"fixed_scale": float("nan")}, ("fixed_scale", "got nan")),
        ({"name": "a/b"}, ("name", "'a/b'")),
        ({"covariates": ["residual"]}, ("covariates", "'residual' is the name of another part")),
    ],
)
def test_nonsense_is_refused_in_one_line(
    values: dict[str, object], phrases: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec({"name": "x", **values})
    message = str(caught.value)
    assert "\n" not in message
    for phrase in phrases:
        assert phrase in message


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_spec("dataset").name == "dataset"
    with pytest.raises(InputError, match="mine: no such spec file"):
        load_spec("mine")


def test_an_unknown_name_suggests_a_shipped_model() -> None:
    with pytest.raises(
        InputError, match=r"'aditive'.*did you mean 'additive'\?.*shipped: additive"
    ):
        load_spec("aditive")


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("name: x\nname: y\n", ("line 2", "'name' is given twice")),
        ("name: [x\n", ("not valid YAML",)),
        ("- a\n- b\n", ("expected keys and values", "list")),
        ("", ("expected keys and values",)),
    ],
)
def test_broken_yaml_is_refused_with_file_and_line(
    text: str, phrases: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_spec_cannot_be_changed() -> None:
    spec = load_spec("additive")
    with pytest.raises(ValueError, match="frozen"):
        spec.likelihood = "student_t"  # type: ignore[misc]


def test_yaml_of_a_spec_is_plain() -> None:
    values = yaml.safe_load(load_spec("robust").to_yaml())
    assert values["likelihood"] == "student_t"
    assert ModelSpec.model_validate(values) == load_spec("robust")


def test_a_gamma_prior_round_trips() -> None:
    given = {"name": "mine", "priors": {"sd_language": {"dist": "gamma", "shape": 2, "rate": 0.1}}}
    spec = load_spec(given)
    again = load_spec(spec.to_dict())
    assert (again, again.content_hash) == (spec, spec.content_hash)
    assert again.priors["sd_language"].rate == 0.1


def test_related_languages_round_trip_and_leave_other_hashes_alone() -> None:
    given = {"place": "1000 km", "family": "glottolog", "script": True}
    spec = load_spec({"name": "x", "languages": given})
    plain = load_spec({"name": "x"})
    assert spec.to_dict()["languages"] == {"place": 1000.0, "family": "glottolog", "script": True}
    assert load_spec(spec.to_dict()) == spec
    assert load_spec({"name": "x", "languages": {"place": 1000}}).languages.used == ("place",)  # type: ignore[union-attr]
    added = [name for name in spec.prior_table() if name not in plain.prior_table()]
    assert added == ["sd_place", "sd_family", "sd_script"]
    several = load_spec(
        {"name": "x", "languages": {"script": True, "files": {"b": "x.csv", "a": "y"}}}
    )
    assert several.languages is not None and several.languages.used == ("script", "a", "b")
    assert load_spec(several.to_dict()) == several
    # No relation is the same as no entry, and specs without one have the hash that they had.
    for none in ({}, {"script": False}, {"place": None}, {"files": {}}):
        assert load_spec({"name": "x", "languages": none}).content_hash == plain.content_hash
    assert "languages" not in plain.to_dict()
    assert spec.content_hash != plain.content_hash
    assert repr(spec).endswith("model, languages related by place, family, script>")


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"languages": {"palce": 1000}}, "'languages.palce'; did you mean 'place'?"),
        ({"languages": {"place": "far"}}, "expected a distance such as 1000 km, got 'far'"),
        ({"languages": {"place": "0 km"}}, "greater than or equal to 1"),
        ({"languages": {"family": "uriel"}}, "expected 'glottolog'"),
        ({"languages": {"files": {"Syntax": "a.csv"}}}, "a letter first, got 'Syntax'"),
        (
            {"languages": {"files": {"task": "a.csv"}}},
            "'task' is the name of another part of the model; rename it",
        ),
        (
            {"languages": {"script": True}, "effects": {"language": "fixed"}},
            "fixed language effects cannot be related; make them pooled",
        ),
        (
            {"languages": {"script": True}, "centring": {"language": "centred"}},
            "related languages are sampled non_centred; remove language",
        ),
        (
            {"languages": {"script": True}, "covariates": ["script"]},
            "'script' is a covariate and in languages; rename the covariate",
        ),
        ({"priors": {"sd_place": {"dist": "half_normal", "scale": 1}}}, "no parameter 'sd_place'"),
    ],
)
def test_relations_that_make_no_sense_are_refused(spec: dict[str, Any], line: str) -> None:
    with pytest.raises(SpecError, match=re.escape(line)):
        load_spec({"name": "x", **spec})
