"""What the terminal shows: aligned, plain, complete."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.cells import cell_len

from bayeseval import fit, names
from bayeseval.estimands import (
    model_components_table,
    model_language_table,
    ranking_table,
    read_arrays,
)
from bayeseval.fitting.gate import Check, Gate
from bayeseval.fitting.report.terminal import format_listing, format_preamble, format_results
from bayeseval.output import text as text_module
from bayeseval.output.numbers import interval_texts
from bayeseval.records import Records
from tests.fitting.trees import hand_tree, random_tree

PASSED = Gate("pass", (Check("r_hat", 1.003, 1.01, "sd_task", True),), 12)
FAILED = Gate("fail", (Check("r_hat", 1.2, 1.01, "sd_task", False),), 12)


def run(gate: Gate = PASSED, **more: Any) -> dict[str, Any]:
    return {
        "benchmark": "mini",
        "spec": {"name": "additive"},
        "engine": "numpyro",
        "seed": 3,
        "gate": gate.to_dict(),
        "language_names": {},
        **more,
    }


def test_numbers_by_hand() -> None:
    tree = hand_tree()
    text = format_results(tree, run(), folder="results/mini", ci_prob=0.4)
    lines = text.splitlines()
    assert lines[0] == "mini, model additive, engine numpyro, seed 3"
    assert lines[1].startswith("Numbers are posterior means with 40 % equal-tailed intervals")
    assert lines[-1] == "Results: results/mini"
    # Bounds of four draws at 40 %: 0.9 and 2.1 steps into them. Score, PRR, rank alone and
    # joint, tier, share predicted; then sd of gaps, its rank, CV-PRR (with a constant gap),
    # lowest gap and its language.
    first, second = (
        [cell.strip() for cell in line.split("   ") if cell.strip()]
        for line in lines
        if line.startswith("  A ")
    )
    assert first == ["A", "63.0 [61.8, 64.2]", "1.05 [1.03, 1.07]", "1 [1, 1]", "1-2", "1", "0 %"]
    gap = model_language_table(tree, ci_prob=0.4).set_index(["model", "language"])
    named = [("A", "sw"), ("B", "de")]
    there = interval_texts(gap.loc[named], "gap")[0]
    assert second == ["A", "2.50 [2.00, 2.20]", "1 [1, 1]", "0.12 (0.01)", there, "sw"]
    (heading,) = (line for line in lines if "lowest gap  " in line)
    assert heading.split()[-3:] == ["lowest", "gap", "in"]
    flowing = " ".join(text.split())
    assert (
        "The two models cannot be told apart: A is better than B with probability 0.75 only."
        in flowing
    )
    assert (
        "the same 4 language-task pairs. 1 of the 2 models was not tested on all of them; missing "
        "scores are predicted. B was tested on the fewest pairs, 3." in flowing
    )
    en = next(line for line in lines if line.startswith("  en "))
    assert en.split()[1:4] == ["73.0", "[71.8,", "74.2]"]
    language = next(line for line in lines if line.startswith("  language ") and "[" in line)
    assert language.split()[1:4] == ["11.0", "[10.0,", "12.0]"]


def test_scores_that_may_be_errors_are_named_below_the_ranking() -> None:
    rows = "m,en,asr:wer,30\nm,de,asr:wer,40\nn,en,asr:wer,20\nn,de,qa,50\nm,de,qa,60\n"
    frame = pd.read_csv(io.StringIO(f"model,language,task,score\n{rows}"))
    (warning,) = Records.from_frame(frame, name="t").report.warnings
    text = format_results(hand_tree(), run(notes=["scale guessed", warning]))
    ranking = " ".join(text.partition("Models by expected score")[2].partition("\n\n")[0].split())
    said = (
        "Warning: task 'asr:wer' is named after a measure of errors, and higher scores count as "
        "better here; if lower is better there, the scores and ranks of models are wrong."
    )
    assert ranking.count(said) == 1
    assert "Warning:" not in format_results(hand_tree(), run(notes=["scale guessed"]))


def test_intervals_are_explained_once() -> None:
    text = format_results(hand_tree(), run())
    assert text.count("equal-tailed") == 1
    assert "95 % equal-tailed" in text


def test_gate_is_said_before_the_numbers() -> None:
    passed = format_results(hand_tree(), run())
    assert passed.index("Convergence gate: passed") < passed.index("Models by expected score")
    failed = format_results(hand_tree(), run(FAILED))
    assert failed.index("Convergence gate: FAILED") < failed.index("Models by expected score")
    assert failed.startswith("DO NOT RELY ON THESE RESULTS: the sampler did not converge")
    assert "DO NOT RELY" not in passed


def test_all_languages_up_to_twelve_then_both_ends() -> None:
    few = format_results(random_tree(n_languages=12), run())
    assert all(f"l{i:03d}" in few for i in range(12))
    many = format_results(random_tree(n_languages=13), run())
    shown = [line.split()[0] for line in many.splitlines() if line.startswith("  l0")]
    assert len(shown) == 10
    assert "first and last 5 of 13" in many
    assert any(line.split()[:1] == ["..."] for line in many.splitlines())


def test_lines_fit_and_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("an-organisation/a-model-with-quite-a-long-name-70B-instruct-v0.3", "[red]b[/red]")
    tree = random_tree(n_languages=53, models=models, chains=2, draws=10)
    named = run(language_names={"l001": "中文名", "l002": "Kiswahili"})
    # Whole in a pipe or file.
    assert models[0] in format_results(tree, named)
    monkeypatch.setattr(text_module, "terminal_width", lambda: 100)
    text = format_results(tree, named)
    assert max(cell_len(line) for line in text.splitlines()) <= 100
    assert "\x1b" not in text
    # A label is shown as it is, never read as a style.
    assert "[red]b[/red]" in text


def test_prose_and_tables_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = random_tree(n_languages=13, models=("alpha-7b", "beta-13b", "gamma-70b"), draws=40)
    named = run(language_names={"l001": "Kiswahili"}, model_reasons=["because of this " * 9])
    piped = format_results(tree, named).splitlines()
    assert 80 < max(map(len, piped)) <= 100
    monkeypatch.setattr(text_module, "terminal_width", lambda: 80)
    assert max(map(len, format_results(tree, named).splitlines())) <= 80
    paper = format_results(tree, named | {"spec": {"name": "paper"}})
    wide = [line for line in paper.splitlines() if len(line) > 80]
    # The numbers of this table alone need more.
    assert all(line.split()[0] in ("model", "alpha-7b", "beta-13b", "gamma-70b") for line in wide)


def test_columns_are_aligned() -> None:
    text = format_results(random_tree(n_models=4, models=("a", "bb", "中文", "dddd")), run())
    block = text.split("Models by expected score")[1].splitlines()[3:8]
    # Cells of the last column end at the same place.
    assert block[-1].endswith(" %")
    assert len({cell_len(line) for line in block}) == 1


def test_language_names_with_labels() -> None:
    text = format_results(hand_tree(), run(language_names={"en": "English", "de": "de"}))
    assert "  English (en) " in text
    assert "de (de)" not in text


def test_point_estimate_shows_numbers_alone() -> None:
    tree = random_tree(chains=1, draws=1, n_languages=12)
    tree["posterior"].attrs["published_shift"] = 1.5
    text = format_results(tree, run(Gate("not applicable", (), 0), engine="ml"))
    assert "point estimates" in text
    assert "[" not in text
    potential = float(tree["posterior"]["language_potential"].sel(language="l000").item())
    row = next(line.split() for line in text.splitlines() if line.startswith("  l000"))
    assert row[1] == f"{potential:.1f}"
    assert row[-1] == f"{potential + 1.5:.2f}"


def rows(text: str, heading: str) -> list[list[str]]:
    """Cells of a table: its lines below the heading down to the sentences or a blank line."""
    lines = text.split(heading)[1].split("\n\n")[0].splitlines()[1:]
    split = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines]
    width = max(len(cells) for cells in split)
    return [cells for cells in split if len(cells) == width or cells[0] == "..."]


def test_negative_scores_keep_score_and_rank() -> None:
    text = format_results(random_tree(intercept=-3.0), run())
    head, *body = rows(text, "Models by expected score")
    # No ratio has a meaning, and there is no column of dashes.
    assert head == ["model", "score", "rank", "joint", "tier", "predicted"]
    assert [cells[0] for cells in body] == sorted(
        (cells[0] for cells in body), key=lambda m: -expected(text, m)
    )
    assert "PRR is not reported: some scores are negative" in text
    assert "--model logit" not in text
    assert "score points" not in text


def expected(text: str, model: str) -> float:
    line = next(line for line in text.splitlines() if line.startswith(f"  {model} "))
    return float(line.split()[1])


def scaled(factor: float, **options: Any) -> xr.DataTree:
    """A random tree on another scale: derived quantities in score units are divided too."""
    tree = random_tree(**options)
    posterior = tree["posterior"].to_dataset()
    for name in (names.STANDARDISED_SCORE, names.LANGUAGE_POTENTIAL):
        posterior[name].values[:] = factor * posterior[name].to_numpy()
    tree["posterior"] = xr.DataTree(posterior)
    return tree


def test_scores_between_0_and_1_can_be_read() -> None:
    tree = scaled(0.01, draws=100)
    text = format_results(tree, run(bounds={"task0:acc": [0.0, 1.0], "task1:acc": [0.0, 1.0]}))
    assert "units of the scale 0 to 1" in text
    assert "score points" not in text
    _, *body = rows(text, "Models by expected score")
    for cells in body:
        score = float(cells[1].split()[0])
        assert 0.3 < score < 0.9
        # Two decimals or three, as the uncertainty has it; never 0.6 [0.6, 0.6].
        assert len(cells[1].split()[0]) in (4, 5)
        assert len(set(cells[1].replace("[", "").replace("]", "").replace(",", "").split())) > 1


@pytest.fixture(scope="module")
def sixty() -> str:
    labels = tuple(f"organisation-{i:02d}/family-of-models-7B-instruct-v{i % 3}" for i in range(60))
    assert min(len(label) for label in labels) >= 40
    tree = random_tree(n_languages=200, n_tasks=2, models=labels, draws=10)
    return format_results(tree, run())


def test_sixty_models_and_two_hundred_languages(sixty: str) -> None:
    head, *body = rows(sixty, "Models by expected score")
    flowing = " ".join(sixty.split())
    assert "(first 20 and last 5 of 60 models; all in tables/model_ranking.csv)" in flowing
    assert len(body) == 26
    assert body[20] == ["..."]
    # Whole in a pipe: no name and no number is cut.
    assert "…" not in sixty
    assert all(len(cells) == len(head) for i, cells in enumerate(body) if i != 20)
    assert "first and last 5 of 200" in sixty
    block = next(part for part in sixty.split("\n\n") if part.startswith("Models by expected"))
    below = block.splitlines()[31:]
    assert below[0].startswith("  organisation-")
    assert max(len(line) for line in below) <= 100
    said = " ".join(" ".join(below).split())
    assert "of 1770 pairs of models are in a known order" in said
    assert "1,770" not in said


def test_sixty_models_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "terminal_width", lambda: 100)
    labels = tuple(f"organisation/family-of-models-{i:02d}-7B-instruct-preview" for i in range(60))
    text = format_results(random_tree(n_languages=5, models=labels, draws=10), run())
    lines = text.split("Models by expected score")[1].splitlines()[2:28]
    assert max(cell_len(line) for line in lines) <= 100
    shown = {line.split("   ")[0] for line in lines}
    assert len(shown) == 26


def test_joint_rank_intervals_stand_beside_those_of_each_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = random_tree(n_models=20, n_languages=5, draws=200)
    table = ranking_table(tree).set_index("model")
    text = format_results(tree, run())
    head, *body = rows(text, "Models by expected score")
    assert head[:5] == ["model", "score", "PRR", "rank", "joint"]
    joint = table[["rank_set_lower", "rank_set_upper"]].astype(int)
    assert {cells[0]: cells[4] for cells in body} == {
        model: str(low) if low == high else f"{low}-{high}"
        for model, low, high in joint.itertuples()
    }
    # Some set is wider than the interval of its model alone, or the column would say nothing.
    assert (joint["rank_set_upper"] > table["rank_upper"]).any() or (
        joint["rank_set_lower"] < table["rank_lower"]
    ).any()
    assert (
        "joint: intervals that contain the ranks of all models at once with 95 % probability"
        in (" ".join(text.split()))
    )
    monkeypatch.setattr(text_module, "terminal_width", lambda: 80)
    narrow = format_results(tree, run())
    head, *_ = rows(narrow, "Models by expected score")
    assert "joint" not in head
    assert "all models at once with 95 % probability: rank_set in" in " ".join(narrow.split())


def test_one_task_says_what_data_would_tell_evenness() -> None:
    text = format_results(random_tree(n_tasks=1), run())
    assert "Evenness over languages is not estimated by this model" in text
    assert "number of test items" in text
    advice = "The model crossed has the term. So has a spec of your own"
    assert advice not in " ".join(text.split())
    several = run(levels={"language": 5, "task": 3, "model": 4})
    assert advice in " ".join(format_results(random_tree(), several).split())


def test_the_published_description_comes_first_where_it_is_asked_for() -> None:
    plain = format_results(random_tree(), run())
    assert "Mean-PRR   " not in plain
    paper = format_results(random_tree(), run(spec={"name": "paper"}))
    assert paper.index("Published description") < paper.index("Models by expected score")
    head, *body = rows(paper, "Published description")
    assert head == ["model", "Mean-PRR", "Std-PRR", "CV-PRR", "records"]
    assert len(body) == 4
    point = random_tree(chains=1, draws=1)
    text = format_results(point, run(Gate("not applicable", (), 0), engine="ml"))
    assert text.index("Published description") < text.index("Models by expected score")
    head, *_ = rows(text, "Models by expected score")
    assert head == ["model", "score", "PRR", "predicted"]
    assert "probability" not in text
    assert "rank" not in text.split("\n\n", 1)[1]


def test_listing() -> None:
    text = format_listing({"a": "first", "longer": "second"})
    assert text == "a       first\nlonger  second"
    assert format_listing({}) == ""


def test_preamble_names_data_model_and_priors() -> None:
    from bayeseval.design import build_design
    from bayeseval.records import load
    from bayeseval.spec import load_spec

    records = load("mega")
    text = format_preamble(records, build_design(records, load_spec("paper")), engine="ml")
    assert text.startswith("mega: 1364 records, 13 models, 53 languages, 15 tasks\n")
    assert "score ~ intercept + language + task + model" in text
    assert "population models" in text
    assert "  sd_model ~ half_normal(" in text
    assert "  language_effect ~ normal(" in text


def test_noise_within_languages_only_where_it_is_known() -> None:
    assert "Within and between languages" not in format_results(random_tree(), run())
    tree = random_tree(replicates=True)
    noted = run(
        notes=["one seed per model and language in task x: nothing"], bounds={"x": [0, 100]}
    )
    text = format_results(tree, noted)
    block = text.split("Within and between languages, sd in score points")[1].splitlines()
    place = next(i for i, line in enumerate(block) if line.split()[:2] == ["model", "between"])
    assert block[place].split() == ["model", "between", "seeds", "test", "sets", "one", "run"]
    legend = " ".join(" ".join(block[1:place]).split())
    assert legend == (
        "between: sd over languages of a model's scores without the noise named here, residuals "
        "included; above 0 also where languages are alike; seeds: noise of one seed "
        "about the mean of a language; test sets: noise of one test set about the mean of "
        "a language; one run: one seed on one test set, all noise together"
    )
    row = next(line.split() for line in block if line.startswith("  model-2 "))
    own = model_components_table(tree).query("model == 'model-2'").set_index("component")
    between, seed, one_run = (own.loc[key] for key in ("between", "seed", "within"))
    # A known sd has no interval, one run is shown without.
    assert row == [
        "model-2",
        f"{between['sd_mean']:.2f}",
        f"[{between['sd_lower']:.2f},",
        f"{between['sd_upper']:.2f}]",
        f"{seed['sd_mean']:.3f}",
        f"[{seed['sd_lower']:.3f},",
        f"{seed['sd_upper']:.3f}]",
        "0.50",
        f"{one_run['sd_mean']:.3f}",
    ]
    # Notes are about the table, not about noise within languages.
    own = text.split("Within and between languages, sd in score points")[1].split("\n\n")[0]
    assert "one seed per model" not in own
    assert (
        "\n\nNotes on the table and the model\n  one seed per model and language in task x: nothing"
    ) in text


def test_the_order_of_the_potentials_is_said() -> None:
    lines = format_results(hand_tree(), run()).splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("Language potential"))
    assert lines[place + 1].startswith("  Highest potential first; median ranks of languages")
    shown = [line.split()[1] for line in lines[place + 4 : place + 7]]
    assert shown == sorted(shown, key=float, reverse=True)


def test_notes_are_shown_of_every_fit() -> None:
    heading = "Notes on the table and the model"
    assert heading not in format_results(random_tree(), run())
    assert f"{heading}\n  two rows were left out" in format_results(
        random_tree(), run(notes=["two rows were left out"])
    )


def test_the_residual_beside_known_errors_says_what_it_contains() -> None:
    sentence = "computed from score minus prediction, and therefore includes these errors"
    text = " ".join(format_results(random_tree(replicates=True), run()).split())
    assert "which have rows of their own (replicates)" in text
    assert sentence in text
    assert sentence not in " ".join(format_results(random_tree(), run()).split())


def test_noise_of_test_sets_alone_is_shown_without_a_word_of_seeds() -> None:
    tree = random_tree(replicates=True)
    # The noise of one run is then that of test sets.
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("seed_sd"))
    text = format_results(tree, run(bounds={"x": [0, 100]}))
    block = text.split("Within and between languages, sd in score points")[1].split("\n\n")[0]
    header = next(line for line in block.splitlines() if line.split()[:2] == ["model", "between"])
    assert header.split() == ["model", "between", "test", "sets"]
    assert "seed" not in block
    legend = " ".join(block.split())
    assert "test sets: noise of one test set about the mean of a language" in legend


def test_aggregates_say_why_they_may_disagree_with_the_ranking() -> None:
    text = format_results(random_tree(replicates=True), run())
    block = text.split("Order by aggregates over languages (values in tables/aggregates.csv)")[1]
    own = " ".join(block.split("\n\n")[0].split())
    assert own.endswith("Close models can therefore be in a different order.")
    assert "The geometric mean" not in own
    low = format_results(random_tree(replicates=True, intercept=0.0), run())
    assert (
        "The geometric mean is left out: some scores are negative, and a geometric mean needs "
        "scores above 0." in " ".join(low.split())
    )


def test_pairs_that_depend_on_the_aggregate_are_named() -> None:
    tree = random_tree(replicates=True, models=("even", "uneven", "last"), n_languages=3)
    shape = tree["posterior"]["arithmetic_mean"].shape[:2]
    # Of 20 draws in each of two chains; "last" is below the others in all.
    values = {
        "arithmetic_mean": (np.full(shape, 50.0), np.full(shape, 51.0)),
        "geometric_mean": (np.full(shape, 49.0), np.full(shape, 45.0)),
        "median": (np.full(shape, 50.0), np.where(np.arange(shape[1]) < 5, 60.0, 40.0)),
    }
    posterior = tree["posterior"].to_dataset().copy(deep=True)
    for name, (even, uneven) in values.items():
        posterior[name].values[..., 0] = even
        posterior[name].values[..., 1] = uneven
        posterior[name].values[..., 2] = 1.0
    tree["posterior"] = xr.DataTree(posterior)
    text = " ".join(format_results(tree, run()).split())
    assert (
        "The order depends on the aggregate: P(even above uneven) is < 0.01 by arithmetic mean, "
        "> 0.99 by geometric mean, 0.75 by median." in text
    )
    assert text.count("The order depends on the aggregate") == 1
    # One known order, and another that is no more than likely: 2 draws of 40 are not 0.025.
    posterior["arithmetic_mean"].values[:, 0, 0] = 52.0
    tree["posterior"] = xr.DataTree(posterior)
    text = " ".join(format_results(tree, run()).split())
    assert "The order depends on the aggregate" not in text
    assert (
        "For no pair of models do two of arithmetic mean, geometric mean and median give opposite "
        "orders, each with a probability of at least 0.975." in text
    )


def test_within_languages_fits_with_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "terminal_width", lambda: 100)
    models = tuple(f"organisation/family-with-a-long-name-{i}" for i in range(3))
    text = format_results(random_tree(replicates=True, models=models, n_languages=40), run())
    block = text.split("Within and between languages")[1]
    assert max(len(line) for line in text.splitlines()) <= 100
    rows = [line for line in block.splitlines() if line.startswith("  org")]
    assert all(line.split("   ")[0].endswith(f"-{i}") for i, line in enumerate(rows))


def test_preamble_says_what_was_left_out() -> None:
    from bayeseval.design import build_design
    from bayeseval.records import Records
    from bayeseval.spec import load_spec

    rows = [
        {"model": m, "language": lang, "task": "t:acc", "seed": s, "score": 50.0 + i + 3 * j + s}
        for i, m in enumerate("ab")
        for j, lang in enumerate(("de", "en", "avg"))
        for s in range(3)
    ]
    records = Records.from_frame(pd.DataFrame(rows), name="mini", units=(0, 100))
    text = format_preamble(records, build_design(records, load_spec("additive")), engine="numpyro")
    assert "left out: 6 rows: " in text


@pytest.mark.parametrize(
    ("size", "unit"),
    [(1e-6, "units of 1e-6 of the scale 0 to 1"), (1.0, ""), (1e6, "units of 1e6")],
)
def test_scores_of_any_size_read_alike(size: float, unit: str) -> None:
    rng = np.random.default_rng(2)
    grid = [(m, lang, t) for m in "ABC" for lang in ("de", "hi", "sw") for t in ("t1", "t2")]
    table = pd.DataFrame(grid, columns=["model", "language", "task"])
    level = table["model"].map({"A": 1.9, "B": 1.5, "C": 1.2}).to_numpy()
    table["score"] = size * (level + rng.normal(0.0, 0.05, len(table)))
    one = fit(Records.from_frame(table, name="own"), "additive", draws=200, seed=1)
    assert np.isnan(read_arrays(one.data).margin)
    text = format_results(one.data, one.run)
    _, *body = rows(text, "Models by expected score")
    # The same digits whatever the size.
    scores = {cells[0]: float(cells[1].split()[0]) for cells in body}
    assert list(scores) == ["A", "B", "C"]
    own = table.groupby("model")["score"].mean() / size
    assert list(scores.values()) == pytest.approx(list(own), abs=0.03)
    assert "e-0" not in text.split("Models by expected score")[1].split("All scores lie")[0]
    if unit:
        assert f"Models by expected score, {unit}, all on" in text
        assert f"Language potential, {unit} (3" in text
        assert f"Variance components, sd in {unit}" in text
    # No margin where the range is unknown, and none of 0.01 among scores of 1e-6.
    assert "margin of" not in text
    assert ("each other, less than 1 % of their scale" in " ".join(text.split())) == (size < 1.0)
