"""`sources` of a spec: which noise a model separates, and what is averaged over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.calibration.draw import check_drawable, draw_table
from bayeseval.comparison.holdout import measured_cells
from bayeseval.comparison.models import prepare_models
from bayeseval.design import Design, build_design, choose_model
from bayeseval.errors import DesignError, InputError, SpecError
from bayeseval.fitting import prepare
from bayeseval.fitting.report.terminal import format_preamble
from bayeseval.records import Records, average_over_others, describe, reduce_replicates
from bayeseval.simulation import simulate
from bayeseval.spec import ModelSpec, load_spec
from tests import prompt_tables, replicate_tables

ROWS = ["model", "language", "task"]


def _spec(sources: list[str] | str | None, **more: object) -> ModelSpec:
    return load_spec({"name": "x", **({} if sources is None else {"sources": sources}), **more})


def _graded(**more: float) -> pd.DataFrame:
    """Every prompt with two seeds, each graded by two judges, of whom b is kinder."""
    frame = prompt_tables.frame(complete=True)
    rng = np.random.default_rng(4)
    return pd.concat(
        [
            frame.assign(
                seed=seed, judge=judge, score=frame["score"] + kind + rng.normal(0, 1, len(frame))
            )
            for seed in (0, 1)
            for judge, kind in (("a", 0.0), ("b", 3.0))
        ]
    ).assign(**more)


def _table(frame: pd.DataFrame, name: str = "t") -> Records:
    return Records.from_frame(frame, name=name, units=(0.0, 100.0))


def _assert_same(ours: Design, wanted: Design) -> None:
    """Designs of the same scores, noise and priors: the posterior is the same."""
    np.testing.assert_allclose(ours.score, wanted.score, rtol=1e-12)
    assert [s.name for s in ours.sources] == [s.name for s in wanted.sources]
    assert ours.known_sds.keys() == wanted.known_sds.keys()
    for one, other in zip(ours.sources, wanted.sources, strict=True):
        assert one.labels == other.labels
        np.testing.assert_allclose(one.share, other.share, rtol=1e-12)
        np.testing.assert_allclose(one.raw_sd, other.raw_sd, rtol=1e-9)
    assert list(ours.priors) == list(wanted.priors)
    for name, prior in wanted.priors.items():
        # The scale of the scores, up to the order of summation.
        assert ours.priors[name].scale == pytest.approx(prior.scale, rel=1e-12)
    for factor, index in wanted.factor_index.items():
        np.testing.assert_array_equal(ours.factor_index[factor], index)


def test_without_sources_the_table_of_means_is_fitted() -> None:
    frame = _graded()
    means = frame.groupby(ROWS, as_index=False)["score"].mean()
    ours = build_design(_table(frame), _spec([]))
    _assert_same(ours, build_design(_table(means), _spec(None)))
    assert ours.sources == ()
    assert ours.known_sds == {}


@pytest.mark.parametrize(
    "sources", [["seed", "prompt"], ["seed", "judge"], ["prompt"], "seed"], ids=str
)
def test_a_source_that_is_left_out_is_averaged_over(sources: list[str] | str) -> None:
    frame = _graded()
    kept = [sources] if isinstance(sources, str) else sources
    averaged = frame.groupby([*ROWS, *kept], as_index=False)["score"].mean()
    _assert_same(
        build_design(_table(frame), _spec(sources)), build_design(_table(averaged), _spec(None))
    )


def test_all_sources_of_a_table_are_the_default() -> None:
    records = replicate_tables.records("crossed")
    default = build_design(records, _spec(None))
    named = build_design(records, _spec(["boot", "seed"]))
    _assert_same(named, default)
    assert [source.name for source in default.sources] == ["seed", "boot", "seed_boot"]
    assert named.notes == default.notes
    # Without the interaction, which needs both.
    assert [s.name for s in build_design(records, _spec("seed")).sources] == ["seed"]


def test_bootstraps_of_averaged_seeds_are_those_of_a_mean() -> None:
    """Their mean square contains the interaction by the number of seeds."""
    records = replicate_tables.records("crossed")
    averaged, _ = average_over_others(records, ["boot"])
    cells, whole = reduce_replicates(averaged), reduce_replicates(records)
    np.testing.assert_allclose(cells.boot.mean_square, whole.boot.mean_square, rtol=1e-9)
    np.testing.assert_allclose(cells.boot.interaction, 1.0 / 3.0)
    assert not (cells.seed.df > 0).any()


def test_summaries_of_a_source_that_is_left_out_are_not_used() -> None:
    records = replicate_tables.records("both with numbers")
    design = build_design(records, _spec("boot"))
    assert [source.name for source in design.sources] == ["boot"]
    note = "sources leaves out seed: seed_sd is not used; its noise is part of the residual"
    assert note in design.notes
    plain = records.table.drop(columns=["seed_sd", "n_seeds"])
    _assert_same(design, build_design(Records.from_frame(plain), _spec(None)))


def test_notes_say_what_was_averaged() -> None:
    design = build_design(_table(_graded()), _spec(["seed", "prompt"]))
    note = (
        "sources leaves out judge: the scores of 24 cells are averaged over it; its noise is part "
        "of the residual"
    )
    assert note in design.notes
    assert [note for note in design.notes if "leaves out" in note] == [note]


def test_standard_errors_and_numbers_of_items_of_averages() -> None:
    """A mean of shares is no share of n items; a standard error given for each score stays."""
    frame = _graded(n=400.0)
    frame["score"] = np.round(frame["score"] * 4.0) / 4.0
    with_n = build_design(_table(frame), _spec(["seed", "prompt"]))
    assert with_n.se is None
    assert any("n of averaged scores is not used" in note for note in with_n.notes)
    one_judge = build_design(
        _table(frame[frame["judge"] == "a"].drop(columns="judge")), _spec(None)
    )
    # Shares of one judge have known errors, so the test above can fail.
    assert one_judge.se is not None
    given = build_design(_table(_graded(se=1.5)), _spec([]))
    assert given.se is not None
    np.testing.assert_allclose(given.se, 1.5, rtol=1e-12)


def test_sources_that_the_table_lacks_are_refused() -> None:
    frame = _graded().query("judge == 'a'").drop(columns="judge")
    message = (
        r"t: the spec names the source 'judge', and the table has no replicates of it \(it has: "
        r"seed and prompt\); remove judge from sources, or give the table a column judge"
    )
    with pytest.raises(DesignError, match=message):
        build_design(_table(frame), _spec(["seed", "judge"]))


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["sed"], r"unknown source 'sed'; did you mean 'seed'\? \(allowed: seed, boot, prompt"),
        (["seed_boot"], r"unknown source 'seed_boot'"),
        (["seed", "seed"], "a source is named twice"),
        (["judge", "prompt"], "the noise of one of prompt and judge is modelled at a time"),
        (3, "sources"),
    ],
)
def test_sources_that_make_no_sense(sources: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec({"name": "x", "sources": sources})


def test_specs_survive_yaml_with_the_key_and_keep_their_hash_without(tmp_path: Path) -> None:
    plain = _spec(None)
    assert "sources" not in plain.to_dict()
    for sources in ([], ["prompt", "seed"]):
        spec = _spec(sources)
        path = tmp_path / "again.yaml"
        path.write_text(spec.to_yaml(), encoding="utf-8")
        assert load_spec(path) == spec
        assert spec.content_hash != plain.content_hash
    assert _spec(["prompt", "seed"]).sources == ("seed", "prompt")
    assert "sources seed and prompt" in repr(_spec(["prompt", "seed"]))
    assert "sources none" in repr(_spec([]))
    assert "sources" not in repr(plain)


def test_priors_of_sources_that_are_left_out_are_no_parameters() -> None:
    assert [name for name in _spec(["seed"]).replicate_priors() if "boot" in name] == []
    prior = {"sd_log_boot": {"dist": "half_normal", "scale": 1.0}}
    with pytest.raises(SpecError, match="no parameter 'sd_log_boot'"):
        _spec(["seed"], priors=prior)
    assert "sd_seed_boot_model" in _spec(["seed", "boot"]).replicate_priors()


def test_tables_of_prompts_and_judges_are_described_and_name_the_key() -> None:
    records = _table(_graded())
    described = describe(records).replicated
    assert described == (
        "seeds per cell: 2 (in 24 of 24 cells)",
        "prompts per cell: 3 (in 24 of 24 cells)",
        "judges per cell: 2 (in 24 of 24 cells)",
    )
    with pytest.raises(InputError, match=r"as sources: \[seed, prompt\], which averages"):
        build_design(records, _spec(None))
    with pytest.raises(InputError, match=r"as sources: \[seed, prompt\], which averages"):
        choose_model("auto", records)


def test_prompts_of_unlike_seeds_are_fitted_without_seeds() -> None:
    frame = _graded().query("judge == 'a'").drop(columns="judge")
    uneven = frame[~((frame["prompt"] == "p1") & (frame["seed"] == 1))]
    with pytest.raises(InputError, match=r"with a spec of sources: \[prompt\]"):
        build_design(_table(uneven), _spec(None))
    source = prompt_tables.source(build_design(_table(uneven), _spec("prompt")))
    assert source.name == "prompt"


def test_the_preamble_says_which_sources_the_model_separates() -> None:
    records = _table(_graded())
    text = str(prepare(records, _spec(["seed", "judge"]), engine="pymc"))
    assert "t: 288 rows: 24 cells (records) with 2 seeds and 2 judges each" in text
    assert "normal residuals; sources seed and judge; population observed" in text
    assert "; sources" not in str(prepare(prompt_tables.records(), _spec(None), engine="pymc"))


def test_auto_interactions_are_those_of_the_averaged_table() -> None:
    chosen = choose_model(_spec(["seed", "prompt"], interactions="auto"), _table(_graded())).spec
    assert chosen.sources == ("seed", "prompt")
    assert chosen.interactions != ()


def test_simulated_replicates_need_their_source() -> None:
    with pytest.raises(InputError, match="n_boot: the sources of x leave out boot"):
        simulate(_spec("seed"), n_languages=3, n_tasks=2, n_models=3, n_seeds=2, n_boot=2)
    records = simulate(_spec("seed"), n_languages=3, n_tasks=2, n_models=3, n_seeds=2).records
    assert records.replicate_columns == ("seed",)


def test_averaged_tables_hold_no_old_columns() -> None:
    records = _table(_graded())
    averaged, _ = average_over_others(records, ["prompt"])
    assert averaged.replicate_columns == ("prompt",)
    assert list(averaged.table["n_seeds"].unique()) == [2.0]
    by_hand = _table(_graded().groupby([*ROWS, "prompt"], as_index=False)["score"].mean())
    np.testing.assert_allclose(averaged.scores, by_hand.scores, rtol=1e-12)
    assert averaged.coords == by_hand.coords
    assert len(averaged.content_hash) == 64
    assert average_over_others(records, None)[0] is records


def test_models_of_different_sources_are_compared() -> None:
    """Their records are the same means, summed in another order."""
    specs = [_spec(["seed", "prompt"], name="prompts"), _spec(["seed", "judge"], name="judges")]
    fits = prepare_models(
        _table(_graded()), specs, engine="pymc", seed=0, covariate=None, pairs="any"
    )
    assert not np.array_equal(fits[0].design.score, fits[1].design.score)
    np.testing.assert_allclose(fits[0].design.score, fits[1].design.score, rtol=1e-12)


def test_calibration_draws_the_averaged_table() -> None:
    records = _table(_graded())
    design = build_design(records, _spec("seed"))
    drawn = draw_table(design, records, np.random.default_rng(1)).design
    assert [source.name for source in drawn.sources] == ["seed"]
    assert len(drawn.score) == 24
    of_prompts = build_design(records, _spec("prompt"))
    check_drawable(of_prompts, records)
    drawn = draw_table(of_prompts, records, np.random.default_rng(1)).design
    assert [source.name for source in drawn.sources] == ["prompt"]
    assert drawn.sources[0].by_cell is not None


def test_measured_cells_of_a_holdout_are_averages() -> None:
    fit = prepare(_table(_graded()), _spec("judge"), engine="pymc")
    cells = measured_cells(fit)
    assert set(cells.n_prompts) == {2.0}
    np.testing.assert_array_equal(cells.score, fit.design.score)


def test_the_formula_names_what_relates_languages() -> None:
    single = prompt_tables.frame(complete=True).query("prompt == 'p1'").drop(columns="prompt")
    spec = _spec(None, languages={"place": "1000 km"})
    text = str(prepare(_table(single), spec, engine="marginal"))
    assert "score ~ intercept + language (by place) + task + model; normal" in text


def test_the_number_of_replicates_is_left_out_where_all_are_averaged_over() -> None:
    records = _table(prompt_tables.frame(complete=True))
    for sources, counts in ((["prompt"], "(records) with 3 prompts each,"), ([], "(records),")):
        text = format_preamble(records, build_design(records, _spec(sources)), engine="numpyro")
        assert f"24 cells {counts}" in " ".join(text.split())
