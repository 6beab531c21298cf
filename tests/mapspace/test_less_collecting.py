"""A command that ends collects nothing more, unless an extension module would complain of that."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import atexit
import gc
import sys
{imports}
from mapspace.less_collecting import COLLECTED_AT_ONCE, collect_less
# The last that is registered comes first.
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "not frozen"))
collect_less()
assert gc.get_threshold()[0] == COLLECTED_AT_ONCE
"""


@pytest.mark.parametrize(("imports", "said"), [("", "frozen"), ("import duckdb", "not frozen")])
def test_nothing_is_said_at_the_end(imports: str, said: str) -> None:
    """DuckDB is made with nanobind, which names what was not collected on standard error."""
    code = CODE.format(imports=imports)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", said)
