"""Tables whose truth is known, put through the first table of a run.

    python -m tests.null_tables 300

prints for the whole number of tables what `test_null` asks of fewer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayeseval.design import build_design, choose_model
from bayeseval.engines import SamplerSettings, to_tree
from bayeseval.engines.marginal import sample
from bayeseval.estimands import (
    disparity_summaries,
    expected_score,
    expected_scores,
    infer,
    rank_draws,
    rank_sets,
    read_arrays,
)
from bayeseval.estimands.arrays import rank_summary
from bayeseval.estimands.inference import Inference
from bayeseval.records import Records

Floats = npt.NDArray[np.float64]

CALLED = 0.975
PROB = 0.95


@dataclass(frozen=True, eq=False)
class Table:
    """A simulated table with the true expected scores of its models on all pairs."""

    records: Records
    expected: Floats  # (n_languages, n_tasks, n_models)
    observed: npt.NDArray[np.bool_]

    @property
    def score(self) -> Floats:
        """True mean over the pairs that any model was tested on."""
        pairs = self.observed.any(axis=2)
        return np.asarray(self.expected[pairs].mean(axis=0))


def simulate(
    rng: np.random.Generator,
    *,
    shape: tuple[int, int, int],
    sds: tuple[float, float, float, float],
    levels: Floats | None = None,
    sd_gap: float = 0.0,
    share: float = 1.0,
) -> Table:
    """Scores of `shape` languages, tasks, models with sds of the three and the residual."""
    parts = [sd * rng.standard_normal(n) for sd, n in zip(sds, shape, strict=False)]
    if levels is not None:
        parts[2] = levels
    expected = 60.0 + parts[0][:, None, None] + parts[1][:, None] + parts[2]
    expected = expected + sd_gap * _equal_gaps(rng, shape[0], shape[2])[:, None]
    observed = rng.random(shape) < share
    language, task, model = (index[observed] for index in np.indices(shape))
    frame = pd.DataFrame(
        {
            "language": np.char.add("l", language.astype(str)),
            "task": np.char.add("t", task.astype(str)),
            "model": np.char.add("m", model.astype(str)),
            "score": (expected + sds[3] * rng.standard_normal(shape))[observed],
        }
    )
    return Table(Records.from_frame(frame, name="simulated"), expected, observed)


def _equal_gaps(rng: np.random.Generator, n_languages: int, n_models: int) -> Floats:
    """Gaps with an sd over languages of one for every model and no mean over models."""
    gaps = rng.standard_normal((n_languages, n_models))
    for _ in range(200):
        gaps -= gaps.mean(axis=1, keepdims=True)
        gaps /= gaps.std(axis=0, ddof=1)
    return gaps


@dataclass(frozen=True, eq=False)
class Answer:
    """What the first table says of a simulated one, and what the published means would."""

    found: Inference
    mean_prr: Floats


def answer(table: Table, spec: str, seed: int) -> Answer:
    """Fit by the exact engine, a thousand draws; the engine is called directly."""
    design = build_design(table.records, choose_model(spec, table.records).spec)
    drawn = sample(design, SamplerSettings(draws=250, chains=4, seed=seed))
    expected = expected_scores(read_arrays(to_tree(design, drawn, engine="marginal")), seed=seed)
    found = infer(expected)
    described = disparity_summaries(expected, found.point_potential)
    return Answer(found, described["mean_prr"].values)


def pairs_called(draws: Floats) -> tuple[Floats, Floats]:
    """P(a > b) of all pairs a < b, and whether each is called at 97.5 %."""
    first, second = np.triu_indices(draws.shape[1], 1)
    p = (draws[:, first] > draws[:, second]).mean(axis=0)
    return p, (p > CALLED) | (p < 1.0 - CALLED)


def equal_models(n_tables: int, spec: str) -> dict[str, float]:
    """Five truly equal models, 8 languages x 4 tasks: how often two are told apart."""
    rng = np.random.default_rng(11)
    called, published, single = [], [], []
    for k in range(n_tables):
        table = simulate(rng, shape=(8, 4, 5), sds=(8.0, 10.0, 0.0, 6.0))
        said = answer(table, spec, k)
        score = said.found.standardised_score
        called.append(pairs_called(score)[1].mean())
        published.append(pairs_called(said.mean_prr)[1].mean())
        ranks = rank_summary(rank_draws(score, highest_first=True), ci_prob=PROB)
        single.append((ranks.lower == ranks.upper).mean())
    return {
        "called": float(np.mean(called)),
        "called by the published means": float(np.mean(published)),
        "single ranks": float(np.mean(single)),
    }


def drawn_models(n_tables: int, spec: str) -> dict[str, float]:
    """Models from N(0, 3), 60 % observed: errors of calls, and coverage of what is shown."""
    rng = np.random.default_rng(12)
    wrong = n_called = 0
    inside, published, marginal, joint = [], [], [], []
    for k in range(n_tables):
        table = simulate(rng, shape=(8, 4, 5), sds=(8.0, 10.0, 3.0, 6.0), share=0.6)
        said, truth = answer(table, spec, k), table.score
        score = said.found.standardised_score
        first, second = np.triu_indices(len(truth), 1)
        p, called = pairs_called(score)
        n_called += int(called.sum())
        wrong += int((called & ((p > 0.5) != (truth[first] > truth[second]))).sum())
        low, high = np.quantile(score, [0.025, 0.975], axis=0)
        inside.append(((low <= truth) & (truth <= high)).mean())
        potential = table.expected.mean(axis=2)
        ratio = np.array(
            [
                (table.expected[..., m] / potential)[table.observed[..., m]].mean()
                for m in range(len(truth))
            ]
        )
        low, high = np.quantile(said.mean_prr, [0.025, 0.975], axis=0)
        published.append(((low <= ratio) & (ratio <= high)).mean())
        rank = rank_draws(truth[None], highest_first=True)[0]
        ranks = rank_draws(score, highest_first=True)
        own = rank_summary(ranks, ci_prob=PROB)
        marginal.append(((own.lower <= rank) & (rank <= own.upper)).mean())
        lower, upper = rank_sets(ranks, prob=PROB)
        joint.append(((lower <= rank) & (rank <= upper)).all())
    return {
        "pairs called": n_called,
        "wrong of the called": wrong / max(1, n_called),
        "score covered": float(np.mean(inside)),
        "covered by the published means": float(np.mean(published)),
        "rank covered": float(np.mean(marginal)),
        "all ranks covered": float(np.mean(joint)),
    }


def equal_evenness(n_tables: int, spec: str) -> dict[str, float]:
    """Models at levels 12 points apart with the same sd of gaps: how often two are told apart."""
    rng = np.random.default_rng(13)
    levels = np.array([-24.0, -12.0, 0.0, 12.0, 24.0])
    called, cv = [], []
    for k in range(n_tables):
        table = simulate(rng, shape=(12, 4, 5), sds=(4.0, 6.0, 0.0, 4.0), levels=levels, sd_gap=5.0)
        found = answer(table, spec, k).found
        called.append(pairs_called(found.gap_sd_languages)[1].mean())
        cv.append(pairs_called(found.cv_prr_languages)[1].mean())
    return {
        "called by the sd of gaps": float(np.mean(called)),
        "called by CV-PRR over languages": float(np.mean(cv)),
    }


def one_set_of_outputs(n_tables: int) -> dict[str, float]:
    """Five truly equal models, 8 languages x 4 datasets, F1 and EM of the same noisy outputs."""
    rng, shape = np.random.default_rng(14), (8, 4, 2, 5)
    called, covered, as_performance = [], [], []
    for k in range(n_tables):
        expected = 60.0 + 8.0 * rng.standard_normal((8, 1, 1, 1))
        expected = expected + 10.0 * rng.standard_normal((4, 2, 1)) + np.zeros(shape)
        outputs = 5.0 * rng.standard_normal((8, 4, 1, 5))
        score = expected + outputs + 2.0 * rng.standard_normal(shape)
        language, dataset, metric, model = (index.reshape(-1) for index in np.indices(shape))
        frame = pd.DataFrame(
            {
                "language": np.char.add("l", language.astype(str)),
                "task": [f"d{d}:{('f1', 'em')[m]}" for d, m in zip(dataset, metric, strict=True)],
                "model": np.char.add("m", model.astype(str)),
                "score": score.reshape(-1),
            }
        )
        records = Records.from_frame(frame, name="simulated")
        design = build_design(records, choose_model("dataset", records).spec)
        drawn = sample(design, SamplerSettings(draws=250, chains=4, seed=k))
        arrays = read_arrays(to_tree(design, drawn, engine="marginal"))
        found = infer(expected_scores(arrays, seed=k)).standardised_score
        called.append(pairs_called(found)[1].mean())
        low, high = np.quantile(found, [0.025, 0.975], axis=0)
        covered.append(((low <= expected.mean()) & (expected.mean() <= high)).mean())
        # The table is complete, so the mean over a model's records is that over common pairs.
        with_all_terms = expected_score(arrays)
        own = [with_all_terms[:, arrays.index["model"] == m].mean(axis=1) for m in range(5)]
        as_performance.append(pairs_called(np.stack(own, axis=1))[1].mean())
    return {
        "called": float(np.mean(called)),
        "score covered": float(np.mean(covered)),
        "called where the shared effect is performance": float(np.mean(as_performance)),
    }


def report(n_tables: int) -> Iterator[str]:
    """All of it as lines."""
    for study in (equal_models, drawn_models):
        for spec in ("additive", "auto"):
            yield f"{study.__name__}, {spec}, {n_tables} tables: {study(n_tables, spec)}"
    yield f"one_set_of_outputs, dataset, {n_tables} tables: {one_set_of_outputs(n_tables)}"
    yield f"equal_evenness, auto, {n_tables} tables: {equal_evenness(n_tables, 'auto')}"


if __name__ == "__main__":
    for line in report(int(sys.argv[1])):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
