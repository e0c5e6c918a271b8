"""Small trees with the variables of a fit: one written by hand, one drawn at random."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayeseval import names
from bayeseval.estimands import derive

LANGUAGES = ("de", "en", "sw")
MODELS = ("A", "B")
TASKS = ("t1", "t2")

# Records as (model, language, task): B was not tested on sw.
_CELLS = (
    ("A", "de", "t1"),
    ("A", "en", "t1"),
    ("A", "en", "t2"),
    ("A", "sw", "t2"),
    ("B", "de", "t1"),
    ("B", "en", "t1"),
    ("B", "en", "t2"),
)


def hand_tree() -> xr.DataTree:
    """Four draws (two chains of two) of numbers chosen so that the tables can be done by hand.

    Language potential: de 60, 62, 64, 66; en 70, 72, 74, 76; sw 50, 50, 50, 75, so that
    sw is third three times and second once. Score: A 60, 62, 64, 66; B is 2 lower in three
    draws and 1 higher in the last. PRR: score / 60. Sd of gaps: A 2, 2, 2, 4; B 3. Mean-PRR:
    A 1.0, 1.1, 1.2, 1.3; B is 0.1 lower in three draws and 0.2 higher in the last. CV-PRR:
    A 0.2; B 0.1.
    """
    tree = _plain_tree(
        chains=2,
        draws=2,
        levels={"language": LANGUAGES, "task": TASKS, "model": MODELS},
        cells=_CELLS,
        seed=1,
    )
    _, estimands = derive(tree, seed=1)
    posterior = tree["posterior"].to_dataset()
    potential = np.array([[60, 70, 50], [62, 72, 50], [64, 74, 50], [66, 76, 75]], dtype=float)
    score = np.array([[60, 58], [62, 60], [64, 62], [66, 67]], dtype=float)
    gap_sd = np.array([[2, 3], [2, 3], [2, 3], [4, 3]], dtype=float)
    mean = np.array([[1.0, 0.9], [1.1, 1.0], [1.2, 1.1], [1.3, 1.5]])
    cv = np.tile([0.2, 0.1], (4, 1))
    _put(posterior, names.LANGUAGE_POTENTIAL, potential)
    _put(posterior, "language_potential_rank", _ranks(-potential))
    _put(posterior, names.STANDARDISED_SCORE, score)
    _put(posterior, "standardised_score_rank", _ranks(-score))
    _put(posterior, names.PRR, score / 60.0)
    _put(posterior, names.GAP_SD, gap_sd)
    _put(posterior, "gap_sd_languages_rank", _ranks(gap_sd))
    _put(posterior, names.CV_PRR_LANGUAGES, gap_sd / 20.0)
    posterior[names.CV_PRR_LANGUAGES].attrs["left_out"] = "[]"
    _put(posterior, names.WORST_LANGUAGE_PRR, score / 80.0)
    for support, flavour in names.DESCRIPTIONS:
        values = {"mean_prr": mean, "std_prr": mean * cv, "cv_prr": cv}
        for quantity, draws in values.items():
            name = names.disparity_name(quantity, support=support, flavour=flavour)
            # Told apart by a step of 1, so that mixed-up columns show.
            step = (support == "common") + 2.0 * (flavour == "latent")
            _put(posterior, name, draws + step)
    sds = {"language": (10, 12), "task": (5, 5), "model": (4, 6), "residual": (3, 3)}
    for component, (low, high) in sds.items():
        posterior[f"sd_{component}"].values[:] = [[low, high], [low, high]]
    tree["posterior"] = xr.DataTree(posterior)
    estimands["cv_prr_constant_gap"].values[:] = [0.01, 0.02]
    estimands["worst_language"] = ("model", np.array(["sw", "de"]))
    tree["estimands"] = xr.DataTree(estimands)
    return tree


def random_tree(
    *,
    n_languages: int = 5,
    n_models: int = 4,
    n_tasks: int = 3,
    chains: int = 2,
    draws: int = 20,
    seed: int = 0,
    languages: tuple[str, ...] | None = None,
    models: tuple[str, ...] | None = None,
    intercept: float = 60.0,
    replicates: bool = False,
) -> xr.DataTree:
    """Draws around made-up effects, with everything that `derive` adds to them.

    Every language is on the first task and about half of the others; the first model
    has every cell and the others about three in four. With `replicates` every cell has
    sampled seed sds (see :func:`_add_replicates`) and a known test-set sd.
    """
    rng = np.random.default_rng(seed)
    levels = {
        "language": languages or tuple(f"l{i:03d}" for i in range(n_languages)),
        "task": tuple(f"task{i}:acc" for i in range(n_tasks)),
        "model": models or tuple(f"model-{i}" for i in range(n_models)),
    }
    cells = tuple(
        (model, language, task)
        for language in levels["language"]
        for j, task in enumerate(levels["task"])
        if j == 0 or rng.random() < 0.5
        for k, model in enumerate(levels["model"])
        if k == 0 or j == 0 or rng.random() < 0.75
    )
    tree = _plain_tree(
        chains=chains, draws=draws, levels=levels, cells=cells, seed=seed, intercept=intercept
    )
    if replicates:
        _add_replicates(tree, seed=seed)
    additions, estimands = derive(tree, seed=seed)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().merge(additions))
    tree["estimands"] = xr.DataTree(estimands)
    return tree


def _plain_tree(
    *,
    chains: int,
    draws: int,
    levels: dict[str, tuple[str, ...]],
    cells: tuple[tuple[str, str, str], ...],
    seed: int,
    intercept: float = 60.0,
) -> xr.DataTree:
    rng = np.random.default_rng(seed)
    shape = (chains, draws)
    noise = 0.0 if shape == (1, 1) else 1.0  # one draw: a point estimate
    labels = {factor: np.array(values, dtype=str) for factor, values in levels.items()}
    sampling = {"chain": np.arange(chains), "draw": np.arange(draws)}
    index = {
        factor: np.array([levels[factor].index(cell[place]) for cell in cells])
        for place, factor in enumerate(("model", "language", "task"))
    }
    effects = {}
    for factor, values in levels.items():
        centre = 6.0 * rng.standard_normal(len(values))
        sampled = centre + noise * rng.standard_normal((*shape, len(values)))
        effects[factor] = sampled - sampled.mean(axis=-1, keepdims=True)
    level = intercept + noise * rng.standard_normal(shape)
    expected = level[..., None] + sum(effects[f][..., index[f]] for f in levels)
    score = expected.mean(axis=(0, 1)) + 4.0 * rng.standard_normal(len(cells))
    sds = {f"sd_{name}": 8.0 + noise * rng.random(shape) for name in (*levels, "residual")}
    density = -0.5 * ((score - expected) / 8.0) ** 2 - np.log(8.0 * np.sqrt(2.0 * np.pi))
    record = np.arange(len(cells))
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {"intercept": (("chain", "draw"), level)}
                | {f"{f}_effect": (("chain", "draw", f), effects[f]) for f in levels}
                | {name: (("chain", "draw"), values) for name, values in sds.items()},
                coords=sampling | labels,
                attrs={"engine": "test", "scale": "score"},
            ),
            "sample_stats": xr.Dataset(
                {
                    "diverging": (("chain", "draw"), np.zeros(shape, dtype=bool)),
                    "energy": (("chain", "draw"), rng.standard_normal(shape)),
                },
                coords=sampling,
            ),
            "log_likelihood": xr.Dataset(
                {"score": (("chain", "draw", "record"), density)},
                coords=sampling | {"record": record},
            ),
            "observed_data": xr.Dataset({"score": ("record", score)}, coords={"record": record}),
            "constant_data": xr.Dataset(
                {f"{f}_index": ("record", index[f]) for f in levels},
                coords={"record": record} | labels,
                attrs={"population": "observed", "likelihood": "normal"},
            ),
        }
    )


def _add_replicates(tree: xr.DataTree, *, seed: int) -> None:
    """Seed sds that shrink half-way (on the log scale) from raw ones to 1; test sets of 0.5."""
    rng = np.random.default_rng(seed)
    posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
    n = constant.sizes["record"]
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], n)
    raw = np.exp(rng.normal(0.0, 0.7, size=n))
    noise = 0.0 if shape[:2] == (1, 1) else 0.1
    posterior["sd_seed_cell"] = (
        ("chain", "draw", "seed_cell"),
        np.sqrt(raw) * np.exp(noise * rng.standard_normal(shape)),
    )
    constant["seed_cell_record"] = ("seed_cell", np.arange(n))
    constant["seed_cell_raw_sd"] = ("seed_cell", raw)
    constant["seed_share"] = ("record", np.full(n, 0.2))
    constant["boot_sd"] = ("record", np.full(n, 0.5))
    constant["se"] = ("record", np.full(n, 0.5))
    constant.attrs["pool_replicates"] = "true"
    tree["posterior"] = xr.DataTree(posterior)
    tree["constant_data"] = xr.DataTree(constant)


def _put(posterior: xr.Dataset, name: str, draws: np.ndarray) -> None:
    dim = "language" if draws.shape[1] == len(LANGUAGES) else "model"
    posterior[name] = (("chain", "draw", dim), draws.reshape(2, 2, -1))


def _ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort(axis=1).argsort(axis=1) + 1.0
