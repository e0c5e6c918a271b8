"""Parallel texts: what is read, and what is refused by file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bayeseval.errors import InputError
from bayeseval.mexa.parallel import read_parallel, text_hash


def write(folder: Path, texts: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return folder


GOOD = {"eng_Latn.txt": "one\ntwo\nthree\n", "swh_Latn.devtest": "moja\nmbili\ntatu\n"}


def test_first_lines_of_every_language(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            **GOOD,
            "deu_Latn.txt": "\ufeffeins\r\n zwei \r\ndrei".encode(),
            "README.md": "about",
            ".hidden": "x",
        },
    )
    (folder / "fra_Latn").mkdir()
    found = read_parallel(folder, sentences=2)
    assert dict(found.texts) == {
        "deu_Latn": ("eins", "zwei"),
        "eng_Latn": ("one", "two"),
        "swh_Latn": ("moja", "mbili"),
    }
    assert (found.pivot, found.n) == ("eng_Latn", 2)
    assert found.notes == ("left out, because not named after a language: README.md",)
    whole = read_parallel(folder, sentences=None)
    assert (whole.n, whole.texts["deu_Latn"][2]) == (3, "drei")
    fewer = read_parallel(folder, sentences=100, pivot="swh_Latn")
    assert fewer.n == 3
    assert "every file has 3 lines, fewer than the 100 asked for" in fewer.notes
    assert text_hash(found.texts["deu_Latn"]) != text_hash(found.texts["eng_Latn"])


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (
            {"deu_Latn.txt": "eins\nzwei\n"},
            r"deu_Latn.txt: it ends after line 2, but eng_Latn.txt has 3; line i must be the same",
        ),
        (
            {"deu_Latn.txt": "1\n2\n3\n4\n"},
            r"eng_Latn.txt: it ends after line 3, but deu_Latn.txt has 4; line i",
        ),
        ({"deu_Latn.txt": "eins\n\ndrei\n"}, r"deu_Latn.txt, line 2: blank; a sentence that is"),
        ({"deu_Latn.txt": "1\n\n \n"}, r"deu_Latn.txt, line 2: blank \(1 more in these files\)"),
        ({"deu_Latn.txt": "eins\nzw\xf6lf\n3\n".encode("latin-1")}, r"line 2: byte 3 is not UTF-8"),
        ({"deu_Latn.txt": "eins\n".encode("utf-16")}, r"line 1: the text is UTF-16"),
        (
            {"deu_Latn.txt": "1\n2\n" + "x" * 100_001},
            r"deu_Latn.txt, line 3: longer than 100,000 b",
        ),
        ({"eng_Latn.dev": "one\n"}, r"eng_Latn.dev and eng_Latn.txt are both of 'eng_Latn'"),
    ],
)
def test_what_is_refused(tmp_path: Path, texts: dict[str, str | bytes], line: str) -> None:
    with pytest.raises(InputError, match=line):
        read_parallel(write(tmp_path, {**GOOD, **texts}))


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    longest = {"swh_Latn.devtest": "moja\n" + "x" * 99_999 + "\n", "eng_Latn.txt": "a\nb\n"}
    assert len(read_parallel(write(tmp_path, longest)).texts["swh_Latn"][1]) == 99_999
    with (tmp_path / "swh_Latn.devtest").open("r+b") as file:
        # Sparse: it takes no room on the disk, but would in memory.
        file.truncate(1 << 30)
    assert read_parallel(tmp_path, sentences=2).n == 2
    with pytest.raises(InputError, match=r"devtest, line 3: longer than 100,000 bytes, the most"):
        read_parallel(tmp_path)
    with (tmp_path / "swh_Latn.devtest").open("r+b") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match=r"swh_Latn.devtest: larger than 1.1 GB, the most that is"):
        read_parallel(tmp_path, sentences=2)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder of parallel texts"):
        read_parallel(tmp_path / "nothing")
    folder = write(tmp_path / "a", {"eng_latn.txt": "a\nb\n", "swh_Latn.txt": "a\nb\n"})
    with pytest.raises(InputError, match=r"no file of the pivot 'eng_Latn'; did you mean 'eng_lat"):
        read_parallel(folder)
    outer = write(tmp_path / "b", {"x": "", "swh_Latn.txt": "a\n"})
    (outer / "devtest").mkdir()
    with pytest.raises(InputError, match=r"\(available: swh_Latn; folders inside: devtest\)"):
        read_parallel(outer)
    # Names of tables may be codes of languages, too.
    tables = write(tmp_path / "t", {"neg.csv": "model,language,score\n", "two.csv": "model\n"})
    with pytest.raises(
        InputError, match="'eng_Latn', but tables; .* one text file per lang"
    ) as told:
        read_parallel(tables)
    assert "eng_Latn.txt" in str(told.value)
    assert "available" not in str(told.value)
    alone = write(tmp_path / "c", {"eng_Latn.txt": "a\nb\n"})
    with pytest.raises(InputError, match="no language besides the pivot"):
        read_parallel(alone)
    with pytest.raises(InputError, match="at least 2 sentences are compared; got 1"):
        read_parallel(alone, sentences=1)
    single = write(tmp_path / "d", {"eng_Latn.txt": "a\n", "deu_Latn.txt": "b\n"})
    with pytest.raises(InputError, match="at least 2 sentences are compared; it has 1"):
        read_parallel(single)


def test_blank_lines_may_be_kept(tmp_path: Path) -> None:
    folder = write(tmp_path, {**GOOD, "deu_Latn.txt": "eins\n\ndrei\n"})
    assert read_parallel(folder, keep_blank=True).texts["deu_Latn"] == ("eins", "", "drei")


def test_duplicates_and_copies_are_told(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {**GOOD, "deu_Latn.txt": "eins\neins\neins\n", "fra_Latn.txt": "one\ntwo\ntrois\n"},
    )
    assert read_parallel(folder).notes[-2:] == (
        "deu_Latn.txt: line 2 is the same sentence as line 1 and 1 more; sentences that tie "
        "cannot score",
        "fra_Latn.txt: 2 of 3 lines are the pivot's own",
    )
