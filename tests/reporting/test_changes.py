"""What changed between two results: by hand on made-up tables, and on two real fits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.reporting import SavedResults, read_saved
from bayeseval.reporting.changes import Changes, changes_between
from tests.reporting.results import hard_table, saved_fit

RUN: dict[str, Any] = {
    "benchmark": "toy",
    "data_hash": "a",
    "spec_hash": "s",
    "spec": {"name": "additive"},
    "priors": {"sd_model": "half_normal(scale=10)"},
    "engine": "marginal",
    "seed": 0,
    "settings": {"draws": 100, "seed": 0},
    "pairs_hash": "p",
    "versions": {"numpy": "2.0", "bayeseval": "0.1.0"},
    "gate": {"status": "pass"},
}


def made(name: str, scores: dict[str, tuple[float, float, float]], **run: object) -> SavedResults:
    """A result of models with score, sd and median rank; two languages that never change."""
    rows = [
        {
            "model": model,
            "score_mean": mean,
            "score_sd": sd,
            "prr_mean": mean / 50.0,
            "prr_sd": sd / 50.0,
            "rank_median": rank,
        }
        for model, (mean, sd, rank) in scores.items()
    ]
    potential = pd.DataFrame(
        {
            "language": ["hi", "sw"],
            "language_name": ["Hindi", "Swahili"],
            "potential_mean": [50.0, 40.0],
            "potential_sd": [1.0, 1.0],
            "rank_median": [1.0, 2.0],
        }
    )
    tables = {"model_ranking": pd.DataFrame(rows), "language_potential": potential}
    return SavedResults(Path(name), {**RUN, **run}, tables)


OLD = made("old", {"a": (60.0, 3.0, 1.0), "b": (50.0, 3.0, 2.0), "c": (40.0, 3.0, 3.0)})


def lines(changes: Changes) -> list[str]:
    found = changes.text.splitlines()
    assert len(found) <= 15
    assert all(found)
    return found


def test_a_change_beyond_its_uncertainty() -> None:
    new = made("new", {"b": (62.0, 4.0, 1.0), "a": (60.5, 4.0, 2.0), "c": (40.0, 4.0, 3.0)})
    changes = changes_between(new, OLD)
    row = changes.table.set_index(["level", "quantity"]).loc[("b", "score")]
    assert (row["old"], row["new"], row["diff"]) == (50.0, 62.0, 12.0)
    assert row["diff_sd"] == 5.0, "sqrt(3^2 + 4^2)"
    assert row["p_higher"] == pytest.approx(norm.cdf(12.0 / 5.0), rel=1e-12)
    assert row["changed"]
    assert (row["rank_old"], row["rank_new"]) == (2.0, 1.0)
    assert lines(changes) == [
        "new against old",
        "Same data, model, priors, engine, seed and versions.",
        "Models: 3 in both.",
        "Languages: 2 in both.",
        "Expected scores of models: 1 of 3 changed by more than their uncertainty:",
        "  b 50 -> 62 (+12, sd 5).",
        "PRR: 1 of 3 changed by more than their uncertainty:",
        "  b 1.00 -> 1.24 (+0.24, sd 0.10).",
        "Language potentials: none of 2 changed by more than its uncertainty; all are the same.",
        "Median ranks of models: 2 of 3 changed: b 2 -> 1, a 1 -> 2.",
        "A change counts from a probability of 0.975 on; the two posteriors are taken as "
        "independent, which overstates the sd of a difference on the same data.",
    ]


def test_other_units_of_the_same_scores_are_no_other_data() -> None:
    def run(rows: str, data: str, **bounds: object) -> SavedResults:
        more = {"rows_hash": rows, "scores_hash": data, "data_hash": data, "bounds": bounds}
        return SavedResults(OLD.path, {**OLD.run, **more}, OLD.tables)

    def said(new: SavedResults, old: SavedResults) -> str:
        return changes_between(new, old).text.splitlines()[1]

    plain, with_bounds = run("r", "d", qa=[None, None]), run("r", "e", qa=[None, 100.0])
    assert said(with_bounds, plain) == (
        "Different: units of 1 task, with the same scores (unknown -> up to 100)."
    )
    several = (
        run("r", "f", qa=[0.0, 100.0], nli=[0.0, 1.0]),
        run("r", "g", qa=[0.0, 99.0], nli=[0.0, 2.0]),
    )
    assert said(*several).startswith("Different: units of 2 tasks, with the same scores")
    # Other rows are other data, whatever their units; and so are rows without a hash.
    assert said(run("q", "e", qa=[None, 100.0]), plain) == "Different: data."
    assert said(run("q", "e", qa=[None, None]), plain) == "Different: data."


def test_other_covariates_on_the_same_scores_are_no_other_data() -> None:
    def run(scores: str, data: str, **covariates: object) -> SavedResults:
        more = {"scores_hash": scores, "data_hash": data, "covariates": covariates}
        return SavedResults(OLD.path, {**OLD.run, **more}, OLD.tables)

    plain, with_size = run("s", "s"), run("s", "d", size={})
    text = changes_between(with_size, plain).text.splitlines()
    assert text[1] == "Different: covariates, on the same scores (none -> size)."
    assert text[-1].endswith("which overstates the sd of a difference on the same data.")
    other = changes_between(run("t", "d", size={}), plain).text.splitlines()
    assert other[1] == "Different: data."


def test_the_largest_change_relative_to_its_uncertainty_stands_first() -> None:
    old = made("old", {"a": (60.0, 3.0, 1.0), "b": (50.0, 0.3, 2.0), "c": (40.0, 3.0, 3.0)})
    # c moves furthest, b by the most of its own sds, a not at all.
    new = made("new", {"a": (60.0, 4.0, 1.0), "b": (48.0, 0.4, 3.0), "c": (55.0, 4.0, 2.0)})
    changes = changes_between(new, old)
    score = changes.table[changes.table["quantity"] == "score"]
    assert list(score["level"]) == ["b", "c", "a"]
    assert list(dict.fromkeys(changes.table["quantity"])) == ["score", "prr", "potential"]
    text = lines(changes)
    place = next(i for i, line in enumerate(text) if line.startswith("Expected scores"))
    assert text[place].endswith("more than their uncertainty, the largest relative to it first:")
    assert text[place + 1].startswith("  b 50.0 -> 48.0 (-2.0, sd 0.5), c ")


@pytest.mark.parametrize(("shift", "changed"), [(9.7, False), (9.9, True), (-9.9, True)])
def test_the_limit_on_both_sides(shift: float, changed: bool) -> None:
    # 1.96 sds of 5 are 9.8.
    new = made("new", {"a": (60.0 + shift, 4.0, 1.0)})
    table = changes_between(new, OLD).table
    assert list(table["changed"][table["quantity"] == "score"]) == [changed]


def test_a_change_within_the_uncertainty() -> None:
    new = made("new", {"a": (62.0, 4.0, 1.0), "b": (50.0, 4.0, 2.0), "c": (40.0, 4.0, 3.0)})
    changes = changes_between(new, OLD)
    assert not changes.table["changed"].any()
    text = lines(changes)
    assert (
        "Expected scores of models: none of 3 changed by more than its uncertainty; the largest "
        "change is a 60 -> 62 (+2, sd 5)."
    ) in text
    assert "Median ranks of models: unchanged." in text


def test_levels_that_are_new_or_gone() -> None:
    new = made("new", {"a": (60.0, 3.0, 1.0), "x": (55.0, 3.0, 2.0)})
    changes = changes_between(new, OLD)
    assert changes.new == {"model": ("x",), "language": ()}
    assert changes.gone == {"model": ("b", "c"), "language": ()}
    assert set(changes.table["level"]) == {"a", "hi", "sw"}
    assert "Models: 1 new (x), 2 gone (b, c), 1 in both." in lines(changes)
    relative = "PRR and ranks are relative to these models: all three may differ because the models"
    assert relative in changes.text
    assert relative not in changes_between(OLD, OLD).text


def test_other_settings_are_named() -> None:
    new = made(
        "new",
        {"a": (60.0, 3.0, 1.0)},
        data_hash="b",
        spec_hash="t",
        spec={"name": "crossed"},
        priors={},
        engine="numpyro",
        seed=1,
        settings={"draws": 200, "seed": 1},
        pairs_hash="q",
        versions={"numpy": "2.1", "bayeseval": "0.1.0"},
    )
    changes = changes_between(new, OLD)
    assert set(changes.settings) == {
        *("data", "model", "priors", "engine", "seed", "common pairs", "sampler settings", "numpy"),
    }
    text = lines(changes)
    assert text[1] == (
        "Different: data, model (additive -> crossed), priors, engine (marginal -> numpyro), "
        "seed (0 -> 1), common pairs, sampler settings, numpy (2.0 -> 2.1)."
    )
    assert (
        "Scores and PRR are means over other language-task pairs than before, and may differ for "
        "that reason alone."
    ) in text
    assert text[-1].endswith("the two posteriors are taken as independent.")


def test_a_model_of_the_same_name_with_other_settings() -> None:
    new = made("new", {"a": (60.0, 3.0, 1.0)}, spec_hash="t")
    text = lines(changes_between(new, OLD))
    assert text[1] == "Different: model (additive -> additive with other settings)."


def test_a_failed_gate_is_said() -> None:
    new = made("new", {"a": (60.0, 3.0, 1.0)}, gate={"status": "fail"})
    assert "NOT CONVERGED: new; do not rely on these differences." in lines(
        changes_between(new, OLD)
    )


def test_point_estimates_have_no_uncertainty() -> None:
    nan = float("nan")
    new = made("new", {"a": (62.0, nan, nan), "b": (50.0, nan, nan)})
    changes = changes_between(new, OLD)
    models = changes.table[changes.table["factor"] == "model"]
    assert models["diff_sd"].isna().all()
    assert not models["changed"].any()
    text = lines(changes)
    assert text[4] == (
        "Expected scores of models: point estimates, without uncertainty; the largest change is "
        "a 60.0 -> 62.0 (+2.0)."
    )
    assert not any(line.startswith("Median ranks") for line in text)


def test_nothing_in_common() -> None:
    changes = changes_between(made("new", {"x": (60.0, 3.0, 1.0)}), OLD)
    assert set(changes.table["factor"]) == {"language"}
    assert "Models: 1 new (x), 3 gone (a, b, c), 0 in both." in lines(changes)
    assert lines(changes)[1] == "The two results share no model."
    assert "share no" not in changes_between(OLD, OLD).text
    other = made("new", {"x": (60.0, 3.0, 1.0)})
    other.tables["language_potential"]["language"] = ["fi", "et"]
    assert lines(changes_between(other, OLD))[1] == (
        "The two results share no model and no language: there is nothing to compare."
    )


def test_many_changes_in_fifteen_lines() -> None:
    old = made("old", {f"m{i}": (float(i), 0.1, 60.0 - i) for i in range(60)})
    new = made(
        "new",
        {f"m{i}": (float(i + 10), 0.1, float(i + 1)) for i in range(60)},
        data_hash="b",
        pairs_hash="q",
        gate={"status": "fail"},
        versions={f"package{i}": "1" for i in range(20)},
    )
    changes = changes_between(new, old)
    assert changes.table["changed"].sum() == 120
    text = lines(changes)
    assert sum("and 57 more." in line for line in text) == 2


def test_only_fits_are_compared() -> None:
    other = SavedResults(Path("compared"), {}, {"comparison": pd.DataFrame()})
    for pair in ((other, OLD), (OLD, other)):
        with pytest.raises(InputError, match="compared is the result of a comparison; only two"):
            changes_between(*pair)


def test_a_scale_that_only_one_result_knows_is_said() -> None:
    scores = {"A": (60.0, 1.0, 1.0), "B": (50.0, 1.0, 2.0)}
    known = {"bounds": {"t": [0.0, 100.0]}}
    old, new = made("old", scores, **known), made("new", scores)
    sentence = (
        "The scale of the scores of new is unknown, that of the other result is score points:"
        " differences mean something only if both are on this scale."
    )
    assert sentence in str(changes_between(new, old))
    assert "is unknown" not in str(changes_between(old, made("other", scores, **known)))
    assert "is unknown" not in str(changes_between(new, made("other", scores)))


def test_scores_on_different_scales_are_not_subtracted() -> None:
    points = made("new", {"a": (60.0, 3.0, 1.0)}, bounds={"t": [0, 100]})
    shares = made("old", {"a": (0.6, 0.03, 1.0)}, bounds={"t": [0.0, 1.0]})
    unknown = made("other", {"a": (60.0, 3.0, 1.0)}, bounds={})
    with pytest.raises(InputError) as refused:
        changes_between(points, shares)
    assert str(refused.value) == (
        "new and old are on different scales, score points and units of the scale 0 to 1: their "
        "scores cannot be subtracted; fit both tables on the same scale"
    )
    for pair in ((points, points), (points, unknown)):
        assert not changes_between(*pair).table["changed"].any()


# Two real fits


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table, and the same with one model 15 points better and another one gone."""
    base = tmp_path_factory.mktemp("fits")
    table = hard_table()
    better = table["score"] + 15.0 * (table["model"] == "NA")
    later = table.assign(score=better.clip(upper=100.0))[table["model"] != "模型 नमूना"]
    return saved_fit(base / "old", table), saved_fit(base / "new", later)


def test_two_fits(folders: tuple[Path, Path]) -> None:
    old, new = (read_saved(folder) for folder in folders)
    changes = changes_between(new, old)
    assert changes.gone["model"] == ("模型 नमूना",)
    assert changes.new == {"model": (), "language": ()}
    scores = changes.table[changes.table["quantity"] == "score"].set_index("level")
    assert scores.loc["NA", "changed"]
    assert list(scores.index[scores["changed"]]) == ["NA"]
    now, before = (
        one.tables["model_ranking"].set_index("model").loc[scores.index] for one in (new, old)
    )
    assert np.array_equal(scores["diff"], now["score_mean"] - before["score_mean"])
    assert np.allclose(
        scores["diff_sd"] ** 2, now["score_sd"] ** 2 + before["score_sd"] ** 2, rtol=1e-12
    )
    text = lines(changes)
    assert text[1].startswith("Different: data")
    assert any(line.startswith("  NA ") for line in text)


def test_the_same_fit_again(folders: tuple[Path, Path]) -> None:
    saved = read_saved(folders[0])
    changes = changes_between(saved, saved)
    assert changes.settings == {}
    assert (changes.table["diff"] == 0.0).all()
    assert (changes.table["p_higher"] == 0.5).all()
    assert not changes.table["changed"].any()


def test_the_command(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = map(str, folders)
    changes = changes_between(read_saved(new), read_saved(old))
    assert main(["report", new, "--against", old]) == 0
    assert capsys.readouterr().out == changes.text
    out = tmp_path / "changes.csv"
    assert main(["report", new, "--against", old, "--to", "csv", "--out", str(out)]) == 0
    table = pd.read_csv(out, keep_default_na=False)
    assert list(table["level"]) == list(changes.table["level"])
    assert np.array_equal(table["diff"], changes.table["diff"])
    assert main(["report", new, "--against", old, "--to", "latex"]) == 2
    assert "--against has no format latex: leave --to out" in capsys.readouterr().err
    assert main(["report", new, "--against", str(tmp_path / "none")]) == 2
    assert "no such result folder" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", ["old", "new"])
def test_a_damaged_posterior_of_either_is_refused(
    folders: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damaged: str,
) -> None:
    copies = {name: tmp_path / name for name in ("old", "new")}
    for name, folder in zip(copies, folders, strict=True):
        shutil.copytree(folder, copies[name])
    file = copies[damaged] / "posterior.nc"
    whole = file.read_bytes()
    command = ["report", str(copies["new"]), "--against", str(copies["old"])]
    file.write_bytes(whole[: len(whole) // 2])
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file} is ")
    assert "truncated file" in line
    # Still a file of HDF5, but not the one that run.json lists.
    file.write_bytes(whole + b"x")
    assert main(command) == 2
    assert f"{file} was edited or is damaged: its SHA-256" in capsys.readouterr().err
