"""Tables of many levels: pairs and ranks of the best ones alone, and blocks of levels."""

from __future__ import annotations

import numpy as np
import pytest

import bayeseval as be
from bayeseval import estimands, names
from bayeseval.estimands import ranks
from bayeseval.estimands.expected import expected_scores, language_potential
from bayeseval.estimands.inference import language_gaps
from bayeseval.fitting.report.sentences import ranking_sentences
from bayeseval.reporting import languages, read_saved
from bayeseval.reporting.page import render_page
from bayeseval.simulation import simulate

MOST = 4


@pytest.fixture(scope="module")
def fit() -> be.Fit:
    table = simulate("interaction", n_languages=5, n_tasks=2, n_models=7, seed=3).records
    return be.fit(table, "interaction", draws=100, chains=2)


@pytest.mark.parametrize("quantity", [names.STANDARDISED_SCORE, names.GAP_SD])
def test_pairs_are_those_of_the_best_models(fit: be.Fit, quantity: str) -> None:
    every = estimands.pairwise_table(fit.data, [quantity])
    some = estimands.pairwise_table(fit.data, [quantity], most=MOST)
    assert (len(every), len(some)) == (21, 6)
    mean = fit.data["posterior"][quantity].mean(["chain", "draw"]).to_series()
    best = set(mean.sort_values(ascending=quantity == names.GAP_SD).index[:MOST])
    assert {*some["model_a"], *some["model_b"]} == best
    keys = ["quantity", "model_a", "model_b"]
    kept = every[every["model_a"].isin(best) & every["model_b"].isin(best)]
    assert some.set_index(keys).equals(kept.set_index(keys))
    assert estimands.pairwise_table(fit.data, [quantity], most=7).equals(every)


def test_ranks_are_those_of_the_best_levels(fit: be.Fit) -> None:
    every = estimands.rank_probability_table(fit.data, [names.STANDARDISED_SCORE])
    some = estimands.rank_probability_table(fit.data, [names.STANDARDISED_SCORE], most=2)
    assert list(some["level"].unique()) == list(every["level"].unique()[:2])
    # Nothing is lost but zeros.
    np.testing.assert_allclose(some.groupby("level")["probability"].sum(), 1.0, rtol=1e-12)
    assert some.loc[some["rank"] == some["rank"].max(), "probability"].max() > 0.0
    joined = some.merge(every, on=["level", "rank"], how="left")
    assert joined["probability_x"].equals(joined["probability_y"])
    assert estimands.rank_probability_table(fit.data, [names.STANDARDISED_SCORE], most=7).equals(
        every
    )


def test_counts_of_the_first_ranks_are_those_of_all(fit: be.Fit) -> None:
    drawn = ranks.rank_draws(np.random.default_rng(0).normal(size=(50, 6)), highest_first=True)
    drawn[:, 2] = np.nan
    drawn[7] = np.nan
    whole = ranks.rank_probabilities(drawn)
    by_hand = np.stack([(drawn == r).sum(axis=0) / 49 for r in range(1, 7)], axis=1)
    by_hand[2] = np.nan
    np.testing.assert_array_equal(whole, by_hand)
    np.testing.assert_array_equal(ranks.rank_probabilities(drawn, most=2), whole[:, :2])
    assert np.isnan(ranks.rank_probabilities(drawn[:1])).all()


def test_rank_sets_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=(300, 9)) + np.arange(9.0)
    drawn = ranks.rank_draws(values, highest_first=True)
    whole = ranks.rank_sets(drawn, prob=0.9)
    assert (whole[0] < whole[1]).any()
    monkeypatch.setattr(ranks, "_MOST_DEPTHS", 20)
    np.testing.assert_array_equal(ranks.rank_sets(drawn, prob=0.9), whole)


def test_gaps_of_models_in_groups_are_the_same(fit: be.Fit) -> None:
    arrays = estimands.read_arrays(fit.data)
    left_out = np.array([False, True, False, False, False])
    potential = language_potential(arrays, seed=5)
    expected = expected_scores(arrays, seed=5)
    ((models, languages, *whole),) = language_gaps(expected, potential, left_out)
    assert (len(models), languages) == (7, slice(0, 5))
    groups = [
        (models, gap, ratio)
        for models, _, gap, ratio in language_gaps(
            # One draw in a block.
            expected_scores(arrays, seed=5, max_bytes=1),
            potential,
            left_out,
            max_values=2 * arrays.n_samples * 5,
        )
    ]
    assert [len(group[0]) for group in groups] == [2, 2, 2, 1]
    for part, expected in zip((1, 2), whole, strict=True):
        together = np.concatenate([group[part] for group in groups], axis=1)
        np.testing.assert_allclose(together, expected, rtol=1e-12)
    assert not np.allclose(whole[0][:, 0], whole[0][:, 1])


def test_sentences_say_of_whom_the_pairs_are(fit: be.Fit) -> None:
    ranking = estimands.ranking_table(fit.data)
    every = estimands.pairwise_table(fit.data)
    some = estimands.pairwise_table(fit.data, most=MOST)
    text = " ".join(ranking_sentences(ranking, every))
    assert "of 21 pairs of models" in text
    text = " ".join(ranking_sentences(ranking, some))
    assert "6 pairs of the best 4 of 7 models" in text
    assert "21 pairs" not in text


def test_files_of_a_result_are_not_quadratic(
    fit: be.Fit, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MOST_PAIRED", 3)
    monkeypatch.setattr(names, "MOST_RANKED", 4)
    monkeypatch.setattr(languages, "_MOST_CELLS", 17)
    tables = fit.tables
    of_score = tables["pairwise_models"]["quantity"] == names.STANDARDISED_SCORE
    assert of_score.sum() == 3
    ranked = tables["rank_probabilities"]
    assert ranked[ranked["quantity"] == names.STANDARDISED_SCORE]["level"].nunique() == 4
    assert len(tables["model_ranking"]) == 7
    # Views that are asked for have all.
    assert len(fit.pairwise()) == 21
    assert fit.ranks(names.STANDARDISED_SCORE)["level"].nunique() == 7
    # Figures and page are made from what there is.
    saved = fit.save(f"{tmp_path}/run", progress=False)
    assert (saved / "figures" / "ranks.png").is_file()
    page = render_page(read_saved(saved))
    assert "best 3 of 7 models" in page
    # Three models have fifteen rows.
    assert "3 models in 5 languages. The best 3 of 7 models." in page
