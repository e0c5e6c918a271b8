"""Student-t residuals without NUTS: a sampler that is not part of the package, and its cost.

    python perf/student_t.py [--sweeps 1000] [--tune 200] [--chains 4] [--contestants collapsed]

For MEGA under `robust`, the smallest bulk ESS over all standard deviations, nu and the main
effects, over processor seconds (compilation included), of this sampler and of our NumPyro engine;
and of the engine `marginal` under `by_task`. Contestants that are not named keep their rows.

Student-t noise is normal noise with a random precision factor w of every record. One sweep of the
sampler is

1. all effects given the sds and w: an exact draw by one factorisation, the engine `marginal`'s;
2. every sd except those of 3, given its effects and given its standardised effects
   (Yu and Meng 2011, interweaving);
3. sd_model_language, sd_residual and nu given the other effects, with the effects of
   model:language *and* w integrated out: in every cell of model and language a one-dimensional
   integral, by the trapezoidal rule, which converges exponentially here. The proposal is one
   Newton step from a fixed point, so it depends on nothing that is updated;
4. the effects of model:language from the integrand of 3, then w given these.

Steps 3 and 4 together draw from the joint conditional distribution of all five, so the order
leaves the posterior invariant (van Dyk and Park 2008). What the warm-up fixed does not change
afterwards.

The parameters mix well then. Some effects of languages do not, probably because their scores
disagree: one or the other is the outlier, and given w there is hardly a way between the two.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from measure import child, print_machine, print_table, reply, write_csv

COLLAPSED: Final = "collapsed"
NUMPYRO: Final = "our numpyro"
MARGINAL: Final = "marginal"
ELIMINATED: Final = "model:language"
TRIPLE: Final = ("sd_model_language", "sd_residual", "nu")

# Half width of the grid of an effect in prior sds, and its spacing in distances to the nearest pole
# of the integrand: the error of the trapezoidal rule is exp(-2 pi / spacing), 1e-8.
WIDTH: Final = 6.0
SPACING: Final = 1.0 / 3.0
# Draws need a density between the nodes: a finer grid, interpolated linearly, and rejection.
FINER: Final = 3
MOST_ABOVE: Final = 1.25

STEP: Final = np.array([0.02, 0.02, 0.06])
PROPOSALS: Final = 2
DF: Final = 6.0


def cpu_seconds() -> float:
    """Processor time of this process, all threads."""
    used = os.times()
    return used.user + used.system


@dataclass(frozen=True, eq=False)
class Cells:
    """Records sorted by cell: residuals without the effect of the cell enter in this order."""

    order: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    cell: np.ndarray

    def log_integrand(
        self, rest: np.ndarray, triple: np.ndarray, *, finer: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, and the log of N(u; 0, sd^2) prod t_nu(rest - u) at these, (n_cells, n_nodes)."""
        from scipy.special import gammaln

        sd, scale, nu = triple
        pole = scale * np.sqrt(nu)
        n_nodes = finer * int(np.ceil(2.0 * WIDTH * sd / (SPACING * pole))) + 1
        nodes = np.linspace(-WIDTH * sd, WIDTH * sd, n_nodes)
        z = rest[:, None] - nodes
        z *= z
        z /= nu * scale**2
        z += 1.0
        value = np.log(np.multiply.reduceat(z, self.starts, axis=0))
        value *= -0.5 * (nu + 1.0)
        value -= 0.5 * (nodes / sd) ** 2 + 0.5 * np.log(2.0 * np.pi) + np.log(sd)
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu)
        constant -= 0.5 * np.log(nu * np.pi) + np.log(scale)
        value += (self.counts * constant)[:, None]
        return nodes, value

    def log_integral(self, rest: np.ndarray, triple: np.ndarray) -> float:
        """Log density of the scores given the other effects."""
        nodes, value = self.log_integrand(rest, triple)
        top = value.max(axis=1)
        value -= top[:, None]
        total = np.exp(value, out=value).sum(axis=1) * (nodes[1] - nodes[0])
        return float((np.log(total) + top).sum())

    def effects(self, rest: np.ndarray, triple: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Effects of the cells given the other effects, by rejection from the interpolant."""
        nodes, value = self.log_integrand(rest, triple, finer=FINER)
        step, top = nodes[1] - nodes[0], value.max(axis=1, keepdims=True)
        density = np.exp(value - top)
        below = np.cumsum(density[:, 1:] + density[:, :-1], axis=1)
        found, wanted = np.empty(len(top)), np.arange(len(top))
        while wanted.size:
            mark = rng.uniform(size=wanted.size) * below[wanted, -1]
            j = (below[wanted] < mark[:, None]).sum(axis=1)
            a, b = density[wanted, j], density[wanted, j + 1]
            t = rng.uniform(size=wanted.size)
            root = np.sqrt(a * a + (b * b - a * a) * t)
            share = (a + b) * t / (a + root)
            u = nodes[j] + share * step
            exact = np.exp(self._log_density(rest, triple, wanted, u) - top[wanted, 0])
            ratio = exact / ((1.0 - share) * a + share * b)
            if ratio.max() > MOST_ABOVE:
                raise ValueError(f"density {ratio.max():.2f} times its interpolant: a finer grid")
            accepted = rng.uniform(size=wanted.size) * MOST_ABOVE < ratio
            found[wanted[accepted]] = u[accepted]
            wanted = wanted[~accepted]
        return found

    def _log_density(
        self, rest: np.ndarray, triple: np.ndarray, cells: np.ndarray, u: np.ndarray
    ) -> np.ndarray:
        from scipy.special import gammaln

        sd, scale, nu = triple
        everywhere = np.zeros(len(self.starts))
        everywhere[cells] = u
        z = (rest - everywhere[self.cell]) / scale
        value = -0.5 * (nu + 1.0) * np.add.reduceat(np.log1p(z * z / nu), self.starts)
        value += self.counts * (gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu))
        value -= self.counts * (0.5 * np.log(nu * np.pi) + np.log(scale))
        value -= 0.5 * (everywhere / sd) ** 2 + 0.5 * np.log(2.0 * np.pi) + np.log(sd)
        return np.asarray(value[cells])


def slice_step(log_density: Any, x: float, width: float, rng: np.random.Generator) -> float:
    """One update of a scalar by slice sampling with stepping out (Neal 2003)."""
    level = log_density(x) + np.log(rng.uniform())
    low = x - width * rng.uniform()
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while True:
        new = float(rng.uniform(low, high))
        if log_density(new) > level:
            return new
        low, high = (new, high) if new < x else (low, new)


class Chain:
    """One chain on MEGA under `robust`."""

    def __init__(self, design: Any, seed: int) -> None:
        from dataclasses import replace

        from bayeseval.engines._marginal_density import build_marginal
        from bayeseval.engines._marginal_prior import log_prior_density

        self.design, self.rng = design, np.random.default_rng(seed)
        # A noise class for every record, in their order.
        self.marginal = build_marginal(replace(design, se=np.arange(1.0, design.n_records + 1.0)))
        self.names = self.marginal.scales.names
        self.log_prior = {k: log_prior_density(design.priors[k]) for k in self.names}
        index = design.term(ELIMINATED).index
        order, counts = np.argsort(index, kind="stable"), np.bincount(index)
        self.cells = Cells(
            order=order,
            starts=np.concatenate([[0], np.cumsum(counts)[:-1]]),
            counts=counts,
            cell=index[order],
        )
        spread = float(design.score.std())
        self.values = {k: spread * float(np.exp(0.3 * self.rng.normal())) / 3 for k in self.names}
        self.values["nu"] = 3.0
        self.weight = np.ones(design.n_records)
        self.centre = np.zeros(3)
        self.covariance = np.zeros((3, 3))

    def sweep(self) -> dict[str, np.ndarray]:
        """Steps 1 and 2; returns the effects."""
        statistics, values = self.marginal.statistics, self.values
        sds = statistics.prior_sds(1, lambda k: np.array([values[k]]))
        precision = self.weight / values["sd_residual"] ** 2
        factor = self.marginal.factor_at(*sds, precision[None], roots={})
        one = np.ones(1, dtype=np.int64)
        drawn = self.marginal._effects(factor, one, self.rng)
        effects = {k: v[0] for k, v in drawn.items()}
        eta = np.full(self.design.n_records, effects["intercept"][0])
        for term in self.design.terms:
            eta += effects[term.name][term.index]
        for term in self.design.terms:
            if term.name != ELIMINATED:
                self._interweave(term, effects, eta, precision)
        self.eta = eta
        return effects

    def _interweave(self, term: Any, effects: Any, eta: np.ndarray, precision: np.ndarray) -> None:
        prior, own = self.log_prior[term.sd], effects[term.name]
        n, squares = len(own) - term.zero_sum, float((own**2).sum())
        log_sd = slice_step(
            lambda x: prior(np.exp(x)) + x - n * x - 0.5 * squares * np.exp(-2.0 * x),
            float(np.log(self.values[term.sd])),
            0.4,
            self.rng,
        )
        unit = own[term.index] / np.exp(log_sd)
        rest = self.design.score - eta + own[term.index]
        square, product = float(precision @ unit**2), float(precision @ (unit * rest))
        new = slice_step(
            lambda x: prior(np.exp(x)) + x - 0.5 * square * np.exp(2.0 * x) + product * np.exp(x),
            log_sd,
            0.2,
            self.rng,
        )
        ratio = np.exp(new - log_sd)
        eta += (ratio - 1.0) * own[term.index]
        effects[term.name] = ratio * own
        self.values[term.sd] = float(np.exp(new))

    def triple(self, effects: dict[str, np.ndarray], *, warm_up: bool) -> float:
        """Steps 3 and 4; returns the share of accepted proposals."""
        index, order = self.design.term(ELIMINATED).index, self.cells.order
        rest = (self.design.score - self.eta + effects[ELIMINATED][index])[order]

        def natural(x: np.ndarray) -> np.ndarray:
            return np.array([np.exp(x[0]), np.exp(x[1]), 1.0 + np.exp(x[2])])

        def density(x: np.ndarray) -> float:
            at = natural(x)
            prior = sum(self.log_prior[k](v) for k, v in zip(TRIPLE, at, strict=True))
            return self.cells.log_integral(rest, at) + float(prior) + float(x.sum())

        x = np.log([self.values[k] - (k == "nu") for k in TRIPLE])
        x, accepted = (self._walk if warm_up else self._jump)(density, x)
        self.density = density
        at = natural(x)
        self.values |= dict(zip(TRIPLE, map(float, at), strict=True))
        drawn = self.cells.effects(rest, at, self.rng)
        z = (rest - drawn[self.cells.cell]) / at[1]
        rate = 0.5 * (at[2] + z**2)
        self.weight[order] = self.rng.gamma(0.5 * (at[2] + 1.0), 1.0 / rate)
        return accepted

    def fix(self, history: np.ndarray) -> None:
        """Centre and curvature of the proposal, from the warm-up; not changed afterwards."""
        centre, unit = history.mean(axis=0), np.diag(STEP)
        hessian = np.empty((3, 3))
        for i in range(3):
            for j in range(3):
                signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
                values = [self.density(centre + a * unit[i] + b * unit[j]) for a, b in signs]
                hessian[i, j] = values[0] - values[1] - values[2] + values[3]
        hessian /= 4.0 * np.outer(STEP, STEP)
        size, axes = np.linalg.eigh(-hessian)
        self.centre = centre
        self.covariance = axes / np.maximum(size, 4.0) @ axes.T

    def _walk(self, density: Any, x: np.ndarray) -> tuple[np.ndarray, float]:
        now, accepted, n = density(x), 0, 10
        for _ in range(n):
            new = x + np.array([0.06, 0.06, 0.2]) * self.rng.normal(size=3)
            value = density(new)
            if np.log(self.rng.uniform()) < value - now:
                x, now, accepted = new, value, accepted + 1
        return x, accepted / n

    def _jump(self, density: Any, x: np.ndarray) -> tuple[np.ndarray, float]:
        precision = np.linalg.inv(self.covariance)
        at = density(self.centre)
        moved = [density(self.centre + step) for step in np.diag(STEP)]
        # Forward differences, corrected by the curvature.
        gradient = (np.array(moved) - at) / STEP + 0.5 * np.diag(precision) * STEP
        mean, root = self.centre + self.covariance @ gradient, np.linalg.cholesky(self.covariance)

        def log_proposal(point: np.ndarray) -> float:
            z = np.linalg.solve(root, point - mean)
            return float(-0.5 * (DF + 3.0) * np.log1p(z @ z / DF))

        now, accepted = density(x) - log_proposal(x), 0
        for _ in range(PROPOSALS):
            shrunk = np.sqrt(self.rng.chisquare(DF) / DF)
            new = mean + root @ self.rng.normal(size=3) / shrunk
            value = density(new) - log_proposal(new)
            if np.log(self.rng.uniform()) < value - now:
                x, now, accepted = new, value, accepted + 1
        return x, accepted / PROPOSALS

    def run(self, tune: int, sweeps: int) -> dict[str, np.ndarray]:
        """Draws of the parameters and the main effects."""
        kept: dict[str, list[Any]] = {}
        history = []
        for i in range(tune + sweeps):
            effects = self.sweep()
            self.triple(effects, warm_up=i < tune // 2)
            history.append(np.log([self.values[k] - (k == "nu") for k in TRIPLE]))
            if i + 1 in (tune // 2, tune):
                self.fix(np.array(history[tune // 4 : i + 1]))
            if i >= tune:
                row: dict[str, Any] = dict(self.values)
                row |= {f"{k}_effect": effects[k] for k in ("language", "task", "model")}
                for k, v in row.items():
                    kept.setdefault(k, []).append(v)
        return {k: np.array(v) for k, v in kept.items()}


def one(contestant: str, sweeps: int, tune: int, chains: int, seed: int) -> dict[str, Any]:
    """Measure in this process."""
    from arviz_stats.base import array_stats

    from bayeseval import load
    from bayeseval.design import build_design
    from bayeseval.engines import SamplerSettings, load_engine
    from bayeseval.engines._marginal_density import one_thread_per_call
    from bayeseval.spec import load_spec

    design = build_design(load("mega"), load_spec(model_of(contestant)))
    most = np.inf
    begun = cpu_seconds()
    if contestant == COLLAPSED:
        with one_thread_per_call():
            runs = [Chain(design, 100 * seed + i).run(tune, sweeps) for i in range(chains)]
        drawn = {k: np.stack([run[k] for run in runs]) for k in runs[0]}
    else:
        engine = "marginal" if contestant == MARGINAL else "numpyro"
        tuned = None if contestant == MARGINAL else tune
        settings = SamplerSettings(draws=sweeps, tune=tuned, chains=chains, seed=seed)
        result = load_engine(engine)(design, settings, progress=None)
        # Resampled points look independent to ArviZ when they are not.
        most, posterior = float(result.attrs.get("importance_ess", np.inf)), result.posterior
        main = {f"{k}_effect" for k in ("language", "task", "model")}
        drawn = {k: v for k, v in posterior.items() if k in {*TRIPLE, *main} or k[:3] == "sd_"}
    used = cpu_seconds() - begun
    answer: dict[str, Any] = {"cpu_s": used}
    for name, values in drawn.items():
        ess = array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")
        answer[f"ess {name}"] = min(float(np.min(ess)), most)
        if name.endswith("_effect"):
            index = design.factor_index[name.removesuffix("_effect")]
            answer[f"records {name}"] = int((index == np.argmin(ess)).sum())
        elif values.ndim == 2:
            answer[f"mean {name}"] = float(values.mean())
            answer[f"r_hat {name}"] = float(array_stats.rhat(values, chain_axis=0, draw_axis=1))
    return answer


def model_of(contestant: str) -> str:
    """Model that a contestant fits."""
    return "by_task" if contestant == MARGINAL else "robust"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contestants", default=f"{COLLAPSED},{NUMPYRO},{MARGINAL}")
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=200, help="warm-up of the collapsed sampler")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        import json

        reply(one(**json.loads(asked.child)))
        return 0
    said, rows = print_machine(), []
    for contestant in asked.contestants.split(","):
        found = child(
            __file__,
            contestant=contestant,
            sweeps=asked.sweeps,
            tune=asked.tune if contestant == COLLAPSED else asked.sweeps,
            chains=asked.chains,
            seed=asked.seed,
        )
        ess = {k.removeprefix("ess "): v for k, v in found.items() if k.startswith("ess ")}
        slowest = min(ess, key=lambda k: ess[k])
        parameters = [v for k, v in ess.items() if not k.endswith("_effect")]
        rows.append(
            {
                "model": model_of(contestant),
                "contestant": contestant,
                "draws": asked.sweeps * asked.chains,
                "min ESS": ess[slowest],
                "of": slowest,
                "records of its level": found.get(f"records {slowest}"),
                "min ESS of parameters": min(parameters),
                "CPU s": found["cpu_s"],
                "ESS/CPU s": ess[slowest] / found["cpu_s"],
                "parameters' ESS/CPU s": min(parameters) / found["cpu_s"],
                "largest R-hat": max(v for k, v in found.items() if k.startswith("r_hat ")),
                **{f"mean {k}": found.get(f"mean {k}") for k in TRIPLE},
            }
        )
        print_table(rows)
        write_csv("student_t", rows, said, key="contestant")
    return 0


if __name__ == "__main__":
    sys.exit(main())
