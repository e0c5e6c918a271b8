"""Files for HDF5 whose errors wait until HDF5 has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayeseval.output._deferred import errors_at_the_end

SOURCE = Path(__file__).parents[2] / "src"
needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs Python on a system with /dev/full"
)


@needs_full
def test_what_was_written_after_an_error_can_be_read_back() -> None:
    with pytest.raises(OSError, match="No space left") as caught:  # noqa: SIM117
        with errors_at_the_end(Path("/dev/full")) as file:
            assert file.write(b"abcdef") == 6
            # Later pieces lie over earlier ones, whole or in part.
            file.seek(4)
            file.write(b"EF")
            file.seek(2)
            file.write(b"CD")
            assert file.tell() == 4
            file.seek(1)
            assert file.read(4) == b"bCDE"
            assert file.truncate(100) == 100
    assert caught.value.errno == 28


def test_a_file_holds_what_hdf5_wrote(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(b"something longer than what replaces it" * 1000)
    values = np.random.default_rng(0).normal(size=(50, 7))
    with errors_at_the_end(path) as file, h5py.File(file, "w") as opened:
        opened["plain"] = values
        opened.create_dataset("small", data=np.arange(10_000), compression="gzip")
    with h5py.File(path) as opened:
        np.testing.assert_array_equal(opened["plain"][...], values)
        np.testing.assert_array_equal(opened["small"][...], np.arange(10_000))


def test_an_interruption_is_raised_when_hdf5_has_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117
        with errors_at_the_end(tmp_path / "x.h5") as file:
            raw = vars(file)["_file"]

            class Interrupted:
                def seek(self, place: int) -> None:
                    raise KeyboardInterrupt

                def __getattr__(self, name: str) -> object:
                    return getattr(raw, name)

            vars(file)["_file"] = Interrupted()
            with h5py.File(file, "w") as opened:
                opened["x"] = np.arange(1000)


def test_hdf5_ends_by_itself_wherever_the_disk_is_full(tmp_path: Path) -> None:
    """The limit comes while HDF5 writes its structures, numbers, or the end of the file."""
    code = """
import resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from bayeseval.output._files import write_tree
rng = np.random.default_rng(0)
tree = xr.DataTree.from_dict({
    f"g{k}": xr.Dataset({f"x{i}": (("c", f"n{i}"), rng.normal(size=(40, 9))) for i in range(30)})
    for k in range(3)
})
path = Path(sys.argv[1])
write_tree(tree, path)
whole = path.stat().st_size
refused = 0
for limit in (0, 50, 1000, whole // 3, whole // 2, whole - 5000, whole - 1):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_tree(tree, path)
    except OSError as error:
        refused += error.strerror == "File too large"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
write_tree(tree, path)
print(refused, xr.open_datatree(path, engine="h5netcdf").load().identical(tree))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.nc")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "7 True\n")
