"""Checkpoints of strangers: no tensor at random, no pickle, no code, no kernel of the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
# Modules and parameters of a model by tensor of its checkpoint: tensors may be stored joined, and
# the decoder and heads may be missing. Larger models than the second number do not exist.
_PARTS_PER_TENSOR: Final = 20
_FREE_PARTS: Final = 1000
_MAX_PARTS: Final = 1_000_000
# Tables of positions and masks are computed, not stored: 1 GiB in single precision.
_MAX_BUFFERS: Final = 1 << 28
_FLOATS: Final = frozenset(["F64", "F32", "F16", "BF16"])
# What stands behind the last hidden state, as a part of the model itself. Inside its layers the
# same names are of weights that hidden states depend on.
_HEADS: Final = frozenset(["pooler", "lm_head", "classifier", "cls", "qa_outputs", "score"])
# Tables that older versions of transformers stored; those of today compute them.
_OLD_TABLES: Final = re.compile(
    r"(^|\.)((attn|attention)\.(bias|masked_bias|causal_mask)|embed_positions\.weights|position_ids"
    r"|token_type_ids|(\w+_)?inv_freq|(cos|sin)_cached|version)$"
)
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
        Without the name of the model: a tensor that is missing, is not used, is of another size
        or holds no floating-point numbers; weights that are pickled, an adapter, settings that no
        model can have or that ask for code of others.
    """
    # With peft installed, transformers would load the base model that the file names, from
    # the hub if need be; without, it would leave the adapter out.
    if transformers.utils.find_adapter_config_file(source) is not None:
        raise InputError(
            "adapter_config.json makes the model an adapter of another one, which is not loaded "
            "here; merge both (peft: merge_and_unload), save the model and name its folder"
        )
    settings, _ = transformers.PretrainedConfig.get_config_dict(source)
    _check_settings(settings)
    method = _quantisation(transformers, settings)
    config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    files = _weight_files(transformers, source)
    kinds = _kinds_of_tensors(files)
    size = sum(Path(file).stat().st_size for file in files)
    empty = _empty_model(torch, transformers, config, size, len(kinds))
    if not method:
        _refuse_coded_weights(empty, kinds)
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
    quantised = getattr(model, "hf_quantizer", None) is not None
    if method and not quantised and _FLOATS.issuperset(kinds.values()):
        raise InputError(
            f"config.json says that the weights are quantised ({method}), but the files hold "
            "plain floating-point numbers; the two do not belong together: remove "
            "quantization_config if the weights are complete"
        )
    _refuse_unused_weights(model, used, report["unexpected_keys"], quantised=quantised)
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


def _quantisation(transformers: Any, settings: Mapping[str, Any]) -> str:
    """The method by which config.json says that weights are quantised; "" for none."""
    said = settings.get("quantization_config")
    if said is None:
        return ""
    method = said.get("quant_method", "bitsandbytes") if isinstance(said, dict) else said
    known = {"bitsandbytes", *transformers.quantizers.auto.AUTO_QUANTIZER_MAPPING}
    if not isinstance(said, dict) or not isinstance(method, str) or method not in known:
        raise InputError(
            f"config.json: quantization_config names the method {show(method)}, which transformers "
            f"does not know; known are {', '.join(sorted(known))}"
        )
    return method


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
        one = len(absent) < 2
        raise InputError(
            f"{_INDEX}: {_few(absent) or 'no file'} {'is' if one else 'are'} missing; download "
            f"{'it' if one else 'them'} again"
        )
    return files


def _kinds_of_tensors(files: Sequence[str]) -> dict[str, str]:
    """Tensors and their types as safetensors names them; the header says if a file is whole."""
    kinds: dict[str, str] = {}
    for file in files:
        with require("safetensors", "mexa").safe_open(file, framework="pt") as tensors:
            kinds |= {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
    return kinds


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


def _empty_model(torch: Any, transformers: Any, config: Any, size: int, tensors: int) -> Any:
    """The model without weights; None for architectures that cannot be built so.

    A model that is much larger than its weights is refused: the rest would be made up.
    """
    try:
        with torch.device("meta"), _no_larger_than_the_files(torch, size, tensors):
            return transformers.AutoModel.from_config(config, trust_remote_code=False)
    except (RuntimeError, NotImplementedError) as problem:
        # Some architectures compute with weights while they are built; they need real ones.
        if "meta" in str(problem):
            return None
        raise


@contextmanager
def _no_larger_than_the_files(torch: Any, size: int, tensors: int) -> Iterator[None]:
    """Count what a model that is being built registers, and stop it in time."""
    torch_module = torch.nn.modules.module
    most = {
        "modules and parameters": (
            min(_MAX_PARTS, _PARTS_PER_TENSOR * tensors + _FREE_PARTS),
            f"{grouped(tensors)} tensors",
        ),
        "weights": (_WEIGHTS_PER_BYTE * size, f"{grouped(size)} bytes"),
        "positions and masks": (
            max(_MAX_BUFFERS, _WEIGHTS_PER_BYTE * size),
            f"{grouped(size)} bytes",
        ),
    }
    counts = dict.fromkeys(most, 0)

    def add(what: str, count: int) -> None:
        counts[what] += count
        limit, held = most[what]
        if counts[what] > limit:
            raise InputError(
                f"config.json describes a model of at least {grouped(counts[what])} {what}, but "
                f"the files of its weights hold {held}; the two do not belong together"
            )

    def on_module(module: Any, name: str, part: Any) -> None:
        add("modules and parameters", 1)

    def on_parameter(module: Any, name: str, tensor: Any) -> None:
        add("modules and parameters", 1)
        add("weights", 0 if tensor is None else tensor.numel())

    def on_buffer(module: Any, name: str, tensor: Any) -> None:
        add("positions and masks", 0 if tensor is None else tensor.numel())

    handles = [
        torch_module.register_module_module_registration_hook(on_module),
        torch_module.register_module_parameter_registration_hook(on_parameter),
        torch_module.register_module_buffer_registration_hook(on_buffer),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _refuse_coded_weights(empty: Any, kinds: Mapping[str, str]) -> None:
    """Refuse tensors that hold codes of numbers, tables of the model's own excepted."""
    tables = {name for name, _ in empty.named_buffers()} if empty is not None else set()
    coded = sorted(
        name
        for name, kind in kinds.items()
        if kind not in _FLOATS
        and not _OLD_TABLES.search(name)
        and (empty is None or _inside(empty, name) not in tables)
    )
    if coded:
        raise InputError(
            f"{counted(len(coded), 'tensor')} of its weights {_have(coded)} numbers that are not "
            f"floating-point: {plain(coded[0])} is {kinds[coded[0]]}, expected one of "
            f"{', '.join(sorted(_FLOATS))}; quantised weights need a quantization_config in "
            "config.json"
        )


def _refuse_unused_weights(model: Any, used: Any, names: Any, *, quantised: bool) -> None:
    """Refuse tensors of the layers that the model does not have; heads stand outside of them."""
    modules = dict(model.named_modules())
    own = next((f"{name}." for name, one in modules.items() if one is used and name), "")
    parts = {name for name, _ in used.named_children()} - _HEADS
    unused = set()
    for name in names:
        inside = _inside(model, name)
        part = inside.removeprefix(own).partition(".")[0]
        if not inside.startswith(own) or part not in parts or _OLD_TABLES.search(name):
            continue
        steps = inside.split(".")
        known = sum(".".join(steps[:depth]) in modules for depth in range(1, len(steps) + 1))
        # Scales and codes stand beside the weights that quantised modules have.
        if not (quantised and known == len(steps) - 1):
            unused.add(".".join(steps[: known + 1]))
    if unused:
        # Layer 2 before layer 10.
        ordered = sorted(unused, key=lambda name: (len(name), name))
        raise InputError(
            f"its weights hold tensors of {_few(ordered)}, which the model that config.json "
            "describes does not have; the two do not belong together"
        )


def _inside(model: Any, name: str) -> str:
    """The name of a tensor in the model without heads: ``transformer.h.0`` is ``h.0`` there."""
    prefix = f"{model.base_model_prefix}."
    own = {child for child, _ in model.named_children()}
    return name if name.partition(".")[0] in own else name.removeprefix(prefix)


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
