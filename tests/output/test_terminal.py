"""What the terminal shows: aligned, plain, complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.cells import cell_len

from bayeseval.diagnostics import Check, Gate
from bayeseval.estimands import model_components_table
from bayeseval.output import format_listing, format_preamble, format_results
from bayeseval.output import text as text_module
from tests.output.trees import hand_tree, random_tree

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
    text = format_results(hand_tree(), run(), folder="results/mini", ci_prob=0.4)
    lines = text.splitlines()
    assert lines[0] == "mini, model additive, engine numpyro, seed 3"
    assert lines[1].startswith("Numbers are posterior means with 40 % equal-tailed intervals")
    assert lines[-1] == "Results: results/mini"
    # Bounds of four draws at 40 %: 0.9 and 2.1 steps into them. Mean-PRR, its rank, CV-PRR,
    # its rank, records.
    model = next(line for line in lines if line.startswith("  A "))
    assert [cell.strip() for cell in model.split("   ") if cell.strip()] == [
        "A",
        "1.15 [1.09, 1.21]",
        "1 [1, 1]",
        "0.20 [0.20, 0.20]",
        "2 [2, 2]",
        "4",
    ]
    en = next(line for line in lines if line.startswith("  en "))
    assert en.split()[1:4] == ["73.0", "[71.8,", "74.2]"]
    language = next(line for line in lines if line.startswith("  language ") and "[" in line)
    assert language.split()[1:4] == ["11.0", "[10.0,", "12.0]"]


def test_intervals_are_explained_once() -> None:
    text = format_results(hand_tree(), run())
    assert text.count("equal-tailed") == 1
    assert "95 % equal-tailed" in text


def test_gate_is_said_before_the_numbers() -> None:
    passed = format_results(hand_tree(), run())
    assert passed.index("Convergence gate: passed") < passed.index("Model disparity")
    failed = format_results(hand_tree(), run(FAILED))
    assert failed.index("Convergence gate: FAILED") < failed.index("Model disparity")


def test_all_languages_up_to_twelve_then_both_ends() -> None:
    few = format_results(random_tree(n_languages=12), run())
    assert all(f"l{i:03d}" in few for i in range(12))
    many = format_results(random_tree(n_languages=13), run())
    shown = [line.split()[0] for line in many.splitlines() if line.startswith("  l0")]
    assert len(shown) == 10
    assert "first and last 5 of 13" in many
    assert any(line.split()[:1] == ["..."] for line in many.splitlines())


def test_lines_fit_and_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("an-organisation/a-model-with-quite-a-long-name-70B-instruct-v0.3", "[red]b[/red]")
    tree = random_tree(n_languages=53, models=names, chains=2, draws=10)
    named = run(language_names={"l001": "中文名", "l002": "Kiswahili"})
    # Whole in a pipe or file.
    assert names[0] in format_results(tree, named)
    monkeypatch.setattr(text_module, "terminal_width", lambda: 100)
    text = format_results(tree, named)
    assert max(cell_len(line) for line in text.splitlines()) <= 100
    assert "\x1b" not in text
    # A label is shown as it is, never read as a style.
    assert "[red]b[/red]" in text


def test_columns_are_aligned() -> None:
    text = format_results(random_tree(n_models=4, models=("a", "bb", "中文", "dddd")), run())
    block = text.split("Model disparity")[1].split("\n\n")[0].splitlines()[1:]
    # Cells of the last column end at the same place.
    assert len(block) == 5
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


def test_a_quantity_that_is_not_reported_is_a_dash_with_its_reason() -> None:
    # Potentials around zero: no ratio has a meaning.
    text = format_results(random_tree(intercept=0.0), run())
    row = next(line.split() for line in text.splitlines() if line.startswith("  model-1 "))
    assert row[1] == "-"
    assert "at or below 0" in text


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


@pytest.mark.parametrize("name", ["format_results", "check_target", "write_results"])
def test_package_resolves_its_names(name: str) -> None:
    from bayeseval import output

    assert getattr(output, name).__name__ == name


def test_package_refuses_other_names() -> None:
    from bayeseval import output

    with pytest.raises(AttributeError, match="no attribute 'write_resluts'"):
        output.write_resluts  # noqa: B018 - reading it is the test


def test_noise_within_languages_only_where_it_is_known() -> None:
    assert "Within languages" not in format_results(random_tree(), run())
    tree = random_tree(replicates=True)
    noted = run(
        notes=["one seed per model and language in task x: nothing"], bounds={"x": [0, 100]}
    )
    text = format_results(tree, noted)
    block = text.split("Within languages, sd in score points")[1].splitlines()
    assert block[1].split() == ["model", "between", "seeds", "test", "sets", "one", "run"]
    row = next(line.split() for line in block if line.startswith("  model-2 "))
    own = model_components_table(tree).query("model == 'model-2'").set_index("component")
    between, seed, one_run = (own.loc[key] for key in ("between", "seed", "within"))
    # A known sd has no interval, one run is shown without.
    assert row == [
        "model-2",
        f"{between['sd_mean']:.2f}",
        f"[{between['sd_lower']:.2f},",
        f"{between['sd_upper']:.2f}]",
        f"{seed['sd_mean']:.2f}",
        f"[{seed['sd_lower']:.2f},",
        f"{seed['sd_upper']:.2f}]",
        "0.50",
        f"{one_run['sd_mean']:.2f}",
    ]
    assert "  note: one seed per model and language in task x: nothing" in block


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
        "The aggregate decides: P(even above uneven) is 0.00 by arithmetic mean, 1.00 by "
        "geometric mean, 0.75 by median." in text
    )
    assert text.count("The aggregate decides") == 1
    posterior["arithmetic_mean"].values[..., 0] = 52.0
    tree["posterior"] = xr.DataTree(posterior)
    assert "No pair of models changes its order" in format_results(tree, run())


def test_within_languages_fits_with_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "terminal_width", lambda: 100)
    models = tuple(f"organisation/family-with-a-long-name-{i}" for i in range(3))
    text = format_results(random_tree(replicates=True, models=models, n_languages=40), run())
    block = text.split("Within languages")[1]
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
