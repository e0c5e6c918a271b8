"""What tests of the report share: odd tables, their fits, and a reader of pages."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayeseval as be

SCRIPT = "<script>alert(1)</script>"
ARABIC = "نموذج عربي كبير"
TURNED = "\u202eevil"
LONG = "a-very-long-name-" * 18
MODELS = [SCRIPT, ARABIC, 'a&b "quoted"', TURNED, LONG]
LANGUAGES = ["en", "ar", "hi", "sw", "<b>xx</b>"]
TASKS = ["qa", "<i>nli</i>", "sum"]


def odd_table(seed: int = 1) -> pd.DataFrame:
    """Scores of 0 to 1 of models and languages whose names are not plain text."""
    rng = np.random.default_rng(seed)
    rows = [
        (model, language, task, 0.7 - 0.05 * i - 0.04 * j + 0.05 * k + 0.03 * rng.normal())
        for i, model in enumerate(MODELS)
        for j, language in enumerate(LANGUAGES)
        for k, task in enumerate(TASKS)
        if rng.random() < 0.9
    ]
    return pd.DataFrame(rows, columns=["model", "language", "task", "score"])


def save(table: pd.DataFrame, folder: Path, model: str = "crossed", **options: Any) -> Path:
    """Fit with few draws and save with checks, without figures."""
    if options.get("engine") != "ml":
        options = {"engine": "marginal", "draws": 100, "chains": 2, "seed": 1} | options
    fit = be.fit(table, model, **options)
    return fit.save(folder, figures=False, checks=fit.checks)


@dataclass
class Element:
    """One element of a page: tag, attributes, and all text inside it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        """Elements of this tag inside, in the order of the page."""
        found = []
        for child in self.children:
            found += [child] if child.tag == tag else []
            found += child.all(tag)
        return found

    def of(self, id: str) -> Element:
        """The element of this id."""
        found = [one for one in self.everything() if one.attributes.get("id") == id]
        assert len(found) == 1, f"{len(found)} elements of id {id}"
        return found[0]

    def everything(self) -> list[Element]:
        found = []
        for child in self.children:
            found += [child, *child.everything()]
        return found

    def column(self, name: str) -> list[str]:
        """Cells of one column of the table inside."""
        (table,) = self.all("table")
        head, *rows = table.all("tr")
        names = [cell.attributes.get("name") or cell.children[0].text for cell in head.children]
        place = names.index(name)
        return [row.children[place].text for row in rows]


_VOID = {"meta", "link", "br", "input", "path", "circle"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("page", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data.replace("\u00a0", " ")


def read_page(html: str) -> Element:
    """Elements of a page; fails where one is not closed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def unpacked(text: str) -> Any:
    """What the page's script unpacks."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
