"""Routines of LAPACK and BLAS that work in place and release the global interpreter lock.

`numpy.linalg.cholesky` returns a new array each time, and allocating memory costs as much
as factorising a matrix of a few hundred rows; the wrappers in `scipy.linalg.lapack` work in
place, but hold the lock. Both matter for thousands of factors on several cores. SciPy
exports the routines themselves in `scipy.linalg.cython_lapack` and `cython_blas`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cython_blas, cython_lapack

from bayeseval._typing import Floats

__all__ = ["cholesky_in_place", "solve_in_place", "subtract_square"]


@cache
def _routine(name: str, n_arguments: int) -> Any:
    """Routine that Python can call; every argument is an address."""
    capsules = cython_lapack.__pyx_capi__ | cython_blas.__pyx_capi__
    capsule = capsules[name]
    interface = ctypes.pythonapi
    interface.PyCapsule_GetName.restype = ctypes.c_char_p
    interface.PyCapsule_GetName.argtypes = [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _int(value: int = 0) -> Any:
    # Eight bytes with the value in the first four, for integers of either width.
    return ctypes.c_int64(value)


def cholesky_in_place(matrices: Floats) -> npt.NDArray[np.bool_]:
    """Overwrite the lower triangles of symmetric matrices with their Cholesky factors.

    Parameters
    ----------
    matrices : ndarray, shape (b, n, n), C-contiguous
        What is above the diagonals is neither read nor written.

    Returns
    -------
    ndarray of bool, shape (b,)
        Whether each was positive definite.
    """
    factorise = _routine("dpotrf", 5)
    info, size = _int(), _int(matrices.shape[-1])
    at_info, at_size, address = ctypes.byref(info), ctypes.byref(size), matrices.ctypes.data
    done = np.empty(len(matrices), dtype=np.bool_)
    for i in range(len(matrices)):
        # LAPACK counts along columns, so our lower triangle is its upper one.
        factorise(b"U", at_size, address + i * matrices.strides[0], at_size, at_info)
        done[i] = info.value == 0
    return done


def solve_in_place(
    lower: Floats, rows: Floats, counts: npt.NDArray[np.int64], *, transposed: bool = False
) -> None:
    """Overwrite every row r by the solution x of ``L x = r``.

    Parameters
    ----------
    lower : ndarray, shape (b, n, n), C-contiguous
        Lower triangular matrices L; what is above their diagonals is not read.
    rows : ndarray, shape (m, n), C-contiguous
        Right-hand sides, those of the first matrix first.
    counts : ndarray of int, shape (b,)
        How many rows belong to each matrix; adds up to m.
    transposed : bool
        Solve ``L' x = r`` instead.
    """
    solve = _routine("dtrtrs", 10)
    info, size, count = _int(), _int(lower.shape[-1]), _int()
    at_info, at_size, at_count = (ctypes.byref(number) for number in (info, size, count))
    matrix, right, kind = lower.ctypes.data, rows.ctypes.data, b"N" if transposed else b"T"
    for i, n_rows in enumerate(counts.tolist()):
        count.value = n_rows
        solve(b"U", kind, b"N", at_size, at_count, matrix, at_size, right, at_size, at_info)
        if info.value:
            raise np.linalg.LinAlgError(f"triangular matrix {i} is singular")
        matrix += lower.strides[0]
        right += n_rows * rows.strides[0]


def subtract_square(matrices: Floats, rows: Floats) -> None:
    """Subtract ``W'W`` from the lower triangles of matrices.

    Parameters
    ----------
    matrices : ndarray, shape (b, n, n), each C-contiguous
        What is above the diagonals is neither read nor written.
    rows : ndarray, shape (b, m, n), each C-contiguous
        The matrices W.
    """
    update = _routine("dsyrk", 10)
    n_rows, size = (_int(n) for n in rows.shape[1:])
    at_rows, at_size = ctypes.byref(n_rows), ctypes.byref(size)
    minus, plus = (ctypes.byref(ctypes.c_double(sign)) for sign in (-1.0, 1.0))
    matrix, factor = matrices.ctypes.data, rows.ctypes.data
    for _ in range(len(matrices) if rows.shape[1] else 0):
        update(b"U", b"N", at_size, at_rows, minus, factor, at_size, plus, matrix, at_size)
        matrix += matrices.strides[0]
        factor += rows.strides[0]
