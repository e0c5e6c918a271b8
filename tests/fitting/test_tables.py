"""Tables of a result folder: columns of the contract, values done by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from xarray import DataTree

from bayeseval.errors import InputError
from bayeseval.fitting.report.tables import result_tables
from bayeseval.leaving_out.report import format_sensitivity
from bayeseval.output.language_names import add_language_names
from bayeseval.output.store import write_csv
from tests.fitting.trees import hand_tree, random_tree

SUMMARY = ("mean", "sd", "lower", "upper")
RANK = ("mean", "median", "lower", "upper")
CONTRACT = {
    "language_potential": [
        "language",
        *(f"potential_{part}" for part in SUMMARY),
        *(f"rank_{part}" for part in RANK),
        "n_records",
        "n_tasks",
    ],
    "model_ranking": [
        "model",
        *(f"score_{part}" for part in SUMMARY),
        *(f"prr_{part}" for part in SUMMARY),
        *(f"rank_{part}" for part in RANK),
        *("rank_set_lower", "rank_set_upper", "p_best", "p_top3", "may_be_best", "tier"),
        *(f"gap_sd_languages_{part}" for part in SUMMARY),
        *(f"gap_sd_rank_{part}" for part in RANK),
        *(f"cv_prr_languages_{part}" for part in SUMMARY),
        *("cv_prr_constant_gap", "worst_language", "share_predicted", "n_records"),
    ],
    "model_language": [
        *("model", "language"),
        *(f"{q}_{part}" for q in ("prr_language", "gap") for part in ("mean", "lower", "upper")),
        "n_records",
    ],
    "model_disparity": [
        "model",
        *(f"{q}_{part}" for q in ("mean_prr", "std_prr", "cv_prr") for part in SUMMARY),
        *("n_records", "n_pairs_left_out"),
    ],
    "variance_components": [
        "component",
        *(f"sd_{part}" for part in SUMMARY),
        *(f"share_{part}" for part in ("mean", "lower", "upper")),
    ],
    "pairwise_models": [
        *("quantity", "model_a", "model_b"),
        *(f"diff_{part}" for part in SUMMARY),
        *("effect_size", "p_a_better", "p_within_margin"),
    ],
    "rank_probabilities": ["quantity", "level", "rank", "probability"],
}
CONTRACT["model_disparity_latent"] = CONTRACT["model_disparity"]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    # At 50 % the bounds of four draws are their quartiles, which are easy by hand.
    return result_tables(hand_tree(), gate_status="pass", ci_prob=0.5)


def test_every_table_has_the_columns_of_the_contract_first(
    tables: dict[str, pd.DataFrame],
) -> None:
    assert sorted(tables) == sorted(f"tables/{name}.csv" for name in CONTRACT)
    for name, columns in CONTRACT.items():
        table = tables[f"tables/{name}.csv"]
        assert list(table.columns[: len(columns)]) == columns, name
        assert list(table.columns[-3:]) == ["ci_kind", "ci_prob", "gate"], name
        assert set(table["ci_kind"]) == {"eti"}


def test_potential_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["tables/language_potential.csv"].set_index("language")
    assert list(table.index) == ["en", "de", "sw"]
    en = table.loc["en"]
    assert (en["potential_mean"], en["potential_lower"], en["potential_upper"]) == (73, 71.5, 74.5)
    # sqrt((9 + 1 + 1 + 9) / 3)
    assert en["potential_sd"] == pytest.approx(np.sqrt(20 / 3), rel=1e-12)
    sw = table.loc["sw"]
    assert sw["potential_mean"] == 56.25
    # Third, third, third, second.
    assert (sw["rank_mean"], sw["rank_median"]) == (2.75, 3)
    assert table["n_records"].to_dict() == {"en": 4, "de": 2, "sw": 1}
    assert table["n_tasks"].to_dict() == {"en": 2, "de": 1, "sw": 1}
    assert set(table["ci_prob"]) == {0.5}


def test_disparity_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    observed = tables["tables/model_disparity.csv"].assign(step=0.0)
    latent = tables["tables/model_disparity_latent.csv"]
    assert list(latent["support"]) == ["observed", "observed", "common", "common"]
    latent = latent.assign(step=2.0 + (latent["support"] == "common"))
    for row in pd.concat([observed, latent]).query("model == 'A'").to_dict("records"):
        assert row["mean_prr_mean"] == pytest.approx(1.15 + row["step"], rel=1e-12)
        assert row["mean_prr_lower"] == pytest.approx(1.075 + row["step"], rel=1e-12)
        assert row["cv_prr_mean"] == pytest.approx(0.2 + row["step"], rel=1e-12)
        assert (row["n_records"], row["n_pairs_left_out"]) == (4, 0)
    for name in ("model_disparity", "model_disparity_latent"):
        assert not [c for c in tables[f"tables/{name}.csv"].columns if "rank" in c]


def test_ranking_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["tables/model_ranking.csv"].set_index("model")
    assert list(table.index) == ["A", "B"]
    a = table.loc["A"]
    assert (a["score_mean"], a["score_lower"], a["score_upper"]) == (63, 61.5, 64.5)
    assert a["prr_mean"] == pytest.approx(63 / 60, rel=1e-12)
    # A is ahead in three draws of four, and more even in three.
    assert (a["rank_mean"], a["rank_median"], a["p_best"], a["p_top3"]) == (1.25, 1, 0.75, 1.0)
    assert a["gap_sd_languages_mean"] == 2.5
    assert a["gap_sd_rank_mean"] == 1.25
    assert a["cv_prr_languages_mean"] == 0.125
    # P(A best) of 0.75 is short of 0.95, and of the 0.975 that tells two apart.
    assert table["may_be_best"].to_list() == [True, True]
    assert table["tier"].to_list() == [1, 1]
    assert (a["cv_prr_constant_gap"], a["worst_language"]) == (0.01, "sw")
    assert a["worst_language_prr_mean"] == pytest.approx(63 / 80, rel=1e-12)
    # Four pairs; B was not tested on sw.
    assert table["share_predicted"].to_dict() == {"A": 0.0, "B": 0.25}
    assert table["n_records"].to_dict() == {"A": 4, "B": 3}


def test_latent_and_observed_are_different_files(tables: dict[str, pd.DataFrame]) -> None:
    assert set(tables["tables/model_disparity.csv"]["prr"]) == {"observed"}
    assert set(tables["tables/model_disparity_latent.csv"]["prr"]) == {"latent"}


def test_components_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["tables/variance_components.csv"].set_index("component")
    assert list(table.index) == ["language", "task", "model", "residual"]
    assert table["sd_mean"].to_list() == [11, 5, 5, 3]
    # 100 of 100 + 25 + 16 + 9, and 144 of 144 + 25 + 36 + 9.
    expected = (100 / 150 + 144 / 214) / 2
    assert table.loc["language", "share_mean"] == pytest.approx(expected, rel=1e-12)
    assert table["share_mean"].sum() == pytest.approx(1.0, rel=1e-12)


def test_pairwise_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["tables/pairwise_models.csv"].set_index("quantity")
    assert list(table.index) == ["standardised_score", "gap_sd_languages", "model_effect"]
    row = table.loc["standardised_score"]
    assert (row["model_a"], row["model_b"], row["p_a_better"]) == ("A", "B", 0.75)
    # Three differences of 2 and one of -1: mean 1.25, sd 1.5.
    assert row["diff_mean"] == pytest.approx(1.25, rel=1e-12)
    assert row["diff_sd"] == pytest.approx(1.5, rel=1e-12)
    assert row["effect_size"] == pytest.approx(1.25 / 1.5, rel=1e-12)
    # Without a declared range there is no margin.
    assert np.isnan(row["p_within_margin"])
    # A's sd of gaps is lower in three draws, which is better.
    assert table.loc["gap_sd_languages", "p_a_better"] == 0.75
    assert table.loc["gap_sd_languages", "diff_mean"] == pytest.approx(-0.5, rel=1e-12)


def test_rank_probabilities_by_hand(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["tables/rank_probabilities.csv"]
    quantities = ["language_potential", "standardised_score", "gap_sd_languages"]
    assert list(dict.fromkeys(table["quantity"])) == quantities
    wide = table[table["quantity"] == "language_potential"].pivot(
        index="level", columns="rank", values="probability"
    )
    assert wide.loc[["en", "de", "sw"]].to_numpy().tolist() == [
        [1.0, 0.0, 0.0],
        [0.0, 0.75, 0.25],
        [0.0, 0.25, 0.75],
    ]
    mean = table[(table["quantity"] == "standardised_score") & (table["rank"] == 1)]
    assert mean.set_index("level")["probability"].to_dict() == {"A": 0.75, "B": 0.25}


@pytest.mark.parametrize("status", ["pass", "fail", "not applicable"])
@pytest.mark.parametrize("tree", [hand_tree, partial(random_tree, replicates=True)])
def test_every_table_carries_the_gate(status: str, tree: Callable[[], DataTree]) -> None:
    for table in result_tables(tree(), gate_status=status).values():
        assert set(table["gate"]) == {status}
        assert list(table.columns[-3:]) == ["ci_kind", "ci_prob", "gate"]


def test_unknown_gate_status_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of pass, fail, not applicable, got 'passed'"):
        result_tables(hand_tree(), gate_status="passed")


def test_language_names_stand_after_the_contracts_columns() -> None:
    tables = result_tables(
        hand_tree(), gate_status="pass", language_names={"en": "English", "sw": "Kiswahili"}
    )
    table = tables["tables/language_potential.csv"]
    assert list(table.columns).index("language_name") == len(CONTRACT["language_potential"])
    # No name for de: its label.
    assert table.set_index("language")["language_name"].to_dict() == {
        "en": "English",
        "de": "de",
        "sw": "Kiswahili",
    }


def test_names_stand_beside_codes_in_every_table_of_languages() -> None:
    known = {"en": "English", "sw": "Kiswahili", "de": "German"}
    tables = result_tables(hand_tree(), gate_status="pass", language_names=known)
    worst = tables["tables/model_ranking.csv"].set_index("model")["worst_language_name"]
    assert worst.to_dict() == {"A": "Kiswahili", "B": "German"}
    by_language = tables["tables/model_language.csv"]
    assert set(by_language["language_name"]) == set(known.values())
    ranks = tables["tables/rank_probabilities.csv"]
    named = ranks.groupby("quantity")["level_name"].unique().map(set).to_dict()
    assert named["language_potential"] == set(known.values())
    # Levels of the other quantities are models, whatever they are called.
    assert named["standardised_score"] == {"A", "B"}


def test_published_potential_only_with_a_published_shift() -> None:
    tree = hand_tree()
    without = result_tables(tree, gate_status="pass")["tables/language_potential.csv"]
    assert "published_potential" not in without
    tree["posterior"].attrs["published_shift"] = 1.626
    with_shift = result_tables(tree, gate_status="pass")["tables/language_potential.csv"]
    added = with_shift["published_potential"] - with_shift["potential_mean"]
    # Differences of numbers below 100 in double precision.
    assert added.to_numpy() == pytest.approx(1.626, abs=1e-12)
    assert list(with_shift.columns[:11]) == CONTRACT["language_potential"]


def test_point_estimate_has_no_intervals() -> None:
    tables = result_tables(random_tree(chains=1, draws=1), gate_status="not applicable")
    potential = tables["tables/language_potential.csv"]
    assert potential["potential_mean"].notna().all()
    assert potential[["potential_sd", "potential_lower", "potential_upper"]].isna().all(axis=None)
    assert potential[["rank_mean", "rank_median", "rank_lower"]].isna().all(axis=None)
    ranking = tables["tables/model_ranking.csv"]
    assert ranking["score_mean"].notna().all()
    assert ranking[["score_lower", "rank_mean", "p_best", "tier"]].isna().all(axis=None)
    assert tables["tables/rank_probabilities.csv"]["probability"].isna().all()


def test_csv_reads_back_to_the_same_numbers(
    tmp_path: Path, tables: dict[str, pd.DataFrame]
) -> None:
    for name, table in tables.items():
        path = tmp_path / Path(name).name
        write_csv(table, path)
        raw = path.read_bytes()
        assert b"\r" not in raw
        assert raw.endswith(b"\n")
        back = pd.read_csv(path)
        assert list(back.columns) == list(table.columns)
        numbers = table.select_dtypes("float").columns
        # Ranks are written without decimals, and read back as whole numbers.
        same = back[numbers].astype(float)
        pd.testing.assert_frame_equal(same, table[numbers], check_exact=True)


def test_ranks_are_written_without_decimals(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "model": ["a", "b", "c"],
            "rank_mean": [1.0, 2.5, 3.0],
            "rank_median": [1.0, 2.5, np.nan],
            "rank_set_upper": [1.0, 12.0, 13.0],
            "score_lower": [1.0, 2.0, 3.0],
        }
    )
    write_csv(table, tmp_path / "ranks.csv")
    assert (tmp_path / "ranks.csv").read_text(encoding="utf-8").splitlines() == [
        "model,rank_mean,rank_median,rank_set_upper,score_lower",
        "a,1.0,1,1,1.0",
        "b,2.5,2.5,12,2.0",
        "c,3.0,,13,3.0",
    ]
    assert table["rank_median"].dtype == float


def test_csv_keeps_labels_of_any_script(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"language": ["中文", 'a "b", c'], "x": [0.1, np.nan]}), tmp_path / "x")
    assert (tmp_path / "x").read_text(encoding="utf-8") == ('language,x\n中文,0.1\n"a ""b"", c",\n')


@pytest.fixture(scope="module")
def replicates() -> dict[str, pd.DataFrame]:
    return result_tables(random_tree(replicates=True), gate_status="pass")


def test_components_by_model_follow_those_of_the_whole_table(
    tables: dict[str, pd.DataFrame], replicates: dict[str, pd.DataFrame]
) -> None:
    assert set(tables["tables/variance_components.csv"]["model"]) == {""}
    table = replicates["tables/variance_components.csv"]
    labels = list(zip(table["component"], table["model"], strict=True))
    whole = ["language", "task", "model", "residual", "replicates"]
    by_model = ["between", "between_population", "seed", "boot", "within"]
    assert labels[:5] == [(component, "") for component in whole]
    assert labels[5:] == [(component, f"model-{i}") for i, component in product(range(4), by_model)]
    own = table[table["model"] == "model-1"].set_index("component")
    # Every cell of the tree has a test-set sd of 0.5, taken as given.
    assert own.loc["boot", "sd_mean"] == 0.5
    assert own.loc["boot", "kind"] == "known"
    assert np.isnan(own.loc["boot", ["sd_sd", "sd_lower", "sd_upper"]].astype(float)).all()
    assert own.loc["seed", "kind"] == "pooled"
    assert own.loc["between", "kind"] == "realised"
    shares = own.loc[["between", "within"], "share_mean"]
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.isnan(own.loc["between_population", "share_mean"])


def test_cells_keep_what_their_own_replicates_say(replicates: dict[str, pd.DataFrame]) -> None:
    tree = random_tree(replicates=True)
    table = replicates["tables/within_language.csv"]
    raw = tree["constant_data"]["seed_cell_raw_sd"].to_numpy()
    np.testing.assert_array_equal(table["seed_sd_raw"], raw)
    drawn = tree["posterior"]["sd_seed_cell"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(table["seed_sd_mean"], drawn, rtol=1e-12)
    assert (table["seed_sd_lower"] < table["seed_sd_upper"]).all()
    assert table["boot_sd_lower"].isna().all()
    assert set(table["boot_sd_raw"]) == set(table["boot_sd_mean"]) == {0.5}
    # One run: seed and test set, added as variances.
    run = tree["posterior"]["sd_seed_cell"] ** 2 + 0.25
    expected = np.sqrt(run).mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(table["run_sd_mean"], expected, rtol=1e-12)
    # The observed score: its share of the seeds, and what is known.
    constant = tree["constant_data"]
    of_mean = constant["seed_share"].to_numpy() * tree["posterior"]["sd_seed_cell"] ** 2
    expected = np.sqrt(of_mean + constant["se"].to_numpy() ** 2).mean(("chain", "draw"))
    np.testing.assert_allclose(table["score_se_mean"], expected.to_numpy(), rtol=1e-12)
    assert (table["score_se_mean"] < table["run_sd_mean"]).all()
    # Sds of seeds and of test sets, and nothing of what they do together.
    assert table["note"].str.startswith("run_sd and score_se are upper bounds").all()


def test_aggregates_are_among_ranks_and_pairs(replicates: dict[str, pd.DataFrame]) -> None:
    ends = ["", "_resampled", "_subset", "_run", "_resampled_run", "_subset_run"]
    kinds = ["arithmetic_mean", "geometric_mean", "median"]
    names = [kind + end for end, kind in product(ends, kinds)]
    ranked = list(dict.fromkeys(replicates["tables/rank_probabilities.csv"]["quantity"]))
    assert ranked[-18:] == names
    pairs = list(dict.fromkeys(replicates["tables/pairwise_models.csv"]["quantity"]))
    assert pairs[-23:] == [*names, *(f"score:l{i:03d}" for i in range(5))]
    table = replicates["tables/aggregates.csv"]
    assert len(table) == 18 * 4
    best = table.query("aggregate == 'median' and population == 'fixed' and of == 'run'")
    ranks = replicates["tables/rank_probabilities.csv"]
    first = ranks[(ranks["quantity"] == "median_run") & (ranks["rank"] == 1)]
    assert best.set_index("model")["p_best"].to_dict() == pytest.approx(
        first.set_index("level")["probability"].to_dict(), rel=1e-12
    )


def test_a_geometric_mean_that_does_not_exist_says_why(
    replicates: dict[str, pd.DataFrame],
) -> None:
    assert set(replicates["tables/aggregates.csv"]["note"]) == {""}
    low = result_tables(random_tree(replicates=True, intercept=0.0), gate_status="pass")
    table = low["tables/aggregates.csv"]
    lost = table["value_mean"].isna()
    assert set(table.loc[lost, "aggregate"]) == {"geometric_mean"}
    assert lost.sum() == (table["aggregate"] == "geometric_mean").sum()
    assert table.loc[lost, ["p_best", "rank_mean"]].isna().all(axis=None)
    assert set(table.loc[lost, "note"]) == {
        "not reported: some scores are negative, and a geometric mean needs scores above 0"
    }
    assert set(table.loc[~lost, "note"]) == {""}


def test_names_stand_beside_codes_in_the_tables_of_refits() -> None:
    known = {"de": "German", "sw": "Swahili"}
    moves = pd.DataFrame(
        {
            "level": ["de", "A", "sw"],
            "quantity": ["language_potential", "standardised_score", "language_potential"],
            "drop": ["model", "model", "language"],
            "without": ["A", "B", "de"],
        }
    )
    named = add_language_names(moves, known)
    assert list(named["level_name"]) == ["German", "A", "Swahili"]
    assert list(named["without_name"]) == ["A", "B", "German"]
    assert "without_name" not in add_language_names(moves.assign(drop="model"), known)
    text = format_sensitivity(
        pd.DataFrame({"drop": [], "without": [], "quantity": []}),
        pd.DataFrame(
            {"model": ["A"], "language": ["sw"], "task": ["t"], "score": [3.0], "residual": [-9.0]}
        ),
        [],
        language_names=known,
    )
    assert "A       Swahili (sw)   t" in text
