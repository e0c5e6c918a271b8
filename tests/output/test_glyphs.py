"""Labels in any script: no boxes, no warnings, right-to-left text in reading order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from bayeseval.fitting.report.potential_figure import potential_figure
from bayeseval.output import _glyphs
from bayeseval.output._glyphs import drawable, font_families, legible, visual
from bayeseval.output._parts import labels_of, missing_text
from bayeseval.output._style import figure_text, save_figure

ROBOT, CHINESE = "\N{ROBOT FACE}", "\u4e2d\u6587"
# al-arabiya and Hebrew 'ivrit, as they are stored.
ARABIC, HEBREW = "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u05e2\u05d1\u05e8\u05d9\u05ea"
# Later versions shape text themselves, and come without the libraries that do it here.
unshaped = pytest.mark.skipif(
    tuple(map(int, matplotlib.__version__.split(".")[:2])) >= (3, 11),
    reason="needs Python 3.11 and its matplotlib, which draws text as it is stored",
)


def clear() -> None:
    for cached in (font_families, _glyphs._characters):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def only_the_default_font(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine where no other font is installed."""
    monkeypatch.setattr(_glyphs, "_FALLBACKS", ())
    clear()
    yield
    monkeypatch.undo()
    clear()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpt-4 (TT)", "gpt-4 (TT)"),
        (f"{ROBOT}-7b", "[robot face]-7b"),
        # A flag is two letters of the code of a territory.
        ("\U0001f1e9\U0001f1ea x", "[DE] x"),
        (f"{CHINESE}-7b", "[U+4E2D 6587]-7b"),
        # A joiner, a choice of form, and an override of direction are not shown.
        ("\N{WOMAN}\u200d\N{PERSONAL COMPUTER}\ufe0fa\u202eb", "[woman][personal computer]ab"),
        (ARABIC, ARABIC),
    ],
)
def test_what_cannot_be_drawn_is_replaced(text: str, expected: str) -> None:
    assert legible(text) == expected
    assert legible(expected) == expected
    assert drawable(expected)


@unshaped
@pytest.mark.parametrize(
    ("stored", "drawn"),
    [
        ("gpt-4", "gpt-4"),
        (HEBREW, HEBREW[::-1]),
        # The first strong letter gives the direction of the line; brackets are mirrored.
        (f"{HEBREW} (he)", f"(he) {HEBREW[::-1]}"),
        (f"Hebrew ({HEBREW}) x", f"Hebrew ({HEBREW[::-1]}) x"),
        # Numbers stay in order, also with a point inside.
        (f"{HEBREW}-2.5B", f"2.5B-{HEBREW[::-1]}"),
        (f"gpt {HEBREW} 12", f"gpt 12 {HEBREW[::-1]}"),
        # Final teh marbuta, medial yeh, initial beh (reh does not join on), final reh, medial
        # ain, initial lam, isolated alef.
        (ARABIC, "\ufe94\ufef4\ufe91\ufeae\ufecc\ufedf\ufe8d"),
        # Lam with alef is one letter; the mark stays behind its letter.
        ("\u0644\u0627", "\ufefb"),
        ("\u0628\u064e\u0628", "\ufe90\ufe91\u064e"),
        # So do both points of a Hebrew letter.
        ("\u05e9\u05b8\u05c1\u05dc", "\u05dc\u05e9\u05b8\u05c1"),
        # Persian: yeh does not join on over the non-joiner, which is not drawn.
        ("\u0645\u06cc\u200c\u0631", "\ufead\ufbfd\ufee3"),
        # Allah, whose ligature many fonts lack: alef, and lam, lam and heh joined.
        ("\u0627\u0644\u0644\u0647", "\ufeea\ufee0\ufedf\ufe8d"),
        (f"{HEBREW} [\u00abx\u00bb]", f"[\u00abx\u00bb] {HEBREW[::-1]}"),
    ],
)
def test_right_to_left_text_is_drawn_in_reading_order(stored: str, drawn: str) -> None:
    assert visual(stored) == drawn


@unshaped
def test_a_letter_stands_for_a_form_that_no_font_has(monkeypatch: pytest.MonkeyPatch) -> None:
    final, initial, letter = "\ufe90", "\ufe91", "\u0628"
    assert visual(2 * letter) == final + initial
    known = _glyphs._characters() - {ord(initial)}
    monkeypatch.setattr(_glyphs, "_characters", lambda: known)
    assert visual(2 * letter) == final + letter


@pytest.mark.parametrize("stored", ["gpt-4", HEBREW, ARABIC])
def test_matplotlib_that_orders_text_gets_it_as_it_is(
    stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second time would undo it.
    monkeypatch.setattr(_glyphs, "_matplotlib_shapes", lambda: True)
    assert visual(stored) == stored


def test_an_installed_font_is_used_for_what_the_default_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 700), (600, 700), (600, 0)):
        pen.lineTo(point)
    pen.closePath()
    font = FontBuilder(1000)
    font.setupGlyphOrder([".notdef", "han"])
    font.setupCharacterMap({ord(CHINESE[0]): "han"})
    font.setupGlyf({name: pen.glyph() for name in (".notdef", "han")})
    font.setupHorizontalMetrics({".notdef": (650, 0), "han": (650, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Test Han", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "han.ttf")
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    fontManager.addfont(tmp_path / "han.ttf")
    monkeypatch.setattr(_glyphs, "_FALLBACKS", ("Not Installed", "Test Han"))
    clear()
    assert font_families() == ("DejaVu Sans", "Test Han")
    assert legible(CHINESE) == f"{CHINESE[0]}[U+6587]"
    # Warnings are errors: nothing is missing, nothing is looked for in vain.
    figure = potential_figure(potentials([CHINESE[0], "en"]), subtitle="S", gate_status="pass")
    for format in ("png", "pdf", "svg"):
        save_figure(figure, tmp_path / f"x.{format}")
    families = {text.get_text(): text.get_fontfamily() for text in texts(figure)}
    assert families[CHINESE[0]] == ["DejaVu Sans", "Test Han"]


def texts(figure: Figure) -> list[Text]:
    return figure.findobj(Text)


def potentials(labels: list[str]) -> pd.DataFrame:
    n = len(labels)
    parts = [f"{q}_{p}" for q in ("potential", "rank") for p in ("mean", "lower", "upper")]
    values = {part: [float(n - i) for i in range(n)] for part in (*parts, "rank_median")}
    return pd.DataFrame(
        {"language": labels, **values, "n_records": 3, "ci_kind": "eti", "ci_prob": 0.95}
    )


def test_a_figure_has_no_boxes_and_says_what_stands_for_them(tmp_path: Path) -> None:
    labels = [f"{ROBOT} bot", CHINESE, ARABIC, "\u0939\u093f\u0928\u094d\u0926\u0940", "English"]
    figure = potential_figure(potentials(labels), subtitle=CHINESE, gate_status="pass")
    for format in ("png", "pdf", "svg"):
        save_figure(figure, tmp_path / f"x.{format}")
    said = [text.get_text() for text in texts(figure)]
    assert all(map(drawable, said))
    assert {"[robot face] bot", "[U+4E2D 6587]", figure_text(ARABIC), "English"} <= set(said)
    explained = "[U+...]: Unicode numbers of characters that no installed font can draw."
    assert explained in " ".join(said)
    # Nothing is explained where there is nothing to explain.
    other = potential_figure(potentials(["de", ARABIC]), subtitle="S", gate_status="pass")
    assert "U+" not in " ".join(text.get_text() for text in texts(other))


@pytest.mark.parametrize("shaped", [True, pytest.param(False, marks=unshaped)])
def test_an_svg_keeps_text_unless_its_order_was_turned(
    shaped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_glyphs, "_matplotlib_shapes", lambda: shaped)
    figure = potential_figure(potentials(["de", HEBREW]), subtitle="S", gate_status="pass")
    save_figure(figure, tmp_path / "x.svg")
    svg = (tmp_path / "x.svg").read_text(encoding="utf-8")
    # Turned text would be turned again by the program that shows it: outlines instead.
    assert (">de</text>" in svg) == shaped
    assert (f">{HEBREW}</text>" in svg) == shaped


def test_captions_name_some_of_many() -> None:
    assert missing_text(["a", "b"]) == " Not reported and therefore not shown: a, b."
    assert missing_text([f"m{i}" for i in range(60)]).endswith("m18, m19 and 40 others.")


def test_long_labels_stay_different() -> None:
    names = [f"an-organisation/a-long-model-name-with-parts-{i}-70b-instruct-fp8" for i in (1, 2)]
    first, second = labels_of(names, 30)
    assert first != second
    assert max(len(first), len(second)) <= 30
    assert labels_of(["x" * 42]) == ["x" * 42]
