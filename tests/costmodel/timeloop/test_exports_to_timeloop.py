"""What is exported as Timeloop's files says the same when it is imported again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paths import GOLDEN
from small_hierarchies import random_machine
from small_problems import every_mapping, random_parts

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_record_models import NestArch, NestLoops
from costmodel.loop_nest.nest_writing import nest_record
from costmodel.loop_nest.records import score
from costmodel.machines.accelerators import accelerator_names
from costmodel.timeloop.reading import TimeloopInput, from_timeloop
from costmodel.timeloop.writing import files_text
from mapspace.errors import ConfigError

Record = dict[str, Any]
SETS = GOLDEN / "timeloop-imports"
MODEL = LoopNestModel()


def imported(text: str, folder: Path, *, link_transfers: bool = False) -> TimeloopInput:
    """What a text says, link transfers aside: Timeloop's files have no place for them."""
    file = folder / "all.yaml"
    file.write_text(text)
    return from_timeloop([file], link_transfers=link_transfers)


def check_same(record: Record, again: Record) -> None:
    """Architecture, problem, mapping and every figure of the costs are those of before."""
    assert NestArch.model_validate(again["arch"]) == NestArch.model_validate(record["arch"])
    assert again["problem"] == record["problem"]
    loops, read = (
        [NestLoops.model_validate(level) for level in each["mapping"]] for each in (record, again)
    )
    assert read == loops
    assert score([again], MODEL)[0]["result"] == score([record], MODEL)[0]["result"]


def parts_of(name: str) -> list[Path]:
    folder = SETS / name
    new = (folder / "v3-translated.yaml").exists()
    files = [folder / "v3-translated.yaml"] if new else sorted((folder / "input").iterdir())
    return files + [path for path in [folder / "mapping.yaml"] if path.exists()]


@pytest.mark.parametrize("name", sorted(f.name for f in SETS.iterdir() if f.is_dir()))
def test_sets_of_public_projects(name: str, tmp_path: Path) -> None:
    read = from_timeloop(parts_of(name))
    links = bool(read.record["arch"].get("link_transfers"))
    again = imported(files_text(read.record, read.constraints), tmp_path, link_transfers=links)
    check_same(read.record, again.record)
    assert again.constraints == read.constraints
    assert again.idle == again.left_out == ()


UNSAYABLE = {
    "edge-22nm": "MAC.leakage_pj",
    "eyeriss": "eyeriss.GLB.spatial: K along either axis beside others along one",
    "mindmappings": "mindmappings.levels: banks",
    "mindmappings-released": "mindmappings-released.overflow: bypass",
}


@pytest.mark.parametrize("name", accelerator_names())
def test_every_preset(name: str, tmp_path: Path) -> None:
    work, machine = workload("cnn:N=2,K=8,C=6,P=7,Q=7,R=3,S=3,stride=2"), accelerator(name)
    refused = UNSAYABLE.get(name)
    if refused is not None:
        with pytest.raises(ConfigError, match=f"{refused}: Timeloop's files have no place for it"):
            ms.to_timeloop(work, machine)
    written = ms.to_timeloop(work, machine, lenient=refused is not None)
    clock = [f"{name}.clock_ghz: {machine.clock_ghz:g}"] if machine.clock_ghz != 1 else []
    assert written.left_out[:1] == ((refused,) if refused else tuple(clock))
    read = imported(written.text, tmp_path)
    if "mindmappings" in name or name == "edge-22nm":
        return  # Timeloop has no banks, and its files no leakage of arithmetic
    again = MapSpace(*read.problem())
    space = MapSpace(work, machine)
    space = space if space.orders is None else space.orders.spaces[0]
    rng = np.random.default_rng(1)
    for code in space.sample(rng, 5, feasible=True):
        mapping = space.describe(code)
        record = json.loads(json.dumps(nest_record(work, space.accelerator, mapping)))
        check_same(record, imported(ms.to_timeloop(record).text, tmp_path).record)
        # Timeloop's mapper may take it.
        assert again.feasible(again.code(mapping)[None])[0]


def sayable(machine: Record) -> Record:
    """Without what Timeloop's files have no place for."""
    machine = {
        key: machine[key] for key in machine if key not in ("cycles_per_mac", "output_fills")
    }
    for level in machine["levels"]:
        for key in ("multicast", "reduction"):
            level.get("spatial", {}).pop(key, None)
    return machine


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_any_machine_problem_and_mapping(seed: int, tmp_path_factory: Any) -> None:
    rng = np.random.default_rng(seed)
    work, _ = random_parts(rng)
    try:
        machine = accelerator(sayable(random_machine(rng)))
        space = MapSpace(workload(work), machine)
    except ConfigError:
        return
    folder = tmp_path_factory.mktemp("exported")
    for code in space.sample(rng, 3):
        record = nest_record(space.workload, machine, space.describe(code))
        record = json.loads(json.dumps(record))
        if any(len(name) > 1 for name in record["problem"]["dims"]):
            with pytest.raises(ConfigError, match="one letter each"):
                ms.to_timeloop(record)
            return
        check_same(record, imported(ms.to_timeloop(record).text, folder).record)


def signatures(space: MapSpace, codes: Any) -> set[str]:
    """The loop nests of codes; of loops that are one inside another in a row the order is free."""
    found = set()
    for code in codes:
        record = nest_record(space.workload, space.accelerator, space.describe(code))
        mapping = record["mapping"]
        mapping[-1]["temporal"].sort()
        for level, where in zip(mapping, space.accelerator.levels, strict=True):
            if not (where.hop_energy_pj or where.router_pj):
                level["spatial"].sort()
        found.add(json.dumps(mapping))
    return found


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
@example(seed=484647363)  # a mesh that nothing may use has 48 codes here and 12,288 there
def test_the_map_space_of_what_was_exported(seed: int, tmp_path_factory: Any) -> None:
    rng = np.random.default_rng(seed)
    work, _ = random_parts(rng)
    machine = sayable(random_machine(rng))
    machine["levels"] = machine["levels"][:3]
    try:
        space = MapSpace(workload(work), accelerator(machine))
    except ConfigError:
        return
    codes = every_mapping(space, 3000)
    if codes is None or any(len(name) > 1 for name in space.workload.dimensions):
        return
    try:
        written = ms.to_timeloop(space.workload, space.accelerator)
    except ConfigError:
        ms.to_timeloop(space.workload, space.accelerator, lenient=True)
        return
    folder = tmp_path_factory.mktemp("exported")
    again = MapSpace(*imported(written.text, folder).problem())
    others = every_mapping(again, 200_000)
    if others is None:  # too many codes of equal nests: what stands along which axis
        some = again.sample(rng, 200, feasible=True)
        assert signatures(again, some) <= signatures(space, codes)
        assert again.feasible(np.stack([again.code(space.describe(one)) for one in codes])).all()
        return
    assert signatures(again, others) == signatures(space, codes)


def test_what_runs_where_by_hand() -> None:
    machine = {
        "name": "mesh",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0},
            {
                "name": "L2",
                "energy_pj": 6.0,
                "capacity_words": 64,
                "fanout": 4,
                "mesh": [2, 2],
                "spatial": {"x": ["M"], "y": ["N"]},
                "bypass": ["weight"],
            },
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
        ],
        "constraints": [{"target": "L2", "type": "spatial", "factors": "M<=2 K=1"}],
    }
    text = ms.to_timeloop("gemm:M=4,N=4,K=4", machine).text
    assert text.partition("mapspace:\n")[2] == (
        "  constraints:\n"
        "  - {target: L2, type: spatial, factors: M<=2 K<=1, permutation: MKN, split: 1}\n"
        "  - target: L2\n"
        "    type: bypass\n"
        "    keep: [A, Z]\n"
        "    bypass: [B]\n"
        "  - target: L1\n"
        "    type: bypass\n"
        "    keep: [A, B, Z]\n"
        "    bypass: []\n"
    )


LEVELS = [{"name": "DRAM", "energy_pj": 1}, {"name": "L1", "capacity_words": 64, "energy_pj": 1}]


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ({"cycles_per_mac": 2}, "m.cycles_per_mac: Timeloop's files have no place for it"),
        ({"output_fills": "charged"}, "m.output_fills: Timeloop's files have no place"),
        ({"counting": "true"}, "m.counting: Timeloop's files have no place"),
        ({"factors": "imperfect"}, "m.factors: imperfect: Timeloop's files have no place"),
        ({"mac_leakage_pj": 0.5}, "MAC.leakage_pj: Timeloop's"),
        ({"levels": [LEVELS[0], LEVELS[1] | {"name": "PE[0..3]"}]}, "PE.0..3.: Timeloop's names"),
        ({"levels": [LEVELS[0], LEVELS[1] | {"name": "MAC"}]}, "MAC: Timeloop's files name each"),
        ({"levels": [LEVELS[0], LEVELS[1] | {"capacity_words": 2**31}]}, "L1.size_words: expect"),
        (
            {"levels": [LEVELS[0], LEVELS[1] | {"fanout": 4, "mesh": [2, 2],
             "spatial": {"x": ["M", "N"], "y": ["N", "K"]}}]},
            "m.L1.spatial: N along either axis beside others along one: Timeloop's files",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_by_name(machine: Record, message: str) -> None:
    whole = {"name": "m", "mac_energy_pj": 1.0, "levels": LEVELS, **machine}
    with pytest.raises(ConfigError, match=message) as caught:
        ms.to_timeloop("gemm:M=4,N=4,K=4", whole)
    assert "\n" not in str(caught.value)


def test_dimensions_of_several_letters_are_refused() -> None:
    work = {
        "name": "rows",
        "dimensions": {"row": 4, "k": 2},
        "tensors": {"X": ["row", "k"], "Y": ["row"]},
        "output": "Y",
    }
    with pytest.raises(ConfigError, match="row: Timeloop's dimensions have one letter each"):
        ms.to_timeloop(work)
