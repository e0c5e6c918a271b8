"""`fit.predict` and `bayeseval predict`: closed forms, labels, files, and what is refused."""

from __future__ import annotations

import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval as be
from bayeseval.cli import main
from bayeseval.design import restore_design
from bayeseval.errors import InputError
from bayeseval.fitting.run import Fit
from bayeseval.records import Covariate
from tests.helpers import assert_within_mcse

LEVELS = (("a", "b", "c"), ("de", "en", "fr", "hi"), ("nli", "qa"))
UNTESTED = {("c", "hi", "qa"), ("a", "fr", "nli"), ("b", "de", "nli")}
# Of a known cell without a record, and of new levels.
ASKED = [
    *[("c", "hi", "qa"), ("a", "fr", "nli"), ("a", "de", "nli")],
    *[("a", "sw", "nli"), ("new", "de", "qa"), ("new", "sw", "sum")],
]
FACTORS = ("model", "language", "task")
SDS = ("language", "task", "model", "language_task", "model_task", "model_language", "residual")


def table() -> pd.DataFrame:
    cells = [cell for cell in product(*LEVELS) if cell not in UNTESTED]
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(cells, columns=["model", "language", "task"])
    part = frame["model"].map({"a": 9.0, "b": 0.0, "c": -7.0}) + 4.0 * (frame["task"] == "qa")
    return frame.assign(score=(50.0 + part + rng.normal(0.0, 5.0, len(cells))).round(2))


@pytest.fixture(scope="module")
def fit() -> Fit:
    return be.fit(table(), "crossed", engine="marginal", draws=1000, chains=4)


@pytest.fixture(scope="module")
def saved(fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit.save(tmp_path_factory.mktemp("results") / "fit", figures=False)


def cells_of(rows: list[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["model", "language", "task"])


def structures(rows: list[tuple[str, str, str]], *, of_population: bool = True) -> dict[str, Any]:
    """Prior covariance of the predictor at cells for a unit sd of each term."""
    n = len(rows)
    total = {name: np.zeros((n, n)) for name in SDS[:-1]}
    for i, j in product(range(n), repeat=2):
        same = {f: rows[i][k] == rows[j][k] for k, f in enumerate(FACTORS)}
        for k, factor in enumerate(FACTORS):
            known = [rows[x][k] in LEVELS[k] for x in (i, j)]
            # Deviations from the mean of the levels at hand; new levels share its uncertainty.
            shared = -1.0 if all(known) else (0.0 if any(known) else float(of_population))
            total[factor][i, j] = same[factor] + shared / len(LEVELS[k])
        for pair in SDS[3:-1]:
            total[pair][i, j] = all(same[f] for f in pair.split("_"))
    return total


def test_marginal_predictions_are_the_gaussian_conditional_given_the_sds(fit: Fit) -> None:
    found = fit.predict(cells_of(ASKED), new=["model", "language", "task"], draws=True)
    flat = {name: found[name].to_numpy().reshape(-1, len(ASKED)) for name in found}
    frame = table()
    tested = list(frame[list(FACTORS)].itertuples(index=False, name=None))
    posterior = fit.data["posterior"]
    sds = {name: posterior[f"sd_{name}"].to_numpy().ravel() for name in SDS}
    prior = restore_design(fit.data, fit.spec).priors["intercept"]
    score, n = frame["score"].to_numpy() - prior.loc, len(tested)

    def z_scores(parts: dict[str, Any]) -> np.ndarray:
        """Of expected scores and measurements, draw by draw: independent, N(0, 1)."""
        z = []
        for i in range(len(flat["expected"])):
            noise = sds["residual"][i] ** 2
            joint = prior.scale**2 + sum(sds[name][i] ** 2 * one for name, one in parts.items())
            weights = np.linalg.solve(joint[:n, :n] + noise * np.eye(n), joint[:n, n:]).T
            mean = prior.loc + weights @ score
            variance = np.diag(joint[n:, n:] - weights @ joint[:n, n:])
            expected = (flat["expected"][i] - mean) / np.sqrt(variance)
            measured = (flat["measurement"][i] - mean) / np.sqrt(variance + noise)
            z.append(np.concatenate([expected, measured]))
        return np.array(z)

    rows = [*tested, *ASKED]
    for column in z_scores(structures(rows)).T:
        assert_within_mcse(column, 0.0)
        assert_within_mcse(column**2, 1.0)
    # Negative control: the unknown means of the populations left out, at a cell of new levels.
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(z_scores(structures(rows, of_population=False))[:, 5] ** 2, 1.0)


def test_the_table_has_the_draws_of_its_cells(fit: Fit) -> None:
    cells = cells_of(ASKED)
    made = fit.predict(cells, new=("model", "language", "task"), ci_prob=0.8)
    drawn = fit.predict(cells, new=("model", "language", "task"), draws=True)
    np.testing.assert_allclose(made["expected_mean"], drawn["expected"].mean(("chain", "draw")))
    ends = drawn["measurement"].quantile([0.1, 0.9], ("chain", "draw")).to_numpy()
    np.testing.assert_allclose(made[["measurement_lower", "measurement_upper"]].T, ends)
    assert made["n_records"].tolist() == [0, 0, 1, 0, 0, 0]
    new = ["", "", "", "language", "model", "model, language, task"]
    assert made["new"].tolist() == new
    assert made["language_name"].tolist()[:4] == ["Hindi", "French", "German", "Swahili"]
    assert (made.attrs["ci_prob"], made.attrs["gate"]) == (0.8, "pass")
    assert made.attrs["notes"] == ("1 new model: new", "1 new language: sw", "1 new task: sum")
    # A score is less certain than its expectation, and a new level less than a known one.
    expected = made["expected_upper"] - made["expected_lower"]
    assert (made["measurement_upper"] - made["measurement_lower"] > expected).all()
    assert expected[2] < expected[0] < expected[3] < expected[5]
    assert list(drawn["language"].to_numpy()) == cells["language"].tolist()


def test_the_mean_over_common_pairs_is_the_standardised_score(fit: Fit) -> None:
    pairs = table()[["language", "task"]].drop_duplicates()
    cells = pairs.merge(pd.DataFrame({"model": LEVELS[0]}), how="cross")
    drawn = fit.predict(cells, draws=True)["expected"]
    mean = drawn.groupby("model").mean("cell").transpose("chain", "draw", "model")
    known = fit.data["posterior"]["standardised_score"].transpose("chain", "draw", "model")
    np.testing.assert_allclose(mean.to_numpy(), known.to_numpy(), rtol=1e-10)


def test_a_language_may_be_called_by_name_and_typos_are_refused(fit: Fit) -> None:
    made = fit.predict(cells_of([("a", "Hindi", "qa"), ("a", "deu", "qa")]))
    assert made["language"].tolist() == ["hi", "de"]
    assert made.attrs["notes"] == (
        "language 'Hindi' is read as 'hi'",
        "language 'deu' is read as 'de'",
    )
    twice = cells_of([("a", "cym", "qa"), ("a", "Welsh", "qa"), ("a", "sw", "qa")])
    made = fit.predict(twice, new="language")
    assert made["language"].tolist() == ["cym", "cym", "sw"]
    assert made["expected_mean"][0] == made["expected_mean"][1] != made["expected_mean"][2]
    assert made.attrs["notes"] == (
        "language 'Welsh' is read as 'cym'",
        "2 new languages: cym, sw",
    )
    both = ("model", "language")
    with pytest.raises(InputError) as caught:
        fit.predict(cells_of([("a", "hi", "qa"), ("a", "hi", "qaa")]), new=both)
    assert str(caught.value) == (
        "cells, row 2, column 'task': task 'qaa' is not in the table of the fit; did you mean "
        "'qa'?; correct it, or allow new tasks with new='task'"
    )
    # A code that is known means another language, not the one with nearly its label.
    with pytest.raises(InputError, match=r"'ta' is not in the table of the fit; 'ta' is Tamil; c"):
        fit.predict(cells_of([("a", "ta", "qa")]))
    allowed = fit.predict(cells_of([("a", "hi", "qaa")]), new="task")
    assert allowed["new"].tolist() == ["task"]
    with pytest.raises(InputError, match=r"^new is language, task or model, got 'langage'; did"):
        fit.predict(cells_of(ASKED), new="langage")


def test_a_new_model_that_the_table_has_under_another_name_is_noted() -> None:
    """The name gpt-4, for openai/gpt-4, was predicted as a new model without a word."""
    named = {"a": "openai/gpt-4", "b": "Llama-2", "c": "gpt-40"}
    fit = be.fit(table().replace({"model": named}), "additive", draws=50, chains=1)
    cells = cells_of([(m, "de", "qa") for m in ("gpt-4", "meta/llama 2", "azure/gpt-4", "gpt-4o")])
    made = fit.predict(cells, new="model")
    assert made["new"].tolist() == ["model"] * 4
    assert made.attrs["notes"][-2:] == (
        "4 new models: gpt-4, meta/llama 2, azure/gpt-4, gpt-4o",
        "2 new models may be of the table, where another name is nearly the same: 'gpt-4' "
        "('openai/gpt-4'), 'meta/llama 2' ('Llama-2'); correct the cells if so",
    )
    # Refused, it is the same model that is proposed, not one of the same length.
    with pytest.raises(InputError, match=r"'gpt-4' is not in .* mean 'openai/gpt-4'\?; correct it"):
        fit.predict(cells)


WRONG = {
    "no column": (cells_of(ASKED).drop(columns="task"), "^cells: no column 'task'; the cells are"),
    "no rows": (cells_of([]), "^cells: no rows"),
    "negative": (
        cells_of(ASKED[:2]).assign(se=[1.0, -1.0]),
        "row 2, column 'se': se is -1; give a number from 0 to",
    ),
    "no finite square": (
        cells_of(ASKED[:2]).assign(se=[1.0, 1e155]),
        r"^cells, row 2, column 'se': se is 1e\+155; give a number from 0 to 1e\+100, or leave",
    ),
    "too many items": (
        cells_of(ASKED[:2]).assign(n=[1, 1e300]),
        r"^cells, row 2, column 'n': n is 1e\+300; give a whole number from 1 to 1e\+09, or leave",
    ),
    "words": (cells_of(ASKED[:1]).assign(n="many"), "row 1, column 'n': n 'many' is not a number"),
    "seeds": (cells_of(ASKED[:1]).assign(seeds=3), "column 'seeds': the table .* no replicates"),
    "half an item": (
        cells_of(ASKED[:2]).assign(n=[100, 1.5]),
        r"^cells, row 2, column 'n': n is 1.5; give a whole number from 1 to 1e",
    ),
    "a folder": (".", r"^\.: this is a folder; the cells are a table with the columns"),
    "a number": (3, "^cells must be a path, got 3"),
    "no file": ("nothing.csv", "^nothing.csv: no such file; the cells are a table with the"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_line(fit: Fit, case: str) -> None:
    cells, message = WRONG[case]
    with pytest.raises(InputError, match=message) as caught:
        fit.predict(cells)
    assert "\n" not in str(caught.value)


def test_the_largest_numbers_have_finite_intervals(fit: Fit) -> None:
    made = fit.predict(cells_of(ASKED[:2]).assign(se=1e100, n=1e9))
    assert (made["measurement_upper"] > 1e100).all()
    assert np.isfinite(made[["measurement_lower", "measurement_upper"]].to_numpy()).all()


def test_a_covariate_for_a_model_without_one_is_refused(fit: Fit) -> None:
    with pytest.raises(InputError, match=r"has no covariate, so none can be given; leave out cov"):
        fit.predict(cells_of(ASKED[:1]), covariate="speakers.csv")


def test_identical_rows_are_one_measurement_whatever_else_is_asked_for(fit: Fit) -> None:
    rows = [ASKED[1], ASKED[2], ASKED[0], ASKED[2], ASKED[2]]
    se = [np.nan, 2.0, np.nan, 2.0, 3.0]
    seen: list[tuple[int, int]] = []
    made = fit.predict(
        cells_of(rows).assign(se=se), progress=lambda _, done, total, __: seen.append((done, total))
    )
    ends = made[["measurement_lower", "measurement_upper"]].to_numpy()
    np.testing.assert_array_equal(ends[1], ends[3])
    assert (ends[1] != ends[4]).all()
    assert seen[-1] == (4, 4)
    assert made["se"].tolist()[3:] == [2.0, 3.0]
    assert made["model"].tolist() == [row[0] for row in rows]
    alone = fit.predict(cells_of(rows[3:4]).assign(se=2.0))
    pd.testing.assert_frame_equal(made.iloc[3:4].reset_index(drop=True), alone)
    # Two measurements of one cell are independent, given its expected score.
    drawn = fit.predict(cells_of(rows).assign(se=se), draws=True)
    noise = (drawn["measurement"] - drawn["expected"]).to_numpy().reshape(-1, len(rows))
    np.testing.assert_array_equal(noise[:, 1], noise[:, 3])
    assert abs(np.corrcoef(noise[:, 1], noise[:, 4])[0, 1]) < 5.0 / np.sqrt(len(noise))


def test_columns_that_are_not_used_are_named(fit: Fit) -> None:
    made = fit.predict(cells_of(ASKED[:1]).assign(score=3.0, N=7))
    assert made.attrs["notes"] == (
        "the columns 'score', 'N' are not used: predictions use model, language, task, n, se, "
        "seeds",
    )
    assert fit.predict(cells_of(ASKED[:1])).attrs["notes"] == ()


def test_a_further_metric_of_measured_outputs_may_be_surer_than_the_expected_score() -> None:
    rng = np.random.default_rng(3)
    outputs = pd.DataFrame(product("abc", ("de", "en", "fr"), ("nli", "qa")))
    outputs.columns = pd.Index(["model", "language", "dataset"])
    outputs["score"] = 50.0 + rng.normal(0.0, 8.0, len(outputs))
    metrics = [
        outputs.assign(metric=metric, score=outputs["score"] + shift + rng.normal(0.0, 0.3, 18))
        for metric, shift in (("em", -4.0), ("f1", 4.0))
    ]
    spec = {"name": "outputs", "interactions": ["model:language:dataset"]}
    shared = be.fit(pd.concat(metrics), spec, engine="marginal", draws=200, chains=2)
    rows = [("a", "de", "qa:f1"), ("b", "en", "nli:em"), ("a", "sw", "qa:f1")]
    made = shared.predict(cells_of(rows), new="language")
    width = {
        what: (made[f"{what}_upper"] - made[f"{what}_lower"]).to_numpy()
        for what in ("expected", "measurement")
    }
    narrower = width["measurement"] < width["expected"]
    assert narrower.tolist() == [True, True, False]
    assert made.attrs["notes"][-1].startswith(
        "the interval of a measurement is narrower than that of the expected score for 2 cells: "
        "outputs of the cell were measured"
    )
    # No note where no output was measured.
    plain = shared.predict(cells_of(rows[2:]), new="language")
    assert plain.attrs["notes"][-1] == "1 new language: sw"


def test_predictions_outside_the_scale_are_noted_and_not_cut() -> None:
    frame = table()
    floor = frame["task"] == "qa"
    # Most scores of one task are 0, and its scale cannot be guessed from the rest.
    frame.loc[floor, "score"] = [0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0][
        : floor.sum()
    ]
    fit = be.fit(frame, "additive", engine="marginal", draws=200, chains=2)
    cells = cells_of([("c", "hi", "qa"), ("b", "fr", "qa"), ("a", "fr", "nli")])
    predicted = fit.predict(cells)
    (note,) = predicted.attrs["notes"]
    low = predicted[["expected_lower", "measurement_lower"]].min(axis=1).to_numpy()
    assert (low < 0.0).tolist() == [True, True, False]
    n_mean = int((predicted["expected_mean"] < 0.0).sum())
    assert n_mean == 1
    assert note == (
        "2 cells have intervals that reach outside the scale of the task (qa from 0), the "
        "expected score itself for 1 of them: the likelihood of this fit has no bounds, and "
        "nothing is cut off; to predict within the scale, declare both bounds of qa, then fit "
        "'counts' if the numbers of items are known, or 'bounded'"
    )
    assert fit.predict(cells.tail(1)).attrs["notes"] == ()
    # The check of predicted scores counts them, too.
    checks = fit.checks().table.set_index("check")
    assert checks.loc["outside_bounds", "status"] == "fail"
    assert "not known" not in checks.loc["outside_bounds", "sentence"]
    # A new task has the scale of all others, where they have one.
    records = be.Records.from_frame(frame, name="floor", units=(0, 100))
    one = be.fit(records, "additive", engine="marginal", draws=200, chains=2)
    note, outside = one.predict(cells_of([("a", "de", "sum")]), new="task").attrs["notes"]
    assert note == "1 new task: sum"
    assert outside.startswith(
        "1 cell has intervals that reach outside the scale of the task (sum 0"
    )


def test_draws_beyond_memory_are_refused(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two quantities of 4,000 draws in 8 bytes, twice.
    monkeypatch.setattr("bayeseval.fitting.predictions.free_memory", lambda: 500_000)
    with pytest.raises(InputError, match=r"^draws of 4 cells take 1 MB .* at most 3 cells at a"):
        fit.predict(cells_of([ASKED[0]] * 4), draws=True)
    assert fit.predict(cells_of([ASKED[0]] * 3), draws=True).sizes["cell"] == 3
    assert len(fit.predict(cells_of([ASKED[0]] * 4))) == 4


def test_n_without_known_errors_is_noted(fit: Fit) -> None:
    made = fit.predict(cells_of(ASKED[:2]).assign(n=[100, None]))
    assert [note[:27] for note in made.attrs["notes"]] == ["n is not used for 1 cell: t"]
    given = fit.predict(cells_of(ASKED[:2]).assign(se=[20.0, None]))
    width = (given["measurement_upper"] - given["measurement_lower"]).to_numpy()
    plain = (made["measurement_upper"] - made["measurement_lower"]).to_numpy()
    assert width[0] > 1.5 * plain[0]
    assert width[1] == plain[1]


def test_a_point_estimate_is_refused(fitted: Fit) -> None:
    from dataclasses import replace

    point = replace(fitted, run={**fitted.run, "engine": "ml"})
    with pytest.raises(
        InputError, match="^predict needs draws from a posterior, and the engine ml"
    ):
        point.predict(cells_of(ASKED))


def test_covariates_of_new_languages_are_used_where_known() -> None:
    labels = ("de", "en", "fr", "hi", "sw", "ta")
    values = np.array([0.0, 3.0, 1.0, -2.0, 4.0, np.nan])
    given = Covariate("speakers", "language", labels=labels, models=(), values=values)
    spec = {"name": "with_speakers", "covariates": ["speakers"]}
    frame = table()
    frame["score"] += 12.0 * frame["language"].map(dict(zip(labels, values, strict=True)))
    fit = be.fit(frame, spec, covariate=given, draws=1000, chains=4)
    cells = cells_of([("a", language, "qa") for language in ("swh", "ta", "xx")])
    made = fit.predict(cells, new="language", covariate=given, draws=True)
    slope = fit.data["posterior"]["speakers_slope"]
    x = (4.0 - values[:4].mean()) / values[:4].std(ddof=1)
    known, unknown, other = (made["expected"].isel(cell=i) for i in range(3))
    centre = fit.data["posterior"]["intercept"] + slope * x
    centre = centre + fit.data["posterior"]["model_effect"].sel(model="a")
    centre = centre + fit.data["posterior"]["task_effect"].sel(task="qa")
    sd = fit.data["posterior"]["sd_language"]
    assert_within_mcse(((known - centre) ** 2 / (sd**2 * 1.25)).to_numpy().ravel(), 1.0)
    # Without a value it is drawn from N(0, 1), own for each language.
    without = [
        ((one - (centre - slope * x)) ** 2 / (slope**2 + sd**2 * 1.25)) for one in (unknown, other)
    ]
    for one in without:
        assert_within_mcse(one.to_numpy().ravel(), 1.0)
    # Negative control: a language without a value does not have that of another.
    far = [np.abs(one - centre) / (sd * 1.25**0.5) > 1.96 for one in (known, unknown)]
    assert_within_mcse(far[0].to_numpy().ravel(), 0.05)
    with pytest.raises(AssertionError, match="MCSE away"):
        assert_within_mcse(far[1].to_numpy().ravel(), 0.05)
    assert made.attrs["notes"] == [
        "3 new languages: swh, ta, xx",
        "speakers: language 'swh' is read as 'sw'",
        "speakers has no value for ta, xx: predicted for a language drawn from those of the table",
    ]


def test_the_command_prints_and_writes(
    fit: Fit, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, cells = shutil.copytree(saved, tmp_path / "fit"), tmp_path / "cells.csv"
    cells_of(ASKED).to_csv(cells, index=False)
    assert main(["predict", str(folder), str(cells)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "cells.csv, line 6, column 'model': model 'new' is not in the table" in said.err
    assert "allow new models with --new model" in said.err
    new = [word for factor in ("model", "language", "task") for word in ("--new", factor)]
    out, draws = tmp_path / "predicted.csv", tmp_path / "draws.nc"
    files = ["--out", str(out), "--draws", str(draws)]
    assert main(["predict", str(folder), str(cells), *new, *files]) == 0
    said = capsys.readouterr()
    made = fit.predict(cells, new=("model", "language", "task"))
    head, *rows = said.out.splitlines()[3:10]
    assert " ".join(head.split()) == "model language task records new expected measurement"
    assert rows[0].split()[:5] == ["c", "hi", "qa", "0", "-"]
    assert rows[5].split()[:4] == ["new", "sw", "sum", "0"]
    assert f"{made['expected_mean'][0]:.0f} [" in rows[0]
    assert "note: 1 new model: new" in said.out
    written = pd.read_csv(out)
    assert list(written.columns[-3:]) == ["ci_kind", "ci_prob", "gate"]
    np.testing.assert_allclose(written["expected_mean"], made["expected_mean"], rtol=1e-6)
    with xr.open_dataset(draws, engine="h5netcdf") as found:
        assert found["expected"].dims == ("chain", "draw", "cell")
        mean = found["expected"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(mean, made["expected_mean"])
    # The folder of the fit is as it was.
    assert not [path for path in folder.rglob("*") if "predict" in path.name]


def test_the_command_prints_the_first_cells_and_writes_all(
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayeseval.fitting.report.predictions._SHOWN", 2)
    folder, cells = shutil.copytree(saved, tmp_path / "fit"), tmp_path / "cells.csv"
    cells_of(ASKED[:3]).to_csv(cells, index=False)
    assert main(["predict", str(folder), str(cells)]) == 0
    said, err = capsys.readouterr()
    assert err == f"Predictions of {folder}\npredictions: done\n"
    found = re.search(r"the first 2 cells are shown; (--out) FILE writes all", said)
    assert found is not None
    assert [line.split()[:3] for line in said.splitlines()[4:7]] == [*map(list, ASKED[:2]), []]
    assert main(["predict", str(folder), str(cells), found[1], str(tmp_path / "o"), "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert len(pd.read_csv(tmp_path / "o")) == 3


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["--out", "cells.csv"], "the cells are read from this file; write to another one"),
        (["--out", "link.csv"], "the cells are read from this file; write to another one"),
        (["--draws", "fit/run.json"], "run.json is part of the results in "),
        (["--out", "other/posterior.nc"], "posterior.nc is part of the results in "),
        (["--out", "a", "--draws", "a"], "the table and the draws need a file each; name two"),
    ],
)
def test_the_command_does_not_write_over_what_it_reads(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], targets: list[str], said: str
) -> None:
    folder, cells = shutil.copytree(saved, tmp_path / "fit"), tmp_path / "cells.csv"
    shutil.copytree(saved, tmp_path / "other")
    cells_of(ASKED[:1]).to_csv(cells, index=False)
    (tmp_path / "link.csv").symlink_to(cells)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    paths = [word if word.startswith("--") else str(tmp_path / word) for word in targets]
    assert main(["predict", str(folder), str(cells), *paths]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_cells_that_link_to_themselves_are_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "cells.csv"
    loop.symlink_to("cells.csv")
    call = ["predict", str(tmp_path / "none"), str(loop), "--out", str(tmp_path / "out.csv")]
    assert main(call) == 2
    assert "none: no such result folder" in capsys.readouterr().err
