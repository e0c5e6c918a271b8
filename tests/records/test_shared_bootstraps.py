"""What bootstraps show of shared test sets, where languages or models share theirs in part."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval._typing import Floats, Index
from bayeseval.records import item_pairs
from bayeseval.records.item_pairs import split_boot_variances, sums_of_task

LANGUAGES, MODELS, BOOTS, TABLES = 8, 10, 20, 200


def cells(seed: int = 0, share: float = 1.0) -> tuple[Index, Index]:
    """Languages and models of a table's cells, some of which are missing."""
    both = np.indices((LANGUAGES, MODELS)).reshape(2, -1)
    there = np.random.default_rng(seed).random(both.shape[1]) < share
    return both[0, there], both[1, there]


@pytest.mark.parametrize(
    ("weights", "rho"),
    [
        ({"task": 0.3}, {}),
        ({"task": 0.3}, {"language": 0.4, "model": 0.1}),
        ({"language": 0.5, "task": -0.2}, {"task": 0.2, "model": 0.3}),
        ({"model": 0.5}, {"language": 0.3}),
    ],
)
def test_the_error_of_a_part_is_that_of_a_sum_over_pairs(
    weights: dict[str, float], rho: dict[str, float]
) -> None:
    language, model = cells(share=0.7)
    sd = np.random.default_rng(1).uniform(0.5, 2.0, len(language))
    same = {"language": language[:, None] == language, "model": model[:, None] == model}
    alone = np.eye(len(sd), dtype=bool)
    kinds = {
        "task": ~same["language"] & ~same["model"],
        "language": same["language"] & ~alone,
        "model": same["model"] & ~alone,
    }
    pairs = sum(weight * kinds[kind] for kind, weight in weights.items())
    correlation = np.full_like(pairs, rho.get("task", 0.0))
    for kind in ("language", "model"):
        correlation += rho.get(kind, 0.0) * same[kind]
    correlation[alone] = 1.0
    product = pairs @ (sd[:, None] * correlation * sd)
    found = item_pairs._trace(weights, rho, sd, language, model)
    assert found == pytest.approx(np.trace(product @ product), rel=1e-12)


def parts(shares: dict[str, float], rng: np.random.Generator) -> Floats:
    """The parts that a table of bootstraps shows, of a variance of 1."""
    language, model = cells()
    draws = {
        "task": rng.normal(size=(1, BOOTS)),
        "language": rng.normal(size=(LANGUAGES, BOOTS))[language],
        "model": rng.normal(size=(MODELS, BOOTS))[model],
    }
    score = np.sqrt(1.0 - sum(shares.values())) * rng.normal(size=(len(language), BOOTS))
    score += sum(np.sqrt(share) * draws[part] for part, share in shares.items())
    centred = score - score.mean(axis=1, keepdims=True)
    cell, boot = np.indices(score.shape).reshape(2, -1)
    sums = sums_of_task(cell, boot, centred.ravel(), language, model)
    return split_boot_variances(sums, score.var(axis=1, ddof=1), language, model)


@pytest.mark.parametrize("shared", [{"language": 0.9}, {"task": 0.5}, {"model": 0.5}, {}])
def test_parts_that_nothing_shares_are_rarely_found(
    shared: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> dict[str, float]:
        rng = np.random.default_rng(5)
        tables = np.array([parts(shared, rng) for _ in range(TABLES)])[:, :3]
        return dict(zip(("task", "language", "model"), (tables > 0.0).mean(axis=0), strict=True))

    for part, rate in found().items():
        if part in shared:
            assert rate == 1.0
        else:
            # 2.3 % are above two standard errors; 17 of 200 are more than in 1 of 10^5 sets.
            assert rate <= 0.08, part
    if "language" in shared:
        # Negative control: the standard error of independent cells.
        monkeypatch.setattr(item_pairs, "_MOST_GROUPS", 0)
        assert found()["task"] > 0.2
