"""Mappings as Timeloop's map, as pseudo-code, and as C that computes the operation."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from paths import GOLDEN

from costmodel import MapSpace, accelerator, workload
from costmodel.loop_nest.nest_c import c_text
from costmodel.loop_nest.nest_loops import Nest, nest_of
from costmodel.loop_nest.nest_record_models import NestProblem
from costmodel.loop_nest.nest_texts import map_text, pseudo_text
from costmodel.loop_nest.nest_writing import nest_record
from costmodel.timeloop.reading import from_timeloop
from mapspace.errors import ConfigError

SETS = GOLDEN / "timeloop-imports"
Array = npt.NDArray[np.float64]
PLAIN = {"instances": 1, "meshX": 1, "meshY": 1}
ENERGY = {"read": 1.0, "fill": 1.0, "update": 1.0}


@pytest.mark.parametrize("name", sorted(f.name for f in SETS.iterdir() if f.is_dir()))
def test_the_map_is_what_timeloop_prints(name: str) -> None:
    folder = SETS / name
    files = sorted((folder / "input").iterdir())
    if (folder / "v3-translated.yaml").exists():
        files = [folder / "v3-translated.yaml"]
    files += [path for path in [folder / "mapping.yaml"] if path.exists()]
    nest = nest_of(from_timeloop(files).mapped())
    assert map_text(nest) == (folder / "model.map.txt").read_text()


def record_of(loops: list[dict[str, Any]], dims: dict[str, int], tensors: Any) -> dict[str, Any]:
    """A record of two levels, of which the outer one has a row of children."""
    levels = [
        {"name": "far", "class": "DRAM", "energy_pj": ENERGY, **PLAIN},
        {"name": "near", "class": "SRAM", "energy_pj": ENERGY, "instances": 4, "meshX": 2,
         "meshY": 2},
    ]  # fmt: skip
    mac = {"name": "mac", "energy_pj": 1.0, "instances": 4, "meshX": 2, "meshY": 2}
    return {
        "problem": {"name": "by hand", "dims": dims, "tensors": tensors},
        "arch": {"name": "two", "levels": levels, "mac": mac},
        "mapping": loops,
    }


SLIDING = [
    {"name": "W", "axes": [[["R", 1]]]},
    {"name": "I", "axes": [[["P", 2], ["R", -3]]]},
    {"name": "O", "axes": [[["P", 1]]], "output": True},
]


def by_hand() -> dict[str, Any]:
    far = {"level": "far", "keep": ["O"], "temporal": [["P", 2, 2]], "spatial": [["P", 2, "X"]]}
    near = {"level": "near", "keep": ["W"], "temporal": [["R", 3], ["P", 3, 1]], "spatial": []}
    return record_of([far, near], {"P": 10, "R": 3}, SLIDING)


def test_pseudo_code_by_hand() -> None:
    assert pseudo_text(nest_of(by_hand())) == (
        "by hand on two: P = 10, R = 3\n"
        "\n"
        "# far holds O (10)\n"
        "for p2 = 0 to 10 step 6:\n"
        "    parallel for p1 = p2 to p2 + 6 step 3 across X:\n"
        "        # near holds W (3)\n"
        "        for r = 0 to 3:\n"
        "            for p = p1 to min(p1 + 3, 10):\n"
        "                O[p] += W[r] * I[6 + 2*p - 3*r]\n"
    )


def test_the_map_has_remainders_as_timeloop_writes_them() -> None:
    assert "for P in [0:3,1)" in map_text(nest_of(by_hand()))


def test_names_that_c_does_not_allow_and_two_outputs_are_refused() -> None:
    record = by_hand()
    record["problem"]["tensors"] = json.loads(json.dumps(SLIDING).replace('"W"', '"while"'))
    record["mapping"][1]["keep"] = []
    with pytest.raises(ConfigError, match="while: expected a name that C allows"):
        c_text(nest_of(record))
    record["problem"]["tensors"] = [tensor | {"output": True} for tensor in SLIDING]
    with pytest.raises(ConfigError, match="one output and at least one input, got 3 and 0"):
        c_text(nest_of(record))


def arrays(problem: NestProblem, rng: np.random.Generator) -> list[Array]:
    """Small whole numbers, of which sums are exact; a tensor without axes has one word."""
    found = []
    for tensor in problem.tensors:
        extents = [
            1 + sum(abs(c) * (problem.dims[name] - 1) for name, c in axis) for axis in tensor.axes
        ]
        found.append(rng.integers(-4, 5, extents or [1]).astype(float))
    return found


def computed(problem: NestProblem, given: list[Array]) -> Array:
    """The output by the definition, over every point of the iteration space."""
    grid = dict(
        zip(problem.dims, np.indices(tuple(problem.dims.values())).reshape(len(problem.dims), -1),
            strict=True)
    )  # fmt: skip
    parts = []
    for tensor in problem.tensors:
        where = []
        for axis in tensor.axes:
            index: Any = sum(c * grid[name] for name, c in axis)
            where.append(index - min(0, index.min()))
        parts.append(tuple(where) or (np.zeros_like(next(iter(grid.values()))),))
    output = [t.output for t in problem.tensors].index(True)
    product = np.ones(len(parts[0][0]))
    for t, where in enumerate(parts):
        if t != output:
            product *= given[t][where]
    result = given[output].copy()
    np.add.at(result, parts[output], product)
    return result


WORKLOADS: list[tuple[Any, str]] = [
    ("cnn:N=2,K=4,C=3,P=6,Q=5,R=3,S=2,stride=2,dilation=3", "perfect"),
    ("cnn:N=1,K=2,C=3,P=4,Q=4,R=3,S=3,groups=4", "perfect"),
    ("conv1d:N=2,K=5,C=3,P=13,R=4,stride=3", "imperfect"),
    ("gemm:M=17,N=19,K=23", "imperfect"),
    ("gemm:M=24,N=16,K=12", "perfect"),
    ("mttkrp:I=6,J=4,K=8,L=5", "perfect"),
    (
        {
            "name": "int",
            "dimensions": {"head": 3, "query": 4, "key": 6, "Q1": 2},
            "tensors": {
                "Q": ["head", "2*query + 5*Q1"],
                "key0": ["head", "key"],
                "S": ["query", "key"],
            },
            "output": "S",
        },
        "imperfect",
    ),
]


def nests() -> list[Nest]:
    """Random mappings of all these on machines with one and several fan-outs, and by hand."""
    rng = np.random.default_rng(5)
    found = [nest_of(by_hand())]
    for work, factors in WORKLOADS:
        for machine in ("mm256", "cluster6x20", "eyeriss168"):
            space = MapSpace(workload(work), accelerator(machine), factors=factors)  # type: ignore[arg-type]
            try:
                codes = space.sample(rng, 4)
            except ConfigError:
                continue
            for code in codes:
                mapping = space.describe(code)
                record = nest_record(space.workload, space.accelerator, mapping)
                found.append(nest_of(json.loads(json.dumps(record))))
    return found


def test_compiled_c_computes_the_operation(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("this system has no C compiler")
    listed = nests()
    assert len(listed) > 60
    assert sum(nest.imperfect for nest in listed) > 10
    # One file for all, each function under a name of its own.
    texts = [
        re.sub(r"\nvoid \w+\(", f"\nvoid nest{i}(", c_text(nest)) for i, nest in enumerate(listed)
    ]
    source, library = tmp_path / "nests.c", tmp_path / "nests.so"
    source.write_text("#undef MIN\n".join(texts))
    command = [compiler, "-std=c11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC"]
    done = subprocess.run([*command, source, "-o", library], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    compiled = ctypes.CDLL(str(library))
    rng = np.random.default_rng(0)
    for i, nest in enumerate(listed):
        given = arrays(nest.problem, rng)
        expected = computed(nest.problem, given)
        order = sorted(range(len(given)), key=lambda t: nest.problem.tensors[t].output)
        getattr(compiled, f"nest{i}")(*(given[t].ctypes.data_as(ctypes.c_void_p) for t in order))
        np.testing.assert_array_equal(given[order[-1]], expected, err_msg=texts[i])
