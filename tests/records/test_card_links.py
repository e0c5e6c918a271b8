"""Files of a card's folder that are symbolic links: refused where they lead out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.records import load

TABLE = "model,language,task,score\na,en,x,1\nb,sw,x,2\n"


def folder_with(tmp_path: Path, keys: str) -> Path:
    """A card, its table, and a file outside that `data.csv` is a link to."""
    (tmp_path / "secret.csv").write_text(TABLE)
    folder = tmp_path / "card"
    folder.mkdir()
    (folder / "own.csv").write_text(TABLE)
    (folder / "benchmark.yaml").write_text(f"name: n\ntitle: t\n{keys}\n")
    return folder


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ("files: [data.csv]", "files"),
        ("files: [own.csv]\ncovariates: {size: data.csv}", "covariates: size"),
        ("files: [own.csv]\ntask_names: data.csv", "task_names"),
        # Tables that the card does not name are read, too.
        ("", None),
    ],
)
@pytest.mark.parametrize("target", ["../secret.csv", "/etc/passwd", "below/secret.csv"])
def test_links_out_of_the_folder_of_a_card_are_refused(
    tmp_path: Path, keys: str, key: str | None, target: str
) -> None:
    folder = folder_with(tmp_path, keys)
    # A folder in between may be the link as well.
    (folder / "below").symlink_to("..")
    (folder / "data.csv").symlink_to(target)
    where = (
        folder / "data.csv" if key is None else f"{folder / 'benchmark.yaml'}: {key}: 'data.csv'"
    )
    with pytest.raises(InputError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{where} is a link that leads out of the folder of the card; put the file itself there"
    )


def test_links_inside_the_folder_and_a_link_to_the_folder_are_followed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "files: [data.csv]")
    (folder / "data.csv").symlink_to("own.csv")
    (tmp_path / "link").symlink_to(folder)
    assert load(tmp_path / "link").coords["language"] == load(folder).coords["language"]


def test_a_folder_without_a_card_may_hold_links(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "")
    (folder / "benchmark.yaml").unlink()
    (folder / "own.csv").unlink()
    (folder / "data.csv").symlink_to("../secret.csv")
    assert [str(name) for name in load(folder).coords["model"]] == ["a", "b"]
