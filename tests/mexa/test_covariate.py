"""Alignment from every kind of table to the languages of a benchmark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.errors import InputError, addressing_command_line
from bayeseval.mexa.covariate import load_covariate
from bayeseval.mexa.tables import read_alignment
from bayeseval.records import Covariate, Records, load

TABLE_6 = Path(__file__).resolve().parents[1] / "reference" / "mexa_table6.csv"


@pytest.fixture(scope="module")
def mega() -> Records:
    return load("mega")


@pytest.fixture(scope="module")
def small() -> Records:
    rows = [
        {"model": model, "language": language, "task": "qa", "score": 50.0 + i}
        for model in ("a", "b")
        for i, language in enumerate(("en", "sw", "zh"))
    ]
    return Records.from_frame(
        pd.DataFrame(rows), name="small", units=(0, 100), language_names={"zh": "Chinese"}
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_table_is_table_6_of_the_paper(mega: Records) -> None:
    shipped = load_covariate("mexa", mega)
    published = pd.read_csv(TABLE_6, index_col="language").drop(columns="avg")
    raw = (published / published.loc["eng_Latn"]).mean(axis=1)
    assert (shipped.by, len(shipped.labels), len(shipped.matched)) == ("language", 203, 53)
    source = {label: shipped.matched.get(label, label) for label in shipped.labels}
    # Four decimals are kept.
    np.testing.assert_allclose(shipped.values, raw[list(source.values())], atol=6e-5)
    values, _ = shipped.at(["en", "wo"])
    np.testing.assert_allclose(values, [1.0, raw["wol_Latn"]], atol=6e-5)
    assert any("gemma_2_9b" in note for note in shipped.notes)
    assert any("'qu' was matched to 'quy_Latn'" in note for note in shipped.notes)
    # The published figures themselves, divided on the way in, are the same covariate.
    again = load_covariate(TABLE_6, mega, pivot="en")
    np.testing.assert_allclose(again.values, shipped.values, atol=6e-5)
    assert "the column 'avg' was left aside as an average" in again.notes


def test_alignment_goes_with_published_potential(mega: Records) -> None:
    """The correlation with table 2 of the case study, and what shuffled labels would give."""
    path = TABLE_6.with_name("mega_table2.csv")
    potential = pd.read_csv(path, index_col="language")["potential"]
    values, _ = load_covariate("mexa", mega).at(list(potential.index))
    assert np.corrcoef(values, potential)[0, 1].round(2) == 0.79
    assert abs(np.corrcoef(np.roll(values, 7), potential)[0, 1]) < 0.4


def test_adjusted_alignment_is_noticed(mega: Records) -> None:
    notes = load_covariate(TABLE_6, mega).notes
    assert any("'eng_Latn' is not 1" in note for note in notes)
    found = re.search(r"; pivot='(\w+)' divides by that row$", "\n".join(notes), re.MULTILINE)
    assert found is not None, notes
    divided = load_covariate(TABLE_6, mega, pivot=found[1])
    assert not any("is not 1" in note for note in divided.notes)
    with addressing_command_line():
        command = load_covariate(TABLE_6, mega).notes
    assert any(note.endswith("; divide them by that row") for note in command)
    assert not any("pivot" in note for note in command)
    assert not any("is not 1" in note for note in load_covariate("mexa", mega).notes)


def test_tidy_tables_pool_layers_and_count_sentences(tmp_path: Path, small: Records) -> None:
    path = write(
        tmp_path / "out" / "alignment.csv",
        "model,language,embedding,layer,alignment,n\n"
        + "".join(
            f"org/{model},{language},{kind},{layer},{base + 0.1 * layer},100\n"
            for model in ("a", "b")
            for language, base in (("eng_Latn", 0.8), ("swh_Latn", 0.2), ("fra_Latn", 0.5))
            for kind in ("weighted", "last")
            for layer in (0, 1, 2)
        ),
    )
    with pytest.raises(InputError) as caught:
        load_covariate(path, small)
    advice = re.search(r"\(weighted, last\); choose one with embedding='(\w+)'$", str(caught.value))
    assert advice is not None, caught.value
    assert load_covariate(path, small, embedding=advice[1]).models == ("a", "b")
    # The command line has no such argument.
    with (
        addressing_command_line(),
        pytest.raises(InputError, match=r"\(weighted, last\); keep the rows of one of them$"),
    ):
        load_covariate(path, small)
    # A folder that the command wrote; the same models as in the records.
    found = load_covariate(path.parent, small, embedding="last")
    assert (found.by, found.models) == ("model:language", ("a", "b"))
    assert found.labels == ("en", "sw", "fra_Latn")
    np.testing.assert_allclose(found.values, [[0.9, 0.3, 0.6]] * 2)
    q = (100 * np.array([0.9, 0.3, 0.6]) + 0.5) / 101
    assert found.se is not None
    np.testing.assert_allclose(found.se, [np.sqrt(q * (1 - q) / 100)] * 2)
    assert found.missing(small.coords["language"]) == ("zh",)
    assert "'zh' was not matched: there is no Chinese in the other table" in found.notes
    highest = load_covariate(path, small, embedding="last", pooling="max", by="language")
    np.testing.assert_allclose(highest.values, [1.0, 0.4, 0.7])
    assert "layers were pooled by their maximum" in highest.notes


def test_two_models_of_one_name_are_refused(tmp_path: Path, small: Records) -> None:
    def table(*models: str) -> Path:
        rows = [f"eng_Latn,{','.join('1' * len(models))}"]
        rows += [f"swh_Latn,{','.join(f'0.{i}' for i in range(1, len(models) + 1))}"]
        return write(tmp_path / "wide.csv", "\n".join([",".join(["language", *models]), *rows]))

    with pytest.raises(InputError, match=r"'org1/A' and 'org2/a' could both be the model 'a'"):
        load_covariate(table("org1/A", "org2/a", "b"), small)
    # The very name wins; and an average needs no choice.
    exact = load_covariate(table("org1/a", "a", "org/b"), small)
    np.testing.assert_allclose(exact.at(["sw"], ["a", "b"])[0], [[0.2], [0.3]])
    mean = load_covariate(table("org1/a", "org2/a", "b"), small, by="language")
    assert mean.at(["sw"])[0] == pytest.approx([0.2])


def test_a_folder_of_the_reference_tool(tmp_path: Path, small: Records) -> None:
    # compute_mexa.py of github.com/cisnlp/MEXA dumps {layer: score}, one file per language.
    for label, layers in {
        "eng_Latn": [1, 1, 1],
        "swh_Latn": [0, 0.5, 0.25],
        "all_of_them": [0, 0, 0],
    }.items():
        write(tmp_path / f"{label}.json", json.dumps(dict(enumerate(layers))))
    found = load_covariate(tmp_path, small, sentences=50)
    assert (found.labels, found.by) == (("en", "sw"), "language")
    np.testing.assert_allclose(found.values, [1.0, 0.25])
    assert any("the row 'all_of_them' was left out" in note for note in found.notes)
    write(tmp_path / "zho_Hans.json", '{"0": 0.5}')
    with pytest.raises(InputError, match=r"zho_Hans.json: it has 1 layers and all_of_them.json 3"):
        load_covariate(tmp_path, small)
    write(tmp_path / "zho_Hans.json", '{"model": 0.5}')
    with pytest.raises(InputError, match=r"zho_Hans.json: expected an object of layers"):
        load_covariate(tmp_path, small)


def test_any_number_by_language(tmp_path: Path, small: Records) -> None:
    path = write(tmp_path / "speakers.csv", "name,millions\nEnglish,1500\nSwahili,\nChinese,1100\n")
    found = load_covariate(path, small, name="speakers")
    np.testing.assert_array_equal(found.at(["en", "sw", "zh"])[0], [1500, np.nan, 1100])
    assert (found.se, found.name, found.notes) == (None, "speakers", ())
    with pytest.raises(InputError, match="1500 is no share of sentences"):
        load_covariate(path, small, sentences=100)


def test_average_rows_and_aliases(tmp_path: Path, small: Records) -> None:
    path = write(tmp_path / "x.csv", "language,m1,m2\nen,1,1\nswa,0.2,\nyue,0.3,0.5\nAverage,1,1\n")
    found = load_covariate(path, small, aliases={"zh": "yue"})
    np.testing.assert_array_equal(found.at(["en", "sw", "zh"])[0], [1.0, np.nan, 0.4])
    assert "the row 'Average' was left out: it is not a known language" in found.notes
    assert "'zh' was matched to 'yue': as requested" in found.notes
    assert "1 language lacks values of some models and counts as missing" in found.notes
    one = load_covariate(path, small, column="m1", aliases={"zh": "yue"})
    np.testing.assert_array_equal(one.at(["sw", "zh"])[0], [0.2, 0.3])
    assert isinstance(one, Covariate)
    with pytest.raises(InputError, match="'zho' is no language of small; did you mean"):
        load_covariate(path, small, aliases={"zho": "yue"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("language,x\nen,1\nen,2\n", r"line 3: 'en' is there twice \(also line 2\)"),
        ("language,x,n\nen,1,9\nfr,0.5,-9\n", "line 3, column 'n': -9 is no number of sentences"),
        ("language,x\nen,some\nfr,one\n", "no column of numbers beside 'language'"),
        ("language,x\nen,1\nfr,one\n", "line 3, column 'x': the value 'one' is not a number"),
        ("language,x,y\nen,1,2\nfr,3,n/a\n", "line 3, column 'y': the value 'n/a' is not a num"),
        ("x,y\n1,2\n", "no column of languages; name it 'language'"),
        ("model,language,p,q\nm,en,1,2\n", "which column holds the values"),
        ("model,language,alignment\nm,en,1\nm,en,1\n", "line 3: 'en' is there twice"),
        ("language,layer,alignment\nen,0,1\nen,1,1\nfr,0,1\n", "'fr' has 1 layers and 'en' 2"),
        ("language,alignment\nfr,1\nde,1\n", "none of its languages is one of small"),
    ],
)
def test_broken_tables(tmp_path: Path, small: Records, text: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        load_covariate(write(tmp_path / "t.csv", text), small)


def test_what_is_not_there(tmp_path: Path, mega: Records, small: Records) -> None:
    with pytest.raises(InputError, match="mexaa: no such file.*did you mean 'mexa'"):
        load_covariate("mexaa", mega)
    with pytest.raises(InputError, match="neither alignment.csv nor files LANGUAGE.json"):
        load_covariate(tmp_path, mega)
    with pytest.raises(InputError, match="no column 'gemma_2'; did you mean 'gemma_2_9b'"):
        load_covariate("mexa", mega, column="gemma_2")
    with pytest.raises(InputError, match="none of its models is in the records"):
        load_covariate("mexa", mega, by="model:language")
    with pytest.raises(InputError, match="there is no pivot 'zul'"):
        load_covariate(write(tmp_path / "t.csv", "language,a,b\nen,1,1\n"), small, pivot="zul")
    with pytest.raises(InputError, match="no such file or folder"):
        read_alignment(tmp_path / "nothing.csv")
