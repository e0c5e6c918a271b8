"""Figures: what stands on them, where, and that all of it can be read."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from weakref import WeakSet

import matplotlib
import matplotlib.text
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from bayeseval.checks.figure import checks_figure
from bayeseval.estimands import pairwise_table, ranking_table
from bayeseval.fitting.report.figures import components_figure, disparity_figure, figure_writers
from bayeseval.fitting.report.model_figures import models_figure, ranks_figure
from bayeseval.fitting.report.model_tables import ranking_text
from bayeseval.fitting.report.potential_figure import potential_figure
from bayeseval.fitting.report.tables import result_tables
from bayeseval.output._glyphs import drawable
from bayeseval.output._labels import place_labels
from bayeseval.output._style import figure_text
from tests.fitting.trees import hand_tree, random_tree

SUBTITLE = "mini, model additive, engine numpyro"
POTENTIAL = "tables/language_potential.csv"
DISPARITY = "tables/model_disparity.csv"
RANKING = "tables/model_ranking.csv"
RANKS = "tables/rank_probabilities.csv"
COMPONENTS = "tables/variance_components.csv"


def tables_of(tree: object, gate: str = "pass", **options: object) -> dict[str, pd.DataFrame]:
    return result_tables(tree, gate_status=gate, **options)


def draw_all(tables: dict[str, pd.DataFrame], gate: str = "pass") -> dict[str, Figure]:
    common = {"subtitle": SUBTITLE, "gate_status": gate}
    return {
        "potential": potential_figure(tables[POTENTIAL], **common),
        "disparity": disparity_figure(tables[DISPARITY], **common),
        "models": models_figure(tables[RANKING], **common),
        "components": components_figure(tables[COMPONENTS], **common),
        **(
            {"ranks": ranks_figure(tables[RANKS], tables[RANKING], **common)}
            if tables[RANKING]["rank_mean"].notna().any()
            else {}
        ),
    }


# Layout takes most of the time of these tests: once per figure is enough.
_laid_out: WeakSet[Figure] = WeakSet()


def lay_out(figure: Figure) -> None:
    if figure not in _laid_out:
        figure.draw_without_rendering()
        _laid_out.add(figure)


def texts(figure: Figure) -> list[matplotlib.text.Text]:
    """Visible, non-empty texts of a figure, after it has been drawn."""
    lay_out(figure)
    return [
        text
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_text().strip() and text.get_visible()
    ]


def said(figure: Figure) -> str:
    # Lines of one sentence stand in the order they were written.
    return " ".join(text.get_text() for text in texts(figure))


def drawn_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Texts that an axis does not leave out, with their boxes in pixels."""
    lay_out(figure)
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                outside = not low - 1e-9 <= tick.get_loc() <= high + 1e-9
                for label in (tick.label1, tick.label2):
                    if outside or not label.get_visible():
                        hidden.add(id(label))
        if not axes.axison:
            hidden.update(id(label) for label in axes.get_xticklabels() + axes.get_yticklabels())
    return [
        (text.get_text(), text.get_window_extent())
        for text in texts(figure)
        if id(text) not in hidden
    ]


def problems(figure: Figure) -> list[str]:
    """Texts that leave the canvas, and pairs that cover each other."""
    boxes = drawn_texts(figure)
    found = []
    canvas = figure.bbox
    for text, box in boxes:
        # Half a pixel: extents are rounded to the pixel grid.
        if (
            box.x0 < canvas.x0 - 0.5
            or box.y0 < canvas.y0 - 0.5
            or box.x1 > canvas.x1 + 0.5
            or box.y1 > canvas.y1 + 0.5
        ):
            found.append(f"outside: {text}")
    for (first, a), (second, b) in combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        # Boxes hold the room for accents and descenders, so lines may touch.
        if width > 1.0 and height > 0.35 * min(a.height, b.height):
            found.append(f"{first!r} covers {second!r}")
    return found


def offsets(figure: Figure, gid: str) -> np.ndarray:
    (points,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    return np.asarray(points.get_offsets())


def segments(figure: Figure, gid: str) -> np.ndarray:
    (lines,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    return np.array([[p[0, 0], p[1, 0], p[0, 1]] for p in lines.get_segments()])


@pytest.fixture(scope="module")
def hand() -> dict[str, pd.DataFrame]:
    return tables_of(hand_tree(), ci_prob=0.5, language_names={"en": "English"})


def test_potential_shows_every_language_best_on_top(hand: dict[str, pd.DataFrame]) -> None:
    figure = potential_figure(
        hand[POTENTIAL], subtitle=SUBTITLE, gate_status="pass", unit="score points"
    )
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["English (en)", "de", "sw"]
    assert axes.yaxis_inverted()
    # See hand_tree: means 73, 63 and 56.25, quartiles of the four draws.
    assert offsets(figure, "points").tolist() == [[73, 0], [63, 1], [56.25, 2]]
    assert segments(figure, "bars potential").tolist() == [
        [71.5, 74.5, 0],
        [61.5, 64.5, 1],
        [50, 56.25, 2],
    ]
    assert axes.get_xlabel() == "Language potential (score points)"
    text = said(figure)
    assert "50 % equal-tailed intervals" in text
    assert SUBTITLE in text
    # Ranks: en always first; sw third three times of four.
    assert "1  [1–1]" in text
    assert "3  [2–3]" in text or "3  [3–3]" in text


def test_larger_points_have_more_records(hand: dict[str, pd.DataFrame]) -> None:
    figure = potential_figure(hand[POTENTIAL], subtitle=SUBTITLE, gate_status="pass")
    (points,) = figure.findobj(lambda artist: artist.get_gid() == "points")
    en, de, sw = points.get_sizes()
    assert en > de > sw
    assert {"4 records", "2 records", "1 record"} <= {t.get_text() for t in texts(figure)}


def test_many_languages_stand_in_columns() -> None:
    tables = tables_of(random_tree(n_languages=200, n_models=2, n_tasks=1, draws=5))
    figure = potential_figure(tables[POTENTIAL], subtitle=SUBTITLE, gate_status="pass")
    # Inches: a picture for a screen, not a strip.
    width, height = figure.get_size_inches()
    assert 0.5 < height / width < 1.5
    columns = [axes for axes in figure.axes if axes.get_xlabel() == "Language potential"]
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in columns]
    assert [len(column) for column in labels] == [67, 67, 66]
    order = [label for column in labels for label in column]
    assert order == tables[POTENTIAL]["language"].to_list()
    assert len({axes.get_xlim() for axes in columns}) == 1
    means = np.concatenate([offsets(figure, g)[:, 0] for g in ("points", "points 2", "points 3")])
    np.testing.assert_allclose(means, tables[POTENTIAL]["potential_mean"])


def test_of_very_many_languages_both_ends_are_shown() -> None:
    table = tables_of(random_tree(n_languages=260, n_models=2, n_tasks=1, draws=5))[POTENTIAL]
    figure = potential_figure(table, subtitle=SUBTITLE, gate_status="pass")
    assert "First and last 120 of 260; all: tables/language_potential.csv." in said(figure)
    shown = np.concatenate([offsets(figure, g)[:, 0] for g in ("points", "points 2", "points 3")])
    expected = pd.concat([table.head(120), table.tail(120)])["potential_mean"]
    np.testing.assert_allclose(shown, expected)


def test_sizes_in_the_legend_can_be_told_apart(hand: dict[str, pd.DataFrame]) -> None:
    for records, expected in (([60, 59, 58], ["60 records"]), ([60, 59, 2], ["2", "60"])):
        table = hand[POTENTIAL].assign(n_records=records)
        figure = potential_figure(table, subtitle=SUBTITLE, gate_status="pass")
        legend = figure.axes[0].get_legend()
        found = [text.get_text() for text in legend.get_texts()]
        assert len(found) == len(expected)
        assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


def calibration_tables(n: int) -> dict[str, pd.DataFrame]:
    x = np.linspace(0.01, 1.0, 50)
    curve = {"pit": x, "lower": x - 0.05, "upper": x + 0.05, "ecdf": x}
    mean = np.linspace(25.0, 5.0, n)
    sds = {"replicated_mean": mean, "replicated_lower": 0.7 * mean, "replicated_upper": 1.4 * mean}
    named = {
        "language": [f"l{i:03d}" for i in range(n)],
        "language_name": [f"Language {i}" for i in range(n)],
    }
    return {
        "calibration": pd.DataFrame(curve).assign(kind="Leave-one-out PIT"),
        "sd_by_language": pd.DataFrame(named | sds).assign(observed=mean, p=0.5),
    }


@pytest.mark.parametrize(("n", "panels"), [(4, 1), (30, 1), (53, 2), (90, 2)])
def test_the_figure_of_the_checks_has_no_empty_part(n: int, panels: int) -> None:
    figure = checks_figure(
        calibration_tables(n), subtitle=SUBTITLE, gate_status="pass", unit="score points"
    )
    assert problems(figure) == []
    calibration, *rest = figure.axes
    assert len(rest) == panels
    labels = [label.get_text() for axes in rest for label in axes.get_yticklabels()]
    expected = [f"Language {i} (l{i:03d})" for i in range(min(n, 60))]
    assert labels == expected
    assert rest[0].get_xlabel() == "Sd of the scores of a language (score points)"
    # The left half is full to the bottom: the calibration, or languages below it.
    boxes = [axes.get_tightbbox() for axes in (calibration, *rest[:-1])]
    lowest, right = min(box.y0 for box in boxes), rest[-1].get_tightbbox().y0
    assert abs(lowest - right) < 0.05 * figure.bbox.height
    # They are read from there on, down the left half and then down the right one.
    assert [axes.get_tightbbox().x0 > figure.bbox.width / 3 for axes in rest] == (
        [False] * (panels - 1) + [True]
    )
    assert ("goes on at the top of the right one" in said(figure)) == (panels == 2)
    cut = "Of the 90 languages with at least 3 records, the 60 with the smallest p-values are drawn"
    assert (cut in said(figure)) == (n == 90)
    assert "share of scores that fall below each level of their" in said(figure)


def test_disparity_shows_the_observed_support(hand: dict[str, pd.DataFrame]) -> None:
    figure = disparity_figure(hand[DISPARITY], subtitle=SUBTITLE, gate_status="pass")
    # Other supports and flavours lie one or more higher in both directions.
    np.testing.assert_allclose(
        offsets(figure, "points"), [[1.15, 0.2], [1.125, 0.1]], rtol=0, atol=1e-12
    )
    axes = figure.axes[0]
    assert axes.get_xlabel() == "Mean-PRR  (higher is better →)"
    assert "lower is better" in axes.get_ylabel()
    assert {"A", "B", "better ↘"} <= {text.get_text() for text in axes.texts}
    assert "over the language-task pairs it was tested on" in said(figure)
    low, high = axes.get_xlim()
    assert low < 1.0 < high


def test_labels_stand_beside_their_own_point() -> None:
    tables = tables_of(random_tree(n_models=13, n_languages=8, seed=3))
    figure = disparity_figure(tables[DISPARITY], subtitle=SUBTITLE, gate_status="pass")
    axes = figure.axes[0]
    rows = tables[DISPARITY].set_index("model")
    labels = [text for text in axes.texts if text.get_text().startswith("model-")]
    assert sorted(text.get_text() for text in labels) == sorted(rows.index)
    points = axes.transData.transform(offsets(figure, "points"))
    for text in labels:
        row = rows.loc[text.get_text()]
        own = axes.transData.transform((row["mean_prr_mean"], row["cv_prr_mean"]))
        box = text.get_window_extent()
        # No point is under the label, and it is no farther than the longest leader.
        inside = (points > [box.x0, box.y0]).all(axis=1) & (points < [box.x1, box.y1]).all(axis=1)
        assert not inside.any()
        gap = np.hypot(*(np.clip(own, [box.x0, box.y0], [box.x1, box.y1]) - own))
        assert gap < 90 * figure.dpi / 72


def test_many_models_are_numbered_with_a_key() -> None:
    tables = tables_of(random_tree(n_models=40, n_languages=3, n_tasks=2))
    figure = disparity_figure(tables[DISPARITY], subtitle=SUBTITLE, gate_status="pass")
    order = tables[DISPARITY]["model"].to_list()
    key = "\n".join(text.get_text() for axes in figure.axes[1:] for text in axes.texts)
    assert [line.split(maxsplit=1) for line in key.splitlines()] == [
        [str(number), label] for number, label in enumerate(order, start=1)
    ]
    assert problems(figure) == []


def test_ranks_show_what_the_table_says(hand: dict[str, pd.DataFrame]) -> None:
    figure = ranks_figure(hand[RANKS], hand[RANKING], subtitle=SUBTITLE, gate_status="pass")
    left, right = figure.axes
    assert left.get_title(loc="left") == "Expected score"
    assert right.get_title(loc="left") == "Evenness"
    # A has the higher score in three draws of four; and is the more even one in three.
    assert [label.get_text() for label in left.get_yticklabels()] == ["A", "B"]
    assert [label.get_text() for label in right.get_yticklabels()] == ["A", "B"]
    assert np.asarray(left.images[0].get_array()).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert np.asarray(right.images[0].get_array()).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    written = {(t.get_position()[0], t.get_text()) for t in left.texts}
    assert written == {(1, "75"), (2, "25"), (1, "25"), (2, "75")}


def test_ranks_of_models_have_a_heading_and_brackets_are_explained_where_they_stand() -> None:
    long = "organisation/a-very-long-name-of-a-family-名前-of-models-with-a-long-ending-{}"
    for names, explained in ((["a", "b"], False), (["名前", "b"], True)):
        tables = tables_of(random_tree(n_models=2, models=tuple(names)))
        figure = models_figure(tables[RANKING], subtitle=SUBTITLE, gate_status="pass")
        for axes in figure.axes[:2]:
            assert [text.get_text() for text in axes.texts].count("rank") == 1
        bracketed = any("[U+" in text.get_text() for text in figure.axes[0].get_yticklabels())
        assert bracketed == ("[U+...]: Unicode numbers" in said(figure))
        assert bracketed <= explained
    # Characters that the shortened names have lost.
    tables = tables_of(
        random_tree(n_models=2, models=(long.format("x" * 20), long.format("y" * 20)))
    )
    for figure in (
        models_figure(tables[RANKING], subtitle=SUBTITLE, gate_status="pass"),
        ranks_figure(tables[RANKS], tables[RANKING], subtitle=SUBTITLE, gate_status="pass"),
    ):
        assert "名" not in figure.axes[0].get_yticklabels()[0].get_text()
        assert "U+" not in said(figure)


@pytest.mark.parametrize("n_models", [7, 60])
def test_figures_of_models_agree_with_the_terminal(n_models: int) -> None:
    tree = random_tree(n_models=n_models, n_languages=4, n_tasks=2)
    tables, ranking = tables_of(tree), ranking_table(tree)
    printed = ranking_text(ranking, pairwise_table(tree), n_pairs=8, unit="")
    shown = [line for line in printed.splitlines() if line.endswith(" %")]
    order = [line.split()[0] for line in shown]
    medians = [int(line.split("]")[2].split("[")[0]) for line in shown]
    ranks = ranks_figure(tables[RANKS], tables[RANKING], subtitle=SUBTITLE, gate_status="pass")
    models = models_figure(tables[RANKING], subtitle=SUBTITLE, gate_status="pass")
    assert ranking["rank_median"].nunique() > 2
    for figure in (ranks, models):
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert len(labels) == n_models
        # The terminal leaves out the middle of many models.
        assert order == (labels if n_models < 31 else [*labels[:20], *labels[-5:]])
    points = offsets(ranks, "points")[:, 0]
    np.testing.assert_array_equal(points, ranking["rank_median"])
    assert medians == [int(p) for p in (points if n_models < 31 else [*points[:20], *points[-5:]])]
    np.testing.assert_allclose(offsets(models, "points score")[:, 0], ranking["score_mean"])
    assert problems(ranks) == problems(models) == []


def test_the_caption_of_ranks_explains_the_panels_that_are_there(
    hand: dict[str, pd.DataFrame],
) -> None:
    both = hand[RANKING].assign(gap_sd_rank_mean=1.0, gap_sd_rank_median=1.0)
    common = {"subtitle": SUBTITLE, "gate_status": "pass"}
    one = both.assign(gap_sd_rank_mean=np.nan)
    said_of = [
        " ".join(text.get_text() for text in ranks_figure(hand[RANKS], table, **common).texts)
        for table in (both, one)
    ]
    assert ["Right: evenness, the sd over languages" in text for text in said_of] == [True, False]
    assert ["Left: expected scores" in text for text in said_of] == [True, False]


def test_colours_of_many_ranks_end_at_the_largest_probability() -> None:
    tables = tables_of(random_tree(n_models=30, n_languages=3, n_tasks=1))
    figure = ranks_figure(tables[RANKS], tables[RANKING], subtitle=SUBTITLE, gate_status="pass")
    (image,) = figure.axes[0].images
    largest = tables[RANKS].query("quantity == 'standardised_score'")["probability"].max()
    assert image.norm.vmax == pytest.approx(largest)
    # A tenth of it can be seen: a third of the colours.
    assert float(image.norm(0.1 * largest)) == pytest.approx(np.sqrt(0.1))
    # Which colour is which probability stands in a colour bar.
    assert [axes.get_ylabel() for axes in figure.axes] == ["", "Probability of the rank"]
    assert figure.axes[1].get_ylim() == pytest.approx((0.0, largest))
    assert "Orange points: median ranks; orange lines: their 95 % intervals." in said(figure)
    few = tables_of(random_tree(n_models=5))
    figure = ranks_figure(few[RANKS], few[RANKING], subtitle=SUBTITLE, gate_status="pass")
    assert figure.axes[0].images[0].norm.vmax == 1.0
    assert len(figure.axes) == 1


def test_models_that_are_mostly_predicted_are_hollow(hand: dict[str, pd.DataFrame]) -> None:
    table = hand[RANKING].assign(share_predicted=[0.2, 0.9])
    figure = models_figure(table, subtitle=SUBTITLE, gate_status="pass", unit="score points")
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == [
        "Expected score (score points)",
        "Sd of the gap over languages (score points)",
    ]
    (points,) = figure.findobj(lambda artist: artist.get_gid() == "points score")
    filled = np.asarray(points.get_facecolor())
    assert not np.allclose(filled[0], 1.0)
    assert np.allclose(filled[1], 1.0)
    additive = hand[RANKING].assign(gap_sd_languages_mean=np.nan)
    alone = models_figure(additive, subtitle=SUBTITLE, gate_status="pass")
    assert "Evenness" not in said(alone)


def test_components_show_both_kinds_of_sd_and_shares(hand: dict[str, pd.DataFrame]) -> None:
    figure = components_figure(hand[COMPONENTS], subtitle=SUBTITLE, gate_status="pass")
    left, right = figure.axes
    names = ["language", "task", "model", "residual"]
    assert [label.get_text() for label in left.get_yticklabels()] == names
    assert offsets(figure, "points sd")[:, 0].tolist() == [11, 5, 5, 3]
    shares = hand[COMPONENTS]["share_mean"].to_numpy() * 100
    np.testing.assert_allclose(offsets(figure, "points share")[:, 0], shares, rtol=1e-12)
    assert left.get_xlim()[0] == right.get_xlim()[0] == 0.0
    # Nothing lies beyond the axes.
    widest = hand[COMPONENTS][["sd_upper", "finite_sd_upper"]].max(axis=None)
    assert left.get_xlim()[1] > widest


def test_components_without_a_population_are_named(hand: dict[str, pd.DataFrame]) -> None:
    table = hand[COMPONENTS].assign(kind=["fixed", "fixed", "pooled", "realised"])
    text = said(components_figure(table, subtitle=SUBTITLE, gate_status="pass"))
    assert "language, task: fixed effects" in text
    assert "residual: both points are the root mean square" in text
    assert "fixed effects" not in said(
        components_figure(hand[COMPONENTS], subtitle=SUBTITLE, gate_status="pass")
    )


CASES = {
    "two of everything": {"n_languages": 2, "n_models": 2, "n_tasks": 2},
    "MEGA's size": {"n_languages": 53, "n_models": 13, "n_tasks": 15},
    "many": {"n_languages": 200, "n_models": 30, "n_tasks": 2, "draws": 5},
    "one draw": {"chains": 1, "draws": 1, "n_languages": 12},
    "long names": {
        "models": tuple(f"organisation/Family-Name-{i}B-instruct-preview-v0.3" for i in range(6)),
        "languages": tuple(f"language number {i} with a long name in words" for i in range(5)),
    },
    "odd names": {
        "models": ("a$b$", "x_{1}", "$\\frac{1}{2}$", "%d", "中文", "back\\slash"),
        "languages": ("$", "$$", "العربية", "한국어", "a_b^c"),
    },
    "nothing to report": {"intercept": 0.0},
}


# The font has no Arabic and no CJK letters; matplotlib says so and draws boxes, whose
# extents count like those of any other letter.
@pytest.mark.filterwarnings("ignore:Glyph .* missing from:UserWarning")
@pytest.mark.parametrize(
    ("case", "gate"),
    [*((case, "pass") for case in CASES), ("two of everything", "fail"), ("MEGA's size", "fail")],
)
def test_every_text_can_be_read(case: str, gate: str) -> None:
    figures = draw_all(tables_of(random_tree(**CASES[case]), gate), gate)
    for name, figure in figures.items():
        assert problems(figure) == [], name
        assert ("Convergence gate failed" in said(figure)) is (gate == "fail")


def test_the_overlap_check_can_fail() -> None:
    figure = Figure(figsize=(3, 2))
    FigureCanvasAgg(figure)
    figure.text(0.5, 0.5, "over")
    figure.text(0.5, 0.52, "under")
    figure.text(0.9, 0.1, "beyond the edge")
    assert problems(figure) == ["outside: beyond the edge", "'over' covers 'under'"]


def test_point_estimates_have_no_bars() -> None:
    figures = draw_all(tables_of(random_tree(chains=1, draws=1), "not applicable"))
    for name in ("potential", "disparity", "components"):
        assert "this engine gives no intervals" in said(figures[name]), name
        assert "equal-tailed" not in said(figures[name]), name
    assert len(segments_or_none(figures["potential"], "bars potential")) == 0
    assert offsets(figures["potential"], "points").shape == (5, 2)
    # Nobody is ranked.
    assert "ranks" not in figures
    tables = tables_of(random_tree(chains=1, draws=1), "not applicable")
    common = {"subtitle": SUBTITLE, "gate_status": "not applicable"}
    assert "figures/ranks.png" not in figure_writers(tables, **common)
    assert "median rank" not in said(figures["models"])


def segments_or_none(figure: Figure, gid: str) -> list[object]:
    (lines,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    return list(lines.get_segments())


def test_what_is_not_reported_is_named_and_not_drawn(hand: dict[str, pd.DataFrame]) -> None:
    table = hand[DISPARITY].copy()
    table.loc[table["model"] == "B", "cv_prr_mean"] = np.nan
    figure = disparity_figure(table, subtitle=SUBTITLE, gate_status="pass")
    assert "Not reported and therefore not shown: B." in said(figure)
    assert len(offsets(figure, "points")) == 1
    assert "B" not in {text.get_text() for text in figure.axes[0].texts}
    complete = disparity_figure(hand[DISPARITY], subtitle=SUBTITLE, gate_status="pass")
    assert "not shown" not in said(complete)


def test_figures_of_nothing_say_so() -> None:
    figures = draw_all(tables_of(random_tree(intercept=0.0)))
    # Ratios have no meaning; scores and their ranks do.
    assert len(offsets(figures["models"], "points score")) == 4
    assert len(offsets(figures["disparity"], "points")) == 0
    assert "Not reported and therefore not shown: model-0" in said(figures["disparity"])
    assert "not reported for any model" in said(figures["disparity"])


def test_nothing_of_the_users_plotting_is_touched(
    tmp_path: Path, hand: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A user's own settings: they neither change the figures nor are they changed.
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 30.0)
    monkeypatch.setitem(matplotlib.rcParams, "axes.facecolor", "black")
    before = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    writers = figure_writers(hand, subtitle=SUBTITLE, gate_status="pass")
    assert sorted(writers) == [
        "figures/components.png",
        "figures/models.png",
        "figures/potential.png",
        "figures/ranks.png",
    ]
    for name, writer in writers.items():
        path = tmp_path / Path(name).name
        writer(path)
        assert path.read_bytes().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) is loaded
    figure = potential_figure(hand[POTENTIAL], subtitle=SUBTITLE, gate_status="pass")
    assert figure.axes[0].get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert problems(figure) == []


def test_same_tables_same_picture(tmp_path: Path, hand: dict[str, pd.DataFrame]) -> None:
    for turn in ("one", "two"):
        writers = figure_writers(hand, subtitle=SUBTITLE, gate_status="pass", description=True)
        writers["figures/disparity.png"](tmp_path / turn)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_names_in_a_script_the_font_lacks_give_way_to_the_label() -> None:
    tables = tables_of(hand_tree(), language_names={"en": "英语", "de": "Němčina", "sw": "x"})
    figure = potential_figure(tables[POTENTIAL], subtitle=SUBTITLE, gate_status="pass")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["en", "Němčina (de)", "x (sw)"]
    assert drawable("Němčina")
    assert not drawable("英语")


def test_labels_without_room_are_returned_not_drawn() -> None:
    figure = Figure(figsize=(1.2, 1.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    x = np.linspace(0.4, 0.6, 30)
    left_out = place_labels(
        axes,
        x,
        x,
        [f"label {i}" for i in range(30)],
        lines=np.empty((0, 4)),
        size=9.0,
        colour="grey",
    )
    drawn = [text.get_text() for text in axes.texts]
    assert 0 < len(drawn) < 30
    assert sorted(drawn + left_out) == sorted(f"label {i}" for i in range(30))


def test_dollars_are_no_mathematics() -> None:
    figure = Figure()
    FigureCanvasAgg(figure)
    odd = figure.text(0.1, 0.5, figure_text("$x_{1}$ and $"))
    # Mathematics would drop the braces and be narrower than the text without dollars.
    bare = figure.text(0.1, 0.1, "x_{1} and ")
    assert odd.get_window_extent().width > bare.get_window_extent().width
