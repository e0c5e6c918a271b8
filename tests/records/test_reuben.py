"""Tables and configurations of reuben, and columns named after the score."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeseval.errors import InputError
from bayeseval.records import load, reduce_replicates

SUMMARY = pd.DataFrame(
    {
        "Model": ["a", "a", "b", "b"],
        "Language": ["en", "sw", "en", "sw"],
        "F1": [80.0, 60.0, 50.0, 41.0],
        "SD_seed": [0.5, 0.4, 0.3, 0.2],
        "SD_boot_avg": [1.1, 1.2, 1.3, 1.4],
        "SD_boot_to_seed_ratio": [2.2, 3.0, 4.3, 7.0],
        "SD_boot_stderr": [0.01, 0.02, 0.03, 0.04],
    }
)
WIDE = pd.DataFrame(
    {
        "model": ["a", "a", "b", "b"],
        "src": ["en", "de", "en", "de"],
        "tgt": ["de", "en", "de", "en"],
        "lang_pair": ["en-de", "de-en"] * 2,
        "n_seeds": 5,
        "bleu_mean": [25.0, 31.0, 12.0, 18.0],
        "bleu_seed_sd": [0.4, 0.3, 0.2, 0.1],
        "bleu_boot_sd": [0.5, 0.6, 0.7, 0.8],
        "comet_mean": [82.0, 85.0, 65.0, 79.0],
        "comet_seed_sd": [0.9, 0.8, 0.7, 0.6],
        "comet_boot_sd": [0.1, 0.2, 0.3, 0.4],
    }
)
INDICES = pd.DataFrame(
    [
        {"PLM": m, "Dataset": d, "Result": 50.0 + s + 0.1 * b, "Seed": 42 + s, "Bootstrap": b}
        for m in ("a", "b")
        for d in ("x", "y")
        for s in range(2)
        for b in range(3)
    ]
)
CONFIG = (
    "fix_outliers: true\nrounding: 2\nscore_col: Result\nmodel_col: PLM\ntask_col: Dataset\n"
    "seed_idx_col: Seed\nboot_idx_col: Bootstrap\nnum_bootstrap_resamples: 10000\n"
)


def _jsonl(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_json(path, orient="records", lines=True)
    return path


def test_summarised_tables_are_read_as_they_are(tmp_path: Path) -> None:
    records = load(_jsonl(tmp_path / "data.jsonl", SUMMARY))
    assert records.report.mapping == {
        "model": "Model",
        "language": "Language",
        "score": "F1",
        "seed_sd": "SD_seed",
        "boot_sd": "SD_boot_avg",
    }
    assert records.report.ignored_columns == ("SD_boot_to_seed_ratio", "SD_boot_stderr")
    table = reduce_replicates(records)
    assert table.seed.mean_square.tolist() == pytest.approx([0.25, 0.16, 0.09, 0.04])
    assert table.boot.mean_square.tolist() == pytest.approx([1.21, 1.44, 1.69, 1.96])


def test_another_spelling(tmp_path: Path) -> None:
    frame = SUMMARY.rename(columns={"SD_boot_avg": "SD (boot)", "SD_seed": "SD (seed)"})
    mapping = load(_jsonl(tmp_path / "data.jsonl", frame)).report.mapping
    assert (mapping["boot_sd"], mapping["seed_sd"]) == ("SD (boot)", "SD (seed)")


def test_columns_named_after_the_score(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "data.jsonl", WIDE)
    with pytest.raises(InputError, match="'bleu_mean'} or columns={'score': 'comet_mean'}"):
        load(path)
    for metric in ("bleu", "comet"):
        records = load(path, columns={"score": f"{metric}_mean"})
        assert records.report.mapping["seed_sd"] == f"{metric}_seed_sd"
        assert records.report.mapping["boot_sd"] == f"{metric}_boot_sd"
        assert records.coords["task"] == (metric,)
        assert records.coords["language"] == ("de-en", "en-de")
        wide = WIDE.sort_values(["model", "lang_pair"])
        assert records.numbers("boot_sd").tolist() == wide[f"{metric}_boot_sd"].tolist()
        assert reduce_replicates(records).seed.df.tolist() == [4.0] * 4


def test_standard_errors_named_after_the_score(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("model,language,acc,acc_stderr\na,en,0.5,0.01\nb,sw,0.25,0.02\n")
    assert load(path).numbers("se").tolist() == [0.01, 0.02]
    path.write_text("model,language,acc,f1_stderr\na,en,0.5,0.01\nb,sw,0.25,0.02\n")
    assert "se" not in load(path).report.mapping


def test_a_configuration_beside_the_data(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "data.jsonl", INDICES)
    (tmp_path / "config.yaml").write_text(CONFIG)
    records = load(path)
    assert records.coords["language"] == ("x", "y")
    assert records.replicate_columns == ("seed", "boot")
    assert "columns taken from the reuben configuration config.yaml" in records.report.notes
    table = reduce_replicates(records)
    assert table.mean.tolist() == pytest.approx([50.6] * 4)
    assert table.seed.sum_of_squares.tolist() == pytest.approx([0.5] * 4)
    # The folder is the same thing; a given mapping needs no place beside the data.
    assert load(tmp_path).content_hash == records.content_hash
    other = tmp_path / "elsewhere"
    other.mkdir()
    (tmp_path / "config.yaml").rename(other / "mine.yaml")
    assert load(path, mapping_file=other / "mine.yaml").content_hash == records.content_hash


def test_two_configurations_are_a_choice(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "data.jsonl", SUMMARY)
    for name, key in (("a.yaml", "seed_sd_col: SD_seed"), ("b.yaml", "seed_sd_col: SD_boot_avg")):
        (tmp_path / name).write_text(f"score_col: F1\n{key}\n")
    (tmp_path / "unrelated.yml").write_text("a: [1\n")
    records = load(path)
    assert [n for n in records.report.notes if n.startswith("2 reuben configurations (a.yaml, b")]
    assert records.report.mapping["seed_sd"] == "SD_seed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score_cols: F1\nmodel_col: Model\n", "unknown key 'score_cols'; did you mean 'score_col"),
        ("score_col: 3\n", "score_col: expected the name of a column, got 3"),
        ("score_col: F2\n", "no column 'F2', which was given for 'score'"),
        ("seed_idx_col: A\nreplication_idx_col: B\n", "another key names the seed column"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = _jsonl(tmp_path / "data.jsonl", SUMMARY)
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load(path, mapping_file=tmp_path / "config.yaml")
    assert len(str(caught.value).splitlines()) == 1


def test_constants_of_a_mapping_file(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "data.jsonl", SUMMARY)
    mapping = tmp_path / "m.yaml"
    mapping.write_text("constants: {n_seeds: 5, dataset: xquad}\n")
    records = load(path, mapping_file=mapping)
    assert records.coords["task"] == ("xquad:F1",)
    assert reduce_replicates(records).seed.df.tolist() == [4.0] * 4
    mapping.write_text("constants: {SD_seed: 5}\n")
    with pytest.raises(InputError, match="'SD_seed' is both a constant and a column"):
        load(path, mapping_file=mapping)
    mapping.write_text("constants: {n_seed: 5}\n")
    with pytest.raises(InputError, match=r"unknown name 'n_seed'; did you mean 'n_seeds'\?"):
        load(path, mapping_file=mapping)
