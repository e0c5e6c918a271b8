"""`perf/prediction_peers.py`: peers see no score that is left out, and know what they should."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from bayeseval.comparison.two_way import TWO_WAY

# LightGBM is installed with the extra `perf` only.
NAMES = [TWO_WAY, "soft-impute", "rank-2 completion"]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "perf"))
    monkeypatch.delitem(sys.modules, "prediction_peers", raising=False)
    import prediction_peers

    monkeypatch.delitem(sys.modules, "prediction_peers")
    assert {*NAMES, "LightGBM"} == set(prediction_peers.PEERS)
    return prediction_peers


def table(rank: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Twelve models, fifteen languages, one task; a fifth is left out."""
    rng = np.random.default_rng(0)
    model, language = (one.reshape(-1) for one in np.indices((12, 15)))
    low = rng.normal(size=(12, rank)) @ rng.normal(size=(rank, 15)) * 6.0
    main = 50.0 + 5.0 * rng.normal(size=(12, 1)) + 5.0 * rng.normal(size=15)
    score = (main + low).reshape(-1) + 0.5 * rng.normal(size=180)
    codes = {"model": model, "language": language, "task": 0 * model, "dataset": 0 * model}
    return codes, score, np.sort(rng.permutation(180)[:36])


def predicted(peers: ModuleType, name: str, score: np.ndarray, *, rank: int) -> pd.DataFrame:
    codes, _, out = table(rank)
    rng = np.random.default_rng(1)
    frame: pd.DataFrame = peers.predict(name, codes, score, np.arange(180), out, rng)
    return frame


@pytest.mark.parametrize("name", NAMES)
def test_left_out_scores_do_not_reach_peers(peers: ModuleType, name: str) -> None:
    _, score, out = table(1)
    before = predicted(peers, name, score, rank=1).drop(columns=["crps", "in_90"])
    changed = score.copy()
    changed[out] = 100.0 - changed[out]
    pd.testing.assert_frame_equal(
        predicted(peers, name, changed, rank=1).drop(columns=["crps", "in_90"]), before
    )
    # Negative control: one that stays does.
    changed = score.copy()
    changed[np.setdiff1d(np.arange(180), out)[0]] += 5.0
    moved = predicted(peers, name, changed, rank=1)
    assert (moved["mean"] != before["mean"]).any()


def error_of_main_effects(rank: int) -> float:
    """RMSE of least squares of models and languages on what is left."""
    codes, score, out = table(rank)
    rows = np.hstack([np.eye(12)[codes["model"]], np.eye(15)[codes["language"]]])
    kept = np.setdiff1d(np.arange(180), out)
    effects = np.linalg.lstsq(rows[kept], score[kept], rcond=None)[0]
    return float(np.sqrt(np.mean((rows[out] @ effects - score[out]) ** 2)))


def test_matrix_completions_find_what_two_ways_leave(peers: ModuleType) -> None:
    _, score, out = table(1)
    rmse, inside = {}, {}
    for name in NAMES:
        found = predicted(peers, name, score, rank=1)
        rmse[name] = float(np.sqrt(np.mean((found["mean"] - score[out]) ** 2)))
        inside[name] = float(
            ((found["lower"] <= score[out]) & (score[out] <= found["upper"])).mean()
        )
    # 0.31 to 0.49 over five seeds of what the completions draw.
    assert max(rmse["soft-impute"], rmse["rank-2 completion"]) < 0.6 * error_of_main_effects(1)
    # Of 36 intervals of 95 %, 27 or fewer hold their score with a probability of 5e-05.
    assert min(inside.values()) > 0.75
    # Negative control: of a table without an interaction, nothing is better than main effects.
    _, plain, _ = table(0)
    for name in NAMES:
        error = predicted(peers, name, plain, rank=0)["mean"] - plain[out]
        assert float(np.sqrt(np.mean(error**2))) > error_of_main_effects(0)
