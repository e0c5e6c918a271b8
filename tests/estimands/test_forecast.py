"""Variance of a language without records, against the sum of its parts."""

from __future__ import annotations

import numpy as np
import pytest

from bayeseval.estimands.forecast import new_potential
from bayeseval.estimands.read import read_arrays
from tests.estimands.trees import COMPLETE, CROSSED, make_tree

N = 20_000
# An sd whose square is not its double.
SD = 5.0


@pytest.mark.parametrize("interactions", [(), ("language:task",), ("model:language",), CROSSED])
def test_the_variance_of_a_new_language_has_all_its_parts(interactions: tuple[str, ...]) -> None:
    tree = make_tree(COMPLETE, interactions=interactions, chains=1, draws=N, sd_cells=SD)
    arrays = read_arrays(tree)
    line = np.zeros((N, 1))
    found = new_potential(arrays, line, rng=np.random.default_rng(0), seed=0)[:, 0]
    # Three languages, two tasks and three models, all of whose cells are in the table.
    variance = arrays.main_sd["language"] ** 2 * (1.0 + 1.0 / 3.0)
    variance = variance + (SD**2 / 2.0 if "language:task" in interactions else 0.0)
    variance = variance + (SD**2 / 3.0 if "model:language" in interactions else 0.0)
    centre = arrays.intercept + arrays.main["task"].mean(axis=1)
    if "model:task" in interactions:
        effect = tree["posterior"]["model_task_effect"].to_numpy()[0]
        centre = centre + effect.mean(axis=1)
    z = (found - centre) / np.sqrt(variance)
    assert abs(z.mean()) < 5.0 / np.sqrt(N)
    assert z.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(2 * N))
