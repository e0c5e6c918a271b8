"""Languages of `bayeseval mexa` at the workers of a Dask cluster, each with a copy of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bayeseval._cluster import Cluster
from bayeseval._optional import versions
from bayeseval._processes import run_all
from bayeseval._typing import Progress
from bayeseval.errors import EngineError
from bayeseval.mexa.extract import Dtype, Embedded, Embedding, Encoder, embed, load_encoder
from bayeseval.mexa.measure import Part, part_of

__all__ = ["Described", "Extraction", "describe", "score_at_workers"]

_PACKAGES: Final = ("torch", "transformers", "tokenizers", "accelerate")
_SHOWN: Final = 12


@dataclass(frozen=True)
class Extraction:
    """What is the same for all languages: the model, and the sentences of the pivot.

    A worker keeps a model for one `run` only: the files of a folder may change between two.
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
    run_all(
        _scored,
        [(label, tuple(texts[label])) for label in left],
        shared=(extraction, described),
        jobs=cluster,
        stage="scoring languages",
        progress=lambda *report: beat(),
        keep=lambda position, part: keep(left[position], part),
    )


def _described(extraction: Extraction, nothing: None, beat: Progress | None) -> Described:
    """One piece of work: load the model, and say what it is."""
    encoder = _loaded(extraction)
    bare = Encoder(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        device=encoder.device,
        dtype=encoder.dtype,
        limit=encoder.limit,
        model=None,
        tokenizer=None,
    )
    return Described(bare, versions(_PACKAGES))


def _scored(
    shared: tuple[Extraction, Described], item: tuple[str, Sequence[str]], beat: Progress | None
) -> Part:
    """One piece of work: the scores of one language."""
    extraction, expected = shared
    found = _described(extraction, None, None).facts()
    for name, value in expected.facts().items():
        if found.get(name) != value:
            raise EngineError(
                f"a worker has {name} {found.get(name, 'missing')}, another one {value}; give all "
                "workers the same model and the same packages"
            )
    label, texts = item
    pivot = _pivot(extraction)
    return part_of(pivot if label == extraction.pivot else _embedded(extraction, texts), pivot)


# A worker keeps the model, and the embeddings of the pivot, for all its languages.
@lru_cache(maxsize=1)
def _loaded(extraction: Extraction) -> Encoder:
    return load_encoder(extraction.model, device=extraction.device, dtype=extraction.dtype)


@lru_cache(maxsize=1)
def _pivot(extraction: Extraction) -> Embedded:
    return _embedded(extraction, extraction.texts)


def _embedded(extraction: Extraction, texts: Sequence[str]) -> Embedded:
    return embed(
        _loaded(extraction),
        texts,
        embedding=extraction.embedding,
        token_budget=extraction.token_budget,
    )
