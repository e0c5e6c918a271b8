"""What the first table of every model of MEGA has in common."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeseval import Fit


def check_ranking(result: Fit) -> pd.DataFrame:
    """Every model has a score, a PRR and a rank, and the first table is one of whole numbers."""
    ranking = result.ranking(detail=True).set_index("model")
    assert len(ranking) == 13
    shown = ["score_mean", "score_lower", "prr_mean", "prr_upper", "rank_median", "rank_lower"]
    assert ranking[[*shown, "rank_set_upper", "p_best", "tier"]].notna().all(axis=None)
    assert ranking["rank_mean"].sum() == pytest.approx(13 * 14 / 2, abs=1e-6)
    # MuRIL was tested on 11 of 216 pairs: its place is open, and most of it predicted.
    assert ranking.loc["MuRIL", "rank_upper"] >= 4
    assert ranking.loc["MuRIL", "share_predicted"] == pytest.approx(1 - 11 / 216)
    return ranking
