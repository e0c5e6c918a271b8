"""Alignment of all languages of a folder of parallel texts, each kept as soon as it is done."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from bayeseval._text import counted
from bayeseval._typing import Floats
from bayeseval.errors import InputError
from bayeseval.mexa.alignment import Pooling, chance, pool, score
from bayeseval.mexa.extract import TOKEN_BUDGET, Embedded, Embedding, Encoder, embed
from bayeseval.mexa.parallel import Parallel, text_hash
from bayeseval.output.store import read_json, replace_json

__all__ = ["Measured", "Part", "measure", "part_of", "run_key"]

Report = Callable[[str, int, int, str], None]
Embed = Callable[..., Embedded]
Part = dict[str, Any]
Elsewhere = Callable[
    [Sequence[str], Callable[[str, Mapping[str, Any]], None], Callable[[], None]], None
]

# Part of every key; to be raised when scores are computed otherwise.
_VERSION: Final = "bayeseval-mexa-1"
# Cosines carry about seven digits from single precision; the rest is rounding.
_DIGITS: Final = 6


@dataclass(frozen=True, eq=False)
class Measured:
    """Alignment with the pivot by language and layer.

    Attributes
    ----------
    model : str
    pivot : str
    embedding : str
        ``weighted`` or ``last``.
    languages : tuple of str
        The pivot among them.
    alignment, cosine, cosine_other : ndarray, shape (n_languages, n_layers)
        As in :class:`bayeseval.mexa.alignment.Scores`; layer 0 is the embedding layer.
    n : int
        Sentences per language.
    tokens : int
        Tokens of all sentences of all languages.
    embedded, seconds : int, float
        Tokens that this run embedded (a resumed run embeds less) and its time for it.
    notes : tuple of str
        What a reader should know.
    """

    model: str
    pivot: str
    embedding: str
    languages: tuple[str, ...]
    alignment: Floats
    cosine: Floats
    cosine_other: Floats
    n: int
    tokens: int = 0
    embedded: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def tidy(self) -> pd.DataFrame:
        """One row per language and layer.

        Returns
        -------
        pandas.DataFrame
            Columns ``model``, ``language``, ``embedding``, ``layer``, ``alignment``,
            ``n``, ``cosine``, ``cosine_other`` and ``chance``, the probability of at
            least this alignment in a random matrix (appendix A.4).
        """
        count, layers = self.alignment.shape
        return pd.DataFrame(
            {
                "model": self.model,
                "language": np.repeat(np.array(self.languages, dtype=object), layers),
                "embedding": self.embedding,
                "layer": np.tile(np.arange(layers), count),
                "alignment": self.alignment.ravel(),
                "n": self.n,
                "cosine": self.cosine.ravel().round(_DIGITS),
                "cosine_other": self.cosine_other.ravel().round(_DIGITS),
                "chance": chance(self.alignment.ravel(), self.n),
            }
        )

    def pooled(self, pooling: Pooling = "mean") -> pd.DataFrame:
        """One row per language, the best aligned first.

        Returns
        -------
        pandas.DataFrame
            Columns ``model``, ``language``, ``embedding``, ``pooling``, ``alignment``,
            ``n``, ``best_layer``, ``best_alignment``, and the mean over layers of
            ``cosine`` and ``cosine_other``.
        """
        known = ~np.isnan(self.alignment).all(axis=1)
        filled = np.where(np.isnan(self.alignment), -1.0, self.alignment)
        best = np.argmax(filled, axis=1)
        table = pd.DataFrame(
            {
                "model": self.model,
                "language": list(self.languages),
                "embedding": self.embedding,
                "pooling": pooling,
                "alignment": pool(self.alignment, pooling),
                "n": self.n,
                "best_layer": pd.Series(np.where(known, best, np.nan)).astype("Int64"),
                "best_alignment": np.where(known, filled.max(axis=1), np.nan),
                "cosine": self.cosine.mean(axis=1).round(_DIGITS),
                "cosine_other": self.cosine_other.mean(axis=1).round(_DIGITS),
            }
        )
        # Stable, so that equal languages stay in the order of their labels.
        return table.sort_values(
            "alignment", ascending=False, kind="stable", na_position="last", ignore_index=True
        )


def run_key(encoder: Encoder, parallel: Parallel, embedding: str) -> dict[str, Any]:
    """What decides the scores of a language besides its own sentences."""
    return {
        "version": _VERSION,
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dtype": encoder.dtype,
        "embedding": embedding,
        "pivot": parallel.pivot,
        "pivot_text": text_hash(parallel.texts[parallel.pivot]),
    }


def measure(
    encoder: Encoder,
    parallel: Parallel,
    *,
    embedding: Embedding = "weighted",
    token_budget: int = TOKEN_BUDGET,
    parts: Path | None = None,
    save: Callable[[str, Embedded], None] | None = None,
    progress: Report | None = None,
    embedder: Embed = embed,
    elsewhere: Elsewhere | None = None,
) -> Measured:
    """Embed and score language after language.

    Parameters
    ----------
    encoder : Encoder
        As loaded by :func:`bayeseval.mexa.extract.load_encoder`.
    parallel : Parallel
    embedding : {"weighted", "last"}
    token_budget : int
        Tokens of a batch, padding included.
    parts : Path, optional
        A folder for one small file of scores per language, written as soon as the
        language is done. Languages whose file is of the same model, settings and
        sentences are not computed again.
    save : callable, optional
        Is handed every language's embeddings; a language whose part is there is not
        embedded again.
    progress : callable, optional
        Called with stage, done, total and a remark.
    embedder : callable
        As :func:`bayeseval.mexa.extract.embed`.
    elsewhere : callable, optional
        Scores languages at other machines instead. It is given the labels, a function that
        takes each with what :func:`part_of` returns for it, and one to be called meanwhile.

    Returns
    -------
    Measured

    Notes
    -----
    The embeddings of the pivot and of one language are all that is held in memory.
    """
    report = progress or _silent
    key = run_key(encoder, parallel, embedding)
    labels = list(parallel.texts)
    done = {label: part for label in labels if (part := _read(parts, label, key, parallel))}
    left = [label for label in labels if label not in done]
    stage = "scoring languages"
    report(stage, len(done), len(labels), "continued" if done else "")
    begun, embedded, budget = time.monotonic(), 0, token_budget

    def embeddings_of(label: str) -> Embedded:
        nonlocal embedded, budget
        encoded = embedder(
            encoder,
            parallel.texts[label],
            embedding=embedding,
            token_budget=budget,
            beat=lambda: report(stage, len(done), len(labels), label),
        )
        embedded, budget = embedded + encoded.tokens, min(budget, encoded.budget)
        return encoded

    def keep(label: str, part: Mapping[str, Any]) -> None:
        done[label] = {"key": _hash(key), "text": text_hash(parallel.texts[label]), **part}
        if parts is not None:
            parts.mkdir(parents=True, exist_ok=True)
            replace_json(done[label], parts / f"{label}.json")
        report(stage, len(done), len(labels), label if len(done) < len(labels) else "")

    if left and elsewhere is not None:
        elsewhere(left, keep, lambda: report(stage, len(done), len(labels), ""))
        embedded = sum(int(done[label]["tokens"]) for label in left)
        budget = min(int(done[label]["budget"]) for label in left)
    elif left:
        pivot = embeddings_of(parallel.pivot)
        for label in left:
            encoded = pivot if label == parallel.pivot else embeddings_of(label)
            part = part_of(encoded, pivot)
            if save is not None:
                save(label, encoded)
            # Gone before the next language's are made.
            del encoded
            keep(label, part)
    seconds = time.monotonic() - begun
    return Measured(
        model=encoder.name,
        pivot=parallel.pivot,
        embedding=embedding,
        languages=tuple(labels),
        alignment=_stacked(done, labels, "alignment"),
        cosine=_stacked(done, labels, "cosine"),
        cosine_other=_stacked(done, labels, "cosine_other"),
        n=parallel.n,
        tokens=sum(int(part["tokens"]) for part in done.values()),
        embedded=embedded,
        seconds=seconds,
        notes=(
            *parallel.notes,
            *_notes(done, labels, encoder, budget < token_budget),
            *_ties(done, parallel),
        ),
    )


def part_of(encoded: Embedded, pivot: Embedded) -> Part:
    """What is kept of a language: its scores, and what was noticed; values that JSON has."""
    scores = score(encoded.vectors, pivot.vectors)
    return {
        "alignment": scores.alignment.tolist(),
        "cosine": scores.cosine.tolist(),
        "cosine_other": scores.cosine_other.tolist(),
        "tokens": encoded.tokens,
        "cut": encoded.cut,
        "distinct": encoded.distinct,
        "budget": encoded.budget,
    }


def _silent(stage: str, done: int, total: int, remark: str) -> None:
    """Nobody listens."""


def _read(
    parts: Path | None, label: str, key: Mapping[str, Any], parallel: Parallel
) -> dict[str, Any] | None:
    """A language that is done, or None when it is not or was done otherwise."""
    path = None if parts is None else parts / f"{label}.json"
    if path is None or not path.is_file():
        return None
    try:
        part = read_json(path)
    except InputError:
        # Parts are replaced in one step, so this one was damaged from outside: do it anew.
        return None
    same = part.get("key") == _hash(key) and part.get("text") == text_hash(parallel.texts[label])
    # Parts of earlier versions do not say how many sentences are told apart.
    return part if same and "distinct" in part else None


def _hash(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode("utf-8")).hexdigest()


def _stacked(done: Mapping[str, Mapping[str, Any]], labels: Sequence[str], what: str) -> Floats:
    # JSON has no NaN: null stands for it, and becomes it again.
    return np.array([done[label][what] for label in labels], dtype=np.float64)


def _notes(
    done: Mapping[str, Mapping[str, Any]], labels: Sequence[str], encoder: Encoder, halved: bool
) -> list[str]:
    notes = []
    cut = {label: int(done[label]["cut"]) for label in labels if done[label]["cut"]}
    if cut:
        worst = max(cut, key=lambda label: cut[label])
        notes.append(
            f"{sum(cut.values())} sentences were cut at {encoder.limit} tokens, most in {worst} "
            f"({cut[worst]})"
        )
    alignment = _stacked(done, labels, "alignment")
    broken = np.isnan(alignment).any(axis=1)
    if broken.any():
        count = int(broken.sum())
        first = labels[int(np.flatnonzero(broken)[0])]
        layer = int(np.flatnonzero(np.isnan(alignment[labels.index(first)]))[0])
        notes.append(
            f"{'1 language has' if count == 1 else f'{count} languages have'} embeddings that are "
            f"not finite (first: {first}, layer {layer}), so scores are missing; in float16 that "
            "is overflow: choose dtype bfloat16 or float32 (--dtype)"
        )
    if halved:
        notes.append("memory ran out, so batches were made smaller than token_budget")
    return notes


def _ties(done: Mapping[str, Mapping[str, Any]], parallel: Parallel) -> list[str]:
    """Different sentences that are the same to the model, as with weights that are all zero."""
    few = [
        (label, int(done[label]["distinct"]), len(set(texts)))
        for label, texts in parallel.texts.items()
        if 2 * int(done[label]["distinct"]) < len(set(texts))
    ]
    if not few:
        return []
    label, distinct, count = few[0]
    return [
        f"in {counted(len(few), 'language')} fewer than half of the sentences have an embedding of "
        f"their own (first: {label}, {distinct} of {count}), so the scores mean nothing; check the "
        "weights and the tokenizer of the model"
    ]
