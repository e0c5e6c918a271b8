"""Designs: indices and labels, scaled priors, and refusals that give the reason."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from bayeseval import load
from bayeseval.design import build_design
from bayeseval.errors import DesignError
from bayeseval.records import Records
from bayeseval.simulation import simulate
from bayeseval.spec import load_spec


def table(cells: list[tuple[str, str, str]], **columns: list[float]) -> Records:
    """Records with the given (language, task, model) cells and arbitrary scores."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(cells, columns=["language", "task", "model"])
    frame["score"] = rng.uniform(20.0, 90.0, size=len(frame)).round(3)
    return Records.from_frame(frame.assign(**columns), name="small")


FULL = list(product(("de", "en", "sw"), ("qa", "nli"), ("A", "B")))


def test_index_points_back_to_the_labels_of_each_record() -> None:
    records = load("mega")
    design = build_design(records, load_spec("crossed"))
    rows = records.table
    for term in design.terms:
        said = [term.labels[i] for i in term.index]
        columns = [rows[factor] for factor in term.factors]
        assert said == ["|".join(parts) for parts in zip(*columns, strict=True)]
        for factor, member in term.members.items():
            levels = [records.coords[factor][i] for i in member]
            assert levels == [label.split("|")[term.factors.index(factor)] for label in term.labels]


def test_mega_has_the_published_shape() -> None:
    design = build_design(load("mega"), load_spec("crossed"))
    assert design.n_records == 1364
    assert {term.name: term.n_levels for term in design.terms} == {
        "language": 53,
        "task": 15,
        "model": 13,
        "language:task": 216,
        "model:task": 111,
        "model:language": 447,
    }


def test_priors_are_in_the_units_of_the_scores() -> None:
    records = load("mega")
    design = build_design(records, load_spec("interaction"))
    mean, sd = records.scores.mean(), records.scores.std(ddof=1)
    assert design.priors["intercept"].loc == pytest.approx(mean, rel=1e-12)
    assert design.priors["intercept"].scale == pytest.approx(2.5 * sd, rel=1e-12)
    assert design.priors["sd_task"].scale == pytest.approx(sd, rel=1e-12)
    assert design.priors["sd_language_task"].scale == pytest.approx(sd / 2, rel=1e-12)


def test_the_population_decides_which_effects_sum_to_zero() -> None:
    observed = build_design(table(FULL), load_spec("additive"))
    assert [(term.name, term.zero_sum) for term in observed.terms] == [
        ("language", True),
        ("task", True),
        ("model", True),
    ]
    sample = build_design(table(FULL), load_spec({"name": "x", "population": "models"}))
    assert not sample.term("model").zero_sum
    assert sample.term("language").zero_sum


def test_fixed_effects_have_a_known_wide_sd() -> None:
    records = table(FULL)
    design = build_design(records, load_spec("paper"))
    assert design.term("language").known_sd == pytest.approx(10 * records.scores.std(ddof=1))
    assert design.term("language").sd is None
    assert design.term("model").sd == "sd_model"
    assert list(design.priors) == ["intercept", "sd_model", "sd_residual"]


def test_terms_are_centred_where_levels_have_data_unless_the_spec_says() -> None:
    mega = load("mega")
    auto = build_design(mega, load_spec("crossed"))
    assert auto.term("language").centred
    assert not auto.term("model:language").centred
    said = load_spec(
        {
            "name": "x",
            "interactions": ["model:language"],
            "centring": {"model:language": "centred", "language": "non_centred"},
        }
    )
    told = build_design(mega, said)
    assert told.term("model:language").centred
    assert not told.term("language").centred


def test_a_term_is_centred_only_where_its_levels_differ_beyond_the_noise() -> None:
    spec = load_spec("interaction")
    sds = {"sd_language": 12.0, "sd_model": 12.0, "sd_language_task": 0.1}
    weak, strong = (
        build_design(
            simulate("interaction", sds=sds | {"sd_task": sd}, observed_share=0.9, seed=6).records,
            spec,
        )
        for sd in (0.1, 20.0)
    )
    forms = [{term.name: term.centred for term in design.terms} for design in (weak, strong)]
    assert forms[0] == {"language": True, "task": False, "model": True, "language:task": False}
    assert forms[1] == forms[0] | {"task": True}


def test_a_single_task_has_no_task_term_and_says_so() -> None:
    design = build_design(table([c for c in FULL if c[1] == "qa"]), load_spec("additive"))
    assert [term.name for term in design.terms] == ["language", "model"]
    assert "sd_task" not in design.priors
    assert design.notes == ("task has one level (qa): no task term",)


def test_constant_data_places_records_and_cells() -> None:
    records = table(FULL)
    design = build_design(records, load_spec("interaction"))
    data = design.constant_data()
    assert data.attrs == {"population": "observed", "likelihood": "normal"}
    languages = data["language"].to_numpy()[data["language_index"].to_numpy()]
    assert languages.tolist() == records.table["language"].tolist()
    cells = data["language"].to_numpy()[data["language_task_language"].to_numpy()]
    tasks = data["task"].to_numpy()[data["language_task_task"].to_numpy()]
    assert [f"{a}|{b}" for a, b in zip(cells, tasks, strict=True)] == data[
        "language_task"
    ].to_numpy().tolist()


def test_a_known_standard_error_reaches_the_design_in_record_order() -> None:
    se = [float(i) for i in range(1, len(FULL) + 1)]
    records = table(FULL, se=se)
    design = build_design(records, load_spec("additive"))
    assert design.se is not None
    assert design.se.tolist() == records.table["se"].tolist()
    assert sorted(design.se.tolist()) == se


@pytest.mark.parametrize(
    ("cells", "spec", "phrases"),
    [
        pytest.param(
            [*product(("de", "en"), ("qa",), ("A", "B")), *product(("sw", "yo"), ("nli",), ("C",))],
            "additive",
            (
                "2 unconnected parts",
                "language de, en",
                "task qa",
                "model C",
                "add records that link them",
            ),
            id="disconnected",
        ),
        pytest.param(
            [*product(("de", "en"), ("qa",), ("A", "B")), *product(("sw",), ("nli",), ("A", "B"))],
            "additive",
            ("language sw and task nli always occur together", "are confounded"),
            id="language nested in task",
        ),
        pytest.param(
            [("de", "qa", "A"), ("en", "qa", "B"), ("de", "nli", "B"), ("en", "nli", "A")],
            "interaction",
            ("language:task has one model in each of its 4 cells", "residual"),
            id="no replication",
        ),
        pytest.param(
            FULL,
            {"name": "x", "interactions": ["model:language:task"]},
            ("model:language:task has one record in each of its 12 cells", "residual"),
            id="three-way without replication",
        ),
        pytest.param(
            [c for c in FULL if c[1] == "qa"],
            "interaction",
            ("language:task needs at least two levels of each factor, and task has one",),
            id="interaction with a single task",
        ),
        pytest.param(
            [
                *product(("de", "en"), ("qa", "nli"), ("A", "B")),
                *product(("sw",), ("nli",), ("A", "B")),
                ("yo", "nli", "A"),
                ("yo", "qa", "A"),
            ],
            {"name": "x", "interactions": ["model:language"]},
            None,
            id="thin but identified",
        ),
    ],
)
def test_what_the_table_cannot_tell_apart_is_refused_with_the_reason(
    cells: list[tuple[str, str, str]], spec: object, phrases: tuple[str, ...] | None
) -> None:
    model = load_spec(spec)  # type: ignore[arg-type]
    if phrases is None:
        assert build_design(table(cells), model).n_records == len(cells)
        return
    with pytest.raises(DesignError) as caught:
        build_design(table(cells), model)
    assert "\n" not in str(caught.value)
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_an_interaction_with_the_cells_of_a_main_effect_is_refused() -> None:
    # Every language has one task, so language:task has as many cells as languages;
    # models tie the two tasks together but never cross a language with a task.
    cells = [
        *product(("de", "en"), ("qa",), ("A", "B")),
        *product(("sw", "yo"), ("nli",), ("A", "B")),
    ]
    with pytest.raises(DesignError, match="are confounded"):
        build_design(table(cells), load_spec("interaction"))


def test_scores_that_do_not_vary_are_refused() -> None:
    frame = pd.DataFrame(FULL, columns=["language", "task", "model"]).assign(score=50.0)
    with pytest.raises(DesignError, match="all 12 scores are 50, so nothing can be compared"):
        build_design(Records.from_frame(frame, name="flat"), load_spec("additive"))


def test_replicates_are_cells_not_independent_records() -> None:
    cells = FULL + FULL
    seed = np.repeat([0.0, 1.0], len(FULL))
    records = table(cells, seed=list(seed))
    design = build_design(records, load_spec("additive"))
    assert len(records) == 2 * len(FULL)
    assert design.n_records == len(FULL)
    frame = records.table
    means = frame.groupby(["model", "language", "task"], sort=False)["score"].mean()
    np.testing.assert_allclose(design.score, means.to_numpy(), rtol=1e-12)
    (source,) = design.sources
    assert (source.name, source.n_cells) == ("seed", len(FULL))
    # Two replicates: half their squared difference, on one degree of freedom.
    spread = frame.groupby(["model", "language", "task"], sort=False)["score"].var()
    np.testing.assert_allclose(design.replicates.squares, spread.to_numpy(), rtol=1e-9)
    np.testing.assert_array_equal(design.replicates.df, 1.0)
    np.testing.assert_array_equal(source.share, 0.5)


def test_a_thin_interaction_is_noted() -> None:
    cells = [
        *product(("de", "en", "sw", "yo"), ("qa", "nli"), ("A",)),
        ("de", "qa", "B"),
        ("en", "nli", "B"),
    ]
    design = build_design(table(cells), load_spec("interaction"))
    assert design.notes == (
        "language:task: 6 of 8 cells have a single record; sd_language_task is estimated from the "
        "others",
    )
