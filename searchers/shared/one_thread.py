"""Small linear algebra on one thread: several wait for each other, most of all beside other work.

What comes of it is then the same on any number of processors, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Products, factors and solutions of NumPy and SciPy inside take one thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    # It knows the libraries that are loaded when it is made: SciPy has one of its own.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
