"""Sentences under the tables of models: true for the table, in the right number."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations

import pandas as pd
import pytest

import bayeseval as be
from bayeseval.design import build_design
from bayeseval.errors import DesignError
from bayeseval.fitting.report.evenness import evenness_sentences, notes_on_gaps, without_evenness
from bayeseval.fitting.report.sentences import (
    leading_sentence,
    listed,
    main_result,
    prediction_sentence,
    ranking_sentences,
)
from bayeseval.spec import load_spec

NAN = float("nan")


def tables(
    models: list[str],
    p: dict[tuple[str, str], float] | float,
    *,
    p_best: list[float],
    tiers: list[int | None],
    within: dict[tuple[str, str], float] | float = NAN,
    margin: float = NAN,
    best: list[bool] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    ranking = pd.DataFrame(
        {
            "model": models,
            "p_best": p_best,
            "may_be_best": pd.array(best or [value > 0.02 for value in p_best], dtype="boolean"),
            "tier": pd.array(tiers, dtype="Int64"),
            "gap_sd_languages_mean": range(len(models)),
        }
    )
    rows = [
        {
            "quantity": quantity,
            "model_a": a,
            "model_b": b,
            "p_a_better": p if isinstance(p, float) else p.get((a, b), 1.0),
            "p_within_margin": within if isinstance(within, float) else within.get((a, b), 0.0),
        }
        for quantity in ("standardised_score", "gap_sd_languages", "model_effect")
        for a, b in combinations(models, 2)
    ]
    pairs = pd.DataFrame(rows)
    pairs.attrs["margin"] = margin
    return ranking, pairs


def test_one_model_is_ahead() -> None:
    p = {("A", "B"): 0.999, ("A", "C"): 0.999, ("B", "C"): 0.6}
    found = ranking_sentences(*tables(list("ABC"), p, p_best=[0.999, 0.001, 0.0], tiers=[1, 2, 2]))
    assert found == [
        "A is ahead, and the best of the 3 models with probability > 0.99.",
        "2 tiers: the models of a tier cannot be told apart from its first one. A model of a "
        "later tier can still be indistinguishable from another of an earlier tier.",
        "2 of 3 pairs of models are in a known order (probability at least 0.975); of these, fewer "
        "than 0.1 are expected to be wrong by chance.",
    ]


def test_the_highest_score_need_not_be_the_best_model() -> None:
    p = {("A", "B"): 0.6, ("A", "C"): 0.98, ("B", "C"): 0.97}
    made = tables(list("ABC"), p, p_best=[0.30, 0.45, 0.25], tiers=[1, 1, 2])
    assert ranking_sentences(*made)[0] == (
        "A has the highest score, and is the best of the 3 models with probability 0.30; it cannot "
        "be told apart from B. B is the best with probability 0.45."
    )


def test_the_leader_is_not_alone() -> None:
    p = {("A", "B"): 0.6, ("A", "C"): 0.9, ("B", "C"): 0.8, ("A", "D"): 0.98}
    p |= {("B", "D"): 0.95, ("C", "D"): 0.7}
    found = ranking_sentences(
        *tables(list("ABCD"), p, p_best=[0.55, 0.35, 0.10, 0.0], tiers=[1, 1, 1, 2])
    )
    assert found[0] == (
        "A has the highest score, and is the best of the 4 models with probability 0.55; it cannot "
        "be told apart from B and C."
    )
    assert found[1] == "The best model is one of A, B and C (with a probability of at least 0.95)."
    made = tables(list("ABCD"), p, p_best=[0.6, 0.4, 0.0, 0.0], tiers=[1, 1, 1, 2])
    assert ranking_sentences(*made)[1] == (
        "The best model is one of A and B (with a probability of at least 0.95). Models that "
        "cannot be told apart from A need not be in this set: telling models apart concerns one "
        "pair at a time."
    )
    assert found[3] == (
        "1 of 6 pairs of models is in a known order (probability at least 0.975); of these, fewer "
        "than 0.1 are expected to be wrong by chance."
    )


def test_a_third_model_makes_no_leader_of_two_equal_ones() -> None:
    p = {("A", "B"): 0.52, ("A", "C"): 1.0, ("B", "C"): 1.0}
    made = tables(list("ABC"), p, p_best=[0.52, 0.48, 0.0], tiers=[1, 1, 2])
    assert main_result(*made) == (
        "A has the highest score, and is the best of the 3 models with probability 0.52; it cannot "
        "be told apart from B"
    )


def test_all_models_are_equal() -> None:
    found = ranking_sentences(*tables(list("ABCDE"), 0.55, p_best=[0.2] * 5, tiers=[1] * 5))
    assert found == [
        "None of the 5 models can be told apart from another: for no pair is the order known with "
        "a probability of 0.975."
    ]


def test_equal_models_of_which_some_are_not_the_best() -> None:
    """Joint sets can exclude a first rank where no single pair is apart; that is explained."""
    made = tables(
        list("ABC"), 0.9, p_best=[0.6, 0.39, 0.01], tiers=[1, 1, 1], within=0.5, margin=1.0
    )
    assert ranking_sentences(*made, unit="score points") == [
        "None of the 3 models can be told apart from another: for no pair is the order known with "
        "a probability of 0.975.",
        "The best model is one of A and B (with a probability of at least 0.95). Models that "
        "cannot be told apart from A need not be in this set: telling models apart concerns one "
        "pair at a time.",
        "For none of the 3 pairs of models is it known, with a probability of at least 0.975, "
        "whether they differ by more or by less than the margin of 1 score point.",
    ]


def test_the_main_result_is_the_first_sentence_with_fewer_names() -> None:
    p = {("A", "B"): 0.6, ("A", "C"): 0.9, ("B", "C"): 0.8, ("A", "D"): 0.7, ("A", "E"): 0.98}
    made = tables(list("ABCDE"), p, p_best=[0.55, 0.35, 0.10, 0.0, 0.0], tiers=[1, 1, 1, 1, 2])
    assert main_result(*made, most=1) == (
        "A has the highest score, and is the best of the 5 models with probability 0.55; it cannot "
        "be told apart from B and 2 others"
    )
    assert ranking_sentences(*made)[0] == f"{main_result(*made)}."
    assert main_result(*tables(list("ABC"), NAN, p_best=[NAN] * 3, tiers=[None] * 3)) == ""


@pytest.mark.parametrize(
    ("p", "within", "expected"),
    [
        (
            0.71,
            0.4,
            [
                "The two models cannot be told apart: A is better than B with probability 0.71 "
                "only.",
                "The difference is larger than the margin of 1 score point, in one direction or "
                "the other, with probability 0.60.",
            ],
        ),
        # The probability of the pair says who is better, not the order of the ranking.
        (
            0.01,
            0.001,
            [
                "B is better than A with probability 0.99.",
                "The difference is larger than the margin of 1 score point.",
            ],
        ),
        (0.6, 0.99, None),
    ],
)
def test_two_models(p: float, within: float, expected: list[str] | None) -> None:
    made = tables(["A", "B"], p, p_best=[p, 1 - p], tiers=[1, 1], within=within, margin=1.0)
    found = ranking_sentences(*made, unit="score points")
    if expected is None:
        assert found[1] == "The difference is smaller than the margin of 1 score point."
    else:
        assert found == expected


def test_expected_wrong_calls_and_margins() -> None:
    models = [f"m{i}" for i in range(10)]
    # Of 45 pairs 40 are called at 0.98: 0.8 wrong; five are close.
    ordered = list(combinations(models, 2))
    p = dict.fromkeys(ordered, 0.98) | dict.fromkeys(ordered[:5], 0.5)
    within = dict.fromkeys(ordered, 0.0) | dict.fromkeys(ordered[:5], 0.99)
    within |= dict.fromkeys(ordered[5:8], 0.5)
    found = ranking_sentences(
        *tables(
            models,
            p,
            p_best=[0.2] * 5 + [0.0] * 5,
            tiers=[1] * 6 + [2] * 4,
            within=within,
            margin=0.01,
        ),
        unit="units of the scale 0 to 1",
    )
    assert "of these, about 0.8 are expected to be wrong by chance." in found[3]
    assert found[3].startswith("40 of 45 pairs of models are in a known order")
    assert found[0].endswith("it cannot be told apart from m1, m2, m3, m4 and m5.")
    assert found[4] == (
        "37 of 45 pairs of models differ in a known direction by more than the margin of 0.01 "
        "units of the scale 0 to 1, and 5 pairs differ by less (each with a probability of at "
        "least 0.975); for 3 pairs this is not known."
    )


def test_sixty_models_are_counted() -> None:
    models = [f"m{i:02d}" for i in range(60)]
    p = {pair: 0.99 if pair[1] == "m59" else 0.6 for pair in combinations(models, 2)}
    found = ranking_sentences(
        *tables(
            models, p, p_best=[1 / 60] * 60, tiers=[1] * 59 + [2], best=[True] * 57 + [False] * 3
        )
    )
    assert found[0].endswith("it cannot be told apart from m01, m02, m03, m04 and 54 others.")
    assert "one of m00, m01, m02, m03 and 53 others" in found[1]
    assert max(len(text) for text in found) < 220


def test_nothing_is_said_of_point_estimates_and_single_models() -> None:
    ranking, pairs = tables(["A", "B"], NAN, p_best=[NAN, NAN], tiers=[None, None])
    assert ranking_sentences(ranking, pairs) == []
    assert ranking_sentences(*tables(["A"], 0.5, p_best=[1.0], tiers=[1])[:1], pairs) == []
    assert evenness_sentences(ranking, pairs) == []


def test_every_model_has_its_place() -> None:
    found = ranking_sentences(*tables(list("ABC"), 0.99, p_best=[1.0, 0.0, 0.0], tiers=[1, 2, 3]))
    assert "Each model can be told apart from the next one." in found


def test_evenness() -> None:
    texts = ["1.0 [0.5, 1.5]", "2.0 [1.5, 2.5]", "3.0 [2.5, 3.5]"]
    made = tables(list("ABC"), 0.9, p_best=[1.0, 0.0, 0.0], tiers=[1, 2, 3])
    assert evenness_sentences(*made, called=texts) == [
        "No two models can be told apart in how even they are over languages."
    ]
    p = {("A", "B"): 0.5, ("B", "C"): 0.9}
    made = tables(list("ABC"), p, p_best=[1.0, 0.0, 0.0], tiers=[1, 2, 3])
    assert evenness_sentences(*made, called=texts) == [
        "1 of 3 pairs of models differs in evenness over these languages (probability at least "
        "0.975); of these, fewer than 0.1 are expected to be wrong by chance. The sd is "
        "largest for C (3.0 [2.5, 3.5])."
    ]


def test_a_model_with_one_score_throughout_is_not_the_least_even_one() -> None:
    texts = ["1.0 [0.5, 1.5]", "2.0 [1.5, 2.5]", "3.0 [2.5, 3.5]"]
    p = {("A", "B"): 0.5, ("B", "C"): 0.9}
    made = tables(list("ABC"), p, p_best=[1.0, 0.0, 0.0], tiers=[1, 2, 3])
    first, note = evenness_sentences(*made, called=texts, constant=["C"])
    assert first.endswith("Apart from C, the sd is largest for B (2.0 [1.5, 2.5]).")
    assert note == (
        "C has one score throughout: its gaps mirror the potentials of the languages, and do not "
        "say how even it is."
    )
    first, note = evenness_sentences(*made, called=texts, constant=["C", "A", "B"])
    assert first.endswith("by chance.")
    assert note.startswith("A, B and C have one score throughout: their gaps")
    level = tables(list("ABC"), 0.9, p_best=[1.0, 0.0, 0.0], tiers=[1, 2, 3])
    assert evenness_sentences(*level, constant=["C"])[1:] == [
        "C has one score throughout: its gaps mirror the potentials of the languages, and do not "
        "say how even it is."
    ]


def test_a_first_model_that_is_mostly_predicted_is_said_beside_its_lead() -> None:
    made = tables(list("ABC"), {("A", "B"): 0.99}, p_best=[0.9, 0.1, 0.0], tiers=[1, 2, 3])
    for share, said in ((0.5, False), (0.63, True)):
        ranking = made[0].assign(share_predicted=[share, 0.9, 0.9])
        sentence = leading_sentence(ranking, made[1])
        warned = sentence.endswith(
            " But 63 % of the language-task pairs behind the score of A are predicted, not "
            "measured."
        )
        assert warned is said
        assert ("predicted" in sentence) is said


def test_what_was_predicted() -> None:
    ranking = pd.DataFrame({"model": ["A", "MuRIL", "C", "D"]})
    pairs = "Scores are means over the same 10 language-task pairs."
    missing = "tested on all of them; missing scores are predicted"
    half = "more than half of all"

    def said(*share: float) -> str:
        return prediction_sentence(ranking.assign(share_predicted=share), 10)

    assert said(0.0, 0.9, 0.7, 0.2) == (
        f"{pairs} 3 of the 4 models were not {missing}, for 2 models {half}. MuRIL was "
        "tested on the fewest pairs, 1."
    )
    assert said(0.0, 0.3, 0.1, 0.0) == (
        f"{pairs} 2 of the 4 models were not {missing}. MuRIL was tested on the fewest pairs, 7."
    )
    assert f"{missing}, for all 4 models {half}. MuRIL was" in said(0.6, 0.9, 0.7, 0.8)
    assert said(0.7, 0.1, 0.7, 0.6) == (
        f"{pairs} None of the 4 models was {missing}, for 3 models {half}. A and C were tested on "
        "the fewest pairs, 3."
    )
    assert said(0.0, 0.6, 0.0, 0.0) == (
        f"{pairs} 1 of the 4 models was not {missing}, for 1 model {half}. MuRIL was tested on "
        "the fewest pairs, 4."
    )
    assert said(0.4, 0.4, 0.4, 0.4) == (
        f"{pairs} Every model was tested on 6 of them; the others are predicted."
    )
    many = pd.DataFrame({"model": list("ABCDEFG"), "share_predicted": [0.0] + [0.5] * 6})
    assert "A, B" not in prediction_sentence(many, 10)
    assert "B, C, D, E and 2 others were tested on the fewest" in prediction_sentence(many, 10)
    assert prediction_sentence(ranking.assign(share_predicted=0.0), 32) == (
        "All models were tested on all 32 language-task pairs: no score is predicted."
    )


def test_what_would_estimate_evenness() -> None:
    levels = {"language": 8, "task": 15, "model": 6}
    assert without_evenness(levels).endswith(
        "no model:language term. The model crossed has the term. So has a spec of your own with "
        "'interactions: [model:language]', which can keep the likelihood of this model."
    )
    # What auto left out is no advice.
    assert "crossed" not in without_evenness(levels, chosen=True)
    assert "more models, languages or tasks" in without_evenness(levels, chosen=True)
    one = without_evenness({**levels, "task": 1})
    assert "--model" not in one
    assert (
        "With one task, the model factors estimates the part of it that follows two patterns over "
        "languages, which models have more or less of; gaps of another kind count as noise there."
    ) in one
    assert "(n)" in one
    assert "(se)" in one
    assert "Seeds alone are not enough" in one
    assert "if all errors are known already, add models or languages" in one
    # Nor is a model that refuses the table.
    for few in ({"model": 3}, {"language": 3}):
        assert "factors" not in without_evenness({**levels, "task": 1, **few})


@pytest.mark.parametrize(
    ("models", "languages", "refused"),
    [(4, 5, False), (5, 4, False), (4, 4, True), (3, 9, True), (2, 9, True)],
)
def test_factors_is_recommended_where_it_can_be_fitted(
    models: int, languages: int, refused: bool
) -> None:
    levels = {"language": languages, "task": 1, "model": models}
    numbers = {f"n_{factor}s": n for factor, n in levels.items()}
    table = be.simulate("additive", seed=1, observed_share=1.0, **numbers).records
    spec = load_spec({"name": "factors", "low_rank": {"model:language": 2}})
    assert ("factors" in without_evenness(levels)) is not refused
    with pytest.raises(DesignError, match="rank") if refused else nullcontext():
        build_design(table, spec)


def test_two_models_are_as_even_as_each_other() -> None:
    ranking = pd.DataFrame({"model": ["a", "b"], "gap_sd_languages_mean": [3.3, 3.3]})
    pairs = pd.DataFrame({"quantity": ["gap_sd_languages"], "p_a_better": [0.5]})
    assert evenness_sentences(ranking, pairs) == [
        "With two models, the gaps of one mirror those of the other: both have the same sd of "
        "gaps, which says how much their difference varies over languages, and not which of them "
        "is uneven."
    ]
    # Two rows of three models, the PRR of one of which is not known.
    three = pd.concat([pairs] * 3, ignore_index=True)
    assert evenness_sentences(ranking, three) == [
        "No two models can be told apart in how even they are over languages."
    ]


def test_gaps_that_follow_no_pattern_are_said_to_count_as_noise() -> None:
    ranking = pd.DataFrame({"model": list("abc"), "gap_sd_languages_mean": [1.0, 2.0, 3.0]})
    pairs = pd.DataFrame({"quantity": ["gap_sd_languages"] * 3, "p_a_better": [0.5] * 3})
    run = {"spec": {"interactions": ["language:task"], "low_rank": {"model:language": 2}}}
    assert evenness_sentences(ranking, pairs, notes=notes_on_gaps(run)) == [
        "No two models can be told apart in how even they are over languages.",
        "These gaps follow 2 patterns over languages, which models have more or less of. Gaps "
        "of any other kind count as noise: if there are such gaps, the sds are too small, and "
        "their intervals do not show it.",
    ]
    # The full interaction takes up gaps of any kind.
    run["spec"]["interactions"] = ["model:language"]
    assert notes_on_gaps(run) == []
    assert notes_on_gaps({}) == []


def test_lists_of_names() -> None:
    assert listed(["A"]) == "A"
    assert listed(["A", "B"]) == "A and B"
    # One more is named, not counted.
    assert listed(list("ABCDE")) == "A, B, C, D and E"
    assert listed(list("ABCDEF")) == "A, B, C, D and 2 others"
