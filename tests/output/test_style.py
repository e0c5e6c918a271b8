"""Figure files: formats, and the same figure in the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeseval._typing import Figures
from bayeseval.errors import InputError
from bayeseval.output._parts import plain_log_axis
from bayeseval.output._style import (
    figure_files,
    figure_formats,
    figure_names,
    new_figure,
    save_figure,
    styled,
)


def drawn() -> Figure:
    figure = new_figure(4.0, 2.0, title="T", subtitle="S", caption="C", gate_status="pass")
    axes = figure.add_subplot()
    # Ticks so close that matplotlib prints an offset.
    axes.plot([1.0, 2.0], [1e-9, 2e-9])
    axes.set_ylabel("score")
    return figure


@pytest.mark.parametrize(
    ("figures", "formats"),
    [
        (True, ("png",)),
        (False, ()),
        ((), ()),
        ("pdf", ("pdf",)),
        ("svg, PNG,svg", ("svg", "png")),
        (["pdf", "svg"], ("pdf", "svg")),
    ],
)
def test_formats(figures: Figures, formats: tuple[str, ...]) -> None:
    assert figure_formats(figures) == formats


@pytest.mark.parametrize(("figures", "got"), [("jpg", "'jpg'"), ("png,", "''"), (["p"], "'p'")])
def test_other_formats_are_refused(figures: Figures, got: str) -> None:
    with pytest.raises(InputError) as refused:
        figure_formats(figures)
    assert str(refused.value) == (
        f"figure formats are png, pdf, svg, or several of them with commas between; got {got}"
    )


def test_names_in_all_formats() -> None:
    assert figure_names("plan") == ("figures/plan.png", "figures/plan.pdf", "figures/plan.svg")


def write(folder: Path) -> dict[str, bytes]:
    figure = drawn()
    files = figure_files("x", figure, "png,svg,pdf")
    assert list(files) == ["figures/x.png", "figures/x.svg", "figures/x.pdf"]
    (folder / "figures").mkdir(parents=True)
    for name, writer in files.items():
        writer(folder / name)
    # The offset is said once, however often the figure is written.
    assert figure.axes[0].get_ylabel() == "score, ticks in 1e\N{MINUS SIGN}9"
    return {name: (folder / name).read_bytes() for name in files}


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    first, second = write(tmp_path / "1"), write(tmp_path / "2")
    assert first == second
    assert first["figures/x.png"].startswith(b"\x89PNG")
    assert first["figures/x.svg"].startswith(b"<?xml")
    assert b"<dc:date>" not in first["figures/x.svg"]
    assert first["figures/x.pdf"].startswith(b"%PDF")
    assert b"/CreationDate" not in first["figures/x.pdf"]
    # An SVG has text, and all files say what the figure is to who cannot see it.
    assert b">score, ticks in 1e" in first["figures/x.svg"]
    assert b"<dc:title>T (S)</dc:title>" in first["figures/x.svg"]
    assert b"<dc:description>C</dc:description>" in first["figures/x.svg"]
    assert b"Title\x00T (S)" in first["figures/x.png"]
    assert b"Description\x00C" in first["figures/x.png"]
    assert b"/Title (T \\(S\\))" in first["figures/x.pdf"]
    assert b"/Subject (C)" in first["figures/x.pdf"]
    # Journals refuse Type 3 fonts.
    assert b"/Type3" not in first["figures/x.pdf"]


@styled
def crowded(*, fixed: bool) -> Figure:
    """A figure with all that a layout makes room for."""
    figure = new_figure(6.0, 3.0, title="T", subtitle="S", caption="C", gate_status="fail")
    left, right = figure.subplots(1, 2)
    image = left.imshow(np.arange(6.0).reshape(2, 3))
    left.set_yticks([0, 1], ["a long label", "a label that is longer"])
    figure.colorbar(image, ax=left, label="colours")
    right.plot([0.0, 1.0], [1.0, 1e5], label="line")
    right.set(aspect=1e-5, xlabel="x", title="Title")
    right.legend(loc="lower left", bbox_to_anchor=(0.0, 1.2))
    if fixed:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


@pytest.mark.parametrize("fixed", [False, True])
def test_a_figure_is_drawn_once_and_looks_as_matplotlib_lays_it_out(
    fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(save: Callable[[Figure, BytesIO], None]) -> tuple[int, bytes]:
        figure, buffer, count = crowded(fixed=fixed), BytesIO(), 0
        draw = Axes.draw

        def counting(axes: Axes, *arguments: Any, **options: Any) -> None:
            nonlocal count
            count += axes is figure.axes[0]
            draw(axes, *arguments, **options)

        engine = figure.get_layout_engine()
        with monkeypatch.context() as patched:
            patched.setattr(Axes, "draw", counting)
            save(figure, buffer)
        assert figure.get_layout_engine() is engine
        return count, buffer.getvalue()

    @styled
    def plainly(figure: Figure, buffer: BytesIO) -> None:
        title, caption = figure.description  # type: ignore[attr-defined]
        metadata = {"Title": title, "Description": caption}
        figure.savefig(buffer, format="png", dpi=150, metadata=metadata)

    (twice, expected), (once, content) = written(plainly), written(save_figure)
    assert (twice, once) == (2, 1)
    assert content == expected


def test_no_line_of_a_caption_ends_between_a_number_and_its_unit() -> None:
    for length in range(50, 75):
        caption = f"{'x' * length} 95 % of 50 records"
        figure = new_figure(5.0, 1.0, title="T", subtitle="S", caption=caption, gate_status="pass")
        lines = [text.get_text() for text in figure.texts[2:]]
        assert " ".join(lines) == caption
        assert not any(line.endswith(("95", "50")) for line in lines)


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (0.6, 1.9, 8, [0.7, 1.0, 1.5]),
        (0.4, 30.0, 8, [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]),
        (0.05, 30.0, 5, [0.1, 1.0, 10.0]),
        (0.2, 11.0, 5, [0.3, 1.0, 3.0, 10.0]),
        (1.0, 1.3, 8, [1.04, 1.12, 1.2, 1.28]),
        (1e-6, 1e6, 5, [1e-6, 1e-3, 1.0, 1e3, 1e6]),
    ],
)
def test_a_log_axis_has_several_round_labels_of_any_range(
    low: float, high: float, most: int, ticks: list[float]
) -> None:
    axes = drawn().axes[0]
    axes.set(xscale="log", xlim=(low, high))
    plain_log_axis(axes.xaxis, most=most)
    np.testing.assert_allclose(axes.get_xticks(), ticks)
    assert axes.get_xlim() == (low, high)
