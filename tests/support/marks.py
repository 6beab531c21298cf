"""Marks of tests that several files give."""

from __future__ import annotations

import pytest

# Ray leaves sockets and files to the garbage collector; MLflow and SQLAlchemy use what they
# deprecate themselves.
noisy_libraries = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)
