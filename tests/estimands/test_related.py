"""Parts of related languages' effects and effects of new languages, against dense normals."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands.related import (
    RelatedDraws,
    independent_contrasts,
    new_effects,
    part_draws,
    relation_parts,
)
from bayeseval.languages.relations import by_family, by_place, by_script
from tests.helpers import assert_within_mcse

LABELS = ["de", "nl", "ja", "ru", "uk", "ko"]
N = 4  # in the table; Ukrainian and Korean are new
OWN, SDS = 2.0, np.array([5.0, 3.0, 4.0])
MATRICES = np.stack(
    [by_place(LABELS, km=1500).matrix, by_family(LABELS).matrix, by_script(LABELS).matrix]
)
CENTRE = np.eye(N) - 1.0 / N
EFFECT = CENTRE @ np.array([4.0, 1.0, -7.0, 3.0])


def draws(n: int, used: tuple[str, ...] = ("place", "family", "script")) -> RelatedDraws:
    return RelatedDraws(used, np.tile(SDS, (n, 1)), MATRICES[:, :N, :N])


def everything() -> np.ndarray:
    """Prior covariance of all languages, not centred."""
    return OWN**2 * np.eye(len(LABELS)) + np.einsum("k,kij->ij", SDS**2, MATRICES)


def new_given_effects() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of new effects less the mean of the others, by a pseudo-inverse."""
    whole = everything()
    known = np.hstack([CENTRE, np.zeros((N, 2))])
    new = np.hstack([np.full((2, N), -1.0 / N), np.eye(2)])
    gain = new @ whole @ known.T @ np.linalg.pinv(known @ whole @ known.T)
    return gain @ EFFECT, new @ whole @ new.T - gain @ known @ whole @ new.T


def test_new_effects_are_the_normal_given_those_of_the_table() -> None:
    n = 20_000
    values = new_effects(
        draws(n), np.full(n, OWN), np.tile(EFFECT, (n, 1)), MATRICES, np.random.default_rng(1)
    )
    mean, covariance = new_given_effects()
    for i in range(2):
        assert_within_mcse(values[:, i], mean[i])
        assert_within_mcse((values[:, i] - mean[i]) ** 2, covariance[i, i])
    assert_within_mcse((values[:, 0] - mean[0]) * (values[:, 1] - mean[1]), covariance[0, 1])
    # Ukrainian is near Russian, whose effect is 3; unrelated languages have a mean of zero.
    assert mean[0] > 1.0 > 0.0 > mean[1]
    with pytest.raises(AssertionError):
        assert_within_mcse(values[:, 0], 0.0)


def test_unrelated_languages_have_the_spread_of_the_population() -> None:
    n = 20_000
    alone = RelatedDraws(("place",), np.zeros((n, 1)), MATRICES[:1, :N, :N])
    values = new_effects(
        alone, np.full(n, OWN), np.tile(EFFECT, (n, 1)), MATRICES[:1], np.random.default_rng(2)
    )
    assert_within_mcse(values[:, 0], 0.0)
    assert_within_mcse(values[:, 0] ** 2, OWN**2 * (1 + 1 / N))


def test_parts_add_up_and_have_the_dense_means() -> None:
    related = draws(2)
    parts = relation_parts(related, np.full(2, OWN), np.tile(EFFECT, (2, 1)))
    assert parts.labels == ("language", "place", "family", "script")
    np.testing.assert_allclose(parts.mean.sum(axis=1)[1], EFFECT, atol=1e-12)
    known = MATRICES[:, :N, :N]
    own = [OWN**2 * np.eye(N), *(SDS[:, None, None] ** 2 * known)]
    own = [CENTRE @ one @ CENTRE for one in own]
    inverse = np.linalg.pinv(sum(own))
    for part, covariance in enumerate(own):
        gain = covariance @ inverse
        mean, left = gain @ EFFECT, covariance - gain @ covariance
        np.testing.assert_allclose(parts.mean[0, part], mean, atol=1e-12)
        mean_square = (mean**2).sum() + np.trace(left)
        assert parts.finite_sd[0, part] == pytest.approx(np.sqrt(mean_square / (N - 1)))


def test_draws_of_parts_add_up_and_have_these_means_and_spreads() -> None:
    n = 20_000
    own, effect = np.full(n, OWN), np.tile(EFFECT, (n, 1))
    drawn = part_draws(draws(n), own, effect, np.random.default_rng(3))
    assert list(drawn) == ["language", "place", "family", "script"]
    np.testing.assert_allclose(sum(drawn.values()), effect, atol=1e-9)
    exact = relation_parts(draws(1), own[:1], effect[:1])
    for part, values in enumerate(drawn.values()):
        for language in range(N):
            assert_within_mcse(values[:, language], exact.mean[0, part, language])
        assert_within_mcse((values**2).sum(axis=1) / (N - 1), exact.finite_sd[0, part] ** 2)


def test_contrasts_are_independent_under_the_model() -> None:
    n = 20_000
    root = np.linalg.cholesky(everything()[:N, :N])
    effect = np.random.default_rng(4).standard_normal((n, N)) @ root.T @ CENTRE
    white = independent_contrasts(draws(n), np.full(n, OWN), effect)
    assert white.shape == (n, N - 1)
    for i in range(N - 1):
        assert_within_mcse(white[:, i] ** 2, 1.0)
        assert_within_mcse(white[:, i] * white[:, i - 1], 0.0)
    # The effects themselves are not: German and Dutch are alike.
    with pytest.raises(AssertionError):
        assert_within_mcse(effect[:, 0] * effect[:, 1], -float(np.var(effect)) / (N - 1))


def test_the_sd_of_a_relation_is_that_between_the_languages() -> None:
    # Two languages with the relation r differ by a variance of 2 (1 - r), that is (1 - r) each.
    r = by_place(["de", "nl"], km=1000).matrix[0, 1]
    two = RelatedDraws(("place",), np.array([[3.0]]), by_place(["de", "nl"], km=1000).matrix[None])
    assert two.population_sd()[0, 0] == pytest.approx(3.0 * np.sqrt(1.0 - r))
