"""Many languages: one at a time in memory, safe on disk, byte for byte after any stop."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeseval.cli import main
from bayeseval.mexa import measure as module
from bayeseval.mexa.alignment import chance, pool, score
from bayeseval.mexa.extract import Embedded, Encoder
from bayeseval.mexa.measure import Measured, measure
from bayeseval.mexa.parallel import Parallel
from bayeseval.mexa.report import format_alignment, write_alignment

LABELS = [f"{code}_Latn" for code in ("deu", "eng", "fra", "ita", "spa", "swh", "yor", "zul")]
PARALLEL = Parallel(
    "eng_Latn", {label: tuple(f"{label} {i}" for i in range(20)) for label in LABELS}, ("a note",)
)
ENCODER = Encoder("tiny", "f00", "cpu", "float32", 64, None, None)


def vectors(texts: Sequence[str]) -> np.ndarray:
    """Embeddings that say their sentence, with more noise the later the language's name."""
    label = texts[0].split()[0]
    noise = np.random.default_rng(LABELS.index(label)).normal(size=(4, len(texts), 12))
    common = np.random.default_rng(99).normal(size=(4, len(texts), 12))
    return (common + 0.15 * LABELS.index(label) * noise).astype(np.float32)


class Stop(BaseException):
    """What a kill looks like from inside."""


class Embedder:
    """Stands in for the model; stops when told to, and counts what is alive."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stop_at: int | None = None

    def __call__(self, encoder: Encoder, texts: Sequence[str], **_: Any) -> Embedded:
        if self.stop_at is not None and len(self.calls) >= self.stop_at:
            raise Stop
        self.calls.append(texts[0].split()[0])
        cut = 3 if "yor" in texts[0] else 0
        return Embedded(vectors(texts), 100, cut, 4096, len(texts))


def tables(measured: Measured) -> list[str]:
    return [
        measured.tidy().to_csv(index=False),
        *(measured.pooled(p).to_csv() for p in ("mean", "max")),
    ]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Measured:
    return measure(ENCODER, PARALLEL, embedder=Embedder())


def test_every_language_is_scored_against_the_pivot(whole: Measured) -> None:
    pivot = vectors(PARALLEL.texts["eng_Latn"])
    tidy = whole.tidy()
    assert list(tidy.columns[:6]) == ["model", "language", "embedding", "layer", "alignment", "n"]
    for label in LABELS:
        expected = score(vectors(PARALLEL.texts[label]), pivot)
        part = tidy[tidy["language"] == label]
        np.testing.assert_array_equal(part["alignment"], expected.alignment)
        np.testing.assert_allclose(part["cosine"], expected.cosine, atol=1e-6)
        np.testing.assert_array_equal(part["chance"], chance(expected.alignment, 20))
    pooled = whole.pooled("max")
    assert list(pooled["language"][:2]) == ["deu_Latn", "eng_Latn"]
    assert (pooled["alignment"].diff().dropna() <= 0).all()
    zulu = pooled.set_index("language").loc["zul_Latn"]
    row = whole.alignment[LABELS.index("zul_Latn")]
    assert (zulu["alignment"], zulu["best_layer"]) == (pool(row, "max"), row.argmax())
    assert whole.notes == ("a note", "3 sentences were cut at 64 tokens, most in yor_Latn (3)")


def test_stopped_ten_times_and_resumed(
    tmp_path: Path, whole: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills between and inside languages, before and after a part is in its place."""
    rng = np.random.default_rng(4)
    embedder = Embedder()
    replace = module.replace_json

    def killed(value: Any, path: Path) -> None:
        if rng.random() < 0.5:
            replace(value, path)
        else:
            path.with_name(f".{path.name}-x.part").write_text('{"key": "ha')
        raise Stop

    stops = 0
    for turn in range(10):
        embedder.stop_at = len(embedder.calls) + int(rng.integers(1, 3))
        monkeypatch.setattr(module, "replace_json", killed if turn % 3 == 2 else replace)
        try:
            measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)
        except Stop:
            stops += 1
    assert stops >= 6
    monkeypatch.setattr(module, "replace_json", replace)
    embedder.stop_at = None
    resumed = measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)
    assert tables(resumed) == tables(whole)
    assert resumed.notes == whole.notes
    # Nothing but the pivot was embedded twice, unless it was stopped before it was safe.
    again = [label for label in embedder.calls if label != "eng_Latn"]
    assert len(again) - len(set(again)) <= 3
    calls = len(embedder.calls)
    assert tables(measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)) == tables(whole)
    assert len(embedder.calls) == calls


def test_parts_of_another_run_are_not_taken(tmp_path: Path, whole: Measured) -> None:
    measure(ENCODER, PARALLEL, parts=tmp_path, embedder=Embedder())
    other = {**PARALLEL.texts, "zul_Latn": tuple(f"zul_Latn {i}" for i in range(1, 21))}
    for encoder, parallel, embedding, anew in (
        (Encoder("tiny", "f01", "cpu", "float32", 64, None, None), PARALLEL, "weighted", 8),
        (ENCODER, PARALLEL, "last", 8),
        # The pivot is needed to score the one language whose text has changed.
        (ENCODER, Parallel("eng_Latn", other), "weighted", 2),
    ):
        measure(ENCODER, PARALLEL, parts=tmp_path, embedder=Embedder())
        embedder = Embedder()
        measure(encoder, parallel, embedding=embedding, parts=tmp_path, embedder=embedder)  # type: ignore[arg-type]
        assert len(embedder.calls) == anew
    (tmp_path / "deu_Latn.json").write_text("[]")
    again = measure(ENCODER, PARALLEL, parts=tmp_path, embedder=Embedder())
    assert tables(again) == tables(whole)


def test_only_the_pivot_and_one_language_are_alive() -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def embedder(encoder: Encoder, texts: Sequence[str], **_: Any) -> Embedded:
        nonlocal most
        most = max(most, sum(one() is not None for one in alive))
        found = Embedded(vectors(texts), 1, 0, 4096, len(texts))
        alive.append(weakref.ref(found.vectors))
        return found

    measure(ENCODER, PARALLEL, embedder=embedder)
    # While a language is embedded there are the pivot's and its own.
    assert len(alive) == 8
    assert most == 1


def test_overflow_is_a_note_and_a_gap(tmp_path: Path) -> None:
    def embedder(encoder: Encoder, texts: Sequence[str], **_: Any) -> Embedded:
        found = vectors(texts)
        if "fra" in texts[0]:
            found[2, 5] = np.inf
        return Embedded(found, 1, 0, 2048, len(texts))

    measured = measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)
    resumed = measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)
    assert tables(measured) == tables(resumed)
    assert np.isnan(measured.alignment[2]).tolist() == [False, False, True, False]
    assert "1 language has embeddings that are not finite (first: fra_Latn, layer 2)" in str(
        measured.notes
    )
    assert "memory ran out, so batches were made smaller than token_budget" in measured.notes
    last = measured.pooled().iloc[-1]
    assert (last["language"], np.isnan(last["alignment"])) == ("fra_Latn", True)
    text = format_alignment(measured.pooled(), measured.notes, pivot="eng_Latn")
    assert re.search(r"^  French \(fra_Latn\) +- ", text, re.MULTILINE)


def test_the_result_folder(tmp_path: Path, whole: Measured) -> None:
    run = {"data_hash": "a", "spec_hash": "b", "engine": "mexa", "seed": 0}
    folder = write_alignment(tmp_path / "out", whole.tidy(), whole.pooled(), run=run)
    written = pd.read_csv(folder / "alignment.csv")
    pd.testing.assert_frame_equal(written.drop(columns="language_name"), whole.tidy())
    by_code = dict(zip(written["language"], written["language_name"], strict=True))
    assert (by_code["eng_Latn"], by_code["fra_Latn"]) == ("English", "French")
    pooled = pd.read_csv(folder / "pooled.csv").set_index("language")["language_name"]
    assert dict(pooled) == by_code
    assert list(pd.read_csv(folder / "pooled.csv")["language"]) == list(whole.pooled()["language"])
    assert (folder / "figures" / "alignment.png").read_bytes().startswith(b"\x89PNG")
    text = format_alignment(whole.pooled(), whole.notes, pivot="eng_Latn")
    assert text.startswith(
        "Alignment with English (eng_Latn), mean over layers, 20 sentences (7 languages)"
    )
    assert text.count("eng_Latn") == 1
    assert all(f"{name} ({code})" in text for code, name in by_code.items())
    assert "note: 3 sentences were cut at 64 tokens" in text


def test_without_torch_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for label in LABELS[:2]:
        (tmp_path / f"{label}.txt").write_text("a\nb\n")
    # None in the table of modules is how Python says that there is no such module.
    monkeypatch.setitem(sys.modules, "torch", None)
    out = str(tmp_path / "out")
    arguments = ["mexa", "--model", "x", "--parallel", str(tmp_path), "--out", out, "--quiet"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        "error: torch is not installed; install it with the extra 'mexa': pip install "
        "'bayeseval[mexa]'\n"
    )


def test_sentences_that_the_model_does_not_tell_apart_are_a_note(tmp_path: Path) -> None:
    def embedder(encoder: Encoder, texts: Sequence[str], **_: Any) -> Embedded:
        distinct = 2 if "fra" in texts[0] else len(texts) // 2
        return Embedded(vectors(texts), 1, 0, 4096, distinct)

    for _ in range(2):
        # The second time from the parts.
        found = measure(ENCODER, PARALLEL, parts=tmp_path, embedder=embedder)
        count = len(PARALLEL.texts["fra_Latn"])
        assert [note for note in found.notes if "embedding of their own" in note] == [
            "in 1 language fewer than half of the sentences have an embedding of their own (first: "
            f"fra_Latn, 2 of {count}), so the scores mean nothing; check the weights and the "
            "tokenizer of the model"
        ]
