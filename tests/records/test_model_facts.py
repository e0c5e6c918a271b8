"""Tables of models: what their columns become, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.mexa import load_covariate
from bayeseval.records import Covariate, Records, fact_names, facts_table, match_models

RECORDS = Records.from_frame(
    pd.DataFrame(
        [(m, lang, "t", 1.0) for m in ("a", "b", "c") for lang in ("en", "zho_Hant", "swh", "l0")],
        columns=["model", "language", "task", "score"],
    ),
    name="mine",
)


def read(tmp_path: Path, name: str, *cells: str, models: str = "abcd") -> Covariate:
    """One column of a table of the models a, b, c and d, which has no records."""
    path = tmp_path / "models.csv"
    lines = [f"{model},{cell}" for model, cell in zip(models, cells, strict=False)]
    path.write_text("\n".join([f"model,{name}", *lines]) + "\n")
    return load_covariate(path, RECORDS, name=name)


def test_parameters_become_their_log(tmp_path: Path) -> None:
    found = read(tmp_path, "parameters", "7B", "560M", "", "1.5e12")
    assert (found.by, found.models, found.labels) == ("model", tuple("abcd"), ())
    np.testing.assert_allclose(
        found.values, [np.log2(7e9), np.log2(560e6), np.nan, np.log2(1.5e12)], rtol=1e-15
    )
    values, se = found.at(["en", "fr"], ["d", "x", "b"])
    np.testing.assert_array_equal(values, [found.values[3], np.nan, found.values[1]])
    np.testing.assert_array_equal(se, [0.0, np.nan, 0.0])
    assert found.missing(["en"]) == ()
    assert "log2 of the number of parameters" in found.notes[0]
    assert repr(found) == "<Covariate 'parameters' by model: 4 models, 3 matched>"


def test_dates_become_years(tmp_path: Path) -> None:
    found = read(tmp_path, "released", "2023", "2024-02", "2023-01-01", "2024-12-31")
    # Middles: of 365 days, of the 29 days that follow 31 of 366, of the first and the last day.
    expected = [2023.5, 2024 + (31 + 14.5) / 366, 2023 + 0.5 / 365, 2024 + 365.5 / 366]
    np.testing.assert_allclose(found.values, expected, rtol=1e-15)
    assert dt.date(2024, 12, 31).timetuple().tm_yday == 366


@pytest.mark.parametrize("cell", ["1", "0001", "1939", "2101", "9999", "9999-12-31"])
def test_years_without_language_models_are_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(InputError, match=f"'{cell}' is not a date from 1940 to 2100; write it as"):
        read(tmp_path, "released", "2023", cell)
    assert read(tmp_path, "released", "1940", "2100-12-31").values[0] == 1940.5


def test_case_does_not_tell_families_apart(tmp_path: Path) -> None:
    found = read(tmp_path, "family", "Qwen", "llama", "qwen", "")
    assert found.categories == ("Qwen", "llama")
    np.testing.assert_array_equal(found.values, [0, 1, 0, np.nan])


def test_other_columns_are_numbers_as_they_are(tmp_path: Path) -> None:
    found = read(tmp_path, "layers", "12", "-0.5", "1e3", "")
    np.testing.assert_array_equal(found.values, [12, -0.5, 1000, np.nan])
    assert found.notes == ()


def test_lists_of_languages_cover_every_language_of_the_table(tmp_path: Path) -> None:
    found = read(tmp_path, "trained_on", "en; zh", ["English_is_l0", "l0"][1], "", "sw cym")
    assert (found.by, found.models) == ("model:language", tuple("abcd"))
    # Chinese without a script covers Hant; Swahili is swh; a label that is no language is itself.
    values, _ = found.at(["en", "zho_Hant", "swh", "l0", "cym", "fr"], ["a", "b", "c", "d", "x"])
    none = [np.nan] * 6
    np.testing.assert_array_equal(
        values, [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], none, [0, 0, 1, 0, 1, 0], none]
    )
    assert found.labels == ("en", "l0", "swh", "zho_Hant", "cym")
    assert "no known language, so listed by the same label only: l0" in found.notes[1]
    # "en," by itself would be the language En.
    commas = read(tmp_path, "trained_on", '"en, zh"', '"en,l0"', "l0")
    assert commas.labels == ("en", "l0", "swh", "zho_Hant")
    np.testing.assert_array_equal(
        commas.at(["en", "zho_Hant", "l0"], ["a", "b", "c"])[0],
        [[1, 1, 0], [1, 0, 1], [0, 0, 1]],
    )
    hans = read(tmp_path, "trained_on", "zho_Hans", "zh", "", "")
    assert hans.at(["zho_Hant"], ["a", "b"])[0].ravel().tolist() == [0, 1]
    assert (
        hans.content_hash
        != Covariate("trained_on", hans.by, hans.labels, hans.models, hans.values).content_hash
    )


@pytest.mark.parametrize(
    ("name", "cells", "line"),
    [
        ("parameters", ["7", "1B"], r"line 2, column 'parameters': '7' is not a number of param"),
        ("parameters", ["1B", "8x7B"], r"line 3.*'8x7B' is not a number.*write it as 7B, 560M"),
        ("parameters", ["-7B"], "'-7B' is not a number of parameters"),
        (
            "released",
            ["2023-13"],
            r"'2023-13' is not a date from 1940 to 2100; write it as 2024-03-15, 2024-03",
        ),
        ("released", ["2024-00"], "'2024-00' is not a date"),
        ("released", ["2024-05-00"], "'2024-05-00' is not a date"),
        ("released", ["", "May 2023"], r"line 3.*'May 2023' is not a date"),
        ("trained_on", ["en Englisch"], r"'Englisch' is not a .* 'English'\? \(codes of [^()]*\)$"),
        ("trained_on", ["en zho_Hent"], r"line 2, column 'trained_on': 'zho_Hent' is .*'zho_H"),
        ("layers", ["12", "many"], r"column 'layers': layers 'many' is .*or remove the column$"),
        ("layers", ["12", "1e308"], r"values must be numbers from -1e\+12 to 1e\+12"),
        ("family", ["x", "NA"], r"line 3, column 'family': family 'NA' is not a name; leave the"),
        ("family", ["x\x1b[31m"], r"line 2, column 'family': family .* control character"),
        ("parameters", ["", ""], "no model has a value"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, cells: list[str], line: str) -> None:
    with pytest.raises(InputError, match=line):
        read(tmp_path, name, *cells)


def test_a_model_is_there_once_and_a_column_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 4, column 'model': 'a' is there twice \(also line"):
        read(tmp_path, "parameters", "7B", "8B", "9B", models="aba")
    with pytest.raises(InputError, match=r"'x/a' and 'y/A' could both be the model 'a'"):
        match_models(["a"], ["x/a", "y/A"], "f.csv")
    assert match_models(["a", "b"], ["x/A", "B", "a"], "f.csv") == {"a": 2, "b": 1}
    path = tmp_path / "models.csv"
    path.write_text("model,parameters,family,released\na,7B,x,2023\n")
    table = facts_table(path)
    assert table is not None
    assert fact_names(table) == ("parameters", "released")
    with pytest.raises(InputError, match=r"no column 'params'; did you mean 'parameters'\?"):
        load_covariate(path, RECORDS, name="params")


def test_a_column_of_text_has_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "models.csv"
    path.write_text("model,licence,parameters,family,layers\na,mit,7B,x,3\nb,bsd,8B,y,4\n")
    with pytest.raises(InputError) as caught:
        load_covariate(path, RECORDS, name="licence")
    assert str(caught.value) == (
        f"{path}, line 2, column 'licence': licence 'mit' is not a number; 2 such cells in the"
        " file; correct the cell or remove the column, or name the covariates in a spec:"
        " covariates: [parameters]"
    )


def test_tables_of_languages_are_none_of_models(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for text in ("model,lang,alignment\na,en,0.5\n", "language,a,b\nen,1,2\n"):
        path.write_text(text)
        assert facts_table(path) is None
    assert facts_table(tmp_path) is None
    assert facts_table(tmp_path / "nowhere.csv") is None
