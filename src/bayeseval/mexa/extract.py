"""Sentence embeddings of every layer, with torch and transformers.

Both come with the extra ``mexa`` and are imported when a model is loaded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from bayeseval._optional import require
from bayeseval.errors import InputError
from bayeseval.mexa.checkpoint import load_weights, only_line
from bayeseval.mexa.tokens import token_ids, token_limit

__all__ = ["Dtype", "Embedded", "Embedding", "Encoder", "embed", "load_encoder"]

Embedding = Literal["weighted", "last"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Singles = npt.NDArray[np.float32]

#: Tokens of one batch, padding included. A layer of width 4096 in half precision is then
#: 32 MB, and the layers of an 8 B model are about 1 GB.
TOKEN_BUDGET: Final = 4096

# What makes a folder the model that it is.
_MODEL_FILES: Final = (".json", ".safetensors", ".bin", ".model", ".txt")
# Of a file that is not JSON this many pieces of this many bytes are hashed: reading all
# of it would take as long as loading the model.
_PIECES: Final = 256
_PIECE: Final = 4096


@dataclass(frozen=True, eq=False)
class Encoder:
    """A model that is ready to embed sentences.

    Attributes
    ----------
    name : str
        The Hub name, or the folder's own name.
    fingerprint : str
        The commit on the Hub, or a hash of the folder's settings and of samples of its
        weights.
    device, dtype : str
        Where and in which precision it runs.
    limit : int or None
        Tokens that it takes at most; longer sentences are cut.
    model, tokenizer : Any
        Of transformers.
    """

    name: str
    fingerprint: str
    device: str
    dtype: str
    limit: int | None
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of one language's sentences.

    Attributes
    ----------
    vectors : ndarray of float32, shape (n_layers, n_sentences, width)
        Layer 0 is the embedding layer. Zero for a sentence without any token.
    tokens : int
        Tokens of all sentences, special ones included.
    cut : int
        Sentences that were longer than the model takes.
    budget : int
        Tokens of a batch that fitted into memory.
    distinct : int
        Sentences whose tokens are not also those of an earlier one; 1 where all have the
        same embedding.
    """

    vectors: Singles
    tokens: int
    cut: int
    budget: int
    distinct: int


def load_encoder(
    name: str, *, device: str = "auto", dtype: Dtype = "auto", bars: bool = False
) -> Encoder:
    """Load a model and its tokenizer from the Hugging Face Hub or a folder.

    Parameters
    ----------
    name : str
        Hub name or folder. With ``HF_HUB_OFFLINE=1`` only the local cache is asked.
    device : str
        ``auto``: all CUDA devices, spread by accelerate when that is installed, else the
        first; without CUDA Apple's or the CPU. Or what torch calls it: ``cpu``, ``cuda:1``.
    dtype : {"auto", "float32", "bfloat16", "float16"}
        ``auto``: the checkpoint's own on an accelerator, float32 on a CPU.
    bars : bool
        Let transformers show how far downloading and loading are.

    Returns
    -------
    Encoder

    Raises
    ------
    MissingDependencyError
        If torch or transformers is not installed.
    InputError
        One line: no such model, no access, no such device, weights that are missing, of
        another size or pickled, code or kernels of strangers.
    """
    torch, transformers = require("torch", "mexa"), require("transformers", "mexa")
    if dtype not in get_args(Dtype):
        raise InputError(f"dtype must be one of {', '.join(get_args(Dtype))}; got {dtype!r}")
    place, spread = _device(torch, device)
    wanted = "float32" if dtype == "auto" and place.type == "cpu" else dtype
    folder = model_folder(name)
    source = name if folder is None else str(folder)
    if folder is None and re.match(r"[./~]|.*/.*/", name):
        raise InputError(f"{name}: no such folder; a model is a folder or a Hub name OWNER/MODEL")
    options: dict[str, Any] = {"dtype": wanted if wanted == "auto" else getattr(torch, wanted)}
    if spread:
        options["device_map"] = "auto"
    log = transformers.logging
    verbosity, shown = log.get_verbosity(), log.is_progress_bar_enabled()
    # Only what goes wrong; the reports about unused heads are of no use here.
    log.set_verbosity_error()
    if not bars:
        log.disable_progress_bar()
    try:
        # Said outright, because transformers would ask on a terminal.
        model = load_weights(torch, transformers, source, options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        limit = token_limit(tokenizer, model.config)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    # transformers lets whatever the settings of a model cause through.
    except Exception as error:
        if _is_memory(torch, error):
            raise InputError(
                f"{name}: the model does not fit on {device}; choose device auto (--device) or "
                "dtype bfloat16 (--dtype)"
            ) from error
        raise InputError(f"{name}: {_why(error)}") from error
    finally:
        log.set_verbosity(verbosity)
        if shown:
            log.enable_progress_bar()
    if not spread:
        model = model.to(place)
    model = model.eval()
    return Encoder(
        name=Path(source).resolve().name if Path(source).exists() else name,
        fingerprint=_fingerprint(source),
        device=str(place) if not spread else "auto",
        dtype=str(model.dtype).removeprefix("torch."),
        limit=limit,
        model=model,
        tokenizer=tokenizer,
    )


def model_folder(name: str) -> Path | None:
    """The folder that a model's name means, if there is one."""
    try:
        folder = Path(name).expanduser()
    except RuntimeError:
        # ~name, and no user of this machine has that name.
        return None
    return folder if folder.exists() else None


def embed(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    embedding: Embedding = "weighted",
    token_budget: int = TOKEN_BUDGET,
    beat: Callable[[], None] | None = None,
) -> Embedded:
    r"""Embed sentences at every layer.

    Parameters
    ----------
    encoder : Encoder
    texts : sequence of str
    embedding : {"weighted", "last"}
        The average over tokens with weights proportional to their position,
        :math:`w_t = t / \sum_k k` (section 3.1), or the last token. Special tokens
        that the tokenizer adds count, as in the authors' tool.
    token_budget : int
        Tokens of a batch, padding included. When memory runs out the batch is halved,
        and those that follow are as small.
    beat : callable, optional
        Called after every batch, so that Ctrl-C need not wait for all of them.

    Returns
    -------
    Embedded

    Raises
    ------
    InputError
        If a single sentence does not fit into memory, the model fails on a batch, or an argument
        is unknown.

    Notes
    -----
    Sentences are padded on the right whatever the tokenizer would do: then positions
    count from the first token, and a causal model's tokens never see the padding. The
    result depends on the batch by rounding only.
    """
    if embedding not in get_args(Embedding):
        raise InputError(
            f"embedding must be one of {', '.join(get_args(Embedding))}; got {embedding!r}"
        )
    if token_budget < 1:
        raise InputError(f"the token budget must be at least 1; got {token_budget}")
    torch = require("torch", "mexa")
    ids, cut = _token_ids(encoder, texts)
    # The longest first: memory runs out at once or not at all, and little is padding.
    order = sorted((i for i, one in enumerate(ids) if one), key=lambda i: -len(ids[i]))
    vectors: Singles | None = None
    start, budget = 0, token_budget
    while start < len(order):
        length = len(ids[order[start]])
        chosen = order[start : start + max(1, budget // length)]
        part = _try_forward(torch, encoder, [ids[i] for i in chosen], embedding)
        if part is None:
            if len(chosen) == 1:
                raise InputError(
                    f"{encoder.name}: one sentence of {length} tokens does not fit into memory on "
                    f"{encoder.device}; choose another device (--device) or a dtype of half "
                    "precision (--dtype)"
                )
            budget = length * (len(chosen) // 2)
            continue
        if vectors is None:
            vectors = np.zeros((part.shape[0], len(ids), part.shape[2]), dtype=np.float32)
        vectors[:, chosen] = part
        start += len(chosen)
        if beat is not None:
            beat()
    if vectors is None:
        raise InputError(f"{encoder.name}: its tokenizer finds no token in any sentence")
    alike = bool((vectors[-1] == vectors[-1, :1]).all())
    distinct = 1 if alike else len(set(map(tuple, ids)))
    return Embedded(vectors, sum(map(len, ids)), cut, budget, distinct)


def _token_ids(encoder: Encoder, texts: Sequence[str]) -> tuple[list[list[int]], int]:
    try:
        ids, cut = token_ids(encoder.tokenizer, texts, encoder.limit)
    except InputError as error:
        raise InputError(f"{encoder.name}: {error}") from error
    known = encoder.model.get_input_embeddings().weight.shape[0]
    highest = max((max(one) for one in ids if one), default=0)
    if highest >= known:
        raise InputError(
            f"{encoder.name}: its tokenizer makes the token {highest}, but the model knows {known}"
            "; tokenizer and weights do not belong together"
        )
    return ids, cut


def _try_forward(
    torch: Any, encoder: Encoder, ids: list[list[int]], embedding: Embedding
) -> Singles | None:
    """Embeddings of one batch, shape (layers, sentences, width); None when memory ran out."""
    try:
        return _forward(torch, encoder, ids, embedding)
    # The model's own code raises whatever its settings and its weights cause.
    except Exception as error:
        if not _is_memory(torch, error):
            raise InputError(
                f"{encoder.name}: the model fails on {encoder.device} in {encoder.dtype} "
                f"({only_line(error)}); check that its config.json belongs to its weights, or "
                "choose another dtype (--dtype) or device (--device)"
            ) from error
    # After the handler, because the error's frames hold the batch.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def _forward(torch: Any, encoder: Encoder, ids: list[list[int]], embedding: Embedding) -> Singles:
    model = encoder.model
    place = model.get_input_embeddings().weight.device
    # What does not fit on any device is elsewhere until accelerate moves it, and the
    # input with it.
    place = torch.device("cpu") if place.type == "meta" else place
    lengths = torch.tensor([len(one) for one in ids])
    # RoBERTa counts positions by what is not padding, so its own id is needed there.
    padding = _padding_id(encoder)
    tokens = torch.full((len(ids), int(lengths.max())), padding, dtype=torch.long)
    for row, one in enumerate(ids):
        tokens[row, : len(one)] = torch.tensor(one)
    position = torch.arange(1, tokens.shape[1] + 1)
    mask = position[None] <= lengths[:, None]
    weights = position * mask if embedding == "weighted" else position == lengths[:, None]
    weights = weights.to(torch.float32)
    weights = weights / weights.sum(1, keepdim=True)
    with torch.inference_mode():
        states = model(
            input_ids=tokens.to(place),
            attention_mask=mask.to(torch.long).to(place),
            output_hidden_states=True,
        ).hidden_states
        pooled = []
        for state in states:
            # What stands on padding may be NaN, and 0 times NaN is NaN.
            clean = state.masked_fill(~mask.to(state.device)[..., None], 0.0).float()
            pooled.append(torch.bmm(weights.to(state.device)[:, None, :], clean)[:, 0])
        if len({one.device for one in pooled}) > 1:
            pooled = [one.cpu() for one in pooled]
        return np.asarray(torch.stack(pooled).cpu().numpy())


def _padding_id(encoder: Encoder) -> int:
    """Any token will do where padding is masked; the model's own where it has one and knows it."""
    known = encoder.model.get_input_embeddings().weight.shape[0]
    for holder in (encoder.model.config, encoder.tokenizer):
        padding = getattr(holder, "pad_token_id", None)
        if isinstance(padding, int) and 0 <= padding < known:
            return padding
    return 0


def _is_memory(torch: Any, error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or "not enough memory" in str(error) or "out of memory" in str(error)


def _device(torch: Any, device: str) -> tuple[Any, bool]:
    """The device, and whether the model is to be spread over several."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda"), find_spec("accelerate") is not None
        mps = torch.backends.mps.is_available()
        return torch.device("mps" if mps else "cpu"), False
    try:
        place = torch.device(device)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"device {device!r} cannot be used ({reason}); choose auto, cpu or cuda"
        ) from error
    return place, False


def _fingerprint(source: str) -> str:
    """The commit of a model from the Hub; of a folder a hash of what is in it.

    Settings are hashed whole, weights at evenly spaced places: another training step of
    the same model has files of the same names and sizes.
    """
    folder = Path(source)
    if not folder.is_dir():
        cached = require("huggingface_hub", "mexa").try_to_load_from_cache(source, "config.json")
        return Path(cached).parent.name if isinstance(cached, str) else ""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.is_file() and path.suffix in _MODEL_FILES:
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            if path.suffix == ".json" or path.stat().st_size <= _PIECES * _PIECE:
                digest.update(path.read_bytes())
                continue
            with path.open("rb") as file:
                for place in np.linspace(0, path.stat().st_size - _PIECE, _PIECES, dtype=np.int64):
                    file.seek(int(place))
                    digest.update(file.read(_PIECE))
    return digest.hexdigest()


def _why(error: BaseException) -> str:
    """What from_pretrained ran into, in a line; it writes paragraphs."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    if "GatedRepoError" in kinds or "gated repo" in str(error):
        return (
            "the model is gated; ask for access on its page at huggingface.co, then run "
            "'hf auth login' or set HF_TOKEN"
        )
    if "RepositoryNotFoundError" in kinds:
        return "no such model on the Hugging Face Hub, and no such folder"
    if "LocalEntryNotFoundError" in kinds or "OfflineModeIsEnabled" in kinds:
        return (
            "the model is not in the local cache and the Hugging Face Hub cannot be reached; "
            "give a folder, or download the model first"
        )
    if "SafetensorError" in kinds:
        return f"the file of its weights is damaged ({error}); download or copy it again"
    if "trust_remote_code" in str(error):
        return (
            "the model comes with code of its own, which is not run here; choose a model that "
            "transformers itself knows"
        )
    if "backend tokenizer" in str(error):
        return (
            "no tokenizer that transformers can load (tokenizer.json); download or copy the model "
            "again"
        )
    if "HFValidationError" in kinds:
        return "no such folder, and no name that the Hugging Face Hub knows (OWNER/MODEL)"
    line = only_line(error)
    if isinstance(error, OSError | ValueError | KeyError | ImportError):
        return line
    return f"transformers cannot build a model of its settings ({line})"
