"""Two LAPACK routines, in place and without holding Python's lock.

`numpy.linalg.cholesky` returns a new array each time, and fresh memory costs as much
as the factor of a matrix of a few hundred rows; the wrappers in `scipy.linalg.lapack`
work in place, but one thread at a time. Both matter when thousands of factors are
wanted on several cores. SciPy publishes the routines themselves for such callers, in
`scipy.linalg.cython_lapack`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cython_lapack

__all__ = ["cholesky_in_place", "solve_in_place"]

Floats = npt.NDArray[np.float64]


@cache
def _routine(name: str, n_arguments: int) -> Any:
    """LAPACK routine that Python can call; every argument is an address."""
    capsule = cython_lapack.__pyx_capi__[name]
    interface = ctypes.pythonapi
    interface.PyCapsule_GetName.restype = ctypes.c_char_p
    interface.PyCapsule_GetName.argtypes = [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _int(value: int) -> Any:
    # Eight bytes with the value in the first four: an integer of either width.
    return ctypes.byref(ctypes.c_int64(value))


def cholesky_in_place(matrix: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix with its Cholesky factor.

    Parameters
    ----------
    matrix : ndarray, shape (n, n), C-contiguous
        What is above the diagonal is neither read nor written.

    Returns
    -------
    bool
        Whether the matrix was positive definite.
    """
    n, info = len(matrix), ctypes.c_int64(0)
    # LAPACK counts along columns, so our lower triangle is its upper one.
    _routine("dpotrf", 5)(b"U", _int(n), matrix.ctypes.data, _int(n), ctypes.byref(info))
    return info.value == 0


def solve_in_place(lower: Floats, rows: Floats, *, transposed: bool = False) -> None:
    """Overwrite every row r by the solution x of ``L x = r``.

    Parameters
    ----------
    lower : ndarray, shape (n, n), C-contiguous
        Lower triangular matrix L; what is above the diagonal is not read.
    rows : ndarray, shape (m, n), C-contiguous
        Right-hand sides.
    transposed : bool
        Solve ``L' x = r`` instead.
    """
    n, info = len(lower), ctypes.c_int64(0)
    _routine("dtrtrs", 10)(
        b"U", b"N" if transposed else b"T", b"N", _int(n), _int(len(rows)),
        lower.ctypes.data, _int(n), rows.ctypes.data, _int(n), ctypes.byref(info),
    )  # fmt: skip
    if info.value:
        raise np.linalg.LinAlgError("the triangular matrix is singular")
