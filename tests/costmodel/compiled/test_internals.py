"""A Numba that lacks what compiling here rests on: it compiles as usual, to the same results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from paths import ROOT

from costmodel.compiled import internals

# Takes a member away before anything of ours is imported: others do not find it in its module, and
# what methods set or call has another name.
REMOVE = """
import importlib, sys, types
import numba
for member in sys.argv[1:]:
    module, _, path = member.partition(":")
    owner, _, name = path.rpartition(".")
    found = importlib.import_module(module)
    found = getattr(found, owner) if owner else found
    if isinstance(found, types.ModuleType):
        class Hides(types.ModuleType):
            def __getattribute__(self, asked, name=name):
                if asked == name:
                    raise AttributeError(asked)
                return super().__getattribute__(asked)
        found.__class__ = Hides
        continue
    for base in found.__mro__[:-1]:
        for function in [*vars(base).values()]:
            if isinstance(function, types.FunctionType):
                names = tuple(f"{n}_" if n == name else n for n in function.__code__.co_names)
                function.__code__ = function.__code__.replace(co_names=names)
        if name in vars(base):
            setattr(base, f"{name}_", vars(base)[name])
            delattr(base, name)
"""
COMPUTE = """
from typing import NamedTuple
import numpy as np
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.compiled.laid_out import laid_out

@by_reference
class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray

@part
def product(pair, k):
    return pair.left[k] * pair.right[k] + 1.0

@lean
def total(pair):
    found = 0.0
    for k in range(len(pair.left)):
        found += product(pair, k)
    return found

pair = Pair(np.arange(3.0), np.arange(3.0))
print(total(pair), total(laid_out(pair)), total.stats.cache_path is not None)
"""


def computed(cache: Path, code: str, member: str) -> tuple[str, str]:
    """What a process prints whose Numba lacks a member, and its complaints."""
    (cache / "computes.py").write_text(REMOVE + code)
    done = subprocess.run(
        [sys.executable, str(cache / "computes.py"), member],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_this_numba_has_all() -> None:
    assert {purpose: internals.missing(purpose) for purpose in internals.RESTS_ON} == dict.fromkeys(
        internals.RESTS_ON
    )


def test_the_version_that_is_named_is_the_one_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(internals, "RESTS_ON", {"linking": ("numba.core.of_old:Member",)})
    assert not internals.usable("linking")
    (named,) = re.findall("'(numba.*?)'", capsys.readouterr().err)
    assert named in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def test_no_other_name_is_taken_for_a_member() -> None:
    members = [member for members in internals.RESTS_ON.values() for member in members]
    assert not [member for member in members if internals._there(f"{member}_of_old")]
    assert not internals._there("numba.core.of_old:Member")


@pytest.mark.parametrize(
    ("purpose", "member"),
    [
        ("linking", "numba.core.registry:CPUDispatcher.add_overload"),
        ("linking", "numba.core.codegen:JITCodeLibrary"),
        ("kept", "numba:config.CACHE_LOCATOR_CLASSES"),
        ("kept", "numba.core.caching:_CacheLocator"),
        ("sealed", "numba.core.caching:IndexDataCacheFile._load_index"),
        ("once", "numba.core.caching:IndexDataCacheFile._index_path"),
        ("shortcuts", "numba.core.event:register"),
        ("indexing", "numba.np.arrayobj:fix_integer_index"),
        ("fingerprints", "numba._dispatcher:compute_fingerprint"),
    ],
)
def test_without_a_member_numba_compiles_as_usual(
    purpose: str, member: str, tmp_path: Path
) -> None:
    assert any(each.startswith(member) for each in internals.RESTS_ON[purpose])
    printed, said = computed(tmp_path, COMPUTE, member)
    assert printed == f"8.0 8.0 {purpose != 'kept'}\n"
    lines = said.splitlines()
    assert len(lines) == (purpose in internals.NEEDED_FOR_SPEED), said
    assert all(f"has no {member}" in line for line in lines)
