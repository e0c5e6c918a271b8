"""A fit is prepared in one place, once; what it will be is known before it is sampled."""

from __future__ import annotations

import doctest
import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval import Fit, compare, fit, load, sensitivity
from bayeseval.cli import main
from bayeseval.comparison import prepare_comparison
from bayeseval.design import Design, build_design
from bayeseval.engines import SamplerSettings
from bayeseval.errors import DesignError, EngineError, InputError
from bayeseval.fitting import Prepared, prepare
from bayeseval.fitting import prepared as module
from bayeseval.fitting.prepared import Origin
from bayeseval.leaving_out import prepare_sensitivity
from bayeseval.output.store import RUN_ID
from bayeseval.records import Records
from bayeseval.simulation import simulate


@pytest.fixture(scope="module")
def records() -> Records:
    drawn = simulate("additive", n_languages=6, n_tasks=3, n_models=4, seed=1).records
    return Records.from_frame(drawn.table, name="scores", mixed_scales="allow")


@pytest.fixture(scope="module")
def prepared(records: Records) -> Prepared:
    settings = SamplerSettings(draws=500, chains=2, seed=4)
    return prepare(records, "additive", settings=settings, margin=2.0, pairs="shared")


@pytest.fixture(scope="module")
def fitted(prepared: Prepared) -> Fit:
    return prepared.run()


@pytest.fixture
def folder(records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records.to_csv(tmp_path / "scores.csv")
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the specs that designs are built of, whichever module asks for it."""
    names: list[str] = []

    def counting(records: Records, spec, covariates=()) -> Design:  # type: ignore[no-untyped-def]
        names.append(spec.name)
        return build_design(records, spec, covariates)

    for name, one in list(sys.modules.items()):
        if name.startswith("bayeseval") and vars(one).get("build_design") is build_design:
            monkeypatch.setattr(one, "build_design", counting)
    return names


def same_posterior(one: Fit, other: Fit) -> bool:
    found, wanted = (fit.data["posterior"].to_dataset() for fit in (one, other))
    assert set(found.data_vars) == set(wanted.data_vars)
    return all(
        found[name].to_numpy().tobytes() == wanted[name].to_numpy().tobytes()
        for name in wanted.data_vars
    )


def test_the_identity_is_that_of_the_run(prepared: Prepared, fitted: Fit, tmp_path: Path) -> None:
    assert tuple(prepared.identity) == RUN_ID
    assert prepared.identity == {key: fitted.run[key] for key in RUN_ID}
    saved = json.loads((fitted.save(tmp_path / "a", figures=False) / "run.json").read_text())
    assert prepared.identity == {key: saved[key] for key in RUN_ID}
    assert prepared.identity["margin"] == 2.0
    assert str(prepared.default_folder) == "results/scores/additive-marginal-seed4-shared"


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("spec_hash", {"spec": "interaction"}),
        ("engine", {"engine": "numpyro"}),
        ("seed", {"settings": SamplerSettings(seed=1)}),
        ("margin", {"margin": 1.0}),
        ("pairs_hash", {"pairs": pd.DataFrame({"language": ["l0"], "task": ["t0"]})}),
    ],
)
def test_what_is_asked_for_makes_another_run(
    records: Records, key: str, changed: dict[str, object]
) -> None:
    plain = prepare(records, "additive").identity
    other = prepare(records, **{"spec": "additive", **changed}).identity  # type: ignore[arg-type]
    assert {name for name in plain if plain[name] != other[name]} == {key}


def test_other_scores_make_another_run(records: Records) -> None:
    table = records.table.assign(score=records.table["score"] + 1.0)
    other = Records.from_frame(table, name="scores", mixed_scales="allow")
    plain, moved = (prepare(one, "additive").identity for one in (records, other))
    assert {name for name in plain if plain[name] != moved[name]} == {"data_hash"}


def test_every_door_gives_the_same_numbers(
    records: Records, fitted: Fit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_function = fit(records, "additive", draws=500, chains=2, seed=4, margin=2.0, pairs="shared")
    assert same_posterior(by_function, fitted)
    told = ["--draws", "500", "--chains", "2", "--seed", "4", "--margin", "2", "--pairs", "shared"]
    arguments = ["fit", "-b", "scores.csv", "-m", "additive", "--no-figures", "-q", *told]
    assert main([*arguments, "--columns", "score=score"]) == 0
    capsys.readouterr()
    by_command = Fit.open(folder / "results" / "scores" / "additive-marginal-seed4-shared")
    assert same_posterior(by_command, fitted)
    pd.testing.assert_frame_equal(by_command.ranking(), fitted.ranking())
    assert by_command.run["source"] == "scores.csv"
    assert by_command.run["source_options"] == "--columns score=score"
    # Negative control: another seed has other draws.
    other = fit(records, "additive", draws=500, chains=2, seed=5, margin=2.0, pairs="shared")
    assert not same_posterior(other, fitted)


def test_a_fit_can_be_run_in_another_process(prepared: Prepared, fitted: Fit) -> None:
    again = pickle.loads(pickle.dumps(prepared))
    assert again.identity == prepared.identity
    assert same_posterior(again.run(), fitted)


def test_the_command_builds_one_design(
    folder: Path, built: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "-b", "scores.csv", "-m", "additive", "--no-figures", "-q"]) == 0
    assert built == ["additive"]
    capsys.readouterr()


def test_a_comparison_builds_one_design_for_each_model(records: Records, built: list[str]) -> None:
    found = compare(records, ["additive", "interaction"], jobs=1)
    assert built == ["additive", "interaction"]
    prepared = prepare_comparison(records, ["additive", "interaction"])
    written = found._run()
    assert prepared.identity == {key: written[key] for key in prepared.identity}
    assert same_posterior(found.fits["additive"], prepared.fits[0].run())


def test_refits_build_one_design_each(records: Records, built: list[str]) -> None:
    found = sensitivity(records, "additive", drop=[], groups={"g": ["l0"], "h": ["l1"]}, jobs=1)
    assert built == ["additive"] * 3
    prepared = prepare_sensitivity(records, "additive", drop=[], groups={"g": ["l0"], "h": ["l1"]})
    assert same_posterior(prepared.whole.run(), found.fit)
    assert set(found.gates) == {"all records", "without g", "without h"}


def test_a_fit_of_a_comparison_says_why_it_is_this_model(records: Records) -> None:
    first, _ = prepare_comparison(records, ["auto", "paper"]).fits
    assert first.model.reasons[0].startswith("model auto -> ")
    assert first.engine.reason == "all effects can be integrated out exactly"


@pytest.mark.parametrize(
    ("error", "words", "asked"),
    [
        (
            InputError,
            r"margin must be a positive number of score units, got 0",
            {"margin": 0.0},
        ),
        (InputError, "pairs: 'shred' is neither any nor shared", {"pairs": "shred"}),
        (EngineError, "unknown engine 'margnal'", {"engine": "margnal"}),
        (
            EngineError,
            "left-out densities have no closed form: .* not of student_t",
            {"spec": "robust", "leave_out": ["record"]},
        ),
    ],
)
def test_what_cannot_be_is_refused_before_sampling(
    records: Records, error: type[Exception], words: str, asked: dict[str, object]
) -> None:
    with pytest.raises(error, match=words):
        prepare(records, **{"spec": "additive", **asked})  # type: ignore[arg-type]


def test_what_a_table_cannot_identify_is_refused_before_sampling() -> None:
    frame = pd.DataFrame({"model": ["a", "b"], "language": ["x", "y"], "task": "t"})
    with pytest.raises(DesignError, match="always occur together"):
        prepare(Records.from_frame(frame.assign(score=[0.1, 0.4]), name="two"), "additive")


def test_it_says_what_will_be_fitted(prepared: Prepared) -> None:
    assert repr(prepared) == "Prepared(scores; model additive; engine marginal; 50 records)"
    shown = str(prepared).splitlines()
    assert shown[0] == "scores: 50 records, 4 models, 6 languages, 3 tasks"
    assert shown[1].endswith("engine marginal (auto: all effects can be integrated out exactly)")


def test_rows_of_replicates_are_counted_apart_from_cells() -> None:
    frame = simulate("additive", n_languages=3, n_tasks=2, seed=1, observed_share=1.0).records.table
    frame = pd.concat(
        [frame.assign(seed=str(seed), score=frame["score"] + seed) for seed in (0, 1, 2)]
    )
    cells, rest = len(frame) // 3, "6 models, 3 languages, 2 tasks"

    def first(table: pd.DataFrame) -> str:
        return str(prepare(Records.from_frame(table, name="s"), "replicates")).splitlines()[0]

    assert first(frame) == f"s: {3 * cells} rows: {cells} cells (records) with 3 seeds each, {rest}"
    fewer = first(frame.iloc[1:])
    assert fewer.startswith(f"s: {3 * cells - 1} rows: {cells} cells (records) with 2 to 3 seeds")


def test_a_run_knows_where_its_table_came_from(records: Records, fitted: Fit) -> None:
    assert "source_options" not in fitted.run
    settings = SamplerSettings(draws=50, chains=1)
    source = Origin("a b.csv", "--columns score=F1")
    run = prepare(records, "additive", settings=settings, source=source).run().run
    assert (run["source"], run["source_options"]) == ("a b.csv", "--columns score=F1")


def test_the_same_seed_is_the_same_run_of_mega() -> None:
    settings = SamplerSettings(draws=200, chains=2)
    one, two = (prepare(load("mega"), "additive", settings=settings) for _ in range(2))
    assert one.identity == two.identity
    np.testing.assert_array_equal(one.design.score, two.design.score)


def test_the_example_of_the_docstring_is_right() -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted) == (0, 7)
