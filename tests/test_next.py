"""Cells to measure next: against refits, costs, stops, new languages, refusals, the command."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.linalg import block_diag
from scipy.stats import spearmanr

import bayeseval as be
from bayeseval.checks.prior import prior_tree
from bayeseval.cli import main
from bayeseval.errors import InputError
from bayeseval.estimands import asked, derive
from bayeseval.fitting.run import Fit
from bayeseval.planning import NextCells, next_cells
from bayeseval.planning.next_report import answer
from bayeseval.reporting import read_saved
from bayeseval.reporting.page import render_page
from tests import prompt_tables
from tests.fitting.dying_driver import RUN

MODELS, LANGUAGES, TASKS = ("m0", "m1", "m2", "m3"), ("l0", "l1", "l2", "l3", "l4"), ("t0", "t1")


def scores() -> pd.DataFrame:
    """m3 has one record, l4 one, m2 none on t1."""
    rng = np.random.default_rng(1)
    rows = [
        (f"m{m}", f"l{k}", f"t{t}", 50 + 5 * m + 4 * k + 6 * t + 3 * rng.standard_normal())
        for m, k, t in product(range(4), range(5), range(2))
    ]
    table = pd.DataFrame(rows, columns=["model", "language", "task", "score"])
    gone = (table["model"] == "m3") & ~((table["language"] == "l0") & (table["task"] == "t0"))
    gone |= (table["language"] == "l4") & (table["model"] != "m0")
    gone |= (table["model"] == "m2") & (table["task"] == "t1")
    return table[~gone]


def fit_of(table: pd.DataFrame, **options: object) -> Fit:
    records = be.Records.from_frame(table, name="small", units=(0.0, 100.0))
    return be.fit(records, {"name": "small"}, engine="marginal", draws=1000, chains=4, **options)


@pytest.fixture(scope="module")
def small() -> Fit:
    return fit_of(scores())


@pytest.fixture(scope="module")
def folder(small: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save(tmp_path_factory.mktemp("next") / "result", figures=False)


def sd_of_differences(fit: Fit) -> float:
    """Root mean variance of the differences of all pairs of models."""
    score = fit.data["posterior"]["standardised_score"].to_numpy().reshape(-1, 4)
    pairs = [(a, b) for a in range(4) for b in range(a)]
    return float(np.sqrt(np.mean([(score[:, a] - score[:, b]).var(ddof=1) for a, b in pairs])))


def cells_of(chosen: NextCells) -> list[tuple[str, str, str]]:
    return list(chosen.table[["model", "language", "task"]].itertuples(index=False, name=None))


def test_the_order_is_that_of_refits(small: Fit) -> None:
    """With each of some cells measured at what is predicted for it, the table is fitted again."""
    chosen = next_cells(small, target="ranking", budget=100.0)
    assert chosen.n_cells == len(chosen.table) == 17
    assert chosen.sd_now == pytest.approx(sd_of_differences(small))
    alone = chosen.table.set_index(["model", "language", "task"])["gain_alone"]
    # Gains of different sizes, best first: no Monte-Carlo error of a refit reaches across.
    some = [("m3", "l4", "t1"), ("m3", "l0", "t1"), ("m2", "l4", "t1"), ("m1", "l4", "t0")]
    frame = pd.DataFrame(some, columns=["model", "language", "task"])
    predicted = small.predict(frame)["expected_mean"]
    refitted = [
        sd_of_differences(small)
        - sd_of_differences(fit_of(pd.concat([scores(), row.to_frame().T.infer_objects()])))
        for _, row in frame.assign(score=predicted).iterrows()
    ]
    assert sorted(refitted, reverse=True) == refitted
    gains = [alone[cell] for cell in some]
    assert sorted(gains, reverse=True) == gains
    # Refits also lower the residual sd a little, by the same for all cells. The differences are 0.1
    # to 0.7 points; with six seeds they deviate by at most 0.105, the error of 4,000 draws and that
    # of the changed residual sd.
    assert np.diff(gains) == pytest.approx(np.diff(refitted), abs=0.15)


class Refits:
    """The table fitted by dense linear algebra under known sds, with cells added to it."""

    SDS = {"sd_language": 5.0, "sd_task": 5.0, "sd_model": 6.0, "sd_residual": 3.0}

    def __init__(self) -> None:
        table = scores()
        self.labels = {"language": LANGUAGES, "task": TASKS, "model": MODELS}
        self.table = np.stack([self.row(one) for one in table.to_dict("records")])
        root = [np.array([[100.0]])]
        for factor, labels in self.labels.items():
            n = len(labels)
            root.append(self.SDS[f"sd_{factor}"] * (np.eye(n) - 1.0 / n))
        self.prior = block_diag(*(one @ one.T for one in root))
        ones = [self.row({"language": "l0", "task": "t0", "model": m}) for m in MODELS]
        self.asked = np.stack([a - b for a, b in combinations(ones, 2)])

    def row(self, cell: dict[str, str]) -> np.ndarray:
        parts = [[float(cell[f] == one) for one in labels] for f, labels in self.labels.items()]
        return np.concatenate([[1.0], *parts])

    def left(self, cells: list[tuple[str, str, str]]) -> float:
        """Mean variance of the differences of models when cells are measured too."""
        new = [self.row(dict(zip(("model", "language", "task"), c, strict=True))) for c in cells]
        rows = np.vstack([self.table, *new])
        joint = rows @ self.prior @ rows.T + self.SDS["sd_residual"] ** 2 * np.eye(len(rows))
        after = self.prior - self.prior @ rows.T @ np.linalg.solve(joint, rows @ self.prior)
        return float(np.trace(self.asked @ after @ self.asked.T) / len(self.asked))


def test_with_known_sds_gains_and_order_are_those_of_refits() -> None:
    """Priors as narrow as this fix the sds, so that refits are exact."""
    priors = {
        name: {"dist": "gamma", "shape": 1e4, "rate": 1e4 / value}
        for name, value in Refits.SDS.items()
    }
    records = be.Records.from_frame(scores(), name="small", units=(0.0, 100.0))
    fit = be.fit(records, {"name": "known", "priors": priors}, engine="marginal", draws=1000)
    chosen, refits = next_cells(fit, budget=100.0), Refits()
    cells = cells_of(chosen)
    # The relative error of a variance of 4,000 draws is 2.2 %, of the mean over pairs less.
    assert chosen.sd_now**2 == pytest.approx(refits.left([]), rel=0.05)
    exact = np.array([refits.left([]) - refits.left([cell]) for cell in cells])
    alone = chosen.table["gain_alone"].to_numpy()
    found = chosen.sd_now**2 - (chosen.sd_now - alone) ** 2
    # Covariances of 4,000 draws have errors of 1.6 % of the sds, which are more of a small
    # covariance, and gains are their squares: the largest of 17 deviates by 8 to 17 % over six
    # seeds, and the rank correlation is 0.978 to 0.993.
    assert found == pytest.approx(exact, rel=0.2)
    assert spearmanr(found, exact).statistic > 0.95
    # The negative control: cells that are best for another target, 0.37 to 0.61 over six seeds.
    other = next_cells(fit, target="potential", budget=100.0).table
    other = other.set_index(["model", "language", "task"])["gain_alone"].loc[cells]
    assert spearmanr(other, exact).statistic < 0.8
    left, best = set(cells), list[tuple[str, str, str]]()
    for step in range(6):
        best.append(min(sorted(left), key=lambda cell: refits.left([*best, cell])))
        left.remove(best[-1])
        # Cells whose gains differ by less than their Monte-Carlo error may change places.
        assert refits.left(cells[: step + 1]) < 1.02 * refits.left(best)


def test_gains_add_up_and_no_cell_is_listed_twice(small: Fit) -> None:
    chosen = next_cells(small, target="table", budget=10.0)
    table = chosen.table
    assert list(table["order"]) == list(range(1, 11))
    assert not table.duplicated(["model", "language", "task"]).any()
    measured = {tuple(row) for row in scores()[["model", "language", "task"]].to_numpy()}
    assert not measured & set(cells_of(chosen))
    assert table["gain"].cumsum().to_numpy() == pytest.approx(table["gain_together"])
    assert table["sd_target"].to_numpy() == pytest.approx(chosen.sd_now - table["gain_together"])
    assert table["gain"].iloc[0] == pytest.approx(table["gain_alone"].iloc[0])
    assert "p_correct" not in table
    curves = dict(iter(chosen.comparison.groupby("choice")["sd_target"]))
    assert set(curves) == {"chosen", "random", "largest variance"}
    assert curves["chosen"].iloc[-1] < curves["random"].iloc[-1]
    assert [curve.iloc[0] for curve in curves.values()] == pytest.approx([chosen.sd_now] * 3)


def test_a_difference_of_two_models_needs_cells_of_these(small: Fit) -> None:
    chosen = next_cells(small, target="m1 > m3", budget=3.0)
    assert chosen.target == "m1 > m3"
    assert set(chosen.table["model"]) == {"m3"}
    score = small.data["posterior"]["standardised_score"].to_numpy().reshape(-1, 4)
    difference = score[:, 1] - score[:, 3]
    assert chosen.sd_now == pytest.approx(difference.std(ddof=1))
    # The share of 4,000 draws has a standard error of 0.008 at most, and p_now is that of a normal.
    assert chosen.p_now == pytest.approx(max((difference > 0).mean(), (difference < 0).mean()),
                                         abs=0.02)  # fmt: skip
    assert (np.diff([chosen.p_now, *chosen.table["p_correct"]]) > 0).all()
    text = chosen.summary()
    assert "sd of the difference m1 > m3" in text


def test_the_sentence_says_what_other_choices_reach_later() -> None:
    def curve(choice: str, *sds: float) -> pd.DataFrame:
        return pd.DataFrame({"choice": choice, "cost": [0.0, 1.0, 2.0, 3.0], "sd_target": sds})

    chosen = curve("chosen", 9.0, 6.0, 5.0, 4.0)
    table = pd.DataFrame({"cost_together": [1.0, 2.0, 3.0], "sd_target": [6.0, 5.0, 4.0]})

    def sentence(*others: pd.DataFrame) -> str:
        return answer(
            table, pd.concat([chosen, *others]), target="table", sd_now=9.0, p_now=np.nan,
            target_sd=None, target_probability=None, unit="",
        )  # fmt: skip

    assert sentence(curve("random", 9, 8, 7, 6), curve("largest variance", 9, 8, 7, 5)).endswith(
        "(cost 3). At cost 1 they reach what a random choice reaches at 3, and at cost 2 they "
        "reach what the cells of largest variance reach at 3."
    )
    assert sentence(curve("random", 9, 8, 7, 4), curve("largest variance", 9, 8, 7, 3.5)).endswith(
        "At this cost a random choice leaves 4.0 and the cells of largest variance 3.5."
    )


def test_the_list_ends_where_a_target_is_reached(small: Fit) -> None:
    whole = next_cells(small, budget=100.0).table
    middle = float(whole["sd_target"].iloc[4])
    chosen = next_cells(small, target_sd=middle * (1 + 1e-12))
    assert len(chosen.table) == 5
    assert list(chosen.table["reaches_target"]) == [False] * 4 + [True]
    assert "This reaches the target of an sd of at most" in chosen.sentence
    likely = next_cells(small, target_probability=float(whole["p_correct"].iloc[2]) - 1e-9)
    assert len(likely.table) == 3
    short = next_cells(small, target_sd=middle, budget=2.0)
    assert len(short.table) == 2
    assert "This does not reach the target" in short.sentence
    done = next_cells(small, target_sd=100.0)
    assert len(done.table) == 0
    assert done.sentence.startswith("No cell is needed")
    assert str(done)
    assert done.plot()


def test_costs_change_the_order(small: Fit, tmp_path: Path) -> None:
    by_task = pd.DataFrame({"task": ["t0", "t1"], "cost": [1.0, 50.0]})
    chosen = next_cells(small, cost=by_task, budget=6.0)
    assert set(chosen.table["task"]) == {"t0"}
    assert list(chosen.table["cost_together"]) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    path = tmp_path / "costs.csv"
    costs = [(m, t, 100.0 if m == "m3" else 2.0) for m in MODELS for t in TASKS]
    pd.DataFrame(costs, columns=["model", "task", "cost"]).to_csv(path, index=False)
    dear = next_cells(small, cost=path, budget=6.0).table
    assert len(dear) == 3
    assert "m3" not in set(dear["model"])
    assert next_cells(small, budget=6.0).table["model"].iloc[0] == "m3"
    # A run of m2 on t1, where it has no record, is paid once.
    seeds = next_cells(small, target="m1 > m2", cost_item=0.5, cost_seed=3.0, budget=6.0).table
    first = seeds[(seeds["model"] == "m2") & (seeds["task"] == "t1")]["cost"].tolist()
    assert first[:2] == [3.5, 0.5]
    assert set(next_cells(small, cost_item=0.1, test_size=20, budget=4.0).table["cost"]) == {2.0}


def test_cells_can_be_given(small: Fit) -> None:
    cells = pd.DataFrame(
        [("m3", "l1", "t0"), ("m1", "l4", "t0"), ("m0", "l0", "t0")],
        columns=["model", "language", "task"],
    )
    chosen = next_cells(small, cells=cells)
    assert cells_of(chosen) == [("m3", "l1", "t0"), ("m1", "l4", "t0")]
    assert any("1 cell left out, which have records already" in note for note in chosen.notes)
    precise = next_cells(small, cells=cells.iloc[:2].assign(se=[30.0, 0.1])).table
    assert precise["model"].tolist() == ["m1", "m3"]


def test_languages_without_records_are_candidates_and_asked_for(small: Fit) -> None:
    labels = (*LANGUAGES, "sw", "fr")
    covariate = be.Covariate(
        "speakers", "language", labels=labels, models=(), values=np.arange(7.0) ** 1.5
    )
    records = be.Records.from_frame(scores(), name="small", units=(0.0, 100.0))
    spec = {"name": "speakers", "covariates": ["speakers"]}
    fit = be.fit(records, spec, covariate=covariate, draws=500, chains=2)
    without = next_cells(fit, target="potential", covariate=None, budget=4.0)
    chosen = next_cells(
        fit, target="potential", languages=["sw", "fr"], covariate=covariate, budget=4.0
    )
    assert chosen.n_cells == without.n_cells + 2 * 4 * 2
    assert {"sw", "fr"} <= set(chosen.table["language"])
    named = chosen.table.set_index("language")["language_name"]
    assert set(named[["sw", "fr"]]) == {"Swahili", "French"}
    assert chosen.sd_now > without.sd_now
    setup = next_cells(
        fit,
        target="potential",
        languages="sw",
        covariate=covariate,
        costs=be.Costs(item=1.0, language=1000.0),
        budget=20.0,
    )
    assert "sw" not in set(setup.table["language"])
    again = next_cells(
        fit, target="potential", languages=[LANGUAGES[0], "sw"], covariate=covariate, budget=4.0
    )
    assert f"{LANGUAGES[0]} has records and is a candidate without being named" in again.notes
    assert not [note for note in chosen.notes if "without being named" in note]
    # A cell costs 1 where only the language has a cost.
    plain = next_cells(
        fit, target="potential", languages="sw", covariate=covariate, cost_language=1000.0,
        budget=20.0,
    )  # fmt: skip
    assert plain.table["cost"].tolist() == setup.table["cost"].tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "rankin"}, ("target must be ranking, potential, table or 'A > B'",
                                "did you mean 'ranking'?")),
        ({"target": ""}, ("target must be ranking, potential, table or 'A > B'", "got ''")),
        ({"target": "m1 > m33"}, ("model 'm33' is not in the table", "did you mean 'm3'?")),
        ({"target": "m1 > m1"}, ("two models of the table",)),
        ({"target": "table", "target_probability": 0.9}, ("target_probability", "order of models")),
        ({"target_probability": 0.4}, ("target_probability must lie above 0.5 and below 1",)),
        ({"budget": 0.5}, ("budget is 0.5, and the cheapest cell costs 1",)),
        ({"budget": np.inf}, ("budget must lie above 0 and be finite, got inf",)),
        ({"cost_item": 0.0}, ("every cell must cost something", "cost_item")),
        ({"costs": be.Costs(item=1.0, prompt=2.0)},
         ("costs: prompt is 2, but", "leave prompt out")),
        ({"costs": be.Costs(item=1.0, task=3.0)}, ("costs: task is 3, but", "leave task out")),
        ({"cost": pd.DataFrame({"task": ["t0"], "cost": [1.0]})}, ("no cost of task 't1'",)),
        ({"cost": pd.DataFrame({"tusk": ["t0"], "cost": [1.0]})}, ("no column model,",)),
        ({"cost": pd.DataFrame({"task": ["t0", "t2"], "cost": [1.0, 1.0]})},
         ("cost, row 2, column 'task'", "'t2' is not in the table", "leave the row out")),
        ({"cost": pd.DataFrame({"task": ["t0", "t1"], "cost": [1.0, 0.0]})},
         ("cost, row 2, column 'cost'", "from 1e-12 to 1e+12")),
        ({"cost": pd.DataFrame({"task": ["t0", "t0"], "cost": [1.0, 2.0]})}, ("second cost",)),
        ({"cost": pd.DataFrame({"task": ["t0", "t1"], "cost": [1.0, 2.0]}), "cost_item": 2.0},
         ("cost and cost_item both",)),
        ({"cells": pd.DataFrame([("m1", "l9", "t0")], columns=["model", "language", "task"])},
         ("language 'l9' is not in the table", "name it in languages")),
        ({"cells": pd.DataFrame([("m0", "l0", "t0")], columns=["model", "language", "task"])},
         ("no cell is left to measure",)),
    ],
)  # fmt: skip
def test_what_is_refused(small: Fit, arguments: dict[str, object], words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        next_cells(small, **arguments)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_the_command_adds_to_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["next", str(folder), "--for", "m1 > m3", "--budget", "3"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Cells to measure next, of 17 without records" in captured.out
    assert re.search(r"m3 +l\d +t\d +1 ", captured.out)
    made = next_cells(Fit.open(folder), target="m1 > m3", budget=3.0)
    written = pd.read_csv(folder / "tables" / "next.csv")
    assert list(written["gain"]) == pytest.approx(list(made.table["gain"]))
    assert set(written["gate"]) == {"pass"}
    assert (folder / "figures" / "next.png").is_file()
    page = render_page(read_saved(folder))
    assert 'id="table-next"' in page
    assert 'id="table-next-comparison"' in page
    made.save(folder, figures=False)
    assert not (folder / "figures" / "next.png").exists()


def test_the_command_refuses_in_its_own_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["next", str(folder), "--for", "potential", "--target-probability", "0.9"]) == 2
    assert "--target-probability is about the order of models" in capsys.readouterr().err
    assert main(["next", str(folder), "--covariate", "x.csv"]) == 2
    assert "name them with --languages" in capsys.readouterr().err


def test_the_figure_shows_three_choices_and_the_target(small: Fit) -> None:
    axes = next_cells(small, target_sd=1.5, budget=8.0).plot().axes[0]
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels == ["chosen", "largest variance", "random", "target 1.5"]
    assert axes.get_ylabel().startswith("Sd of a difference between two models")


def test_each_step_is_taken_in_once(small: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probability of the right order of the cells before it is not computed again."""
    sizes, real = [], asked.p_right_order

    def counted(difference: np.ndarray, variance: np.ndarray, explained: np.ndarray) -> np.ndarray:
        sizes.append(len(explained))
        return real(difference, variance, explained)

    monkeypatch.setattr(asked, "p_right_order", counted)
    whole = next_cells(small, budget=100.0).table
    sizes.clear()
    likely = next_cells(small, target_probability=float(whole["p_correct"].iloc[9]) - 1e-9).table
    assert likely["p_correct"].tolist() == pytest.approx(whole["p_correct"].tolist()[:10])
    # Ten steps and the beginning: one at a time for the end of the list, once more for the table.
    assert sizes == [1] * 11 + [11]


def test_languages_in_one_text_are_separated_by_commas(small: Fit) -> None:
    together = next_cells(small, target="potential", languages="sw, yo", budget=1.0)
    apart = next_cells(small, target="potential", languages=["sw", "yo"], budget=1.0)
    assert together.n_cells == apart.n_cells == 17 + 2 * 4 * 2


def test_labels_of_languages_are_checked(
    small: Fit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"^languages: a language 's\\x07w' holds the control"):
        next_cells(small, languages=["yo", "s\x07w"])
    with pytest.raises(InputError, match="^languages: a language is empty$"):
        next_cells(small, languages=["yo", " "])
    assert main(["next", str(folder), "--languages", "s\x07w"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --languages: a language 's\\x07w' holds the control character")


def test_an_edited_list_is_written_again(
    small: Fit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next_cells(small, budget=2.0).save(folder, figures=False)
    listed = folder / "tables" / "next.csv"
    whole = listed.read_text(encoding="utf-8")
    listed.write_text(whole.replace("m3", "m0"), encoding="utf-8")
    # A process that was killed between the two tables leaves the second one out.
    (folder / "tables" / "next_comparison.csv").unlink()
    with pytest.raises(InputError, match="next.csv was edited .* or run bayeseval next again$"):
        read_saved(folder)
    assert main(["next", str(folder), "--budget", "2", "--no-figures"]) == 0
    assert listed.read_text(encoding="utf-8") == whole
    assert set(read_saved(folder).tables) >= {"next", "next_comparison"}
    (folder / "tables" / "next_comparison.csv").unlink()
    capsys.readouterr()
    read_saved(folder)
    assert capsys.readouterr().err.endswith("in the results, run bayeseval next again\n")


def test_a_note_says_which_prompts_measurements_have() -> None:
    frame = prompt_tables.frame(complete=True).query("model != 'p' or language != 'de'")
    records = be.Records.from_frame(frame, name="t", units=(0.0, 100.0))
    tree = prior_tree(prompt_tables.design(records), np.random.default_rng(1), 200)
    additions, _ = derive(tree, seed=0)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
    chosen = next_cells(be.Fit(data=tree, run=RUN), budget=2.0)
    assert set(chosen.table["model"]) == {"p"}
    assert [note for note in chosen.notes if "prompt" in note] == [
        "every measurement counts as one with the prompts that the model has on the task, or with "
        "all prompts of the task if it has none there; what they do to all models cancels in "
        "differences between models"
    ]


def test_a_note_says_that_prompts_count_as_independent(small: Fit) -> None:
    frame = prompt_tables.frame(complete=True).query("model != 'p' or language != 'de'")
    spec = {"name": "x", "replicates": {"pool": False}}
    records = be.Records.from_frame(frame, name="t", units=(0.0, 100.0))
    fit = be.fit(records, spec, engine="marginal", draws=100, chains=4)
    found = [note for note in next_cells(fit, budget=1.0).notes if "prompt" in note]
    assert found == [
        "every measurement counts as one with a prompt of its own; with the same prompts, "
        "differences between models gain more than listed, as part of this noise cancels in them, "
        "and potentials and expected scores less, as it does not average out"
    ]
    assert not [note for note in next_cells(small, budget=1.0).notes if "prompt" in note]
