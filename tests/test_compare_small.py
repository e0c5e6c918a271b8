"""Comparisons by hand: made-up fits and densities, and one small table in this process."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeseval import Fit, names
from bayeseval.comparison import Comparison, compare, find_fits, prepare_comparison
from bayeseval.comparison.bridge import Bridge, bridge
from bayeseval.comparison.container import identity
from bayeseval.comparison.scores import Scores
from bayeseval.comparison.sentences import comparison_table, moves_table, routes_table, verdict
from bayeseval.engines import SamplerSettings
from bayeseval.errors import ConvergenceWarning, InputError
from bayeseval.fitting import prepare
from bayeseval.output.store import RUN_ID
from bayeseval.records import Records
from bayeseval.simulation import simulate

MODELS = ("additive", "interaction")
NAN = float("nan")

# Bridges ----------------------------------------------------------------------------------


def test_a_bridge_of_single_draws_is_half_way_and_chains_tell_its_error() -> None:
    # r / (a + r) = b / (b + r) has the solution r = sqrt(a b): a mean of logs.
    with_group, without = np.array([[0.0], [2.0], [4.0]]), np.array([[0.0], [0.0], [2.0]])
    found = bridge(with_group, without)
    # Of the chains: 0, 1 and 3, whose mean is 4/3.
    variance = ((4 / 3) ** 2 + (1 / 3) ** 2 + (5 / 3) ** 2) / 2
    assert found.error == pytest.approx(np.sqrt(variance / 3), abs=1e-8)
    # All draws together solve the same equation, here by bisection.
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        left = np.mean(1 / (1 + np.exp(with_group - middle)))
        right = np.mean(1 / (1 + np.exp(middle - without)))
        low, high = (middle, high) if left < right else (low, middle)
    assert found.value == pytest.approx(low, abs=1e-8)
    assert found.overlap == pytest.approx(np.mean(1 / (1 + np.exp(low - without))))
    # Chains that only one of the fits has are left out of the error, not of the value.
    fewer = bridge(with_group[:2], without)
    assert fewer.error == pytest.approx(np.sqrt(0.5 / 2), abs=1e-8)


@pytest.mark.parametrize("apart", [0.0, 60.0, 900.0])
def test_a_bridge_is_found_however_far_the_fits_are_apart(apart: float) -> None:
    found = bridge(np.array([[apart, apart]] * 2), np.zeros((2, 3)))
    assert found.value == pytest.approx(apart / 2, abs=1e-6)


def test_limits_of_a_bridge_are_allowed() -> None:
    assert Bridge(-3.0, 0.5, 0.005).is_good
    assert not Bridge(-3.0, 0.501, 0.005).is_good
    assert not Bridge(-3.0, 0.5, 0.0049).is_good


# Tables and sentences of hand-made fits ---------------------------------------------------


def fit_with(
    potential: list[float],
    score: list[float],
    gap: float,
    *,
    components: pd.DataFrame | None = None,
    status: str = "pass",
) -> Any:
    """What tables and sentences read of a fit: draws that do not vary, and components."""
    posterior = {}
    for name, level, values in (
        (names.LANGUAGE_POTENTIAL, "language", potential),
        (names.STANDARDISED_SCORE, "model", score),
        (names.GAP_SD, "model", [gap * (i + 1.0) for i in range(len(score))]),
    ):
        posterior[name] = (("chain", "draw", level), np.broadcast_to(values, (1, 4, len(values))))
    labels = {"language": list("xyz"), "model": list("xuv")}
    data = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior, coords=labels)})
    return SimpleNamespace(
        data=data,
        run={"language_names": {"x": "Xhosa"}},
        gate=SimpleNamespace(status=status),
        components=lambda detail: components if detail else None,
    )


def parts(scale: str = "score", **rows: tuple[float, float]) -> pd.DataFrame:
    """Components with a mean share and a mean sd; intervals of shares are 0.05 about it."""
    return pd.DataFrame(
        {
            "component": [name.replace("_", ":") for name in rows],
            "scale": scale,
            "sd_mean": [sd for _, sd in rows.values()],
            "share_mean": [share for share, _ in rows.values()],
            "share_lower": [share - 0.05 for share, _ in rows.values()],
            "share_upper": [share + 0.05 for share, _ in rows.values()],
        }
    )


PLAIN = parts(language=(0.4, 8.0), residual=(0.6, 10.04))
CROSSED = parts(language=(0.3, 7.0), language_task=(0.25, 6.0), residual=(0.45, 0.876))


def test_elpds_are_sums_and_their_differences_are_paired() -> None:
    scores = {
        "unknown": Scores(np.array([-1.0, NAN, -1.0]), np.zeros(3), -1.0, "PSIS"),
        "second": Scores(np.array([-2.0, -4.0, -4.5]), np.array([0.8, 0.7, 0.2]), -9.0, "PSIS"),
        "first": Scores(np.array([-1.0, -2.0, -3.0]), np.full(3, NAN), -5.5, "exact"),
    }
    table = comparison_table(scores)
    assert list(table["spec"]) == ["first", "second", "unknown"]
    assert list(table.index) == [0, 1, 2]
    # Variances 1 of (1, 2, 3) and 1.75 of (2, 4, 4.5); differences 1, 2, 1.5 have 0.25.
    expected = {
        "elpd": [-6.0, -10.5, NAN],
        "se": [np.sqrt(3.0), np.sqrt(3.0 * 1.75), NAN],
        "elpd_diff": [0.0, -4.5, NAN],
        "diff_se": [0.0, np.sqrt(0.75), NAN],
        "p_eff": [0.5, 1.5, NAN],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-12, atol=1e-12)
    assert table["n_bad_k"].tolist() == [0, 1, 0]
    assert table["n"].tolist() == [3, 3, 3]
    assert table["method"].tolist() == ["exact", "PSIS", "PSIS"]
    assert list(table) == [*("spec", *expected), "n_bad_k", "n", "method"]


def test_routes_are_those_of_the_models_with_plain_densities() -> None:
    judged = np.array([0.71, 0.7, 0.1])
    scores = {
        "without": Scores(np.zeros(2), np.zeros(2), 0.0, "exact"),
        "with": Scores(
            np.array([-1.0, -2.0, -3.0]),
            np.array([0.2, 0.9, 0.1]),
            0.0,
            "PSIS",
            plain=(np.array([-1.0, -2.0, -4.0]), judged),
        ),
    }
    (row,) = routes_table(scores).to_dict("records")
    assert row == {
        "spec": "with",
        "elpd": -6.0,
        "n_bad_k": 1,
        "method": "PSIS",
        "elpd_psis": -7.0,
        "n_bad_k_psis": 1,
        "n": 3,
    }
    assert routes_table({"without": scores["without"]}).empty


def test_moves_are_correlations_with_the_first_model() -> None:
    fits = {
        "a": fit_with([3.0, 2.0, 1.0], [9.0, 8.0, 7.0], 1.0),
        "b": fit_with([2.0, 3.0, 1.0], [8.0, 9.0, 7.0], NAN),
        "c": fit_with([1.0, 2.0, 3.0], [9.0, 8.0, 7.0], 2.0),
    }
    table = moves_table(fits)
    assert list(table) == ["spec", "against", "quantity", "spearman", "kendall", "moved"]
    rows = list(table[["spec", "against", "quantity"]].itertuples(index=False, name=None))
    assert rows == [
        ("b", "a", "language_potential"),
        ("c", "a", "language_potential"),
        ("b", "a", "standardised_score"),
        ("c", "a", "standardised_score"),
        ("c", "a", "gap_sd_languages"),
    ]
    # One exchange among three: 1 - 6 * 2 / (3 * 8), and one of three pairs in the other order.
    np.testing.assert_allclose(table["spearman"], [0.5, -1.0, 0.5, 1.0, 1.0])
    np.testing.assert_allclose(table["kendall"], [1 / 3, -1.0, 1 / 3, 1.0, 1.0])
    assert table["moved"].tolist() == [
        "Xhosa (x) 1 [1, 1] to 2 [2, 2]; y 2 [2, 2] to 1 [1, 1]",
        "Xhosa (x) 1 [1, 1] to 3 [3, 3]; z 3 [3, 3] to 1 [1, 1]",
        # This x is a model.
        "x 1 [1, 1] to 2 [2, 2]; u 2 [2, 2] to 1 [1, 1]",
        "",
        "",
    ]
    alone = moves_table({"a": fits["a"]})
    assert (len(alone), list(alone)) == (0, list(table))


def ranked(**columns: Any) -> pd.DataFrame:
    start = {
        "spec": ["p", "q", "r", "s"],
        "elpd": [-10.0, -14.0, -19.0, -30.0],
        "elpd_diff": [0.0, -4.0, -9.0, -20.0],
        "diff_se": [0.0, 2.0, 5.0, 4.0],
        "n_bad_k": 0,
        "n": 20,
    }
    return pd.DataFrame(start | columns)


NO_MOVES = pd.DataFrame(columns=["spec", "against", "quantity", "spearman", "kendall", "moved"])


def said_of(table: pd.DataFrame, by: Any = "task", **fits: Any) -> list[str]:
    own = {name: fit_with([1.0] * 3, [1.0] * 3, 1.0, components=PLAIN) for name in table["spec"]}
    return verdict(table, NO_MOVES, own | fits, by)


def test_a_winner_is_four_and_two_standard_errors_ahead() -> None:
    won = "p predicts a left-out task best: elpd 4.0 (SE 2.0) ahead of q."
    tied = "Not clearly worse than p either: r 9.0 (SE 5.0)."
    assert said_of(ranked()) == [won, tied]
    less = ranked(elpd_diff=[0.0, -3.9, -9.0, -20.0], diff_se=[0.0, 0.5, 4.0, 4.0])
    assert said_of(less) == [
        "No clear winner: p is 3.9 (SE 0.5) ahead of q, less than 4: a smaller "
        "difference says nothing, whatever its standard error."
    ]
    unsure = ranked(diff_se=[0.0, 2.1, 5.0, 11.0])
    assert said_of(unsure) == [
        "No clear winner: p is 4.0 (SE 2.1) ahead of q, less than two standard errors.",
        "Not clearly worse than p either: r 9.0 (SE 5.0), s 20.0 (SE 11.0).",
    ]
    # A lead with a density that cannot be relied on, on either side.
    for bad, name in (([1, 0, 0, 0], "p"), ([0, 1, 0, 0], "q")):
        found = said_of(ranked(n_bad_k=bad), "language")
        assert found == [
            "No clear winner: p is 4.0 (SE 2.0) ahead of q, but some left-out densities are "
            "unreliable.",
            tied,
            f"{name}: 1 of 20 left-out languages have too few draws (k-hat above 0.7, or a refit "
            "or bridge whose chains disagree); its elpd has a large Monte-Carlo error.",
        ]
    # Of the third it does not matter.
    assert said_of(ranked(n_bad_k=[0, 0, 1, 0]))[0] == won
    rough = "The standard errors are based on only 19 left-out tasks and are rough."
    assert said_of(ranked(n=19)) == [won, tied, rough]
    two = said_of(ranked().head(2))
    assert two == [won]


def test_models_without_an_elpd_and_single_models_are_not_compared() -> None:
    unknown = ranked(elpd=[-10.0, -14.0, NAN, NAN], n=[20, 20, 20, 20])
    assert said_of(unknown) == [
        "p predicts a left-out task best: elpd 4.0 (SE 2.0) ahead of q.",
        "Not computed, and not compared: r, s (see below).",
    ]
    assert said_of(ranked(elpd=NAN)) == [
        "No comparison: fewer than two models have an elpd.",
        "Not computed, and not compared: p, q, r, s (see below).",
    ]
    only = fit_with([1.0] * 3, [1.0] * 3, NAN, components=PLAIN)
    assert said_of(ranked().head(1), p=only) == [
        "Only one model, p, was given: there is no comparison."
    ]


def test_what_models_add_and_lack_is_said_of_each() -> None:
    logit = parts("logit", language=(0.5, 1.0), residual=(0.5, 1.0))
    on_logit = parts("logit", language=(0.5, 1.0), task=(0.1, 2.0), residual=(0.4, 1.236))
    counts = parts("logit", task=(0.1, 2.0))
    fits = {
        "p": fit_with([1.0] * 3, [1.0] * 3, NAN, components=PLAIN, status="fail"),
        "q": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=CROSSED),
        "r": fit_with([1.0] * 3, [1.0] * 3, NAN, components=logit),
        "s": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=PLAIN, status="fail"),
    }
    found = said_of(ranked(), **fits)
    assert found[0] == (
        "Not converged, so nothing here is reliable: p, s. Take more draws, or leave "
        "these models out."
    )
    assert found[3:] == [
        "q adds language:task 25 % [20, 30] of the variance; the residual sd goes from 10.0 to "
        "0.88.",
        "r has its variances on the logit scale, p on the score scale: they cannot be compared.",
        "The sds of gaps over languages are not estimated by p, r, for lack of a model:language "
        "term, and are not compared.",
    ]
    several = {
        "p": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=logit),
        "q": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=on_logit),
        "r": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=logit),
        "s": fit_with([1.0] * 3, [1.0] * 3, 1.0, components=counts),
    }
    assert said_of(ranked(), **several)[2:] == [
        "q adds task 10 % [5, 15] of the variance; the residual sd goes from 1.00 to 1.24.",
        # Counts have no residuals.
        "s adds task 10 % [5, 15] of the variance.",
    ]


def test_moves_are_told_with_both_correlations() -> None:
    moves = pd.DataFrame(
        {
            "spec": ["q", "q", "r"],
            "against": "p",
            "quantity": ["language_potential", "standardised_score", "gap_sd_languages"],
            "spearman": [0.912, NAN, 1.0],
            "kendall": [0.805, NAN, 1.0],
            "moved": ["de 1 [1, 2] to 3 [2, 4]", "", ""],
        }
    )
    fits = {name: fit_with([1.0] * 3, [1.0] * 3, 1.0, components=PLAIN) for name in "pqrs"}
    assert verdict(ranked(), moves, fits, "task")[2:] == [
        "Order of the posterior means of language potentials under p and q: Spearman 0.91, Kendall "
        "0.81; largest changes of median ranks: de 1 [1, 2] to 3 [2, 4].",
        "Scores of models are not reported by both p and q, and cannot be compared.",
        "Order of the posterior means of sds of gaps over languages under p and r: Spearman 1.00, "
        "Kendall 1.00.",
    ]


# One small table --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records() -> Records:
    return simulate("additive", n_languages=3, n_tasks=2, n_models=3, seed=4).records


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int, str]]:
    return []


@pytest.fixture(scope="module")
def compared(records: Records, told: list[tuple[str, int, int, str]]) -> Comparison:
    return compare(records, MODELS, seed=3, jobs=1, progress=lambda *now: told.append(now))


def not_converged(fit: Fit) -> Fit:
    return replace(fit, run={**fit.run, "gate": {**fit.run["gate"], "status": "fail"}})


def test_a_comparison_is_prepared_with_the_defaults_that_are_documented(records: Records) -> None:
    plain = prepare_comparison(records, "additive")
    assert (plain.by, plain.refits, len(plain.fits)) == ("record", 20, 1)
    one = plain.fits[0]
    assert (one.design.spec.name, one.engine.name, one.settings.seed) == ("additive", "marginal", 0)
    assert one.pairs.name == prepare(records, "additive").pairs.name == "any"
    pairs = records.table[["language", "task"]].drop_duplicates().head(2)
    own = prepare_comparison(
        records, MODELS, by="language", engine="numpyro", seed=7, pairs=pairs, refits=5
    )
    assert (own.by, own.refits) == ("language", 5)
    assert [fit.design.spec.name for fit in own.fits] == list(MODELS)
    assert {(fit.engine.name, fit.settings.seed) for fit in own.fits} == {("numpyro", 7)}
    assert {fit.pairs.name for fit in own.fits} == {"given"}
    folder = own.default_folder
    assert folder.parts[:2] == ("results", records.name)
    assert folder.name.startswith("additive-interaction-by-language-compare-seed7")
    assert folder.name.endswith("given")
    assert prepare_comparison(records, "additive", seed=2).default_folder.name == (
        "additive-by-record-compare-seed2"
    )
    by_task = prepare_comparison(records, MODELS, by="task").identity
    assert set(by_task) == set(RUN_ID) - {"margin"}
    assert by_task == identity([fit.identity for fit in own.fits], "task") | {
        "seed": 0,
        "pairs_hash": plain.identity["pairs_hash"],
    }
    assert by_task["engine"] == "compare"
    assert by_task["data_hash"] == one.identity["data_hash"]
    hashes = {
        prepare_comparison(records, models, by=by).identity["spec_hash"]
        for models in (MODELS, MODELS[::-1], MODELS[:1])
        for by in ("record", "task")
    }
    assert len(hashes) == 6


def test_what_cannot_be_prepared_is_refused(records: Records) -> None:
    heavy = {"name": "heavy", "likelihood": "student_t"}
    for specs, more, message in (
        (["additive"], {"by": "recrod"}, r"^cannot leave out one 'recrod' at a time; did you "
         r"mean 'record'\? \(it is one of: record, language, task, model\)$"),
        ([], {}, "^a comparison needs a model; name at least one"),
        (3, {}, "^models are a name, a YAML file, a ModelSpec, a dict, or a list of these; got "
         "int$"),
        (["additive", "interaction", "additive"], {}, "^the model 'additive' is named twice; "),
        (["paper"], {"engine": "ml"}, "^engine ml gives a point estimate"),
        (["additive"], {"refits": -1}, r"^refits must be zero or more, got -1$"),
        (["additive"], {"refits": 1.5}, r"^refits must be a whole number"),
        (["additive", heavy], {"by": "language", "refits": 2}, "^heavy has no closed form"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            prepare_comparison(records, specs, **more)  # type: ignore[arg-type]
    # Zero refits are allowed, and exactly as many as there are languages.
    assert prepare_comparison(records, ["additive"], refits=0).refits == 0
    assert prepare_comparison(records, heavy, by="language", refits=3).refits == 3
    # Two tasks can be left out one at a time, a single one cannot; its records can.
    assert len(prepare_comparison(records, "additive", by="task").fits) == 1
    part = records.subset(records.codes("task") == 1, name="part")
    with pytest.raises(InputError, match=f"^there is one task, {part.coords['task'][0]}: without"):
        prepare_comparison(part, "additive", by="task")
    assert prepare_comparison(part, "additive").by == "record"


def test_the_parts_of_a_comparison(
    compared: Comparison, records: Records, told: list[tuple[str, int, int, str]]
) -> None:
    assert list(compared.fits) == list(MODELS)
    assert [fit.run["seed"] for fit in compared.fits.values()] == [3, 3]
    assert (compared.by, "gate" in compared.table) == ("record", False)
    assert list(compared.pointwise.columns) == list(compared.k_hats.columns) == list(MODELS)
    assert compared.pointwise.index.name == compared.k_hats.index.name == "record"
    assert compared.pointwise.index.tolist() == list(range(len(records)))
    for row in compared.table.to_dict("records"):
        assert row["elpd"] == pytest.approx(compared.pointwise[row["spec"]].sum(), rel=1e-12)
    assert compared.k_hats.max().max() < 0.7
    assert list(compared.routes["spec"]) == list(MODELS)
    stage = "scoring models"
    assert [now for now in told if now[0] == stage] == [
        (stage, 0, 2, "additive"), (stage, 1, 2, "additive"),
        (stage, 1, 2, "interaction"), (stage, 2, 2, "interaction"),
    ]  # fmt: skip
    assert {now[0] for now in told} == {stage, "fitting models"}
    fitting = [now[:3] for now in told if now[0] == "fitting models"]
    assert fitting[0] == ("fitting models", 0, 2)
    assert compared._title() == f"{records.name}, 2 models"
    assert compared._main_result() == compared.verdict[0].removesuffix(".")
    assert list(compared._main()) == ["spec", "elpd", "se", "elpd_diff", "diff_se", "n_bad_k"]
    assert compared.summary().splitlines()[0] == (
        "Expected log predictive density (elpd), one record left out at a time (higher is better)"
    )


def test_what_a_comparison_writes(compared: Comparison, tmp_path: Path) -> None:
    run = compared._run()
    first = compared.fits["additive"]
    how = {name: one.run["sampling"] for name, one in compared.fits.items()}
    assert run == {
        "benchmark": first.run["benchmark"],
        "citations": first.run["citations"],
        "covariates": {},
        **identity([fit.run for fit in compared.fits.values()], "record"),
        "by": "record",
        "pairs": "any",
        "models": {"additive": "marginal", "interaction": "marginal"},
        "gates": {"additive": "pass", "interaction": "pass"},
        "samplers": {
            name: {key: own[key] for key in ("path", "path_reason")} for name, own in how.items()
        },
        "verdict": list(compared.verdict),
    }
    tables = compared.tables
    assert list(tables) == ["comparison", "pointwise", "k_hats", "moves", "routes"]
    assert tables["comparison"]["gate"].tolist() == ["pass", "pass"]
    assert list(tables["pointwise"]) == ["record", *MODELS]
    assert list(tables["k_hats"]) == ["record", *MODELS]
    np.testing.assert_array_equal(tables["k_hats"][list(MODELS)], compared.k_hats)
    assert "routes" not in replace(compared, routes=pd.DataFrame()).tables
    assert not compared._failed()
    bad = not_converged(first)
    failed = replace(compared, fits={**compared.fits, "additive": bad})
    assert failed._failed()
    assert failed._run()["gates"] == {"additive": "fail", "interaction": "pass"}
    gates = failed.tables["comparison"].set_index("spec")["gate"]
    assert gates.to_dict() == {"additive": "fail", "interaction": "pass"}
    cited = {"citations": ["@misc{one}"]}
    own = {key: value for key, value in first.run.items() if key != "citations"}
    for run, citations in ((own | cited, ["@misc{one}"]), (own, [])):
        table_of = replace(compared, fits={**compared.fits, "additive": replace(first, run=run)})
        assert table_of._run()["citations"] == citations
    other = replace(first, run={**first.run, "sampling": {}})
    assert list(
        replace(compared, fits={**compared.fits, "additive": other})._run()["samplers"]
    ) == ["interaction"]
    with_slope = replace(first, run={**first.run, "covariates": {"size": {"file": "sizes.csv"}}})
    assert replace(compared, fits={"additive": first, "slope": with_slope})._run()[
        "covariates"
    ] == {"size": {"file": "sizes.csv"}}
    named = replace(first, run={**first.run, "language_names": {"l0": "Quenya"}})
    by_language = compared.pointwise.head(2).set_axis(pd.Index(["l0", "l1"], name="language"))
    some = replace(
        compared, fits={"additive": named}, pointwise=by_language, k_hats=by_language, by="language"
    )
    for name in ("pointwise", "k_hats"):
        written = some.tables[name]
        assert written["language"].tolist() == ["l0", "l1"]
        assert "Quenya" in written.iloc[0].tolist()
    folder = compared.save(tmp_path / "out", figures=False)
    assert not (folder / "figures").exists()
    with pytest.raises(InputError, match="another|different|holds"):
        replace(compared, by="task").save(folder, figures=False)
    replace(compared, by="task").save(folder, figures=False, force=True)


def test_what_a_comparison_draws(
    compared: Comparison, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        import_module("bayeseval.comparison.figure"),
        "comparison_figure",
        lambda *tables, **more: asked.append((tables, more)) or "drawn",
    )
    ax: Any = object()
    bad = {**compared.fits, "interaction": not_converged(compared.fits["interaction"])}
    assert compared.plot(ax=ax, figsize=(3.0, 2.0)) == "drawn"
    assert replace(compared, fits=bad, by="task").figures() == {"comparison": "drawn"}
    (first, options), (second, plain) = asked
    for tables in (first, second):
        assert tables[0] is compared.table
        assert tables[1] is compared.moves
    title = compared._title()
    data = f"Data: {records.name}, 3 models, 3 languages, 2 tasks, {len(records)} records."
    assert {options.pop("data"), plain.pop("data")} == {data}
    assert options == {
        "by": "record", "subtitle": title, "gate_status": "pass", "ax": ax, "figsize": (3.0, 2.0),
    }  # fmt: skip
    assert plain == {
        "by": "task", "subtitle": title, "gate_status": "fail", "ax": None, "figsize": None,
    }  # fmt: skip


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Densities by hand instead of computed ones; what was asked for."""
    asked: list[dict[str, Any]] = []

    def score(design: Any, fitted: Any, by: str, **more: Any) -> Scores:
        asked.append({"spec": design.spec.name, "fit": fitted, "by": by, **more})
        n = design.n_records if by == "record" else len(design.coords[by])
        elpd = -np.arange(1.0, n + 1.0) - len(asked)
        notes = (f"a note on {design.spec.name}",)
        return Scores(elpd, np.full(n, 0.1 * len(asked)), 0.0, "by hand", notes)

    monkeypatch.setattr(import_module("bayeseval.comparison.run"), "score", score)
    return asked


def test_fits_that_are_there_are_scored_and_their_gates_reported(
    records: Records, compared: Comparison, by_hand: list[dict[str, Any]]
) -> None:
    prepared = prepare_comparison(records, MODELS, by="language", seed=3, refits=4)
    bad = not_converged(compared.fits["interaction"])
    ready = {"interaction": bad, "additive": compared.fits["additive"]}
    found = prepared.run(ready=ready, jobs=1)
    assert list(found.fits) == list(MODELS)
    assert all(found.fits[name] is ready[name] for name in MODELS)
    asked = [[one[key] for key in ("spec", "by", "seed", "refits", "jobs")] for one in by_hand]
    assert asked == [[name, "language", 3, 4, 1] for name in MODELS]
    assert [one["fit"] for one in by_hand] == [ready[name] for name in MODELS]
    assert found.table.set_index("spec")["gate"].to_dict() == {
        "additive": "pass", "interaction": "fail",
    }  # fmt: skip
    assert found.pointwise.index.tolist() == list(records.coords["language"])
    assert found.pointwise.index.name == "language"
    assert found.pointwise["interaction"].tolist() == [-3.0, -4.0, -5.0]
    assert found.k_hats["additive"].tolist() == [0.1] * 3
    assert found.verdict[-2:] == ("a note on additive.", "a note on interaction.")
    assert found.routes.empty
    assert found.by == "language"
    pd.testing.assert_frame_equal(found.moves, compared.moves)
    assert list(found._main())[-1] == "gate"
    # Who calls the library is warned; who calls `run` says so.
    with pytest.warns(ConvergenceWarning, match="interaction"):
        again = compare(records, MODELS, by="language", seed=3, fits=ready, jobs=1)
    pd.testing.assert_frame_equal(again.pointwise, found.pointwise - 2.0)
    # Without options: records, the seed zero, and twenty refits.
    plain = compare(records, MODELS, fits=compared.fits)
    assert [by_hand[-1][key] for key in ("by", "seed", "refits")] == ["record", 0, 20]
    assert plain.pointwise.shape == (len(records), 2)


def test_the_number_of_processes_follows_from_the_cores_of_the_engines(
    records: Records, compared: Comparison, by_hand: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("bayeseval.comparison.run")
    asked: list[tuple[int | None, int]] = []

    def sensible(jobs: int | None, *, cores_each: int, dask: str | None = None) -> int:
        asked.append((jobs, cores_each))
        return len(asked)

    def run_all(work: Any, items: Any, **more: Any) -> list[Fit]:
        asked.append((more["jobs"], len(items)))
        return [compared.fits[one.design.spec.name] for one in items]

    monkeypatch.setattr(module, "sensible_jobs", sensible)
    monkeypatch.setattr(module, "run_all", run_all)
    found = prepare_comparison(records, MODELS, seed=3).run(jobs=7)
    # The marginal engine takes one core; refits are by NUTS, with one for each of four chains.
    assert asked == [(7, 1), (1, 2), (7, 4)]
    assert [one["jobs"] for one in by_hand] == [3, 3]
    assert list(found.fits) == list(MODELS)
    del asked[:]
    prepare_comparison(records, MODELS, seed=3, engine="numpyro").run(
        ready={"interaction": compared.fits["interaction"]}
    )
    assert asked == [(None, 4), (1, 1), (None, 4)]
    del asked[:]
    prepare_comparison(records, MODELS, seed=3).run(ready=compared.fits)
    assert asked == [(None, 1), (None, 4)]


def test_fits_of_something_else_are_refused(records: Records, compared: Comparison) -> None:
    prepared = prepare_comparison(records, MODELS, seed=3)
    fit = compared.fits["additive"]
    for ready, message in (
        ({"aditive": fit}, r"^fits has 'aditive', which is not compared; did you mean "
         r"'additive'\? \(the models are: additive, interaction\)$"),
        ({"additive": 3}, "^fits: additive must be a Fit, got int$"),
        ({"interaction": fit}, "^the fit given for interaction is of another spec$"),
        ({"additive": replace(fit, run={**fit.run, "data_hash": "0"})},
         "^the fit given for additive is of another table$"),
        ({"additive": replace(fit, run={**fit.run, "pairs_hash": "0", "pairs": "mine.csv"})},
         r"^the fit given for additive has its scores on other language-task pairs \(mine.csv\); "),
        ([fit], "names of models to fits"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            prepared.run(ready=ready)  # type: ignore[arg-type]
    old = {key: value for key, value in fit.run.items() if not key.startswith("pairs")}
    with pytest.raises(InputError, match=r"language-task pairs \(unknown\); give pairs="):
        prepared.run(ready={"additive": replace(fit, run=old)})


def test_fits_in_their_default_folders_are_found(
    records: Records, compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = [prepare(records, name, settings=SamplerSettings(seed=3)) for name in MODELS]
    lying: dict[Path, Fit] = {}
    monkeypatch.setattr(Fit, "open", lambda folder: lying[folder])
    first, second = (one.default_folder for one in wanted)
    # A folder without a result, and none.
    first.mkdir(parents=True)
    assert find_fits(wanted) == {}
    own = compared.fits["interaction"]
    lying[second] = own
    second.mkdir()
    (second / "run.json").touch()
    assert find_fits(wanted) == {"interaction": own}
    # No comparison depends on the margin, but it does on all else.
    lying[second] = replace(own, run={**own.run, "margin": 3.0})
    assert list(find_fits(wanted)) == ["interaction"]
    for key in set(RUN_ID) - {"margin"}:
        lying[second] = replace(own, run={**own.run, key: "another"})
        assert find_fits(wanted) == {}
    # Something else in the folder of the first.
    lying[second], lying[first] = own, own
    (first / "run.json").touch()
    assert find_fits(wanted) == {"interaction": own}
