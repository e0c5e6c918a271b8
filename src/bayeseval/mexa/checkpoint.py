"""Checkpoints of strangers: no tensor at random, no pickle, no code, no kernel of the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bayeseval._optional import require
from bayeseval._text import counted, grouped, plain, show
from bayeseval.errors import InputError

__all__ = ["load_weights", "only_line"]

#: Attention that is part of torch; any other name is that of a package or of the Hub.
_ATTENTION: Final = frozenset(["eager", "sdpa", "flex_attention"])
_EXPERTS: Final = frozenset(["eager", "batched_mm", "grouped_mm"])
_CHOICES: Final = {
    "attn_implementation": _ATTENTION,
    "_attn_implementation": _ATTENTION,
    "_attn_implementation_internal": _ATTENTION,
    "experts_implementation": _EXPERTS,
    "_experts_implementation": _EXPERTS,
    "_experts_implementation_internal": _EXPERTS,
}
# What architectures call their sizes; a model without any of one kind does not exist.
_SIZES: Final = frozenset(
    [
        *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers"),
        *("num_attention_heads", "num_heads", "n_head", "n_heads", "num_key_value_heads"),
        *("hidden_size", "d_model", "n_embd", "vocab_size"),
    ]
)
# The deepest models have a few hundred. Every layer is built before a weight is read.
_MAX_LAYERS: Final = 1000
# Weights are packed to four bits at the least, and twice as many as there are may be unused.
_WEIGHTS_PER_BYTE: Final = 8
# What stands behind the last hidden state, as a part of the model itself. Inside its layers the
# same names are of weights that hidden states depend on.
_HEADS: Final = frozenset(["pooler", "lm_head", "classifier", "cls", "qa_outputs", "score"])
_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_PICKLED: Final = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_SHARD: Final = re.compile(r"[\w-][\w.-]*\.safetensors")
_SHOWN: Final = 3
_MAX_TEXT: Final = 400


def load_weights(torch: Any, transformers: Any, source: str, options: Mapping[str, Any]) -> Any:
    """A model whose weights are all those of its checkpoint.

    Parameters
    ----------
    torch, transformers : module
    source : str
        Hub name or folder.
    options : mapping
        What else ``from_pretrained`` gets: the dtype, the device map.

    Returns
    -------
    transformers.PreTrainedModel
        For an encoder and decoder the encoder.

    Raises
    ------
    InputError
        Without the name of the model: a tensor that is missing or of another size, weights
        that are pickled, settings that no model can have or that ask for code of others.
    """
    settings, _ = transformers.PretrainedConfig.get_config_dict(source)
    _check_settings(settings)
    config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    files = _weight_files(transformers, source)
    for file in files:
        # Its header says whether the file is whole.
        with require("safetensors", "mexa").safe_open(file, framework="pt"):
            pass
    size = sum(Path(file).stat().st_size for file in files)
    _refuse_more_than_the_files_hold(torch, transformers, config, size)
    model, report = transformers.AutoModel.from_pretrained(
        source,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        # Reported with both sizes, which the error would not have.
        ignore_mismatched_sizes=True,
        **options,
    )
    used = model.get_encoder() if model.config.is_encoder_decoder else model
    _refuse_random_weights(model, used, report)
    return used


def _check_settings(settings: Any) -> None:
    """Refuse sizes that no model has, and what would be fetched or run because a file says so."""
    if not isinstance(settings, dict):
        raise InputError(f"config.json: expected an object with keys, got {show(settings)}")
    if "transformers_weights" in settings:
        raise InputError(
            "config.json names another file of weights, "
            f"{show(settings['transformers_weights'])} (transformers_weights); name the file "
            f"{_WEIGHTS} and remove the key"
        )
    for key in _SIZES & set(settings):
        if isinstance(settings[key], int) and settings[key] < 1:
            raise InputError(f"config.json: {key} must be at least 1; got {settings[key]}")
    for key, value in _all_items(settings):
        if "layer" in key and key in _SIZES and isinstance(value, int) and value > _MAX_LAYERS:
            raise InputError(
                f"config.json: {key} is {value}; at most {grouped(_MAX_LAYERS)} layers are built"
            )
        names = value.values() if isinstance(value, dict) else [value]
        for name in names if key in _CHOICES else ():
            if name is not None and name not in _CHOICES[key]:
                raise InputError(
                    f"config.json asks for the kernel {show(name)} ({key}), code of others that is "
                    "not fetched or run here; remove the key, or use one of "
                    f"{', '.join(sorted(_CHOICES[key]))}"
                )


def _all_items(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys and values, those of nested settings too."""
    rest: list[Any] = [settings]
    while rest:
        for key, value in rest.pop().items():
            yield key, value
            rest += [one for one in (value, *_items_of(value)) if isinstance(one, dict)]


def _items_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _weight_files(transformers: Any, source: str) -> list[str]:
    """The files of weights, downloaded if the model is one of the Hub; safetensors only."""
    cached_file = transformers.utils.cached_file
    known = {"_raise_exceptions_for_missing_entries": False}
    whole = cached_file(source, _WEIGHTS, **known)
    if whole is not None:
        return [whole]
    index = cached_file(source, _INDEX, **known)
    if index is None:
        raise InputError(_without_safetensors(cached_file, source))
    try:
        shards = set(json.loads(Path(index).read_bytes())["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
        raise InputError(f"{_INDEX}: not an index of weights (weight_map)") from problem
    for shard in shards:
        # A path would lead out of the folder, another format would be unpickled.
        if not isinstance(shard, str) or not _SHARD.fullmatch(shard):
            raise InputError(
                f"{_INDEX}: {show(shard)} is not the name of a .safetensors file of the folder"
            )
    files = [cached_file(source, shard, **known) for shard in sorted(shards)]
    if None in files or not files:
        absent = [shard for shard, file in zip(sorted(shards), files, strict=True) if file is None]
        raise InputError(f"{_INDEX}: {_few(absent) or 'no file'} is missing; download it again")
    return files


def _without_safetensors(cached_file: Any, source: str) -> str:
    folder = Path(source)
    if folder.is_dir():
        pickled = [file.name for file in sorted(folder.glob("*.bin")) if file.is_file()]
    else:
        # Of a model on the Hub the file is only asked for, not downloaded.
        pickled = [name for name in _PICKLED if _on_the_hub(source, name)]
    if pickled:
        return (
            f"its weights are pickled ({plain(pickled[0])}), and reading a pickle can run code; "
            "only safetensors are read: convert them where you trust them (save_pretrained "
            f"writes {_WEIGHTS})"
        )
    return f"no file of weights ({_WEIGHTS} or {_INDEX})"


def _on_the_hub(source: str, name: str) -> bool:
    hub = require("huggingface_hub", "mexa")
    try:
        return bool(hub.file_exists(source, name))
    # Without a connection the message is the shorter one.
    except (OSError, ValueError):
        return False


def _refuse_more_than_the_files_hold(torch: Any, transformers: Any, config: Any, size: int) -> None:
    """Refuse a model that is much larger than its weights: the rest would be made up."""
    try:
        with torch.device("meta"):
            empty = transformers.AutoModel.from_config(config, trust_remote_code=False)
    except (RuntimeError, NotImplementedError) as problem:
        # Some architectures compute with weights while they are built; they need real ones.
        if "meta" in str(problem):
            return
        raise
    weights = sum(one.numel() for one in empty.parameters())
    if weights > _WEIGHTS_PER_BYTE * size:
        raise InputError(
            f"config.json describes a model of {grouped(weights)} weights, but the files of its "
            f"weights hold {grouped(size)} bytes; the two do not belong together"
        )


def _refuse_random_weights(model: Any, used: Any, report: Mapping[str, Any]) -> None:
    """Refuse tensors that transformers has initialised at random, its own heads excepted."""
    held = {id(one) for one in (*used.parameters(), *used.buffers())}
    named = (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    )
    elsewhere = {name for name, one in named if id(one) not in held}

    def counts(name: str) -> bool:
        return name not in elsewhere and name.partition(".")[0] not in _HEADS

    missing = sorted(filter(counts, report["missing_keys"]))
    sizes = {name: (theirs, ours) for name, theirs, ours in report["mismatched_keys"]}
    wrong = sorted(filter(counts, sizes))
    if wrong:
        theirs, ours = (" x ".join(map(str, one)) or "1" for one in sizes[wrong[0]])
        raise InputError(
            f"{counted(len(wrong), 'tensor')} of its weights {_have(wrong)} another size than "
            f"config.json says: {plain(wrong[0])} is {theirs}, not {ours}; the two do not belong "
            "together"
        )
    if missing:
        raise InputError(
            f"{counted(len(missing), 'tensor')} of the model {_have(missing)} no weights in the "
            f"checkpoint, and would be random: {_few(missing)}; download or copy the model again"
        )


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _few(names: Sequence[str]) -> str:
    more = f" and {grouped(len(names) - _SHOWN)} more" if len(names) > _SHOWN else ""
    return ", ".join(map(plain, names[:_SHOWN])) + more


def only_line(error: BaseException) -> str:
    """What an error of transformers says, in one printable line; it writes paragraphs."""
    lines = [line for line in (" ".join(one.split()) for one in str(error).split("\n")) if line]
    if not lines:
        return type(error).__name__
    # The heading of a paragraph says nothing alone; a lone key neither.
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return plain(f"KeyError: {text}" if isinstance(error, KeyError) else text)[:_MAX_TEXT]
