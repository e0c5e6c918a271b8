"""The map of a forecast: places against known ones, marks against the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize, to_rgba
from matplotlib.path import Path as Outline

from bayeseval.forecasting.map import land, map_figure, place, places
from bayeseval.output._style import ACCENT

MEXA = Path(__file__).parents[2] / "benchmarks" / "mega" / "covariates" / "mexa.csv"
# Esperanto has no place; neither source has a point for the other two.
NOWHERE = ["epo_Latn", "ltg_Latn", "zgh_Tfng"]


def all_labels() -> list[str]:
    return sorted(pd.read_csv(MEXA)["language"])


def make_table(labels: list[str]) -> pd.DataFrame:
    """A forecast: every third language has records, the last fifth are extrapolations."""
    n = len(labels)
    potential = np.linspace(80.0, 30.0, n)
    observed = np.arange(n) % 3 == 0
    half = np.where(observed, 4.0, 12.5)
    return pd.DataFrame(
        {
            # As in a benchmark with its own codes, which say less than the source's.
            "language": [label.partition("_")[0] + "!" * (i % 2) for i, label in enumerate(labels)],
            "source_label": labels,
            "observed": observed,
            "potential_mean": potential,
            "potential_lower": potential - half,
            "potential_upper": potential + half,
            "extrapolation": ~observed & (np.arange(n) >= 0.8 * n),
            "ci_prob": 0.95,
        },
        # Not 0 to n, as after sorting.
        index=np.arange(n)[::-1],
    )


def marks(axes: Axes) -> dict[str, PathCollection]:
    return {str(c.get_label()): c for c in axes.collections if isinstance(c, PathCollection)}


# From other works: capitals and heartlands, with what a language's area leaves open.
@pytest.mark.parametrize(
    ("label", "latitude", "longitude", "within"),
    [
        ("eus_Latn", 43.0, -2.5, 1.0),
        ("Basque", 43.0, -2.5, 1.0),
        ("ast_Latn", 43.4, -5.8, 1.0),  # Oviedo
        ("isl_Latn", 64.9, -18.6, 2.0),
        ("ell_Grek", 38.0, 23.7, 2.0),  # Athens
        ("yo", 7.4, 3.9, 1.5),  # Ibadan
        ("swh_Latn", -6.2, 39.2, 1.0),  # Zanzibar
        ("quy_Latn", -13.2, -74.2, 1.0),  # Ayacucho
        ("kor_Hang", 37.6, 127.0, 1.5),  # Seoul
        ("mri_Latn", -38.7, 176.1, 2.0),  # Taupo
        ("smo_Latn", -13.8, -171.8, 0.5),  # Apia
        ("scn_Latn", 37.6, 14.0, 0.5),
        ("mni_Beng", 24.8, 93.9, 0.5),  # Imphal
        ("kea_Latn", 14.9, -23.5, 0.5),  # Praia
        ("dzo_Tibt", 27.5, 89.6, 0.5),  # Thimphu
        ("tum_Latn", -11.5, 34.0, 1.0),  # Mzuzu
    ],
)
def test_known_places(label: str, latitude: float, longitude: float, within: float) -> None:
    found = place([label]).iloc[0]
    assert found["latitude"] == pytest.approx(latitude, abs=within)
    assert found["longitude"] == pytest.approx(longitude, abs=within)


def test_every_language_of_mexa_has_a_place_or_is_known_to_have_none() -> None:
    labels = all_labels()
    found = place(labels)
    assert len(found) == len(labels) == 203
    assert [x for x, y in zip(labels, found["latitude"], strict=True) if np.isnan(y)] == NOWHERE
    # A macrolanguage is where its variety in FLORES-200 is; scripts share a place.
    same = place(["grn_Latn", "gug", "zho_Hans", "zho_Hant", "cmn"])
    assert same.iloc[0].equals(same.iloc[1])
    assert same.iloc[2].equals(same.iloc[3])
    assert same.iloc[3].equals(same.iloc[4])
    assert place(["no language", ""]).isna().all(axis=None)


def test_languages_are_on_land() -> None:
    """Points and outlines come from different works: a slip in either one shows here."""
    outlines = [Outline(ring) for ring in land()]
    off = []
    for code, (latitude, longitude) in places().items():
        x = longitude if longitude >= -169.0 else longitude + 360.0
        # A degree for coasts, which are coarse, and for islands too small to be drawn.
        steps = np.linspace(-1.0, 1.0, 5)
        around = [(x + dx, latitude + dy) for dx in steps for dy in steps]
        if not any(outline.contains_points(around).any() for outline in outlines):
            off.append(code)
    # Islands that Natural Earth's 1:110m leaves out; WALS has Indonesian off Sumatra.
    assert sorted(off) == ["div", "fao", "ind", "kea", "smo", "ton"]


def test_marks_are_the_table_at_its_places() -> None:
    table = make_table(all_labels())
    asked = ("cat!", "cat", "ace", "ace!")
    drawn = map_figure(
        table,
        covariate="mexa",
        subtitle="mega",
        gate_status="pass",
        languages=asked,
        unit="score points",
    )
    assert drawn is not None
    world, *parts = drawn.axes[:-1]
    assert [axes.get_title() for axes in parts] == ["Europe", "Africa", "South and South-East Asia"]
    where = place(table["source_label"]).set_axis(table.index)
    placed = table.join(where).dropna()
    assert len(placed) == 200
    # The scale ends where 2 % of the languages lie beyond, so that one of them cannot take it.
    ends = placed["potential_mean"].quantile([0.02, 0.98])
    colours = ScalarMappable(Normalize(*ends), "viridis")
    outside, own = placed["extrapolation"], placed["observed"]
    rows = {"has records": own, "forecast": ~own & ~outside, "extrapolation": ~own & outside}
    for label, chosen in rows.items():
        part, points = placed[chosen], marks(world)[label]
        x, y = np.asarray(points.get_offsets()).T
        np.testing.assert_allclose(y, part["latitude"])
        # In its place, or beside it where several share it; Samoa is drawn beyond Fiji.
        shared = placed.groupby(["latitude", "longitude"])["longitude"].transform("size")[chosen]
        away = np.abs((x - part["longitude"] + 180.0) % 360.0 - 180.0)
        np.testing.assert_allclose(away[shared == 1], 0.0, atol=1e-9)
        assert (away <= 2.4 * (shared - 1) / 2 + 1e-9).all()
        expected = colours.to_rgba(part["potential_mean"].to_numpy())
        filled, edge = np.asarray(points.get_facecolor()), np.asarray(points.get_edgecolor())
        np.testing.assert_allclose(edge if label == "extrapolation" else filled, expected)
        assert (len(filled) == 1 and tuple(filled[0]) == to_rgba("white")) == (
            label == "extrapolation"
        )
    everything = np.concatenate([np.asarray(marks(world)[row].get_offsets()) for row in rows])
    assert len(np.unique(everything.round(6), axis=0)) == 200, "no mark hides another"
    rings = marks(world)["_asked"]
    assert len(np.asarray(rings.get_offsets())) == int(table["language"].isin(asked).sum()) == 3
    assert tuple(np.asarray(rings.get_edgecolor())[0]) == to_rgba(ACCENT)
    texts = {text.get_text() for axes in drawn.axes for text in axes.texts}
    assert texts == set(table.loc[table["language"].isin(asked), "language"])
    assert drawn.axes[-1].get_ylim() == pytest.approx(tuple(ends))
    assert drawn.axes[-1].get_ylabel() == "Language potential (score points)"


def test_the_caption_names_what_is_not_placed_and_how_wide_intervals_are() -> None:
    drawn = map_figure(
        make_table(all_labels()), covariate="mexa", subtitle="mega", gate_status="fail"
    )
    assert drawn is not None
    said = " ".join(text.get_text() for text in drawn.texts)
    assert "Not placed, no coordinates: epo_Latn, ltg_Latn, zgh_Tfng." in said
    assert "25 (forecasts), 8 (with records)" in said
    assert "Orange rings" not in said
    assert "Convergence gate failed" in said


def test_names_stand_where_there_is_most_room_and_lost_languages_have_names() -> None:
    # Malta is at the edge of the part called Africa, and well inside the one called Europe.
    table = make_table(all_labels())
    table["language"] = table["source_label"]
    table["language_name"] = np.where(table["source_label"] == "epo_Latn", "Esperanto", "x")
    drawn = map_figure(
        table, covariate="mexa", subtitle="", gate_status="pass", languages=("mlt_Latn",)
    )
    assert drawn is not None
    named = {axes.get_title(): len(axes.texts) for axes in drawn.axes[:-1]}
    assert named == {"": 0, "Europe": 1, "Africa": 0, "South and South-East Asia": 0}
    assert "Esperanto (epo_Latn)" in " ".join(text.get_text() for text in drawn.texts)


def test_few_languages_and_none() -> None:
    said = {"covariate": "x", "subtitle": "", "gate_status": "pass"}
    few = map_figure(make_table(["haw", "por_Latn"]), **said)
    assert few is not None
    # The world and its colour bar; nothing is crowded.
    assert len(few.axes) == 2
    assert few.axes[0].get_xlim()[0] < -155.5
    assert "Not placed" not in " ".join(text.get_text() for text in few.texts)
    # Of few languages the colours reach all.
    assert few.axes[-1].get_ylim() == (30.0, 80.0)
    assert "Colours end" not in " ".join(text.get_text() for text in few.texts)
    assert map_figure(make_table(["epo_Latn", "my own tongue"]), **said) is None
