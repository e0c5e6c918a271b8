"""Several benchmarks as one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeseval.design import build_design
from bayeseval.errors import DesignError, InputError
from bayeseval.records import load
from bayeseval.spec import load_spec


def write(path: Path, text: str) -> Path:
    path.write_text("model,language,task,score,scale_min,scale_max\n" + text, encoding="utf-8")
    return path


def test_languages_in_other_codes_become_one_label(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a.csv",
        "m,sw,xnli,60,0,100\nn,sw,xnli,50,0,100\nm,zh,xnli,70,0,100\nn,en,xnli,80,0,100\n",
    )
    second = write(tmp_path / "b.csv", "m,swh_Latn,belebele,0.6,0,1\nk,arz_Arab,belebele,0.5,0,1\n")
    records = load([first, second])
    assert records.name == "a+b"
    table = records.table
    assert set(zip(table["model"], table["language"], table["task"], strict=True)) == {
        ("m", "sw", "xnli"),
        ("n", "sw", "xnli"),
        ("m", "zh", "xnli"),
        ("n", "en", "xnli"),
        ("m", "sw", "belebele"),
        ("k", "arz_Arab", "belebele"),
    }
    assert records.units["xnli"].upper == 100.0
    assert records.units["belebele"].upper == 1.0
    said = "\n".join(records.report.notes)
    for phrase in (
        "one language under several codes: swh_Latn as sw",
        "1 model in all of them: m",
        "1 language in all of them: sw",
    ):
        assert phrase in said
    assert records.report.n_rows_read == 6


def test_the_order_of_the_benchmarks_does_not_matter(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "m,sw,xnli,60,0,100\nn,zh,xnli,50,0,100\n")
    second = write(
        tmp_path / "b.csv", "m,swh,tydi,60,0,100\nn,eng,tydi,50,0,100\nn,fra,tydi,5,0,100\n"
    )
    there, back = load([first, second]), load([second, first])
    assert there.content_hash == back.content_hash
    # b has more languages and keeps its codes.
    assert there.coords["language"] == ("eng", "fra", "swh", "zh")


def test_two_scores_of_a_cell_and_other_bounds_of_a_task_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "m,sw,xnli,60,0,100\nn,en,xnli,50,0,100\n")
    again = write(tmp_path / "b.csv", "m,swh,xnli,61,0,100\nn,fr,xnli,50,0,100\n")
    with pytest.raises(InputError, match="duplicate of a, row .*: model 'm', language 'sw'"):
        load([first, again])
    other = write(tmp_path / "c.csv", "m,de,xnli,0.6,0,1\nn,fr,xnli,0.5,0,1\n")
    with pytest.raises(InputError, match="scale_max 1 differs from 100"):
        load([first, other])
    with pytest.raises(InputError, match="two benchmarks are named 'a'"):
        load([first, first])
    with pytest.raises(InputError, match="no benchmark was named"):
        load([])


def test_the_default_likelihood_of_a_benchmark_is_for_its_own_tasks(tmp_path: Path) -> None:
    for name, kind in (("a", "beta"), ("b", "student_t")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "t.csv", f"m,sw,{name}1,60,0,100\nn,en,{name}2,50,0,100\n")
        (tmp_path / name / "benchmark.yaml").write_text(
            f"name: {name}\ntitle: {name}\nlikelihoods: {{default: {kind}, {name}2: normal}}\n"
        )
    write(tmp_path / "c.csv", "m,sw,c1,60,0,100\nn,en,c2,50,0,100\n")
    records = load([tmp_path / "a", tmp_path / "b", tmp_path / "c.csv"])
    assert records.likelihoods == {"a1": "beta", "a2": "normal", "b1": "student_t", "b2": "normal"}


def test_of_two_files_of_one_covariate_neither_is_taken(tmp_path: Path) -> None:
    """The last one won; the same content under another path is no other file."""
    for name, values in (("a", "0.5"), ("b", "0.5"), ("c", "0.7")):
        (tmp_path / name).mkdir()
        cells = [f"{m},{code}" for m in "mn" for code in ("sw", "en")]
        rows = [f"{cell},{name},{50 + 7 * i},0,100\n" for i, cell in enumerate(cells)]
        write(tmp_path / name / "t.csv", "".join(rows))
        (tmp_path / name / "mexa.txt").write_text(f"language,mexa\nsw,{values}\n")
        (tmp_path / name / "benchmark.yaml").write_text(
            f"name: {name}\ntitle: {name}\nfiles: [t.csv]\ncovariates: {{mexa: mexa.txt}}\n"
        )
    same = load([tmp_path / "a", tmp_path / "b"])
    assert same.covariate_files == {"mexa": tmp_path / "a" / "mexa.txt"}
    assert "covariate" not in "".join(same.report.notes)
    other = load([tmp_path / "a", tmp_path / "c"])
    assert other.covariate_files == {}
    (note,) = (note for note in other.report.notes if "covariate" in note)
    assert note.startswith("warning: covariate mexa left out")
    assert f"a: {tmp_path / 'a' / 'mexa.txt'}, c: {tmp_path / 'c' / 'mexa.txt'}" in note
    with pytest.raises(DesignError, match="has the covariate 'mexa', .*covariate='mexa'"):
        build_design(other, load_spec("mexa"))


def test_a_list_of_one_is_that_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "m,sw,xnli,60,0,100\nn,en,xnli,50,0,100\n")
    assert load([path]).content_hash == load(path).content_hash
    assert load([path], name="mine").name == "mine"
