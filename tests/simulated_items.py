"""Items of test sets, right or wrong by run, and what they say exactly of runs and means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr

from bayeseval.records import Records

Floats = npt.NDArray[np.float64]

# Nodes and weights of expectations over a standard normal.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class ItemBench:
    """Training runs (seeds) of models on one test set in each language.

    Item i of language l is answered right by seed s of model m when

        a_lm + e_lms + c_li + d_lmi + u_lmsi > 0:

    seeds move all items a little (e), items are harder for all models (c) and for one (d),
    and another run gets other items right (u, standard normal). All models and seeds of a
    language have the same items. Scores are percentages.
    """

    n_models: int = 2
    n_languages: int = 32
    n_seeds: int = 5
    n_items: int = 400
    seed_sd: float = 0.02
    common_sd: float = 0.8
    own_sd: float = 0.9

    def ability(self, rng: np.random.Generator) -> Floats:
        """Latent ability of every model and language, shape (n_models, n_languages)."""
        languages = rng.normal(0.2, 0.6, self.n_languages)
        return np.asarray(languages + rng.normal(0.0, 0.3, (self.n_models, self.n_languages)))

    def answers(self, ability: Floats, rng: np.random.Generator) -> Floats:
        """1 where right; shape (n_models, n_languages, n_seeds, n_items)."""
        m, n_languages = ability.shape
        seed = rng.normal(0.0, self.seed_sd, (m, n_languages, self.n_seeds, 1))
        common = rng.normal(0.0, self.common_sd, (1, n_languages, 1, self.n_items))
        own = rng.normal(0.0, self.own_sd, (m, n_languages, 1, self.n_items))
        run = rng.normal(size=(m, n_languages, self.n_seeds, self.n_items))
        return (ability[..., None, None] + seed + common + own + run > 0.0).astype(np.float64)

    def variances(self, ability: Floats) -> dict[str, Floats]:
        """Exact variances of seeds, test sets and their interaction, by model and language.

        Given the seed's effect e a run is right on a share mu(e) = Phi((a + e) / r) of all
        items, with r^2 = 1 + var(c) + var(d). So sigma^2 = var mu(e), tau^2 + omega^2 =
        E mu(e) (1 - mu(e)) / n, and tau^2 = (E_v g(v)^2 - (E mu)^2) / n with
        g(v) = Phi((a + v) / sqrt(1 + var(e))) the share of runs that get such an item right.
        """
        items = np.hypot(self.common_sd, self.own_sd)
        a = ability[..., None]
        share = ndtr((a + self.seed_sd * _NODES) / np.hypot(1.0, items))
        mean = (share * _WEIGHTS).sum(axis=-1)
        both = (ndtr((a + items * _NODES) / np.hypot(1.0, self.seed_sd)) ** 2 * _WEIGHTS).sum(-1)
        seed = ((share - mean[..., None]) ** 2 * _WEIGHTS).sum(axis=-1)
        of_items = (share * (1.0 - share) * _WEIGHTS).sum(axis=-1) / self.n_items
        boot = (both - mean**2) / self.n_items
        parts = {"seed": seed, "boot": boot, "seed_boot": of_items - boot}
        return {name: 100.0**2 * value for name, value in parts.items()}

    def expected(self, ability: Floats) -> Floats:
        """Share of right answers over all runs and test sets, in percent, as `ability`."""
        spread = np.sqrt(1.0 + self.common_sd**2 + self.own_sd**2 + self.seed_sd**2)
        return np.asarray(100.0 * ndtr(ability / spread))

    def rows_by_seed(self, answers: Floats) -> pd.DataFrame:
        """Score of every seed on the full test set, and its number of items."""
        rows = _frame(100.0 * answers.mean(axis=-1), ("seed",))
        return rows.assign(task="items:accuracy", n=self.n_items)

    def rows_by_boot(self, answers: Floats, n_boot: int, rng: np.random.Generator) -> pd.DataFrame:
        """Scores of every seed on `n_boot` bootstraps, which all models and seeds share."""
        n = self.n_items
        drawn = rng.multinomial(n, np.full(n, 1.0 / n), size=(self.n_languages, n_boot)) / n
        return _frame(100.0 * np.einsum("mlsi,lbi->mlsb", answers, drawn), ("seed", "boot"))

    def rows_by_item(self, answers: Floats) -> pd.DataFrame:
        """Every item as it was answered."""
        return _frame(100.0 * answers, ("seed", "item"))

    def summaries(self, answers: Floats, n_boot: int, rng: np.random.Generator) -> pd.DataFrame:
        """Means on the full test set, the sd of the seeds on it, and boot sds of one seed."""
        rows = self.rows_by_boot(answers[:, :, :1], n_boot, rng).drop(columns="seed")
        keys = ["model", "language"]
        by_cell = _frame(100.0 * answers.mean(axis=-1), ("seed",)).groupby(keys)["score"]
        boot = rows.groupby(keys)["score"].std().rename("boot_sd")
        table = pd.concat([by_cell.mean(), by_cell.std().rename("seed_sd"), boot], axis=1)
        return table.reset_index().assign(n_seeds=self.n_seeds, n_boot=n_boot)


def _frame(values: Floats, replicates: tuple[str, ...]) -> pd.DataFrame:
    """One row per value; leading axes are models and languages."""
    axes = np.unravel_index(np.arange(values.size), values.shape)
    columns = {
        "model": [f"m{i}" for i in axes[0]],
        "language": [f"l{i:02d}" for i in axes[1]],
        **dict(zip(replicates, axes[2:], strict=True)),
    }
    return pd.DataFrame(columns | {"score": values.reshape(-1)})


def records_of(frame: pd.DataFrame) -> Records:
    """Records of such rows, as percentages."""
    return Records.from_frame(frame, name="items", units=(0.0, 100.0))
