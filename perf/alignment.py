"""What aligning costs: scoring, extraction, memory, and runs that are killed.

    python perf/alignment.py [--part scoring|extraction|memory|kills] [--sentences 100]

- scoring: `mexa.alignment.score` for 100 sentences, width 4096 and 33 layers, against
  the loop of the authors' tool (SciPy's cosine for every pair, in double precision),
  which is timed on one layer and multiplied; target 50 times.
- extraction: a Llama of about 100 million random weights on the CPU, batches against
  one sentence at a time; target 2.5 times. Lengths of sentences are lognormal with a
  mean of about 30 tokens and a coefficient of variation of 0.4, like FLORES-200's.
- memory: peak memory while 50 and 200 languages of 8 layers and width 2048 are scored; target
  flat within 5 %.
- kills: the command, killed by SIGKILL at ten random moments and started again, until it
  ends; its tables have to be those of a run that was left alone, byte for byte.

Everything is made on the spot; nothing is fetched. It needs the extra ``mexa`` and is no part
of `make perf`. A missed target ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import print_machine, print_table

PARTS = ("scoring", "extraction", "memory", "kills")
VOCABULARY = 2000


def best_of(call: Callable[[], object], times: int) -> float:
    """Shortest wall time in seconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def scoring(sentences: int) -> tuple[list[dict[str, object]], bool]:
    """Score one language, and do what the authors' tool does on one of its layers."""
    from scipy.spatial.distance import cosine

    from bayeseval.mexa.alignment import score

    rng = np.random.default_rng(0)
    pivot = rng.normal(size=(33, sentences, 4096)).astype(np.float32)
    language = pivot + rng.normal(size=pivot.shape).astype(np.float32)

    def loop() -> None:
        matrix = np.zeros((sentences, sentences))
        for i, one in enumerate(pivot[0].astype(np.float64)):
            for j, other in enumerate(language[0].astype(np.float64)):
                matrix[i, j] = 1 - cosine(one, other)
        for i in range(sentences):
            max(np.delete(matrix[i], i)), max(np.delete(matrix[:, i], i))

    ours, theirs = best_of(lambda: score(language, pivot), 5), 33 * best_of(loop, 1)
    ratio = theirs / ours
    row = {"what": "scoring", "ours s": ours, "peer s": theirs, "ratio": ratio, "target": ">= 50"}
    return [row], ratio >= 50


def llama(folder: Path) -> int:
    """Write a random Llama with a tokenizer of one token per word; return its parameters."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        max_position_embeddings=512,
    )
    model: Any = transformers.LlamaModel(config)
    model.save_pretrained(folder)
    vocabulary = {"<s>": 0, "<unk>": 1, **{f"w{i}": i + 2 for i in range(VOCABULARY)}}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    make: Any = transformers.PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=raw, unk_token="<unk>")
    tokenizer.save_pretrained(folder)
    return sum(one.numel() for one in model.parameters())


def texts(count: int, seed: int) -> list[str]:
    """Sentences of random words with lengths like those of FLORES-200."""
    rng = np.random.default_rng(seed)
    spread = np.sqrt(np.log(1 + 0.4**2))
    lengths = rng.lognormal(np.log(30) - spread**2 / 2, spread, size=count).round().clip(4, 120)
    return [
        " ".join(f"w{i}" for i in rng.integers(VOCABULARY, size=int(length))) for length in lengths
    ]


def extraction(sentences: int) -> tuple[list[dict[str, object]], bool]:
    """Batches against one sentence at a time, both with both pooled at every layer."""
    import torch

    from bayeseval.mexa.extract import embed, load_encoder

    with tempfile.TemporaryDirectory() as folder:
        parameters = llama(Path(folder))
        encoder = load_encoder(folder, device="cpu")
        lines = texts(sentences, 1)

        def single() -> None:
            for line in lines:
                tokens = encoder.tokenizer(line, return_tensors="pt")["input_ids"]
                with torch.inference_mode():
                    states = encoder.model(tokens, output_hidden_states=True).hidden_states
                weights = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float32)
                for state in states:
                    (state[0] * (weights / weights.sum())[:, None]).sum(0).numpy()

        embed(encoder, lines[:4])
        tokens = sum(len(line.split()) + 1 for line in lines)
        rows: list[dict[str, object]] = []
        theirs = best_of(single, 2)
        for budget in (512, 2048, 8192):
            ours = best_of(partial(embed, encoder, lines, token_budget=budget), 2)
            rows.append(
                {
                    "what": f"extraction, {parameters / 1e6:.0f} M, budget {budget}",
                    "ours s": ours,
                    "peer s": theirs,
                    "ratio": theirs / ours,
                    "target": ">= 2.5",
                    "tokens/s": tokens / ours,
                }
            )
    return rows, max(float(str(row["ratio"])) for row in rows) >= 2.5


def memory(sentences: int) -> tuple[list[dict[str, object]], bool]:
    """Peak memory of a process that scores 50 languages, and of one that scores 200."""
    code = f"""
import resource, sys
import numpy as np
from bayeseval.mexa.extract import Embedded, Encoder
from bayeseval.mexa.measure import measure
from bayeseval.mexa.parallel import Parallel
def embedder(encoder, texts, **_):
    rng = np.random.default_rng(len(texts[0]))
    vectors = rng.standard_normal((8, len(texts), 2048), dtype=np.float32)
    return Embedded(vectors, 1, 0, 1, len(texts))
labels = ["eng_Latn", *(f"l{{i}}" for i in range(int(sys.argv[1])))]
parallel = Parallel("eng_Latn", {{label: ("x",) * {sentences} for label in labels}})
measure(Encoder("m", "", "cpu", "float32", None, None, None), parallel, embedder=embedder)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    peaks = {
        count: float(subprocess.check_output([sys.executable, "-c", code, str(count)]))
        for count in (50, 200)
    }
    rows: list[dict[str, object]] = [
        {"what": f"memory, {count} languages", "peak MiB": peak} for count, peak in peaks.items()
    ]
    return rows, peaks[200] < 1.05 * peaks[50]


def kills(sentences: int) -> tuple[list[dict[str, object]], bool]:
    """Kill the command ten times, let it end, and compare its tables."""
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        llama(root / "model")
        (root / "texts").mkdir()
        for seed, code in enumerate(("eng", "deu", "fra", "ita", "spa", "por", "swe", "dan")):
            text = "\n".join(texts(sentences, seed)) + "\n"
            (root / "texts" / f"{code}_Latn.txt").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "bayeseval.cli", "mexa", "--model", str(root / "model")]
        command += ["--parallel", str(root / "texts"), "--sentences", str(sentences), "--quiet"]
        begun = time.perf_counter()
        subprocess.run([*command, "--out", str(root / "whole")], check=True, capture_output=True)
        whole = time.perf_counter() - begun
        done: list[int] = []
        for _ in range(10):
            process = subprocess.Popen(
                [*command, "--out", str(root / "killed")],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(float(rng.uniform(0.2, 0.9)) * whole)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            parts = root / "killed.unfinished" / "scores"
            done.append(len(list(parts.glob("[a-z]*.json"))) if parts.is_dir() else 0)
            if (root / "killed").exists():
                # It ended before its time: what it wrote is compared below; begin again.
                shutil.rmtree(root / "killed")
        subprocess.run([*command, "--out", str(root / "killed")], check=True, capture_output=True)
        same = all(
            (root / "whole" / file).read_bytes() == (root / "killed" / file).read_bytes()
            for file in ("alignment.csv", "pooled.csv")
        )
    row = {
        "what": "kills, languages on disk after each",
        "done": " ".join(map(str, done)),
        "same tables": same,
        "uninterrupted s": whole,
    }
    return [row], same


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for; 1 when a target was missed."""
    parser = argparse.ArgumentParser(description="What aligning costs.")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--sentences", type=int, default=100)
    asked = parser.parse_args(arguments)
    print_machine()
    fine = True
    functions = {"scoring": scoring, "extraction": extraction, "memory": memory, "kills": kills}
    for part in asked.part or PARTS:
        rows, reached = functions[part](asked.sentences)
        print_table(rows)
        fine = fine and reached
        print(f"{part}: target {'reached' if reached else 'missed'}\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
