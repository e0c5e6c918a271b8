"""The tree of a fit as a netCDF file, in both ArviZ families."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import matplotlib.text
import numpy as np
import pytest
import xarray as xr

from bayeseval.errors import InputError
from bayeseval.output.store import read_tree, write_tree
from tests.fitting.trees import random_tree

REFERENCE = Path(__file__).parents[1] / "reference"
FILES = ("posterior_arviz023.nc", "posterior_arviz1.nc")
CLASSIC = version("arviz").startswith("0.")


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return random_tree(languages=("en", "sw", "zh-Hant", "中文"), draws=250)


@pytest.fixture
def az() -> Iterator[ModuleType]:
    """ArviZ, whose plots may draw from NumPy's global generator; its state is put back."""
    import arviz

    state = np.random.get_state()  # noqa: NPY002 - see above
    yield arviz
    np.random.set_state(state)  # noqa: NPY002


@pytest.fixture(scope="module")
def saved(tree: xr.DataTree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("netcdf") / "posterior.nc"
    write_tree(tree, path)
    return path


def test_round_trip_keeps_everything(tree: xr.DataTree, saved: Path) -> None:
    back = read_tree(saved)
    # Values, dimensions, coordinates and attributes of every group.
    xr.testing.assert_identical(back, tree)
    for group in tree.children:
        before, after = tree[group].to_dataset(), back[group].to_dataset()
        assert {n: v.dtype for n, v in before.variables.items()} == {
            n: v.dtype for n, v in after.variables.items()
        }
    assert back["posterior"].coords["language"].dtype.kind == "U"
    assert back["estimands"]["record_prr"].dtype == np.float32
    assert back["sample_stats"]["diverging"].dtype == bool


def test_only_what_shrinks_is_compressed(tree: xr.DataTree, saved: Path, tmp_path: Path) -> None:
    def compressed(path: Path) -> dict[str, bool]:
        with h5py.File(path) as file:
            return {
                name: file[f"posterior/{name}"].compression is not None
                for name in ("language_potential", "language_potential_rank")
            }

    assert compressed(saved) == {"language_potential": False, "language_potential_rank": True}
    # What was read keeps nothing of the file that it was read from, which was compressed.
    old, again = tmp_path / "old.nc", tmp_path / "again.nc"
    settings = {"language_potential": {"zlib": True}, "language_potential_rank": {"zlib": True}}
    tree.to_netcdf(old, engine="h5netcdf", encoding={"/posterior": settings})
    assert all(compressed(old).values())
    write_tree(read_tree(old), again)
    assert compressed(again) == compressed(saved)


def test_what_was_read_no_longer_needs_the_file(tmp_path: Path, tree: xr.DataTree) -> None:
    path = tmp_path / "posterior.nc"
    write_tree(tree, path)
    back = read_tree(path)
    path.write_bytes(b"something else")
    xr.testing.assert_identical(back, tree)


def test_attributes_that_netcdf_has_no_type_for_become_json(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "flag": True,
        "nothing": None,
        "mapping": {"a": [1, 2.5], "b": np.float64(np.nan)},
        "mixed": [1, "x"],
        "number": 1.5,
        "texts": ["a", "b"],
    }
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"x": ("chain", [1.0], odd)}, attrs=odd)}, name="root"
    )
    write_tree(tree, tmp_path / "x.nc")
    back = read_tree(tmp_path / "x.nc")
    for attrs in (back["posterior"].attrs, back["posterior"]["x"].attrs):
        assert attrs["flag"] == "true"
        assert attrs["nothing"] == "null"
        assert attrs["mapping"] == '{"a": [1, 2.5], "b": null}'
        assert attrs["mixed"] == '[1, "x"]'
        assert attrs["number"] == 1.5
        assert list(attrs["texts"]) == ["a", "b"]
    # The caller's tree is as it was.
    assert tree["posterior"].attrs == odd
    assert tree["posterior"]["x"].attrs == odd


@pytest.mark.parametrize("content", ["empty", "text", "cut short"])
def test_bad_files_are_refused_in_one_line(tmp_path: Path, saved: Path, content: str) -> None:
    whole = saved.read_bytes()
    path = tmp_path / "posterior.nc"
    path.write_bytes({"empty": b"", "text": b"not netCDF", "cut short": whole[:-1000]}[content])
    with pytest.raises(InputError, match=r"posterior\.nc is not a readable netCDF file") as caught:
        read_tree(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_tree(tmp_path / "posterior.nc")


def test_xarray_opens_it_without_being_told_how(tree: xr.DataTree, saved: Path) -> None:
    with xr.open_datatree(saved) as opened:
        assert set(opened.children) == set(tree.children)
        np.testing.assert_array_equal(
            opened["posterior"]["mean_prr"].values, tree["posterior"]["mean_prr"].values
        )


def test_arviz_summary_forest_and_loo(az: ModuleType, tree: xr.DataTree, saved: Path) -> None:
    opened = az.from_netcdf(saved)
    table = az.summary(opened, var_names=["language_potential", "sd_task"], round_to="none")
    assert list(table.index) == [
        *(f"language_potential[{label}]" for label in ("en", "sw", "zh-Hant", "中文")),
        "sd_task",
    ]
    mean = tree["posterior"]["language_potential"].mean(["chain", "draw"]).values
    np.testing.assert_allclose(table["mean"].to_numpy(dtype=float)[:4], mean, rtol=1e-12)
    assert "sw" in forest_labels(az, opened, "language_potential")
    assert float(loo(az, opened)) < 0.0
    close(opened)


@pytest.mark.parametrize("name", FILES)
def test_reference_files_of_both_families(name: str) -> None:
    """The formulas of tests/reference/make_posteriors.py, said again."""
    path = REFERENCE / name
    assert path.stat().st_size < 100_000
    tree = read_tree(path)
    posterior = tree["posterior"].to_dataset()
    classic = posterior.attrs["arviz_base"].startswith("0.")
    assert classic is (name == "posterior_arviz023.nc")
    assert posterior.attrs["published_shift"] == 1.5
    assert posterior.coords["language"].values.tolist() == ["en", "sw", "中文"]
    golden = (1 + 5**0.5) / 2 - 1
    spread = (np.arange(1, 301) * golden % 1.0).reshape(2, 50, 3)
    # Multiples up to 300 of a number that the two computations round differently.
    np.testing.assert_allclose(
        posterior["language_potential"].values, spread + [60.0, 50.0, 40.0], rtol=0, atol=1e-12
    )
    assert posterior["language_potential"].attrs == {"units": "score points"}
    diverging = tree["sample_stats"]["diverging"]
    assert diverging.dtype == bool
    assert np.argwhere(diverging.values).tolist() == [[0, 0], [1, 1]]
    assert tree["sample_stats"]["n_steps"].dtype.kind == "i"


@pytest.mark.parametrize("name", FILES)
def test_arviz_of_this_family_opens_both_references(az: ModuleType, name: str) -> None:
    opened = az.from_netcdf(REFERENCE / name)
    table = az.summary(opened, var_names=["language_potential"], round_to="none")
    assert list(table.index) == [f"language_potential[{x}]" for x in ("en", "sw", "中文")]
    spread = np.modf(np.arange(1, 301) * 0.6180339887498949)[0].reshape(100, 3)
    np.testing.assert_allclose(
        table["mean"].to_numpy(dtype=float), spread.mean(axis=0) + [60, 50, 40], rtol=1e-12
    )
    assert {"en", "sw"} <= forest_labels(az, opened, "language_potential")
    # Leave-one-out by plain importance sampling: 1 / mean(1 / density), record by record.
    tree = read_tree(REFERENCE / name)
    log_density = tree["log_likelihood"]["score"].values.reshape(100, 4)
    expected = -np.log(np.exp(-log_density).mean(axis=0)).sum()
    # Smoothing the largest weights moves it a little; the effect of a mix-up is above 1.
    assert float(loo(az, opened)) == pytest.approx(expected, abs=0.01)
    close(opened)


def loo(az: ModuleType, opened: Any) -> float:
    result = az.loo(opened)
    return float(result.elpd_loo if CLASSIC else result.elpd)


def forest_labels(az: ModuleType, opened: Any, variable: str) -> set[str]:
    """Words that a forest plot shows."""
    import matplotlib.pyplot as plt

    shown = az.plot_forest(opened, var_names=[variable])
    figure = np.ravel(shown)[0].get_figure() if CLASSIC else shown.viz["figure"].item()
    texts = {text.get_text() for text in figure.findobj(matplotlib.text.Text)}
    plt.close("all")
    return {word for text in texts for word in text.replace("[", " ").replace("]", " ").split()}


def close(opened: Any) -> None:
    """Let go of the file, which both families read lazily."""
    for name in opened.groups() if CLASSIC else opened.children:
        opened[name].close()
    if not CLASSIC:
        opened.close()
