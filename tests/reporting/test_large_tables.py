"""Tables that grow with models times languages or ranks: a page does without the largest."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayeseval as be
from bayeseval.errors import InputError
from bayeseval.reporting import folder, read_saved
from bayeseval.reporting.page import render_page


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = be.simulate("additive", n_languages=40, n_tasks=2, n_models=5, seed=3).records.table
    fit = be.fit(table, "additive", engine="marginal", draws=100, chains=2)
    return fit.save(tmp_path_factory.mktemp("fit") / "result", figures=False)


def test_a_page_goes_without_tables_that_are_too_large(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = read_saved(saved)
    rows = {name: len(whole.tables[name]) for name in folder._GROWING}
    assert rows["model_language"] == 200
    others = {name: len(t) for name, t in whole.tables.items() if name not in rows}
    # The header counts.
    most = max(others.values()) + 1
    monkeypatch.setattr(folder, "_MAX_ROWS", most)
    capsys.readouterr()
    large = sorted(name for name, n in rows.items() if n > most)
    assert "model_language" in large
    found = read_saved(saved)
    assert sorted(whole.tables.keys() - found.tables.keys()) == large
    said = capsys.readouterr().err
    for name in large:
        assert f"{name}.csv is too large for a page, which is made without it" in said
    page = render_page(found)
    assert "Language potential" in page
    # Nor does a table on it name their files.
    assert "tables/model_language.csv" not in page


def test_other_tables_of_that_size_are_damaged(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_MAX_ROWS", 3)
    with pytest.raises(InputError, match=r"more than 3 rows"):
        read_saved(saved)
