"""How often intervals of the cells' seed sds hold the truth, without any sampler.

    python perf/cell_sd_coverage.py [--tables 150]

Mean squares of S = 4 seeds in 8 cells of each of 4 models have the posterior

    p(kappa) prod_m p(s_m) prod_c N(log sigma_c; log s_m, kappa^2) chi2_{S-1}(q_c; sigma_c^2)

with the priors of the model: half-normal(0.5) for kappa (`sd_log_seed`), half-normal for
s_m (`sd_seed_model`). All integrals are sums over grids. Intervals hold 95 % of truths
drawn from the prior; at one given kappa they may hold more or fewer. The line at 0.3 is
about what `replicate_recovery.py` should find for `sd_seed_cell`, where the seeds' mean
squares also hold their interaction with the test set at hand.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MODELS, CELLS, SEEDS = 4, 8, 4
# Half of the sd of the scores of replicate_recovery.py, typical sd 1.
PRIOR_SCALE = 5.4
LOG_SD = np.arange(-4.5, 4.5, 0.02)
LOG_TYPICAL = np.arange(-2.5, 2.5, 0.05)
SPREAD = np.arange(0.0125, 2.4, 0.025)


def kernel() -> Floats:
    """Probabilities of the log sds given spread and typical sd; shape (k, u, z)."""
    distance = (LOG_SD - LOG_TYPICAL[:, None]) / SPREAD[:, None, None]
    density = np.exp(-0.5 * distance**2)
    return np.asarray(density / density.sum(axis=-1, keepdims=True))


def cell_cdfs(mean_square: Floats, given: Floats) -> Floats:
    """Posterior distribution functions of the log sds on their grid; shape (z, m * c)."""
    centre = float(np.median(mean_square))
    df = SEEDS - 1
    ratio = mean_square.reshape(-1) / centre
    likelihood = np.exp(-df * LOG_SD[:, None] - 0.5 * df * ratio * np.exp(-2 * LOG_SD[:, None]))
    likelihood /= likelihood.max(axis=0)
    cell = np.tensordot(given, likelihood, axes=1).reshape(*given.shape[:2], MODELS, CELLS)
    typical = np.exp(LOG_TYPICAL)
    prior = typical * np.exp(-0.5 * (typical * np.sqrt(centre) / PRIOR_SCALE) ** 2)
    joint = cell.prod(axis=-1) * prior[:, None]
    by_model = joint.sum(axis=1)
    spread = np.exp(-0.5 * (SPREAD / 0.5) ** 2) * by_model.prod(axis=-1)
    weight = (spread[:, None] / by_model)[:, None, :] * joint
    # Without a cell's own part, which its density brings; far from all data both are 0.
    others = np.divide(weight[..., None], cell, out=np.zeros_like(cell), where=cell > 1e-280)
    density = likelihood * np.tensordot(given, others, axes=((0, 1), (0, 1))).reshape(
        len(LOG_SD), -1
    )
    return np.asarray(np.cumsum(density, axis=0) / density.sum(axis=0))


def coverage(rng: np.random.Generator, tables: int, spread: float | None) -> tuple[Floats, Floats]:
    """Shares of cells below and above their 95 % intervals, by table."""
    given = kernel()
    below, above = [], []
    for _ in range(tables):
        own = abs(rng.normal(0.0, 0.5)) if spread is None else spread
        typical = np.ones(MODELS) if spread is not None else abs(rng.normal(size=MODELS))
        scale = 1.0 if spread is not None else PRIOR_SCALE
        sd = scale * typical[:, None] * np.exp(own * rng.normal(size=(MODELS, CELLS)))
        square = sd**2 * rng.chisquare(SEEDS - 1, size=sd.shape) / (SEEDS - 1)
        cdf = cell_cdfs(square, given)
        truth = np.log(sd.ravel()) - 0.5 * np.log(np.median(square))
        step = LOG_SD[1] - LOG_SD[0]
        place = [np.interp(t, LOG_SD + step / 2, c) for t, c in zip(truth, cdf.T, strict=True)]
        below.append(np.mean(np.array(place) < 0.025))
        above.append(np.mean(np.array(place) > 0.975))
    return np.array(below), np.array(above)


def main() -> int:
    """Print a line per truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=150)
    tables = parser.parse_args().tables
    rng = np.random.default_rng(1)
    print(f"{'sd_log_seed':16}{'covered':>9}{'se':>8}{'below':>8}{'above':>8}")
    for spread in (None, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 1.2):
        below, above = coverage(rng, tables, spread)
        hit = 1.0 - below - above
        label = "from the prior" if spread is None else f"{spread:g}"
        print(
            f"{label:16}{hit.mean():9.3f}{hit.std(ddof=1) / tables**0.5:8.3f}"
            f"{below.mean():8.3f}{above.mean():8.3f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
