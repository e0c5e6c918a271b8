"""Planning from a fit: Python, command line and files; what the fit does not know is said."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeseval as be
from bayeseval import names
from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.estimands.plan_variances import Study, present_study, read_plan_variances
from bayeseval.fitting.run import Fit
from bayeseval.output.store import add_files, read_run
from bayeseval.planning import next_cells
from bayeseval.planning.run import Costs, plan
from bayeseval.reporting import read_saved
from bayeseval.reporting.page import render_page

ROOT = Path(__file__).resolve().parent.parent
MODELS, LANGUAGES = ("A", "B", "C", "D"), ("de", "en", "fi", "sw", "th", "zh")
TASKS = ("nli", "qa")


def table(tasks: tuple[str, ...], *, replicates: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (model, language, task, 45.0 + 4 * m + 5 * k + 8 * t + 2.0 * rng.standard_normal())
        for m, model in enumerate(MODELS)
        for k, language in enumerate(LANGUAGES)
        for t, task in enumerate(tasks)
    ]
    frame = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    if replicates:
        # Model A varies more between seeds; B has no replicates at all.
        frame["seed_sd"] = np.where(frame["model"] == "A", 3.0, 1.0)
        frame["boot_sd"] = 1.5
        frame.loc[frame["model"] == "B", ["seed_sd", "boot_sd"]] = np.nan
        frame["n_seeds"] = 4
    return frame


def fitted(tasks: tuple[str, ...], *, noisy: bool = False, **spec: object) -> Fit:
    records = be.Records.from_frame(
        table(tasks, replicates=noisy), name="small", units=(0.0, 100.0)
    )
    return be.fit(records, {"name": "small", **spec}, engine="marginal", draws=400, chains=2)


@pytest.fixture(scope="module")
def plain() -> Fit:
    return fitted(TASKS)


@pytest.fixture(scope="module")
def known() -> Fit:
    """One task; sds of seeds and test sets taken as known, which needs no sampler."""
    return fitted(("qa",), noisy=True, replicates={"pool": False})


def draws_of(fit: Fit, name: str) -> np.ndarray:
    return fit.data["posterior"][name].to_numpy().reshape(-1)


def test_without_replicates_the_formula_is_the_residual_over_the_cells(plain: Fit) -> None:
    found = plan(plain)
    residual = draws_of(plain, "sd_residual")
    for row in found.table.itertuples():
        expected = np.sqrt(2.0 * residual**2 / (row.languages * row.tasks))
        assert row.sd_difference_mean == pytest.approx(expected.mean())
        assert row.sd_difference_lower == pytest.approx(np.quantile(expected, 0.025))
    assert found.table[["seeds", "items"]].isna().all(axis=None)
    assert found.best is None
    assert any(note.startswith("seeds: ") and "not known" in note for note in found.notes)
    assert any(note.startswith("items: ") and "not known" in note for note in found.notes)
    assert any("no term model:language" in note for note in found.notes)
    first = found.table.iloc[0]
    assert (first["languages"], first["tasks"], bool(first["present"])) == (6.0, 2.0, True)


def test_known_replicates_by_hand(known: Fit) -> None:
    variances = read_plan_variances(known.data)
    assert variances.fixed == {"task"}
    # B is given the mean of the others.
    assert variances.seed is not None and variances.test_set is not None
    assert variances.seed[0] == pytest.approx([9.0, 11.0 / 3.0, 1.0, 1.0])
    assert variances.test_set[0] == pytest.approx([2.25] * 4)
    residual = draws_of(known, "sd_residual") ** 2
    assert variances.three_way[:, 2] == pytest.approx(residual)
    assert not variances.noise.any()
    assert present_study(known.data, variances) == Study(4.0, 1.0, 6.0, 1.0)
    found = plan(known, seeds=[2], items=[3.0], languages=[5], tasks=[1])
    sds = np.sqrt(2.0 * (residual + (11.0 / 3.0) / 2 + 2.25 / 3) / 5)
    row = found.table[~found.table["present"]].iloc[0]
    assert row["sd_difference_mean"] == pytest.approx(sds.mean())
    assert list(found.table["in_grid"]) == [False, True]


def test_sampled_sds_of_cells_are_used(plain: Fit) -> None:
    rng = np.random.default_rng(1)
    posterior = plain.data["posterior"].to_dataset()
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], 3)
    sd = 1.0 + rng.random(shape)
    posterior[names.source_cell_sd("seed")] = (("chain", "draw", "seed_cell"), sd)
    constant = plain.data["constant_data"].to_dataset()
    record = np.flatnonzero(constant["model_index"].to_numpy() == 0)[:3]
    share = np.zeros(constant.sizes[names.RECORD])
    share[record] = [0.5, 0.2, 0.2]
    constant["seed_share"] = (names.RECORD, share)
    constant["seed_cell_record"] = ("seed_cell", record)
    tree = xr.DataTree.from_dict(
        {"posterior": posterior, "constant_data": constant}
        | {"observed_data": plain.data["observed_data"].to_dataset()}
    )
    variances = read_plan_variances(tree)
    expected = (sd**2).mean(axis=2).reshape(-1)
    assert variances.seed is not None
    for model in range(4):
        assert variances.seed[:, model] == pytest.approx(expected)
    assert present_study(tree, variances).seeds == 5.0


def test_covariates_of_models_are_split_by_facet(plain: Fit) -> None:
    rng = np.random.default_rng(2)
    posterior = plain.data["posterior"].to_dataset()
    constant = plain.data["constant_data"].to_dataset()
    slope = rng.normal(3.0, 1.0, size=(posterior.sizes["chain"], posterior.sizes["draw"]))
    posterior[names.slope_name("x")] = (("chain", "draw"), slope)
    x = rng.standard_normal((4, 6))

    def tree(dims: tuple[str, ...], values: np.ndarray) -> xr.DataTree:
        known = (dims, values, {"mean": 0.0, "sd": 1.0})
        return xr.DataTree.from_dict(
            {
                "posterior": posterior,
                "constant_data": constant.assign({names.covariate_standardised("x"): known}),
                "observed_data": plain.data["observed_data"].to_dataset(),
            }
        )

    without = read_plan_variances(plain.data)
    found = read_plan_variances(tree(("model", "language"), x))
    squared, row, column = slope.reshape(-1) ** 2, x.mean(axis=1), x.mean(axis=0)
    rest = x - row[:, None] - column + x.mean()
    for name, part in (("model", row), ("language", column), ("model_language", rest)):
        expected = getattr(without, name) + squared * part.var()
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-10, err_msg=name)
    moved = found.model_effect - without.model_effect
    np.testing.assert_allclose(moved, slope.reshape(-1, 1) * (row - x.mean()), atol=1e-10)
    # Values of languages alone say nothing of models.
    alone = read_plan_variances(tree(("language",), column))
    np.testing.assert_array_equal(alone.model_language, without.model_language)
    np.testing.assert_allclose(alone.language, without.language + squared * column.var())


def test_shared_items_are_paired(known: Fit) -> None:
    constant = known.data["constant_data"].to_dataset()
    constant["test_set_model_task_index"] = (names.RECORD, constant["model_index"].to_numpy())
    constant["test_set_model_task_sd"] = ("test_set_model_task", np.full(4, 0.5))
    constant["test_set_task_index"] = (names.RECORD, constant["task_index"].to_numpy())
    constant["test_set_task_sd"] = ("test_set_task", np.ones(1))
    tree = xr.DataTree.from_dict(
        {key: known.data[key].to_dataset() for key in ("posterior", "observed_data")}
        | {"constant_data": constant}
    )
    variances = read_plan_variances(tree)
    assert variances.shared_items == {"task": 1.0, "model_task": 0.25}
    assert variances.test_set is not None
    assert variances.test_set[0] == pytest.approx([2.25 - 1.0 - 0.25] * 4)
    assert not any("independent between models" in note for note in variances.notes)
    unpaired = read_plan_variances(known.data)
    assert any("independent between models" in note for note in unpaired.notes)


def test_summaries_are_said_to_bound_the_errors(plain: Fit, known: Fit) -> None:
    bounds = [note for note in plan(known).notes if "upper bounds" in note]
    assert [note.split(":")[0] for note in bounds] == ["seeds and items"]
    assert not any("upper bounds" in note for note in plan(plain).notes)


def test_fixed_languages_take_the_interaction_from_the_error(known: Fit) -> None:
    random = plan(known, languages=[6]).table.iloc[0]
    fixed = plan(known, languages=[6], fixed=["language"]).table.iloc[0]
    expected = np.sqrt(2.0 * ((11.0 / 3.0) / 4 + 2.25) / 6)
    assert fixed["sd_difference_mean"] == pytest.approx(expected)
    assert random["sd_difference_mean"] > fixed["sd_difference_mean"]
    means = known.data["posterior"]["arithmetic_mean"].to_numpy().reshape(-1, 4)
    assert read_plan_variances(known.data, fixed=["language"]).model_effect == pytest.approx(means)


def test_fixed_languages_with_a_term_of_their_own() -> None:
    fit = fitted(TASKS, interactions=["model:language"])
    sd2 = draws_of(fit, "sd_model_language") ** 2
    residual = draws_of(fit, "sd_residual") ** 2
    present = plan(fit).table.iloc[0]
    expected = np.sqrt(2.0 * (sd2 / 6 + residual / 12))
    assert present["sd_difference_mean"] == pytest.approx(expected.mean())
    variances = read_plan_variances(fit.data, fixed=["language"])
    posterior = fit.data["posterior"]
    effects = posterior["model_language_effect"].to_numpy().reshape(-1, 24)
    owner = fit.data["constant_data"]["model_language_model"].to_numpy()
    mains = posterior["model_effect"].to_numpy().reshape(-1, 4)
    for model in range(4):
        mean = effects[:, owner == model].mean(axis=1)
        assert variances.model_effect[:, model] == pytest.approx(mains[:, model] + mean)


def test_best_is_that_of_a_loop_over_all_designs(known: Fit) -> None:
    grid = {"seeds": [1, 2, 4, 8], "items": [0.5, 1.0, 3.0], "languages": [3, 6, 12, 20]}
    costs = Costs(seed=7.0, item=0.5, language=11.0, task=3.0)
    targets = {"target_sd": 1.6, "target_probability": 0.9}
    given = {"cost_seed": 7.0, "cost_item": 0.5, "cost_language": 11.0, "cost_task": 3.0}
    found = plan(known, **grid, **targets, **given)
    cheapest = None
    for s in grid["seeds"]:
        for r in grid["items"]:
            for n in grid["languages"]:
                one = plan(known, seeds=[s], items=[r], languages=[n]).table
                row = one[one["in_grid"]].iloc[0]
                if row["sd_difference_mean"] > 1.6 or row["p_correct_mean"] < 0.9:
                    continue
                cost = 11.0 * n + 3.0 + 7.0 * s + 0.5 * n * s * r
                assert costs.of(Study(s, r, n, 1)) == pytest.approx(cost)
                if cheapest is None or cost < cheapest[0]:
                    cheapest = (cost, s, r, n)
    assert cheapest is not None and found.best is not None
    best = tuple(found.best[key] for key in ("cost", "seeds", "items", "languages"))
    assert best == pytest.approx(cheapest)
    assert found.table["best"].sum() == 1
    assert found.sentence.startswith("Cheapest design with an sd of the difference of at most 1.6")


@pytest.mark.parametrize("target", [{"target_sd": 0.8}, {"target_probability": 0.972}])
@pytest.mark.parametrize("costs", [Costs(item=1.0), Costs(language=7.0, task=2.0, seed=1.0)])
def test_all_numbers_of_languages_and_tasks_are_searched(
    plain: Fit, target: dict[str, float], costs: Costs
) -> None:
    found = plan(plain, costs=costs, **target).best
    assert found is not None
    every = plan(
        plain,
        languages=range(2, 25),
        tasks=range(1, 9),
        costs=costs,
        **target,
    )
    assert every.best is not None
    for name in ("cost", "sd_difference_mean", "p_correct_mean"):
        assert found[name] == pytest.approx(every.best[name], rel=1e-12), name
    # Negative control: the cheapest design of the grid alone costs more.
    grid = every.table[
        every.table["reaches_target"]
        & every.table["languages"].isin([2, 3, 6, 12, 24])
        & every.table["tasks"].isin([1, 2, 4, 8])
    ]
    assert found["cost"] < grid["cost"].min()


def test_the_answer_says_what_was_searched_and_what_the_table_has(plain: Fit) -> None:
    answer = plan(plain, target_sd=2.0)
    assert " Designs with 2 to 24 languages and 1 to 8 tasks were compared." in answer.sentence
    assert answer.sentence.endswith(" The present design reaches it, too.")
    assert not any(note.startswith("present: ") for note in answer.notes)
    rows = table(TASKS, replicates=False).drop(index=[3, 7, 20])
    records = be.Records.from_frame(rows, name="gaps", units=(0.0, 100.0))
    with_gaps = be.fit(records, {"name": "small"}, engine="marginal", draws=400, chains=2)
    assert plan(with_gaps).notes[0] == (
        "present: as if all 4 models had a score in all 12 pairs of a language and a task; the "
        "table has 45 of these 48 cells"
    )


def test_an_unreachable_target_is_said_with_what_is_missing(known: Fit) -> None:
    found = plan(known, target_sd=0.01, seeds=[1, 2], items=[1.0], languages=[6])
    assert found.best is None
    sd = found.table["sd_difference_mean"][found.table["in_grid"]].min()
    assert f"the sd is {sd - 0.01:.3g} above its target" in found.sentence
    assert "No design of the grid" in found.sentence
    assert "unlimited seeds and items would leave an sd of" in found.sentence
    # Of the single task there cannot be more.
    assert found.sentence.endswith(
        "More languages, seeds or items extend the grid (languages, seeds, items)."
    )
    fixed = plan(known, target_sd=0.01, seeds=[1, 2], items=[1.0], fixed="language")
    assert fixed.sentence.endswith("More seeds or items extend the grid (seeds, items).")


def test_what_the_plan_says_to_extend_can_be_extended(plain: Fit) -> None:
    found = plan(plain, target_sd=0.01)
    assert found.sentence.endswith("More languages or tasks extend the grid (languages, tasks).")
    assert len(plan(plain, target_sd=0.01, languages=[200], tasks=[30]).table) == 2
    both = plan(plain, target_sd=0.01, fixed=["language", "task"])
    assert "extend the grid" not in both.sentence


def test_without_costs_a_test_set_costs_one(known: Fit) -> None:
    row = plan(known).table.iloc[0]
    assert row["cost"] == 6 * 4 * 1.0
    counted = plan(known, test_size=200, items=[100, 400])
    assert counted.table["n_items"].to_list()[0] == 200
    assert set(counted.table["items"][1:]) == {0.5, 2.0}
    assert counted.table["cost"].iloc[0] == 6 * 4 * 200.0


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        ({"seeds": [1, 2]}, ("seeds cannot be planned", "replicates by seed")),
        ({"items": [2.0]}, ("items cannot be planned", "test-set noise")),
        ({"languages": [0]}, ("languages must be whole numbers of at least 1", "0")),
        ({"languages": [2.5]}, ("whole numbers", "2.5")),
        ({"tasks": []}, ("tasks: no number given",)),
        ({"target_sd": -1.0}, ("target_sd must lie above 0", "-1")),
        ({"target_probability": 95.0}, ("above 0.5 and below 1", "95")),
        ({"cost_item": float("nan")}, ("cost_item", "nan")),
        ({"fixed": ["langauge"]}, ("did you mean 'language'?",)),
        ({"fixed": "languages"}, ("got 'languages'; did you mean 'language'?",)),
        ({"ci_prob": 0.9999001}, ("ci_prob must lie between 0.01 and 0.9999, got 0.9999001",)),
        ({"languages": range(1, 200), "tasks": range(1, 200)}, ("39601 designs", "10000")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_makes_no_sense_is_refused(
    plain: Fit, arguments: dict[str, object], phrases: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        plan(plain, **arguments)  # type: ignore[arg-type]
    for phrase in phrases:
        assert phrase in str(caught.value)


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "5"])
def test_costs_refuse_what_is_no_cost(cost: Any) -> None:
    with pytest.raises(InputError) as caught:
        Costs(language=cost)
    assert str(caught.value) == f"language of Costs must be a number of at least 0, got {cost!r}"
    assert Costs(language=np.float64(2.0)).language == 2.0


@pytest.mark.parametrize("cost", [1e300, 2e12, 1e-13, 5e-324])
def test_costs_that_sums_lose_are_refused(plain: Fit, cost: float) -> None:
    limits = f"must be 0 or lie between 1e-12 and 1e+12, got {cost:g}; state costs in another unit"
    for refused, name in (
        (lambda: Costs(seed=cost), "seed of Costs"),
        (lambda: plan(plain, cost_item=cost), "cost_item"),
        (lambda: next_cells(plain, cost_item=cost), "cost_item"),
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert str(caught.value) == f"{name} {limits}"
    assert Costs(seed=1e12, item=1e-12, language=0.0).seed == 1e12


def test_a_single_task_cannot_be_multiplied(known: Fit) -> None:
    with pytest.raises(InputError, match="tasks cannot be planned: this fit has a single task"):
        plan(known, tasks=[1, 2])


@pytest.fixture
def folder(plain: Fit, tmp_path: Path) -> Path:
    return plain.save(tmp_path / "result", figures=False)


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_command_writes_the_page_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    assert 'id="table-plan"' not in (folder / "report.html").read_text(encoding="utf-8")
    assert main(["plan", str(folder), "--languages", "4,8", "--no-figures"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {folder}/report.html"
    renewed = (folder / "report.html").read_text(encoding="utf-8")
    assert renewed == render_page(read_saved(folder))
    assert 'id="table-plan"' in renewed


def test_command_adds_its_files_and_touches_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    assert main(["plan", str(folder), "--target-sd", "0.5", "--languages", "4,6-8,40"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Cheapest design with an sd of the difference of at most 0.5" in captured.out
    assert max(len(line) for line in captured.out.splitlines() if "All designs" not in line) <= 100
    after = contents(folder)
    assert set(after) - set(before) == {"tables/plan.csv", "figures/plan.png"}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"run.json"}
    old, new = json.loads(before["run.json"]), json.loads(after["run.json"])
    assert set(new.pop("files")) == {*old.pop("files"), "tables/plan.csv", "figures/plan.png"}
    assert new.pop("run_sha256") != old.pop("run_sha256")
    hashes, earlier = new.pop("sha256"), old.pop("sha256")
    assert set(hashes) == {*earlier, "tables/plan.csv", "figures/plan.png"}
    assert earlier.items() <= hashes.items()
    assert new == old
    written = pd.read_csv(folder / "tables" / "plan.csv")
    assert set(written["languages"]) == {4, 6, 7, 8, 40}
    assert set(written["gate"]) == {read_run(folder)["gate"]["status"]}
    assert (folder / "figures" / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert "report.html" not in after
    # A plan without figure takes the old one away.
    assert main(["plan", str(folder), "--no-figures"]) == 0
    assert set(contents(folder)) - set(before) == {"tables/plan.csv"}
    assert [p.name for p in folder.parent.iterdir()] == ["result"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--languages", "6", "--tasks", "1,2,4"],
        ["--languages", "6", "--tasks", "2"],
        ["--languages", "8", "--tasks", "3"],
    ],
    ids=["one facet", "the present design", "one design"],
)
def test_figure_of_small_grids(folder: Path, arguments: list[str]) -> None:
    assert main(["plan", str(folder), *arguments, "--target-probability", "0.6"]) == 0
    assert (folder / "figures" / "plan.png").stat().st_size > 10_000


def test_a_new_fit_takes_the_plan_of_the_old_one_away(plain: Fit, folder: Path) -> None:
    plan(plain).save(folder)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    plain.save(folder, figures=False)
    there = contents(folder)
    assert "tables/plan.csv" not in there
    assert there["notes.txt"] == b"mine"


def test_the_cross_is_the_present_design_only_where_all_of_it_is(plain: Fit) -> None:
    figure = plan(plain).plot()
    assert "Cross: the present design." in " ".join(text.get_text() for text in figure.texts)
    study = plan(plain, languages=[3, 6, 12, 24], tasks=[8])
    figure = study.plot()
    said = " ".join(text.get_text() for text in figure.texts)
    assert "Held at 8 tasks" in said
    assert "Cross: the present number of languages." in said


def test_the_target_is_named_outside_the_axes(plain: Fit) -> None:
    study = plan(plain, languages=[3, 6, 12, 24], tasks=[1, 2, 4, 8])
    sds = study.table["sd_difference_mean"]
    figure = plan(
        plain,
        languages=[3, 6, 12, 24],
        tasks=[1, 2, 4, 8],
        target_sd=float(sds.median()),
    ).plot()
    figure.canvas.draw()
    axes = figure.axes[0]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"target {sds.median():g}"]
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1
    assert not any("target" in text.get_text() for text in axes.texts)


def test_a_user_s_own_plan_stays(folder: Path) -> None:
    (folder / "tables" / "plan.csv").write_text("mine", encoding="utf-8")
    assert main(["plan", str(folder), "--no-figures"]) == 0
    assert (folder / "tables" / "plan.csv.orig").read_text(encoding="utf-8") == "mine"
    assert (folder / "tables" / "plan.csv").read_text(encoding="utf-8") != "mine"


def test_an_edited_folder_gets_no_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "tables" / "model_ranking.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")
    assert main(["plan", str(folder), "--no-figures"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path.resolve()} was edited or is damaged: its SHA-256")
    assert said.count("\n") == 1
    assert not (folder / "tables" / "plan.csv").exists()


def test_a_disk_that_refuses_leaves_the_folder_as_it_was(folder: Path) -> None:
    before = contents(folder)

    def good(path: Path) -> None:
        path.write_text("new", encoding="utf-8")

    def bad(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left on device"):
        add_files(folder, {"tables/plan.csv": good, "figures/plan.png": bad}, run={})
    assert contents(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == ["result"]


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["--seeds", "1,2"], ("seeds cannot be planned",)),
        (["--languages", "few"], ("--languages takes whole numbers", "'few'")),
        (["--languages", "5-2"], ("languages: no number given",)),
        (["--items", "a"], ("--items takes numbers", "'a'")),
        (["--fixed", "tsk"], ("did you mean 'task'?",)),
        (["--target-sd", "0"], ("--target-sd must lie above 0",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_usage_is_one_line_and_exit_code_2(
    folder: Path,
    arguments: list[str],
    phrases: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = contents(folder)
    assert main(["plan", str(folder), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    for phrase in phrases:
        assert phrase in captured.err
    assert contents(folder) == before


def test_no_result_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "nowhere")]) == 2
    assert "no such result folder" in capsys.readouterr().err


def test_a_point_estimate_has_no_intervals(tmp_path: Path) -> None:
    records = be.Records.from_frame(table(TASKS, replicates=False), name="small")
    fit = be.fit(records, "paper", engine="ml")
    found = plan(fit, target_sd=0.5)
    assert found.table["sd_difference_mean"].notna().all()
    assert found.table["sd_difference_lower"].isna().all()
    assert "[" not in found.sentence
    found.save(fit.save(tmp_path / "ml", figures=False))
    assert (tmp_path / "ml" / "figures" / "plan.png").is_file()


def test_public_name_is_the_function(plain: Fit) -> None:
    assert be.plan is plan
    found = be.plan(plain, target_sd=1.0)
    with pytest.raises(AttributeError):
        found.best = None  # type: ignore[misc]
    assert replace(found, best=None).best is None
    assert "Decision study" in str(found)


def test_script_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "plan.py"), "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: nowhere: no such result folder\n"


@pytest.mark.parametrize("target", [1.0, 1.6, 3.0])
def test_the_answer_has_the_digits_of_the_table(known: Fit, target: float) -> None:
    found = plan(known, target_sd=target)
    (sd,) = re.findall(r"sd of the difference (\d\S* \[\S+ \S+\])", found.sentence)
    table = found.summary().partition("Cheapest design")[0].partition("No design")[0]
    assert sd in table
    rows = found.table[found.table["best"]] if found.best else found.table[found.table["in_grid"]]
    mean = rows["sd_difference_mean"].min()
    # Rounding keeps it on its side of the target.
    assert (float(sd.split()[0]) < target) == (mean < target)


def _column(text: str) -> list[str]:
    """First cells of the printed table, below its heading."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  design"))
    width = lines[start].index("languages")
    body = lines[start + 1 :]
    return [line[2:width].strip() for line in body[: body.index("")]]


def test_the_printed_table_is_read_without_the_documentation(known: Fit) -> None:
    open_end = plan(known, languages=[3, 6, 12]).summary()
    here = plan(known).table.iloc[0]["languages"]
    names = _column(open_end)
    assert names[0] == "present"
    expected = ["more languages" if n > here else "fewer languages" for n in (3, 6, 12)]
    expected = [name for name, n in zip(expected, (3, 6, 12), strict=True) if n != here]
    assert sorted(name for name in names if "languages" in name) == sorted(expected)
    assert {"fewer seeds", "more seeds"} <= set(names)
    reached = plan(known, target_sd=1e6).summary()
    named = _column(reached)
    assert sum("cheapest" in name for name in named) == 1
    assert named[-1].endswith(" by cost")
    missed = plan(known, target_sd=1e-9).summary()
    assert _column(missed)[:3] == ["present", "most precise", "2nd by sd"]
    assert "none reaches the target" in missed
    for text in (open_end, reached, missed):
        assert all(_column(text))
        flowing = " ".join(text.split())
        for said in (
            "sd of difference: standard deviation of the error in the difference between",
            "P(right order): probability that two models of the population are put in their true",
            "generalisability: share of the variance of models' mean scores",
            "cost: of evaluating one model",
        ):
            assert said in flowing
