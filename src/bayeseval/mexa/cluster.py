"""Languages of `bayeseval mexa` at the workers of a Dask cluster, each with a copy of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Final

from bayeseval._cluster import Cluster, at_all_workers, this_worker
from bayeseval._optional import require, versions
from bayeseval._processes import run_all
from bayeseval._typing import Progress
from bayeseval.errors import EngineError, InputError
from bayeseval.mexa.extract import Dtype, Embedded, Embedding, Encoder, embed, load_encoder
from bayeseval.mexa.measure import Part, part_of

__all__ = ["PACKAGES", "Described", "Extraction", "describe", "score_at_workers"]

PACKAGES: Final = ("torch", "transformers", "tokenizers", "accelerate")
"""What a model's numbers depend on, beside its weights."""
_SHOWN: Final = 12


@dataclass(frozen=True)
class Extraction:
    """What is the same for all languages: the model, and the sentences of the pivot.

    A worker keeps a model for one `run` only, and releases it when the run has ended: the files of
    a folder may change between two.
    """

    run: str
    model: str
    device: str
    dtype: Dtype
    embedding: Embedding
    token_budget: int
    pivot: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Described:
    """A model as a worker has loaded it, and the packages that did.

    Attributes
    ----------
    encoder : Encoder
        Without model and tokenizer.
    versions : mapping of str to str
    """

    encoder: Encoder
    versions: Mapping[str, str]

    def facts(self) -> dict[str, str]:
        """What decides the numbers, by the name that a message gives it."""
        own = {"weights": self.encoder.fingerprint[:_SHOWN], "dtype": self.encoder.dtype}
        return {**own, **self.versions}


def describe(extraction: Extraction, cluster: Cluster, progress: Progress) -> Described:
    """Let one worker load the model.

    Raises
    ------
    InputError
        If the model cannot be loaded there.
    EngineError
        If the cluster is lost.
    """
    (found,) = run_all(
        _described,
        [None],
        shared=extraction,
        jobs=cluster,
        stage="loading the model",
        progress=progress,
    )
    return found


def score_at_workers(
    extraction: Extraction,
    described: Described,
    texts: Mapping[str, Sequence[str]],
    cluster: Cluster,
    left: Sequence[str],
    keep: Callable[[str, Part], None],
    beat: Callable[[], None],
) -> None:
    """Score languages at the workers, in the order in which they finish them.

    Parameters
    ----------
    extraction : Extraction
    described : Described
        As :func:`describe` returns it.
    texts : mapping of str to sequence of str
        Sentences by language.
    cluster : Cluster
    left, keep, beat
        See :func:`bayeseval.mexa.measure.measure`.

    Raises
    ------
    InputError
        If a worker cannot load the model, or the model fails.
    EngineError
        If a worker has another model or other packages, or the cluster is lost.
    """
    try:
        run_all(
            _scored,
            [(label, tuple(texts[label])) for label in left],
            shared=(extraction, described),
            jobs=cluster,
            stage="scoring languages",
            progress=lambda *report: beat(),
            keep=lambda position, part: keep(left[position], part),
        )
    finally:
        at_all_workers(cluster, partial(_release, extraction.run))


def _described(extraction: Extraction, nothing: None, beat: Progress | None) -> Described:
    """One piece of work: load the model, and say what it is."""
    return _described_as(_held(extraction, beat).encoder)


def _described_as(encoder: Encoder) -> Described:
    return Described(replace(encoder, model=None, tokenizer=None), versions(PACKAGES))


def _scored(
    shared: tuple[Extraction, Described], item: tuple[str, Sequence[str]], beat: Progress | None
) -> Part:
    """One piece of work: the scores of one language."""
    extraction, expected = shared
    held = _held(extraction, beat)
    wanted, found = expected.facts(), _described_as(held.encoder).facts()
    for name in {**wanted, **found}:
        if found.get(name) != wanted.get(name):
            raise EngineError(
                f"{this_worker()} has {name} {found.get(name, 'missing')}, another one "
                f"{wanted.get(name, 'missing')}; give all workers the same model and the same "
                "packages"
            )
    label, texts = item
    if held.pivot is None:
        held.pivot = held.embedded(extraction.texts, beat)
    is_pivot = label == extraction.pivot
    return part_of(held.pivot if is_pivot else held.embedded(texts, beat), held.pivot)


@dataclass(eq=False)
class _Held:
    """What a worker keeps between the languages of one run."""

    extraction: Extraction
    encoder: Encoder
    budget: int
    pivot: Embedded | None = None

    def embedded(self, texts: Sequence[str], beat: Progress | None) -> Embedded:
        """Embeddings, in batches as small as memory has made them so far."""
        found = embed(
            self.encoder,
            texts,
            embedding=self.extraction.embedding,
            token_budget=self.budget,
            beat=lambda: _call(beat),
        )
        self.budget = min(self.budget, found.budget)
        return found


# At most one: a model may take most of a worker's memory. Workers of one process share it.
_OF_THIS_PROCESS: Final[list[_Held]] = []
_LOCK: Final = Lock()


def _held(extraction: Extraction, beat: Progress | None) -> _Held:
    """The model of a run; that of an earlier run is released before it is loaded."""
    with _LOCK:
        if not any(held.extraction.run == extraction.run for held in _OF_THIS_PROCESS):
            _release_all()
            _call(beat)
            try:
                encoder = load_encoder(
                    extraction.model, device=extraction.device, dtype=extraction.dtype
                )
            except InputError as error:
                raise InputError(f"{this_worker()}: {error}") from error
            _OF_THIS_PROCESS.append(_Held(extraction, encoder, extraction.token_budget))
            _call(beat)
        return _OF_THIS_PROCESS[0]


def _release(run: str) -> None:
    """Let go of the model of a run, and leave that of another one alone."""
    with _LOCK:
        if any(held.extraction.run == run for held in _OF_THIS_PROCESS):
            _release_all()


def _release_all() -> None:
    if not _OF_THIS_PROCESS:
        return
    _OF_THIS_PROCESS.clear()
    torch = require("torch", "mexa")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _call(beat: Progress | None) -> None:
    """Let the caller stop this piece of work."""
    if beat is not None:
        beat("embedding", 0, 1, "")
