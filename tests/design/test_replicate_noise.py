"""Noise of replicates from mean squares that are given: every number by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import polygamma

from bayeseval import names
from bayeseval.design.noise import Noise
from bayeseval.design.replicates import build_noise
from bayeseval.records import CellTable, Stratum, Unbalanced


def stratum(mean_square: Any = 0.0, df: Any = 0.0, interaction: Any = 0.0, *, n: int) -> Stratum:
    """Mean squares of `n` cells; a single number is that of all."""
    parts = (np.full(n, part, dtype=np.float64) for part in (mean_square, df, interaction))
    return Stratum(*parts)


def cell_table(n: int, *, models: int = 1, **given: Any) -> CellTable:
    """Cells of one task, each of its own language; by default nothing is known of noise."""
    nothing = np.zeros(n)
    codes = {
        names.LANGUAGE: np.arange(n),
        names.TASK: np.zeros(n, dtype=np.int64),
        names.MODEL: np.arange(n) % models,
    }
    strata = {source: given.pop(source, {}) for source in ("seed", "boot", "cross")}
    parts: dict[str, Any] = {
        "codes": codes,
        "first": np.arange(n),
        "n_rows": np.ones(n, dtype=np.int64),
        "mean": np.full(n, 50.0),
        "n_seeds": nothing,
        "n_boot": nothing,
        "boot_square": nothing,
        "pair_square": nothing,
        "n_items": np.full(n, np.nan),
        "se": np.full(n, np.nan),
        "unbalanced": None,
        "notes": (),
    }
    parts |= {source: stratum(**values, n=n) for source, values in strata.items()}
    return CellTable(**(parts | given))


def noise(cells: CellTable, *, pool: bool = True) -> Noise:
    coords = {
        names.LANGUAGE: tuple(f"l{i}" for i in range(len(cells))),
        names.TASK: ("qa",),
        names.MODEL: ("a", "b"),
    }
    return build_noise(cells, coords, pool=pool, name="mine")


def incomplete(cell: list[int], square: list[float], *, centre: float = 50.0) -> Unbalanced:
    """Incomplete cells of four rows each; their other sums are of no concern here."""
    n, zero = len(cell), np.zeros((len(cell), 1))
    return Unbalanced(
        cell=np.array(cell),
        centre=np.full(n, centre),
        n_pairs=np.full(n, 4.0),
        total=np.zeros(n),
        square=np.array(square),
        seed_pairs=zero,
        seed_total=zero,
        size=zero,
        boots=zero,
        boot_total=zero,
        boot_square=zero,
        joint=zero[..., None, None],
        cross=zero[..., None],
    )


def crossed(n: int, **more: Any) -> dict[str, Any]:
    """Two seeds on two bootstraps: every mean square has one degree of freedom."""
    return {
        "n_seeds": np.full(n, 2.0),
        "n_boot": np.full(n, 2.0),
        "boot_square": np.full(n, 0.5),
        "pair_square": np.full(n, 0.25),
        "seed": {"mean_square": 9.0, "df": 1.0, "interaction": 1.5},
        "boot": {"mean_square": 4.0, "df": 1.0, "interaction": 0.5},
        "cross": {"mean_square": 2.0, "df": 1.0, "interaction": 1.0},
    } | more


def test_one_degree_of_freedom_is_enough() -> None:
    found = noise(cell_table(3, **crossed(3)))
    assert found.notes == ()
    assert found.known_sds == {}
    assert found.known_variance is None
    replicates = found.replicates
    assert replicates is not None
    assert [source.name for source in replicates.sources] == ["seed", "boot", "seed_boot"]
    # 9 - 1.5 * 2, 4 - 0.5 * 2, and 2 itself.
    for source, variance, share in zip(
        replicates.sources, (6.0, 3.0, 2.0), (1 / 2, 3 / 2, 1 / 2 + 1 / 4), strict=True
    ):
        assert source.raw_sd == pytest.approx(np.full(3, np.sqrt(variance)), rel=1e-12)
        assert source.log_sd == pytest.approx(np.full(3, 0.5 * np.log(variance)), rel=1e-12)
        assert source.share.tolist() == [share] * 3
        assert source.typical_df == 1.0
        assert source.labels == ("l0|qa|a", "l1|qa|a", "l2|qa|a")
        assert source.of_record.dtype == np.int64
    assert replicates.squares.tolist() == [9.0] * 3 + [4.0] * 3 + [2.0] * 3
    assert replicates.df.tolist() == [1.0] * 9
    assert replicates.unbalanced_cell == {}


def _two_tasks(n: int, **given: Any) -> CellTable:
    """Cells of model a, the last two of another task, and what is known of all of them."""
    cells = cell_table(n, **given)
    task = np.where(np.arange(n) < n - 2, 0, 1)
    return replace(cells, codes={**cells.codes, names.TASK: task})


def test_a_single_run_beside_several_has_the_typical_sd_of_its_model() -> None:
    # Model a: 3 seeds, 3 seeds and one run; model b: single runs only, one without a seed.
    cells = cell_table(
        6,
        models=2,
        n_seeds=np.array([3.0, 1.0, 3.0, 0.0, 1.0, 1.0]),
        seed={"mean_square": [4.0, 0.0, 16.0, 0.0, 0.0, 0.0], "df": [2.0, 0.0, 2.0, 0.0, 0.0, 0.0]},
    )
    found = noise(cells)
    assert found.notes == (
        "4 cells of a single run take the typical seed sd of their model; 1 model without "
        "replicates takes that of the others, and how much models differ in it is left out",
    )
    assert found.replicates is not None
    (seed,) = found.replicates.sources
    assert seed.record.tolist() == list(range(6))
    assert seed.share.tolist() == [1 / 3, 1.0, 1 / 3, 1.0, 1.0, 1.0]
    # Variances of the means where samplers start: 10 is the mean of 4 and 16.
    start = seed.share * np.exp(2.0 * seed.log_sd)[seed.of_record]
    assert start == pytest.approx([4 / 3, 10.0, 16 / 3, 10.0, 10.0, 10.0], rel=1e-12)
    assert np.isnan(seed.raw_sd).tolist() == [False, True, False, True, True, True]
    assert seed.over_models is not None
    assert seed.over_models.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    # The data on the sd are those of the cells with several seeds.
    assert found.replicates.squares.tolist() == [8.0, 32.0]
    assert found.replicates.cell["seed"].tolist() == [0, 2]
    own = noise(cells, pool=False)
    assert own.notes == (
        "4 cells of a single run have no seed sd: this noise is part of the residual",
    )


def test_cells_whose_standard_error_includes_the_noise_do_not_get_it_again() -> None:
    # Test sets: a mean square, a given error, shares of n items, and nothing.
    boot = {"mean_square": [4.0, 0.0, 0.0, 0.0], "df": [3.0, 0.0, 0.0, 0.0]}
    given = {"se": np.array([np.nan, 1.0, np.nan, np.nan])}
    given["n_items"] = np.array([np.nan, np.nan, 100.0, np.nan])
    found = noise(cell_table(4, boot=boot, **given))
    assert found.replicates is not None
    assert found.replicates.sources[0].share.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert found.notes == (
        "1 cell without replicates of the test set takes the typical test-set sd of its model",
    )
    # The interaction: a cell of one seed on two bootstraps has it, a score alone has not.
    several = crossed(3)
    for source in ("seed", "cross"):
        several[source] |= {"df": [1.0, 0.0, 0.0]}
    several["boot"] |= {"df": [1.0, 1.0, 0.0]}
    several["n_seeds"], several["n_boot"] = np.array([2.0, 1, 1]), np.array([2.0, 2, 0])
    found = noise(cell_table(3, **several))
    assert found.replicates is not None
    shares = {source.name: source.share.tolist() for source in found.replicates.sources}
    assert shares == {
        "seed": [0.5, 1.0, 1.0],
        "boot": [1.5, 1.5, 1.5],
        "seed_boot": [0.75, 1.25, 0.0],
    }


def test_a_task_without_replicates_keeps_its_noise_in_the_residual() -> None:
    found = noise(
        _two_tasks(4, n_seeds=np.array([3.0, 3.0, 1.0, 0.0]), seed={
            "mean_square": [4.0, 16.0, 0.0, 0.0], "df": [2.0, 2.0, 0.0, 0.0]
        })
    )  # fmt: skip
    assert found.notes == ()
    assert found.replicates is not None
    (seed,) = found.replicates.sources
    assert seed.record.tolist() == [0, 1]
    assert seed.of_record.tolist() == [0, 1, 0, 0]
    assert seed.share.tolist() == [1 / 3, 1 / 3, 0.0, 0.0]
    kept = found.replicates.take(np.array([False, True, True, False]))
    (own,) = kept.sources
    assert own.of_record.tolist() == [1, 0]
    assert own.share.tolist() == [1 / 3, 0.0]
    # The sds and their data stay those of all cells.
    assert own.record.tolist() == [0, 1]
    assert kept.squares.tolist() == [8.0, 32.0]


def test_equal_replicates_get_a_hundredth_of_the_median_sd() -> None:
    mean_square = [4.0, 0.0, 16.0, 1e-4, 0.0]
    found = noise(cell_table(5, seed={"mean_square": mean_square, "df": [1.0, 1.0, 2.0, 1.0, 0.0]}))
    assert found.notes == (
        "1 cell of a single run takes the typical seed sd of its model",
        "seed: the replicates of 2 of 4 cells are equal or nearly equal; their sd is set to 0.01 "
        "times the median one",
    )
    assert found.replicates is not None
    (seed,) = found.replicates.sources
    # The median of 4, 16 and 1e-4, which are above zero, times 0.01 squared.
    variance = [4.0, 4e-4, 16.0, 4e-4, 5.0002]
    assert seed.log_sd == pytest.approx(0.5 * np.log(variance), rel=1e-12)
    assert found.replicates.squares == pytest.approx([4.0, 4e-4, 32.0, 4e-4], rel=1e-12)
    assert seed.raw_sd == pytest.approx([2.0, 0.0, 4.0, 0.01, np.nan], rel=1e-12, nan_ok=True)


def test_rounding_errors_of_equal_scores_are_zero_whatever_the_scale() -> None:
    # An sd of 1e-9 times the mean of 1000 has the square 1e-12.
    found = noise(
        cell_table(
            3,
            mean=np.array([1000.0, 1000.0, 0.001]),
            seed={"mean_square": [0.9e-12, 1.1e-12, 0.9e-12], "df": 1.0, "interaction": 1.5},
        ),
        pool=False,
    )
    assert found.replicates is None
    assert set(found.known_sds) == {"seed"}
    expected = [0.0, np.sqrt(1.1e-12), np.sqrt(0.9e-12)]
    assert found.known_sds["seed"] == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_the_sd_of_a_single_seed_counts_in_full() -> None:
    given = {"mean_square": [9.0, 9.0, 9.0], "df": np.inf}
    found = noise(cell_table(3, n_seeds=np.array([0.0, 1.0, 2.0]), seed=given))
    assert found.replicates is None
    assert found.known_sds["seed"].tolist() == [3.0, 3.0, 3.0]
    assert found.known_variance is not None
    assert found.known_variance.tolist() == [9.0, 9.0, 4.5]


def test_a_given_standard_error_includes_the_interaction() -> None:
    se = np.array([1.5, np.nan, np.nan])
    found = noise(cell_table(3, se=se, **crossed(3)))
    assert found.replicates is not None
    shares = {source.name: source.share.tolist() for source in found.replicates.sources}
    assert shares["seed_boot"] == [0.0, 0.75, 0.75]
    assert found.known_variance is not None
    assert found.known_variance.tolist() == [2.25, 0.0, 0.0]
    np.testing.assert_array_equal(found.known_sds["se"], se)
    # Seeds beside a standard error cannot be separated; seeds alone are only seeds.
    alone = noise(
        cell_table(3, se=se, n_seeds=np.full(3, 2.0), seed={"mean_square": 9.0, "df": 1.0})
    )
    assert [note.partition(" the sds")[0] for note in alone.notes] == ["in 1 cells"]
    none = noise(cell_table(3, se=se, boot={"mean_square": 4.0, "df": 1.0}))
    assert none.notes == ()


# Incomplete cells ------------------------------------------------------------------------


def test_incomplete_cells_start_from_the_complete_ones() -> None:
    given = crossed(4)
    for source, value in (("seed", 9.0), ("boot", 4.0), ("cross", 2.0)):
        # Two complete cells, the second with four times the mean squares.
        given[source] |= {
            "mean_square": [value, 4.0 * value, 0.0, 0.0, 0.0],
            "df": [1.0, 3.0, 0.0, 0.0, 0.0],
        }
    given |= {key: np.full(5, given[key][0]) for key in ("n_seeds", "n_boot", "boot_square")}
    given["pair_square"] = np.full(5, 0.25)
    cells = cell_table(5, unbalanced=incomplete([2, 3, 4], [8.0, 12.0, 16.0]), **given)
    found = noise(cells)
    assert found.notes == ()
    replicates = found.replicates
    assert replicates is not None
    for source, variance in zip(replicates.sources, (6.0, 3.0, 2.0), strict=True):
        assert source.record.tolist() == [0, 1, 2, 3, 4]
        own = np.array([variance, 4.0 * variance])
        assert source.log_sd[:2] == pytest.approx(0.5 * np.log(own), rel=1e-12)
        # The median of the complete ones' variances.
        expected = np.full(3, 0.5 * np.log(2.5 * variance))
        assert source.log_sd[2:] == pytest.approx(expected, rel=1e-12)
        assert source.raw_sd[:2] == pytest.approx(np.sqrt(own), rel=1e-12)
        assert np.isnan(source.raw_sd[2:]).all()
        assert source.typical_df == 2.0
        assert replicates.unbalanced_cell[source.name].tolist() == [2, 3, 4]
        assert replicates.cell[source.name].tolist() == [0, 1] * 3
    # Only complete cells have mean squares.
    assert replicates.squares.tolist() == [9.0, 108.0, 4.0, 48.0, 2.0, 24.0]
    assert replicates.df.tolist() == [1.0, 3.0] * 3


def test_without_complete_cells_all_start_from_the_variance_of_the_rows() -> None:
    # Variances 2 and 6 of four rows each, and one of rounding errors.
    square = [8.0, 24.0, 4.0 * 0.9e-12]
    cells = cell_table(3, unbalanced=incomplete([0, 1, 2], square, centre=1000.0))
    found = noise(cells)
    assert found.notes == (
        "the replicates of 1 of 3 incomplete cells are equal or nearly equal; their sd is set to "
        "0.01 times the median one",
    )
    replicates = found.replicates
    assert replicates is not None
    assert replicates.unbalanced is not None
    # The median of 2 and 6, times 0.01 squared, for each of four rows.
    least = 4e-4
    assert replicates.unbalanced.square == pytest.approx([8.0, 24.0, 4.0 * least], rel=1e-12)
    for source in replicates.sources:
        expected = np.full(3, 0.5 * np.log((2.0 + 6.0 + least) / 3.0))
        assert source.log_sd == pytest.approx(expected, rel=1e-12)
        assert np.isnan(source.raw_sd).all()
        assert (source.typical_df, source.centred) == (1.0, False)
    assert replicates.squares.shape == (0,)
    equal = noise(cell_table(2, unbalanced=incomplete([0, 1], [0.0, 0.0])))
    assert equal.replicates is None
    assert equal.notes == ("the replicates of all 2 incomplete cells are equal",)


# How samplers draw ------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "centred"), [(2.99, False), (3.01, True)])
def test_log_sds_are_drawn_as_such_where_they_differ_by_three_times_their_error(
    ratio: float, centred: bool
) -> None:
    df = np.array([40.0, 40.0, 60.0, 60.0])
    # Variance of half the log of a chi-square variable, by its definition.
    error = np.mean(polygamma(1, df / 2.0)) / 4.0
    # Models a, b, a, b, far apart; within each the two log sds differ by d, so that the
    # variance within models is 2 (d^2 / 2) / (4 - 2).
    d = np.sqrt(2.0 * ratio * error)
    log_sd = np.array([0.0, 3.0, d, 3.0 + d])
    seed = {"mean_square": np.exp(2.0 * log_sd), "df": df}
    found = noise(cell_table(4, models=2, seed=seed))
    assert found.replicates is not None
    assert found.replicates.sources[0].centred is centred


def test_components_near_zero_do_not_look_like_sds_that_differ() -> None:
    # The same mean squares of seeds but for sampling error, less ten times the interaction:
    # the components are 0.02 to 0.6, and the mean squares 10.02 to 10.6.
    own = np.array([0.02, 0.6, 0.02, 0.6])
    seed = {"mean_square": 10.0 + own, "df": 40.0, "interaction": 10.0}
    found = noise(cell_table(4, seed=seed, cross={"mean_square": 1.0, "df": 400.0}))
    assert found.replicates is not None
    source = found.replicates.sources[0]
    assert source.log_sd == pytest.approx(0.5 * np.log(own), rel=1e-9)
    assert source.centred is False
    # Negative control: the same components without the interaction differ clearly.
    alone = noise(cell_table(4, seed={"mean_square": own, "df": 40.0}))
    assert alone.replicates is not None
    assert alone.replicates.sources[0].centred is True


def test_mean_squares_that_differ_by_another_source_do_not_count() -> None:
    # The interaction's own variance differs by a factor of 50, the seeds' share is a tenth.
    cross = np.array([1.0, 50.0, 1.0, 50.0])
    seed = {"mean_square": 1.1 * cross, "df": 40.0, "interaction": 1.0}
    found = noise(cell_table(4, seed=seed, cross={"mean_square": cross, "df": 400.0}))
    assert found.replicates is not None
    seeds, interaction = found.replicates.sources
    assert (seeds.centred, interaction.centred) == (False, True)


def test_the_typical_sd_of_a_model_is_the_root_of_its_mean_variance() -> None:
    seed = {"mean_square": [1.0, 16.0, 3.0, 16.0], "df": 4.0}
    found = noise(cell_table(4, models=2, seed=seed))
    assert found.replicates is not None
    source = found.replicates.sources[0]
    # Cells 0 and 2 are those of model a; the third model has none.
    expected = 0.5 * np.log([2.0, 16.0, 9.0])
    assert source.typical_log_sd(3) == pytest.approx(expected, rel=1e-12)


def test_one_cell_of_each_model_cannot_differ_within_models() -> None:
    seed = {"mean_square": [1.0, 1e6], "df": 400.0}
    found = noise(cell_table(2, models=2, seed=seed))
    assert found.replicates is not None
    assert found.replicates.sources[0].centred is False
    # Two cells of one model can.
    found = noise(cell_table(2, models=1, seed=seed))
    assert found.replicates is not None
    assert found.replicates.sources[0].centred is True


def test_equal_replicates_beside_incomplete_cells_get_a_hundredth_of_their_sd() -> None:
    # The only complete cell has equal seeds; rows of the others have the variances 0.2 and 0.6.
    cells = cell_table(
        3,
        unbalanced=incomplete([1, 2], [0.8, 2.4]),
        seed={"mean_square": 0.0, "df": [3.0, 0.0, 0.0]},
    )
    replicates = noise(cells).replicates
    assert replicates is not None
    seed = replicates.sources[0]
    assert seed.log_sd == pytest.approx(np.full(3, 0.5 * np.log(4e-5)), rel=1e-12)
    assert replicates.squares == pytest.approx([3.0 * 4e-5], rel=1e-12)


def test_incomplete_cells_do_not_blur_how_much_the_others_differ() -> None:
    # By a factor of e squared, with errors of a twentieth.
    seed = {"mean_square": [1.0, np.exp(4.0), 0.0], "df": [200.0, 200.0, 0.0]}
    found = noise(cell_table(3, seed=seed, unbalanced=incomplete([2], [4.0])))
    assert found.replicates is not None
    assert found.replicates.sources[0].centred is True
