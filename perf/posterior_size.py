"""Size of `posterior.nc` for MEGA under `dataset`, by group: `python perf/posterior_size.py`.

One row for each group, the largest variables of the posterior, and the whole file as it is
written, with the strongest compression of all variables, and with the log likelihood in single
precision.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import h5py
import xarray as xr
from measure import print_table, provenance, write_csv

import bayeseval as be
from bayeseval.output import _files

MB = 1e6


def written(tree: xr.DataTree, level: int = 0) -> dict[str, float]:
    """Megabytes of the file, and of every variable in it; a level is used for all of them."""
    settings = {"zlib": True, "complevel": level or 1, "shuffle": True}
    worthwhile = float("inf") if level else _files._WORTHWHILE
    changed = patch.multiple(_files, _COMPRESSION=settings, _WORTHWHILE=worthwhile)
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, changed:
        path = Path(folder) / "posterior.nc"
        _files.write_tree(tree, path)
        sizes[""] = path.stat().st_size / MB
        with h5py.File(path) as file:

            def note(name: str, item: object) -> None:
                if isinstance(item, h5py.Dataset):
                    sizes[name] = item.id.get_storage_size() / MB

            file.visititems(note)
    return sizes


def main() -> None:
    """Fit, write in three ways, print and write the sizes."""
    said = provenance()
    tree = be.fit("mega", "dataset", seed=0).data
    sizes = written(tree)
    single = tree.copy()
    single["log_likelihood"] = xr.DataTree(tree["log_likelihood"].to_dataset().astype("float32"))
    rows = [
        {"what": "whole file", "MB": sizes.pop("")},
        {"what": "whole file, compression level 9", "MB": written(tree, 9)[""]},
        {"what": "whole file, log_likelihood as float32", "MB": written(single)[""]},
    ]
    groups: dict[str, float] = {}
    for name, size in sizes.items():
        group = name.partition("/")[0]
        groups[group] = groups.get(group, 0.0) + size
    rows += [
        {"what": name, "MB": groups[name]}
        for name in sorted(groups, key=lambda group: -groups[group])
    ]
    largest = sorted(sizes, key=lambda name: sizes[name])[:-9:-1]
    rows += [{"what": name, "MB": sizes[name]} for name in largest]
    print_table(rows)
    write_csv("posterior_size", rows, said, digits=4)


if __name__ == "__main__":
    main()
