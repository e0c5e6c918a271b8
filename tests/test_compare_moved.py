"""Comparisons of models that move scores at a bound with models that do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayeseval import names
from bayeseval.comparison import Comparison, compare
from bayeseval.comparison.moved import Moved, moved_scores
from bayeseval.comparison.predictive import sampled_scores
from bayeseval.comparison.scores import Scores
from bayeseval.comparison.sentences import comparison_table, winner
from bayeseval.design import build_design
from bayeseval.errors import addressing_command_line
from bayeseval.records import Records
from bayeseval.reporting.export import export
from bayeseval.reporting.folder import read_saved
from bayeseval.spec import load_spec
from tests import bounded_tables

MOVED = np.arange(30) < 10
SENTENCE = (
    "10 of 30 scores are at a bound of their scale, or closer to it than 0.5 % of the range, and "
    "{} to this distance (edge), on which their densities depend."
)


def moved_by(*models: str, **more: float) -> Moved:
    """Of models p, q and r, these move the first ten of thirty scores."""
    own = {name: MOVED if name in models else np.zeros(30, dtype=bool) for name in "pqr"}
    return Moved(own, {name: more.get(name, 0.005) for name in models})


def scores(at_bounds: float, between: float, *, noise: float = 0.01) -> Scores:
    wiggle = np.tile([-noise, noise], 15)
    elpd = np.where(MOVED, at_bounds, between) + wiggle * at_bounds
    return Scores(elpd, np.zeros(30), 0.0, "by hand")


def said(found: dict[str, Scores], moved: Moved, by: names.LeftOut = "record") -> list[str]:
    known = comparison_table(found, ~moved.any if by == "record" else None)
    return [*winner(known, by, moved), moved.sentence(known, by)]


def test_scores_closer_to_a_bound_than_the_edge_are_moved() -> None:
    table = bounded_tables.frame().assign(score=lambda t: t["score"].clip(upper=60.0))
    table.loc[[1, 2, 3], "score"] = [0.4, 0.5, 100.0]
    own = bounded_tables.records(table)
    specs = {
        name: load_spec({"name": name, "likelihood": likelihood, **more})
        for name, likelihood, more in (
            ("plain", "normal", {}),
            ("logit", "logit_normal", {}),
            ("beta", "beta", {"edge": 0.001}),
        )
    }
    found = moved_scores({name: build_design(own, spec) for name, spec in specs.items()})
    assert found is not None
    which = {name: np.sort(own.scores[moved]).tolist() for name, moved in found.by_model.items()}
    assert which == {"plain": [], "logit": [0.0, 0.4, 100.0], "beta": [0.0, 100.0]}
    assert found.edges == {"logit": 0.005, "beta": 0.001}
    assert int(found.any.sum()) == 3
    # Counts of none and of all items have a probability as they are.
    counts = load_spec({"name": "counts", "likelihood": "beta_binomial"})
    assert moved_scores({"counts": build_design(bounded_tables.records(), counts)}) is None


def test_a_winner_is_named_that_wins_without_the_moved_scores_too() -> None:
    found = {"p": scores(-1.0, -1.0), "q": scores(-3.0, -2.0), "r": scores(-2.0, -4.0)}
    assert said(found, moved_by("p")) == [
        "p predicts a left-out record best: elpd 40.0 (SE 2.6) ahead of q, and 20.0 (SE 0.1) ahead "
        "of q over the scores that no model moves.",
        SENTENCE.format("p moves them")
        + " Over the other 20 scores, elpd less that of p: q -20.0 (SE 0.1), r -60.0 (SE 0.0).",
    ]


def test_moved_scores_alone_name_no_winner() -> None:
    # q is far behind where p has a high density at one value, and ahead elsewhere.
    ahead = {"p": scores(3.0, -2.0), "q": scores(-3.0, -1.0), "r": scores(2.0, -4.0)}
    assert said(ahead, moved_by("p", "r")) == [
        "No clear winner: p is 40.0 (SE 18.4) ahead of q, but over the scores that no model moves "
        "q is 20.0 (SE 0.3) ahead of it.",
        SENTENCE.format("p and r move them")
        + " Over the other 20 scores, elpd less that of p: q +20.0 (SE 0.3), r -40.0 (SE 0.0).",
    ]
    close = {"p": scores(3.0, -1.0), "q": scores(-3.0, -1.1)}
    assert said(close, moved_by("p"))[0] == (
        "No clear winner: p is 62.0 (SE 15.5) ahead of q, but over the scores that no model moves "
        "it is only 2.0 (SE 0.3) ahead of q."
    )
    # Of one score left there is no standard error.
    moved = Moved({"p": np.arange(30) < 29, "q": np.zeros(30, dtype=bool)}, {"p": 0.005})
    single = {"p": scores(3.0, 3.0), "q": scores(-3.0, -3.0)}
    assert said(single, moved)[0].endswith("it is only 6.1 (SE nan) ahead of q.")


def test_groups_are_compared_where_all_models_predict_the_same_values() -> None:
    found = {"p": scores(-1.0, -1.0), "q": scores(-3.0, -2.0), "r": scores(-2.0, -4.0)}
    won = "p predicts a left-out language best: elpd 40.0 (SE 2.6) ahead of q."
    way = " With by='record', differences without these scores are reported."
    assert said(found, moved_by("p", "q", "r"), "language") == [
        won,
        SENTENCE.format("p, q and r move them") + way,
    ]
    with addressing_command_line():
        last = said(found, moved_by("p"), "task")[-1]
        assert last.endswith(" With --by record, differences without these scores are reported.")
    open_ = (
        "No winner is named: p is 40.0 (SE 2.6) ahead of q, and models predict other values of "
        "scores at a bound."
    )
    assert said(found, moved_by("p", "q"), "language") == [
        open_,
        SENTENCE.format("p and q move them") + way,
    ]
    assert said(found, moved_by("p", "q", "r", q=0.004), "language")[0] == open_


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(table(), ["additive", "logit"], jobs=1)


def table() -> Records:
    return bounded_tables.records()


def test_tables_have_the_differences_without_moved_scores(
    compared: Comparison, tmp_path: Path
) -> None:
    rest = table().scores > 0.0
    rows = compared.table.set_index("spec")
    best = compared.table["spec"].iloc[0]
    assert rows["n_moved"].to_dict() == {"additive": 0, "logit": 1}
    elpd = compared.pointwise[rest]
    difference = elpd.sub(elpd[best], axis=0)
    for name in elpd:
        assert rows.loc[name, "elpd_unmoved"] == pytest.approx(elpd[name].sum())
        assert rows.loc[name, "unmoved_diff"] == pytest.approx(difference[name].sum())
        error = np.sqrt(26) * difference[name].std(ddof=1)
        assert rows.loc[name, "unmoved_diff_se"] == pytest.approx(error)
    assert any(one.startswith("1 of 27 scores are at a bound") for one in compared.verdict)
    saved = read_saved(compared.save(tmp_path / "compared", figures=False))
    assert "Unmoved (SE)" in export(saved, "markdown")
    (axes, *_) = compared.plot().axes
    caption = " ".join(" ".join(one.get_text() for one in axes.figure.texts).split())
    assert "tables/comparison.csv has differences without them" in caption


def test_a_single_model_has_no_difference(compared: Comparison) -> None:
    alone = replace(compared, table=compared.table.head(1), verdict=("Only one.",))
    heading = alone.summary().splitlines()[1]
    assert heading.split() == ["model", "elpd", "SE", "seen", "-", "left", "out", "bad", "k-hats"]
    assert "difference" in compared.summary().splitlines()[1]


def test_intervals_of_moved_scores_cover_as_often_as_those_of_others() -> None:
    """Draws of a beta with a floor: scores and predictions of one distribution."""
    rng = np.random.default_rng(5)
    mean = rng.uniform(0.002, 0.2, size=4000)
    truth, draws = (100 * rng.beta(2 * mean, 2 * (1 - mean), size=(n, 4000)) for n in (1, 999))
    # The test reports nothing below 0.5.
    score = np.where(truth[0] < 0.5, 0.0, truth[0])
    limits = np.full(4000, 0.5), np.full(4000, 99.5)
    density = np.zeros((1, 4000))
    inside = sampled_scores(draws, density, score, limits)["in_90"].to_numpy()
    at_bound = score == 0.0
    assert 0.4 < at_bound.mean() < 0.6
    assert inside.mean() == pytest.approx(0.9, abs=3 * np.sqrt(0.09 / 4000))
    # As they are, none of these scores is inside: a draw of a beta is above 0.
    raw = sampled_scores(draws, density, score)["in_90"]
    assert raw[at_bound].mean() < 0.1
    assert np.array_equal(raw[~at_bound], inside[~at_bound])


def test_moved_scores_are_inside_as_far_as_equal_draws_are() -> None:
    draws = np.array([[0.1] * 4 + [2.0] * 6, [50.0] * 10, [99.9] + [50.0] * 9]).T
    found = sampled_scores(
        draws, np.zeros((1, 3)), np.array([0.0, 0.0, 100.0]), (np.full(3, 0.5), np.full(3, 99.5))
    )
    # Of the ranks (0, 0.4), those above 0.05; no draw is as low; of (0.9, 1), those below 0.95.
    np.testing.assert_allclose(found["in_90"], [0.35 / 0.4, 0.0, 0.05 / 0.1])


def test_left_out_scores_that_models_move_are_counted() -> None:
    frame = bounded_tables.frame()
    frame.loc[frame["language"] == "l0", "score"] = 0.0
    frame = frame.drop(columns=["n", "k"])
    found = compare(
        bounded_tables.records(frame), ["additive", "logit"], holdout=0.3, repeats=1, jobs=1
    )
    n = int((found.predictions.query("spec == 'logit'")["score"] == 0.0).sum())
    assert n > 0
    assert found.verdict[-1].startswith(
        f"{n} of 8 left-out scores are at a bound of their scale, or closer to it than 0.5 % of "
        "the range, and logit moves them to this distance (edge): log scores are those of moved"
    )
    own = found.predictions.query("spec == 'logit' and score == 0.0")
    assert ((own["lower"] > 0.0) & (own["in_90"] > 0.0)).any()
