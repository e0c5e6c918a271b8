"""Which model `auto` is: counted by hand, against exact ranks, and never one that is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeseval import load
from bayeseval.design import Design, build_design, choose, choose_model, identified_interactions
from bayeseval.engines._marginal_layout import eliminations
from bayeseval.errors import DesignError
from bayeseval.records import Covariate, Records
from bayeseval.spec import AUTO, covariate_name, load_spec

INTERACTIONS = ("language:task", "model:task", "model:language", "model:language:dataset")


def records(cells: list[tuple[int, int, int]], **columns: object) -> Records:
    """Cells of (language, task, model) by number; task 1 is the second metric of dataset 0."""
    rng = np.random.default_rng(0)
    rows = [
        {"language": f"l{lang}", "task": f"d{task // 2}:m{task % 2}", "model": f"m{model}"}
        for lang, task, model in cells
    ]
    frame = pd.DataFrame(rows).assign(score=rng.uniform(20.0, 90.0, len(rows)).round(3), **columns)
    return Records.from_frame(frame, name="small")


def grid(n_languages: int, n_tasks: int, n_models: int, *, step: int = 2) -> Records:
    """A complete table; with `step` 2 every dataset has one task, with 1 it has two."""
    tasks = range(0, step * n_tasks, step)
    return records(list(product(range(n_languages), tasks, range(n_models))))


def chosen(table: Records) -> str:
    return choose_model(AUTO, table).spec.name


def test_mega_has_two_metrics_of_its_datasets() -> None:
    found = choose_model(AUTO, load("mega"))
    assert found.spec == load_spec("dataset")
    assert found.reasons == (
        "model auto -> dataset: language:task (216 cells, 1148 records beyond them), "
        "model:task (111 cells, 1253 beyond), model:language (447 cells, 917 beyond), "
        "model:language:dataset (1097 cells, 267 beyond); at least 204 degrees of freedom are "
        "left for the residual",
    )


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        # language x task x model; one task in every dataset.
        ((8, 4, 5), "crossed"),
        # Two models: the residual has (8 - 1) (4 - 1) degrees of freedom.
        ((8, 4, 2), "crossed"),
        # (5 - 1) (3 - 1) = 8 would be left: the 15 cells of language:task go, then 16 are.
        ((5, 3, 2), "auto-model_task-model_language"),
        # 18 records: 9 beyond language:task; with the other two 8 would be left. They have
        # 6 cells each, and the first goes.
        ((3, 3, 2), "auto-model_language"),
        # 8 and 10 records; nothing has ten beyond its cells.
        ((2, 2, 2), "additive"),
        # One task: model:language is the residual.
        ((12, 1, 9), "additive"),
        # Two languages: 20 cells of model:task, 20 records beyond them.
        ((2, 4, 5), "crossed"),
    ],
)
def test_complete_tables_resolve_as_counted_by_hand(shape: tuple[int, int, int], name: str) -> None:
    assert chosen(grid(*shape)) == name


def test_ten_records_beyond_the_cells_are_enough_and_nine_are_not() -> None:
    # Every language has one task, but for those of `more`; two models answer everything.
    def table(more: int) -> Records:
        cells = [(lang, 0, model) for lang in range(12) for model in range(2)]
        return records([*cells, *((lang, 2, model) for lang in range(more) for model in range(2))])

    # model:language has 24 cells and 2 * more records beyond them.
    dropped = choose_model(AUTO, table(4)).reasons[1]
    assert (
        "model:language: 8 of 32 records repeat one of its 24 cells, and at least 10 are" in dropped
    )
    assert "model:language: 8 records" not in " ".join(choose_model(AUTO, table(5)).reasons)


def test_a_second_metric_needs_ten_degrees_of_freedom_after_all_other_terms() -> None:
    # d0 has two metrics: 5 x 4 cells of model:language:dataset hold both, of which
    # language:task takes 4 and model:task 5 - 1 more: (5 - 1) (4 - 1) = 12 are left.
    both = list(product(range(4), (0, 1, 2), range(5)))
    assert chosen(records(both)) == "dataset"
    # With four models (4 - 1) (4 - 1) = 9.
    few = choose_model(AUTO, records([cell for cell in both if cell[2] < 4]))
    assert few.spec.name == "crossed"
    assert (
        "model:language:dataset: with its 32 cells 9 degrees of freedom would be left for the "
        "residual, fewer than 10"
    ) in few.reasons[1]


def exact_residual_df(design: Design) -> int:
    columns = [np.ones((design.n_records, 1))]
    columns += [np.eye(term.n_levels)[term.index] for term in design.terms]
    return design.n_records - int(np.linalg.matrix_rank(np.hstack(columns)))


@pytest.mark.parametrize(
    "terms", [terms for n in range(5) for terms in combinations(INTERACTIONS, n)], ids=str
)
def test_the_residual_has_the_degrees_of_freedom_of_the_rank(terms: tuple[str, ...]) -> None:
    complete = list(product(range(4), (0, 1, 2, 4), range(3)))
    rng = np.random.default_rng(5)
    kept = [cell for cell in complete if rng.uniform() < 0.7]
    for cells, exact in ((complete, True), (kept, False)):
        table = records(cells)
        design = build_design(table, load_spec({"name": "x", "interactions": list(terms)}))
        codes = {factor: design.factor_index[factor] for factor in ("language", "task", "model")}
        counted = choose._residual_df(
            choose._Choice(choose.LevelTable.from_records(table, codes), terms)
        )
        if exact:
            assert counted == exact_residual_df(design)
        else:
            assert counted <= exact_residual_df(design)


@settings(max_examples=80, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 7), st.integers(1, 5), st.integers(2, 5)),
    share=st.floats(0.2, 1.0),
    seed=st.integers(0, 999),
    kind=st.sampled_from(["plain", "se", "some se", "n", "seeds", "seed_sd"]),
)
def test_auto_is_never_a_model_that_the_table_refuses(
    shape: tuple[int, int, int], share: float, seed: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    cells = [cell for cell in product(*map(range, shape)) if rng.uniform() < share]
    # Two languages and two models at least, without which there are no records.
    cells = list(dict.fromkeys([(0, 0, 0), (1, 0, 1), *cells]))
    columns: dict[str, object] = {}
    if kind == "se":
        columns["se"] = 1.5
    elif kind == "some se":
        columns["se"] = [1.5, *[np.nan] * (len(cells) - 1)]
    elif kind == "n":
        columns["n"] = 100
    elif kind == "seed_sd":
        columns |= {"seed_sd": 2.0, "n_seeds": 3}
    elif kind == "seeds":
        columns["seed"] = np.repeat([1, 2], len(cells))
        cells = [*cells, *cells]
    table = records(cells, **columns)
    found = choose_model(AUTO, table).spec
    try:
        build_design(table, load_spec("additive"))
    except DesignError as error:
        with pytest.raises(DesignError) as refused:
            build_design(table, found)
        assert str(refused.value) == str(error)
        return
    design = build_design(table, found)
    assert (found.residual_by == "model") == (kind in ("seeds", "seed_sd"))
    if found.interactions and len(table.coords["task"]) > 1:
        assert exact_residual_df(design) >= 10


def test_a_metric_computed_from_another_is_refused_and_not_counted_twice() -> None:
    table = grid(6, 6, 4, step=1)
    assert chosen(table) == "dataset"
    frame = table.table
    first = frame["task"].str.endswith("m0")
    # The second metric of every dataset is the first and five points.
    frame.loc[~first, "score"] = frame.loc[first, "score"].to_numpy() + 5.0
    copied = Records.from_frame(frame[["language", "task", "model", "score"]], name="copied")
    with pytest.raises(DesignError, match="reproduces all 144 scores exactly"):
        build_design(copied, load_spec("dataset"))
    with pytest.raises(
        DesignError, match="reproduces all 144 scores exactly.*one of the two metrics"
    ):
        choose_model(AUTO, copied)
    third = frame["score"].where(first, frame["score"] + 1.0 / 3.0).round(2)
    printed = Records.from_frame(
        frame.assign(score=third)[["language", "task", "model", "score"]], name="printed"
    )
    with pytest.raises(
        DesignError, match="144 scores to the printed digits.*one of the two metrics"
    ):
        choose_model(AUTO, printed)
    # The advice works when followed.
    single = Records.from_frame(
        frame.loc[first, ["language", "task", "model", "score"]], name="one"
    )
    build_design(single, choose_model(AUTO, single).spec)


def test_the_error_of_the_additive_model_is_shown_where_it_is_refused_too() -> None:
    frame = grid(6, 3, 4).table[["language", "task", "model"]]
    score = sum(7.0 * frame[factor].rank(method="dense") for factor in frame)
    sums = Records.from_frame(frame.assign(score=score), name="sums")
    found = choose_model(AUTO, sums)
    assert found.spec == load_spec("additive")
    with pytest.raises(DesignError, match=r"intercept \+ language \+ task \+ model reproduces"):
        build_design(sums, found.spec)


@pytest.mark.parametrize("known", ["se", "n"])
def test_known_errors_tell_model_by_language_from_the_residual_on_one_task(known: str) -> None:
    rng = np.random.default_rng(2)

    def one_task(n_languages: int, **columns: object) -> Records:
        rows = product([f"l{i}" for i in range(n_languages)], ["d:accuracy"], "ABCDE")
        frame = pd.DataFrame(rows, columns=["language", "task", "model"])
        frame["score"] = rng.integers(60, 240, len(frame)) / 2.5
        return Records.from_frame(frame.assign(**columns), name="one", units=(0, 100))

    columns = {"se": 2.0} if known == "se" else {"n": 250}
    table = one_task(8, **columns)
    found = choose_model(AUTO, table)
    assert found.spec.name == "auto-model_language"
    # (8 - 1) (5 - 1) beside the main effects.
    assert found.reasons[0] == (
        "model auto -> auto-model_language: model:language (40 cells of one record each); all "
        "errors are known, and 28 degrees of freedom are left for variation beyond them"
    )
    assert [term.name for term in build_design(table, found.spec).terms] == [
        "language",
        "model",
        "model:language",
    ]
    # (3 - 1) (5 - 1) = 8 are too few, and without known errors there is no telling.
    few = choose_model(AUTO, one_task(3, **columns))
    assert few.spec.name == "additive"
    assert (
        "model:language: all errors are known, but with its 15 cells 8 degrees of freedom are left "
        "for variation beyond them, fewer than 10; more models or languages add to them"
    ) in few.reasons[1]
    unknown = choose_model(AUTO, one_task(8))
    assert unknown.spec.name == "additive"
    assert "model:language: 0 of 40 records repeat one of its 40 cells" in unknown.reasons[1]


@pytest.mark.parametrize("told", ["n", "boot_sd"])
def test_seeds_with_known_errors_of_test_sets_tell_it_too(told: str) -> None:
    rng = np.random.default_rng(4)
    rows = product([f"l{i}" for i in range(8)], ["d:accuracy"], "ABCDE", range(3))
    frame = pd.DataFrame(rows, columns=["language", "task", "model", "seed"])
    frame["score"] = rng.integers(60, 240, len(frame)) / 2.5
    columns = {"n": 250} if told == "n" else {"boot_sd": 2.0, "n_boot": 20}
    table = Records.from_frame(frame.assign(**columns), name="one", units=(0, 100))
    found = choose_model(AUTO, table)
    assert found.spec.name == "auto-model_language"
    assert found.spec.residual_by is None
    assert "residual_by: model:language takes the place of the residual" in found.reasons[1]
    # Seeds alone leave test sets in the residual.
    seeds = Records.from_frame(frame, name="one", units=(0, 100))
    assert chosen(seeds) == "replicates"


def test_effects_of_shared_items_count_among_the_coefficients() -> None:
    """20 languages, 2 tasks, 3 models: the 20 languages are eliminated, 5 levels remain."""
    cells = list(product(range(20), (0, 2), range(3)))
    plain = records(cells)
    frame = plain.table.assign(item="a")
    items = Records.from_frame(frame, name="items")
    operations = []
    for table in (plain, items):
        additive = replace(choose._fullest(table), terms=())
        operations.append(choose._operations(additive, 0))
    # Each language has 6 records, on which 1 + 2 + 3 columns are not zero.
    assert operations[0] == pytest.approx((6 + 2) ** 3 / 3 + 20 * 6**2)
    # Items add 2 test sets of tasks, 6 of models and 40 of languages and tasks. These are
    # eliminated first, 3 records each, then the languages, and 1 + 2 + 3 + 2 + 6 are left.
    factor = 20 * (2 + 16) + 20 * 16**2 + 16**3 / 3
    meeting = 1 + 3 + 2 + 3 + 2 + 3
    assert operations[1] == pytest.approx(factor + 40 * meeting**2)


def test_replicates_ask_for_residual_sds_by_model() -> None:
    cells = list(product(range(6), (0,), range(4)))
    seeds = records([*cells, *cells], seed=np.repeat([1, 2], len(cells)))
    assert choose_model(AUTO, seeds).spec == load_spec("replicates")
    cells = list(product(range(6), (0, 2, 4), range(4)))
    seeds = records([*cells, *cells], seed=np.repeat([1, 2], len(cells)))
    found = choose_model(AUTO, seeds)
    assert found.spec.name == "replicates-crossed"
    assert found.spec.residual_by == "model"
    # Replicates are no records of their own: 72 cells, not 144 rows.
    assert "language:task (18 cells, 54 records beyond them)" in found.reasons[0]
    assert "residual_by: model" in found.reasons[-1]


def test_covariates_go_into_the_model_and_into_its_name() -> None:
    small, large = grid(4, 1, 3), grid(8, 4, 5)
    assert choose_model(AUTO, small, covariates=["mexa"]).spec == load_spec("mexa")
    found = choose_model(AUTO, large, covariates=["mexa", "speakers"]).spec
    assert found.name == "crossed-mexa-speakers"
    assert [term.name for term in found.covariates] == ["mexa", "speakers"]
    values = tuple(
        Covariate(name, "language", large.coords["language"], (), np.arange(8.0) ** power)
        for power, name in ((1, "mexa"), (2, "speakers"))
    )
    assert [s.name for s in build_design(large, found, values).slopes] == ["mexa", "speakers"]


def test_a_file_names_its_covariate(tmp_path: object) -> None:
    from pathlib import Path

    names = {"mexa.csv": "mexa", "a/MEXA-2 new.csv": "mexa_2_new", "7.csv": "covariate"}
    assert {path: covariate_name(Path(path)) for path in names} == names
    assert covariate_name(Path("language.csv")) == "covariate"


def test_large_tables_lose_the_interactions_that_cost_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = grid(8, 4, 5)
    # model:language has 40 cells and is eliminated, in each of which at most 4 columns of each of
    # the other 5 terms meet, and the intercept. Then 1 + 4 effects of each of the 8 languages are,
    # which leaves 1 + 4 + 5 + 20 = 30 coefficients.
    found = choose._Choice(
        choose.LevelTable.from_records(
            table, {f: table.codes(f) for f in ("language", "task", "model")}
        ),
        INTERACTIONS[:3],
    )
    meeting = 1 + 4 * 5
    factor = 8 * (2 * 5**3 + 5**2 * 32) + 40 * 32**2 + 32**3 / 3
    assert choose._operations(found, 0) == pytest.approx(factor + 40 * meeting**2)
    monkeypatch.setattr(choose, "MOST_OPERATIONS", 30_000.0)
    smaller = choose_model(AUTO, table)
    assert smaller.spec.name == "auto-model_task-model_language"
    assert (
        "language:task: with its 32 cells one marginal likelihood would take"
        in (smaller.reasons[1])
    )
    monkeypatch.setattr(choose, "MOST_OPERATIONS", 1.0)
    assert chosen(table) == "additive"


@pytest.mark.parametrize(("languages", "tasks", "models"), [(8, 4, 5), (30, 2, 6), (3, 6, 20)])
def test_the_engine_eliminates_what_the_choice_counts(
    languages: int, tasks: int, models: int
) -> None:
    table = grid(languages, tasks, models)
    spec = {"name": "three", "interactions": list(INTERACTIONS[:3])}
    terms = build_design(table, load_spec(spec)).terms
    named = ("language", "task", "model", *INTERACTIONS[:3])
    counted = choose._fullest(table).table
    # The engine counts the effects, the choice also the intercept.
    assert min(way.operations(terms) for way in eliminations(terms)) == pytest.approx(
        min(
            choose._factor_operations(counted, named, *way, n_slopes=-1)
            for way in choose._eliminations(named)
        )
    )


def test_many_languages_keep_their_interactions() -> None:
    """Effects of 300 languages and 4 tasks are nested: 3e7 operations, not (1,500)^3 / 3."""
    table = grid(300, 4, 5)
    assert choose_model(AUTO, table).spec == load_spec("crossed")


def test_what_a_table_identifies_does_not_depend_on_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = grid(8, 4, 5)
    index = {factor: table.codes(factor) for factor in ("language", "task", "model")}
    sizes = {factor: len(table.coords[factor]) for factor in index}
    monkeypatch.setattr(choose, "MOST_OPERATIONS", 1.0)
    assert chosen(table) == "additive"
    assert identified_interactions(index, sizes) == INTERACTIONS[:3]


def test_a_hundred_thousand_languages_are_counted_not_factorised() -> None:
    n = 100_000
    cells = pd.DataFrame(
        {
            "language": np.repeat(np.arange(n), 4),
            "task": np.tile([0, 0, 1, 1], n),
            "model": np.tile([0, 1], 2 * n),
        }
    )
    codes = {factor: cells[factor].to_numpy() for factor in cells}
    table = choose.LevelTable(
        {**codes, "dataset": codes["task"]}, {"language": n, "task": 2, "model": 2, "dataset": 2}
    )
    found = choose._by_counts(choose._Choice(table, INTERACTIONS), n_slopes=0)
    # Two of the three have 200,000 cells beside 100,000 languages; one is eliminated, the other and
    # the languages are nested, and 2 + 2 + 4 levels are left.
    assert found.terms == INTERACTIONS[:3]


def test_a_named_model_is_as_it_is_and_ml_is_the_paper() -> None:
    table = grid(8, 4, 5)
    for source in ("additive", load_spec("additive"), load_spec("additive").to_dict()):
        found = choose_model(source, table, engine="ml")
        assert found.spec == load_spec("additive")
        assert found.reasons == ()
    assert choose_model(AUTO, table, engine="ml").spec == load_spec("paper")


def test_the_design_of_the_choice_is_the_one_that_is_fitted() -> None:
    records = load("mega")
    found = choose_model(AUTO, records)
    again = build_design(records, found.spec)
    assert found.design is not None
    assert found.design.spec == found.spec
    assert found.design.priors == again.priors
    assert found.design.notes == again.notes
    assert [term.name for term in found.design.terms] == [term.name for term in again.terms]
    for first, second in zip(found.design.terms, again.terms, strict=True):
        assert first.index.tolist() == second.index.tolist()
        assert first.centred == second.centred
    assert found.design.score.tolist() == again.score.tolist()
    # The trial designs have no covariates, and no other model is tried.
    assert choose_model(AUTO, records, covariates=["mexa"]).design is None
    assert choose_model("additive", records).design is None
