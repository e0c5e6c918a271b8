"""One run of `bayeseval mexa`: identity, work that survives a kill, provenance."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bayeseval._cluster import find_cluster
from bayeseval._optional import require, versions
from bayeseval.errors import InputError, argument
from bayeseval.mexa.alignment import Pooling
from bayeseval.mexa.cluster import PACKAGES, Extraction, describe, score_at_workers
from bayeseval.mexa.extract import (
    TOKEN_BUDGET,
    Dtype,
    Embedded,
    Embedding,
    load_encoder,
    model_folder,
)
from bayeseval.mexa.measure import Measured, measure, run_key
from bayeseval.mexa.parallel import Parallel, text_hash
from bayeseval.output.store import RUN_FILE, read_run

__all__ = ["KEPT", "Aligned", "Settings", "align"]

Report = Callable[[str, int, int, str], None]

# What this machine scores with; the model's packages are those of the machine that loads it.
_OWN: Final = ("bayeseval", "numpy")
# Enough of a SHA-256 for the name of a folder.
_SHORT: Final = 12
#: Folders of what is done, in that of a run: the scores of languages, and their embeddings.
KEPT: Final = ("scores", "embeddings-*")


@dataclass(frozen=True)
class Settings:
    """What a run was asked to do; see :func:`bayeseval.mexa.extract.embed`."""

    embedding: Embedding = "weighted"
    pooling: Pooling = "mean"
    device: str = "auto"
    dtype: Dtype = "auto"
    token_budget: int = TOKEN_BUDGET

    def identity(self, parallel: Parallel) -> dict[str, Any]:
        """What makes two runs the same, but for ``spec_hash``: that needs the model loaded."""
        texts = {label: text_hash(one) for label, one in sorted(parallel.texts.items())}
        return {
            "data_hash": _hash([parallel.pivot, texts]),
            "engine": f"mexa {self.embedding} {self.pooling}",
            "seed": 0,
        }

    def extraction(self, model: str, parallel: Parallel) -> Extraction:
        """What workers of a cluster need for every language; folders with their whole path."""
        folder = model_folder(model)
        return Extraction(
            uuid4().hex,
            model if folder is None else str(folder.absolute()),
            self.device,
            self.dtype,
            self.embedding,
            self.token_budget,
            parallel.pivot,
            tuple(parallel.texts[parallel.pivot]),
        )


@dataclass(frozen=True, eq=False)
class Aligned:
    """Scores of a run, how they were made, and where its embeddings are.

    Attributes
    ----------
    measured : Measured
    run : dict
        Contents of ``run.json``.
    embeddings : mapping of str to Path
        Files by language; empty unless they were asked for.
    """

    measured: Measured
    run: dict[str, Any]
    embeddings: Mapping[str, Path] = field(default_factory=dict)


def align(
    model: str,
    parallel: Parallel,
    settings: Settings,
    *,
    work: Path,
    folder: Path | None = None,
    save_embeddings: bool = False,
    bars: bool = False,
    dask: str | None = None,
    progress: Report,
) -> Aligned:
    """Load the model and score all languages that are not done yet.

    Parameters
    ----------
    model : str
        Hub name or folder.
    parallel : Parallel
    settings : Settings
    work : Path
        Folder for what is done, see
        :func:`~bayeseval.output.store.unfinished`; the caller removes it when the
        results are safe elsewhere.
    folder : Path, optional
        Where the results are to replace those of the same model only.
    save_embeddings : bool
        Write every language's embeddings as safetensors, tensor ``embeddings`` of shape
        (layers, sentences, width).
    bars : bool
        Let transformers show how far loading is, on a terminal.
    dask : str, optional
        Address of the scheduler of a Dask cluster whose workers load the model and score the
        languages, instead of this process.
    progress : callable
        Called with stage, done, total and a remark.

    Returns
    -------
    Aligned

    Raises
    ------
    InputError
        If the model cannot be loaded or does not fit, `folder` holds scores of other
        weights or another precision, or embeddings are to be saved with `dask`.
    EngineError
        If the cluster cannot be used, or its workers differ.
    """
    if dask is not None and save_embeddings:
        raise InputError(
            f"{argument('save_embeddings')} cannot be combined with {argument('dask')}: workers "
            "send back scores only"
        )
    cluster = None if dask is None else find_cluster(dask)
    elsewhere = None
    progress("loading the model", 0, 1, model)
    if cluster is None:
        # In a log file bars are noise.
        encoder = load_encoder(
            model, device=settings.device, dtype=settings.dtype, bars=bars and sys.stderr.isatty()
        )
        packages = versions(PACKAGES)
    else:
        extraction = settings.extraction(model, parallel)
        described = describe(extraction, cluster, progress)
        encoder, packages = described.encoder, dict(described.versions)
        elsewhere = partial(score_at_workers, extraction, described, parallel.texts, cluster)
    progress("loading the model", 1, 1, f"{encoder.name} on {encoder.device}, {encoder.dtype}")
    key = run_key(encoder, parallel, settings.embedding)
    if folder is not None and (folder / RUN_FILE).is_file():
        _check_model(folder, key)
    scores = work / KEPT[0]
    files: dict[str, Path] = {}
    if save_embeddings:
        # A folder per key: what another run left is never taken for this one's.
        folder = work / f"embeddings-{_hash(key)[:_SHORT]}"
        files = {label: folder / f"{label}.safetensors" for label in parallel.texts}
        for label, path in files.items():
            if not path.is_file():
                (scores / f"{label}.json").unlink(missing_ok=True)
    measured = measure(
        encoder,
        parallel,
        embedding=settings.embedding,
        token_budget=settings.token_budget,
        parts=scores,
        save=_saver(files, key) if save_embeddings else None,
        progress=progress,
        elsewhere=elsewhere,
    )
    run = {
        **settings.identity(parallel),
        "spec_hash": _hash(key),
        "command": "mexa",
        **key,
        "source": model,
        "device": encoder.device,
        "pooling": settings.pooling,
        "token_budget": settings.token_budget,
        "sentences": parallel.n,
        "languages": list(measured.languages),
        "layers": measured.alignment.shape[1],
        "tokens": measured.tokens,
        "tokens_of_this_run": measured.embedded,
        "seconds_of_this_run": round(measured.seconds, 3),
        "notes": list(measured.notes),
        "versions": {"python": platform.python_version(), **versions(_OWN), **packages},
        "platform": f"{sys.platform} {platform.machine()}",
    }
    return Aligned(measured, run, files)


def _check_model(folder: Path, key: Mapping[str, Any]) -> None:
    previous = read_run(folder)
    if previous.get("spec_hash") == _hash(key):
        return
    theirs, ours = (
        f"{run.get('model')} in {run.get('dtype')} (weights "
        f"{str(run.get('fingerprint') or 'unknown')[:_SHORT]})"
        for run in (previous, key)
    )
    raise InputError(
        f"{folder} holds a run of {theirs}, this one is of {ours}; choose another folder (--out) "
        "or overwrite it with --force"
    )


def _saver(files: Mapping[str, Path], key: Mapping[str, Any]) -> Callable[[str, Embedded], None]:
    def save(label: str, embedded: Embedded) -> None:
        path = files[label]
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        metadata = {name: str(value) for name, value in {**key, "language": label}.items()}
        require("safetensors.numpy", "mexa").save_file(
            {"embeddings": embedded.vectors}, part, metadata=metadata
        )
        part.replace(path)

    return save


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
