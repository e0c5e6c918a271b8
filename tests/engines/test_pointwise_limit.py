"""Large tables: what is kept record by record is left out, and said."""

from __future__ import annotations

import pytest

from bayeseval import fit, names
from bayeseval.simulation import simulate


def test_a_result_too_large_to_keep_record_by_record_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = simulate(seed=3).records
    settings = {"engine": "marginal", "draws": 500, "chains": 4}
    values = len(records) * 2000
    # As many values as there is room for: everything is kept.
    monkeypatch.setattr(names, "MOST_POINTWISE", values)
    whole = fit(records, "additive", **settings)
    assert whole.data["log_likelihood"]["score"].size == values
    assert whole.data["estimands"]["record_prr"].size == values
    assert not any("log_likelihood" in note for note in whole.run["notes"])

    monkeypatch.setattr(names, "MOST_POINTWISE", values - 1)
    cut = fit(records, "additive", **settings)
    assert "log_likelihood" not in cut.data.children
    assert "record_prr" not in cut.data["estimands"]
    (note,) = [note for note in cut.run["notes"] if "log_likelihood" in note]
    assert note.startswith("log_likelihood and prr are not stored record by record")
    # Everything else is the same.
    assert cut.potential().equals(whole.potential())
    assert cut.prr().equals(whole.prr())
