"""What `fit` would refuse is said before, and the advice works when followed."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from bayeseval import load
from bayeseval.cli import main
from bayeseval.design import build_design, check_ready
from bayeseval.errors import DesignError
from bayeseval.records import Records, choose_pairs, sole_pairs, warn_of_sole_pairs
from bayeseval.spec import load_spec


def frame(cells: list[tuple[str, str, str]]) -> pd.DataFrame:
    """Scores of (model, language, task) cells."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(cells, columns=["model", "language", "task"])
    return table.assign(score=rng.uniform(20.0, 90.0, len(table)).round(2))


FULL = list(product(("A", "B", "C"), ("de", "en", "hi", "sw"), ("qa", "nli")))
APART = FULL + list(product(('X "1"', "Y: 2"), ("fr", "yo"), ("ner",)))
# Every model has languages and tasks of its own pairing: ar and yo with pos, the others with qa.
TOGETHER = list(product(("A", "B", "C"), ("de", "en", "hi"), ("qa",))) + list(
    product(("A", "B", "C"), ("ar", "yo"), ("pos",))
)


def ready(table: pd.DataFrame) -> str:
    return str(check_ready(Records.from_frame(table, name="t", units=(0, 100))))


def test_a_table_that_can_be_fitted_is_ready_with_the_model_of_fit() -> None:
    # One record in each cell of the largest interaction leaves nothing for it.
    assert ready(frame(FULL)) == (
        "Ready to fit: yes (model auto-language_task-model_task: additive + language:task + "
        "model:task)"
    )
    result = check_ready(load("mega"))
    assert result.is_ready
    assert result.model == "dataset"
    assert str(result) == "Ready to fit: yes (model dataset)"
    # Noise by model is a part that the name calls replicates.
    seeds = frame(FULL).assign(seed_sd=1.0, n_seeds=3)
    assert ready(seeds) == (
        "Ready to fit: yes (model replicates-language_task-model_task: additive + language:task + "
        "model:task + noise by model)"
    )


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (frame(APART), "the table falls into 2 unconnected parts"),
        (frame(TOGETHER), "always occur together"),
        (frame(FULL).assign(score=50.0), "all 24 scores are 50, so nothing can be compared"),
        (frame(FULL).assign(score=0.0), "all 24 scores are 0, so nothing can be compared"),
        (
            frame(FULL).assign(score=lambda t: 40.0 + 7.0 * pd.factorize(t["model"])[0]),
            "reproduces all 24 scores exactly",
        ),
    ],
)
def test_what_fit_would_refuse_is_the_reason(table: pd.DataFrame, reason: str) -> None:
    text = ready(table)
    assert text.startswith("Ready to fit: no, because ")
    assert reason in text
    assert "\n" not in text
    with pytest.raises(DesignError, match=reason):
        build_design(Records.from_frame(table, name="t", units=(0, 100)), load_spec("additive"))


FEW = [("A", "de", "qa"), ("A", "en", "qa"), ("B", "de", "qa"), ("B", "en", "qa")]


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ((50.0, 44.0, 61.0, 49.0), "Ready to fit: yes (model additive)"),
        ((50.0, 44.0, 61.0), "Ready to fit: yes (model additive)"),
        ((50.0, 50.0, 50.0, 50.0), "(columns={'score': NAME})"),
        ((50.0, 55.0, 60.0, 65.0), "; so few scores can be sums by chance: add records"),
    ],
)
def test_the_smallest_tables_are_ready_or_say_why_not(
    scores: tuple[float, ...], verdict: str
) -> None:
    table = frame(FEW[: len(scores)]).assign(score=scores)
    assert ready(table).endswith(verdict)
    if "by chance" in verdict:
        # The advice works when followed, and larger tables are no chance.
        more = pd.concat([table, frame([("A", "hi", "qa"), ("B", "hi", "qa")])])
        assert ready(more) == "Ready to fit: yes (model additive)"
        sums = frame(FULL).assign(score=lambda t: 40.0 + 7.0 * pd.factorize(t["model"])[0])
        assert ready(sums).endswith("and remove those")


def test_unlike_ranges_are_a_reason() -> None:
    table = frame(FULL)
    table.loc[table["task"] == "qa", "score"] *= 6.0
    text = str(check_ready(Records.from_frame(table, name="t")))
    assert text.startswith("Ready to fit: no, because task nli has")


@pytest.mark.parametrize(("cells", "left"), [(APART, 24), (TOGETHER, 9)])
def test_leaving_out_what_the_advice_names_makes_the_table_ready(
    cells: list[tuple[str, str, str]], left: int, tmp_path: Path
) -> None:
    path, mapping = tmp_path / "t.csv", tmp_path / "mapping.yaml"
    frame(cells).to_csv(path, index=False)
    before = check_ready(load(path))
    advice = re.search(r"'(drop: .*?)' in a YAML file passed as mapping_file", str(before.reason))
    assert advice is not None
    mapping.write_text(advice[1], encoding="utf-8")
    records = load(path, mapping_file=mapping)
    assert len(records) == left
    assert check_ready(records).is_ready


def test_leaving_out_is_no_advice_where_too_little_would_be_left() -> None:
    diagonal = frame([("A", "de", "qa"), ("A", "de", "nli"), ("B", "en", "qa"), ("B", "en", "nli")])
    no_part = "because no part with two models and two languages could be fitted"
    assert ready(diagonal).endswith(f"dropping levels does not help, {no_part}")
    parts = frame([("A", "de", "qa"), ("A", "en", "qa"), ("B", "hi", "nli"), ("B", "sw", "nli")])
    assert ready(parts).endswith(
        f"; add records that link them; dropping levels does not help, {no_part}"
    )


LANGUAGES = ("ar", "de", "en", "fr", "hi", "sw")
OWN_TASKS = [(m, one, f"t_{one}") for m in "ABC" for one in LANGUAGES]


def test_all_groups_that_occur_together_are_told_of_at_once() -> None:
    assert ready(frame(OWN_TASKS)) == (
        "Ready to fit: no, because language de and task t_de, language en and task t_en, language"
        " fr and task t_fr and 3 more groups of a language and a task always occur together, so"
        " their effects are confounded; add records that cross them, so that every group"
        " shares a level with another; dropping levels does not help, because no part with two"
        " models and two languages could be fitted; if the tasks named after a language are one"
        " test in several languages, give it one name: 't' in place of 't_ar', 't_de', 't_en' and 3"
        " more"
    )
    # The advice works when followed.
    assert ready(frame(OWN_TASKS).assign(task="t")).startswith("Ready to fit: yes")
    unlike = [(m, one, f"t{i}") for m in "ABC" for i, one in enumerate(LANGUAGES)]
    assert ready(frame(unlike)).endswith(
        "; if the tasks are the same test under several names, give them one name"
    )
    linked = [*OWN_TASKS, *(("A", one, "t_ar") for one in LANGUAGES[1:])]
    assert ready(frame(linked)).startswith("Ready to fit: yes")
    # Two tasks of every language have no name in common without two scores in a cell.
    twice = [(m, one, test + one) for m in "ABC" for one in LANGUAGES for test in ("q_", "n_")]
    assert "same test under several names" not in ready(frame(twice))
    assert "language de and task n_de, q_de, language en" in ready(frame(twice))


def test_tasks_named_after_languages_are_one_test_or_are_left_out() -> None:
    """Names of tasks hold the language; one of them at the side is left out, not its language."""
    pairs = [(m, one, f"{t}-{one.upper()}:acc") for m in "ABC" for one in LANGUAGES for t in "qn"]
    text = ready(frame(pairs))
    assert text.endswith(
        "give it one name: 'n:acc' in place of 'n-AR:acc', 'n-DE:acc', 'n-EN:acc' and 3 more,"
        " 'q:acc' in place of 'q-AR:acc', 'q-DE:acc', 'q-EN:acc' and 3 more"
    )
    renamed = frame(pairs)
    renamed["task"] = renamed["task"].str.replace("-..:", ":", regex=True)
    assert ready(renamed).startswith("Ready to fit: yes")
    aside = frame([*product("ABC", ("en", "fr"), "qn"), *((m, "de", "q_de") for m in "ABC")])
    assert followed(aside, ready(aside))["task"].unique().tolist() == ["q", "n"]
    assert "'drop: {task: [\"q_de\"]}'" in ready(aside)
    named = aside.assign(
        language=aside["language"].map({"en": "English", "fr": "French", "de": "German"})
    )
    assert ready(named).endswith("give it one name: 'q' in place of 'q_de'")
    # Without its language the name would be one task of another language: all is linked.
    assert ready(aside).endswith("give it one name: 'q' in place of 'q_de'")


def followed(table: pd.DataFrame, text: str) -> pd.DataFrame:
    """The rows that the `drop:` of a message leaves."""
    advice = re.search(
        r"'drop: ({.*?})' in a YAML file passed as mapping_file keeps (\d+) of", text
    )
    assert advice is not None, text
    drop = yaml.safe_load(advice[1])
    out = np.any([table[factor].isin(labels) for factor, labels in drop.items()], axis=0)
    assert int((~out).sum()) == int(advice[2])
    return table[~out]


def test_following_the_advice_once_is_enough() -> None:
    """Several confounded pairs, parts with nothing in common, a largest part of one language."""
    together = {
        "task of their own": [*product("ABC", ("de", "en"), ("qa",)), *OWN_TASKS],
        "part and tasks": [*APART, *((m, one, f"t_{one}") for m in "ABC" for one in LANGUAGES)],
        "model of one language": [
            *product(("A", "B"), ("de", "en", "hi"), ("qa", "nli")),
            *((f"m_{one}", one, task) for one in ("sw", "yo") for task in ("qa", "nli")),
        ],
        "largest of one language": [
            *product("AB", ("de",), [f"t{i}" for i in range(9)]),
            *product("AB", ("en", "hi"), ("z",)),
        ],
    }
    kept = {}
    for name, cells in together.items():
        table = frame(sorted(set(cells)))
        text = ready(table)
        assert text.startswith("Ready to fit: no, because "), name
        rest = followed(table, text)
        assert ready(rest).startswith("Ready to fit: yes"), name
        kept[name] = len(rest)
    assert kept == {
        "task of their own": 12,
        "part and tasks": 36,
        "model of one language": 12,
        "largest of one language": 4,
    }


def test_the_advice_on_sparse_tables_leaves_what_is_ready_or_says_that_nothing_is() -> None:
    outcomes = {"yes": 0, "dropped": 0, "none": 0}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        cells = list(product("ABC", LANGUAGES[:4], ("q", "n", "r")))
        some = [cells[i] for i in np.sort(rng.choice(len(cells), 8, replace=False))]
        table = frame(some)
        if table["model"].nunique() < 2 or table["language"].nunique() < 2:
            continue
        text = ready(table)
        if text.startswith("Ready to fit: yes"):
            outcomes["yes"] += 1
        elif "dropping levels does not help" in text:
            outcomes["none"] += 1
        else:
            assert ready(followed(table, text)).startswith("Ready to fit: yes"), (seed, text)
            outcomes["dropped"] += 1
    assert min(outcomes.values()) >= 1, outcomes


def test_adding_records_that_cross_makes_the_table_ready() -> None:
    crossing = [*TOGETHER, ("A", "de", "pos"), ("B", "yo", "qa")]
    assert ready(frame(crossing)).startswith("Ready to fit: yes")


def test_a_model_with_many_pairs_of_its_own_is_warned_of() -> None:
    own = frame([*FULL, *product(("B",), ("fr", "it", "yo"), ("qa",))])
    records = Records.from_frame(own, name="t", units=(0, 100))
    assert sole_pairs(records, choose_pairs(records)) == {"B": 3}
    (warning,) = check_ready(records).warnings
    assert str(warning).startswith(
        "warning: 3 of 11 language-task pairs (27%) have a score of model B alone"
    )
    assert "; pairs='shared' leaves" in warning.text
    # The advice works when followed.
    assert warn_of_sole_pairs(records, choose_pairs(records, "shared")) == ()
    # Two of ten pairs are a fifth.
    fewer = Records.from_frame(own[own["language"] != "yo"], name="t", units=(0, 100))
    assert sole_pairs(fewer, choose_pairs(fewer)) == {"B": 2}
    assert check_ready(fewer).warnings == ()
    mega = load("mega")
    assert sole_pairs(mega, choose_pairs(mega)) == {}
    # Without any shared pair there is no such advice.
    diagonal = frame([("A", "de", "qa"), ("A", "en", "qa"), ("B", "hi", "qa")])
    apart = Records.from_frame(diagonal, name="t", units=(0, 100))
    assert ["--pairs" in one.text for one in warn_of_sole_pairs(apart, choose_pairs(apart))] == [
        False,
        False,
    ]


def test_a_fit_warns_of_sole_pairs_before_it_begins_and_in_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    frame([*FULL, *product(("B",), ("fr", "it", "yo"), ("qa",))]).to_csv(path, index=False)
    for choice, expected in (("any", 1), ("shared", 0)):
        out = tmp_path / choice
        options = ["--pairs", choice, "--model", "additive", "--draws", "50", "--chains", "2"]
        code = main(
            ["fit", "-b", str(path), *options, "--no-figures", "--no-checks", "--out", str(out)]
        )
        assert code in (0, 3)
        lines = capsys.readouterr().err.splitlines()
        assert sum(line.startswith("warning: 3 of 11 language") for line in lines) == expected
        notes = json.loads((out / "run.json").read_text(encoding="utf-8"))["notes"]
        assert sum(note.startswith("warning: 3 of 11 language") for note in notes) == expected


def test_validate_ends_with_the_verdict_and_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, one = (tmp_path / name for name in ("good.csv", "bad.csv", "one.csv"))
    frame(FULL).replace({"language": {"sw": "Swahilli"}}).to_csv(good, index=False)
    frame(APART).to_csv(bad, index=False)
    frame(FULL[:1]).to_csv(one, index=False)
    assert main(["validate", str(good)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("Ready to fit: yes (model ")
    # Warnings stand right before, whole, and not among the notes.
    assert lines[-3].startswith("warning: language labels that no registry knows: 'Swahilli'")
    assert sum("Swahilli'" in line for line in lines) == 1
    assert any("de (German)" in line for line in lines)
    saved = tmp_path / "saved.csv"
    assert main(["validate", str(bad), "--save-records", str(saved)]) == 2
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith(
        "Ready to fit: no, because the table falls into 2 unconnected parts"
    )
    assert saved.is_file()
    assert main(["validate", str(one)]) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Ready to fit: no, because ")
    assert last.endswith("only one model ('A'); a comparison needs at least two models")
