"""Input sets of public projects give what the real Timeloop prints for them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import GOLDEN

import mapspace as ms
from costmodel import LoopNestModel
from costmodel.loop_nest.nest_record_models import NestArch
from costmodel.loop_nest.records import score
from costmodel.map_space.constraint_reading import read_constraints
from costmodel.timeloop import documents
from costmodel.timeloop.reading import from_timeloop
from costmodel.timeloop.writing import files_text
from mapspace.errors import ConfigError, MapspaceError
from mapspace.strict_yaml import load_yaml
from orchestrator.records.timeloop_files import evaluate_files

SETS = GOLDEN / "timeloop-imports"
NAMES = sorted(folder.name for folder in SETS.iterdir() if folder.is_dir())


def files_of(name: str, *, energies: bool = True) -> list[Path]:
    """The files of a set, without energy tables where Timeloop's own technology is asked for."""
    folder = SETS / name
    # Of version 0.4 Timeloop's front end writes one file of version 0.3, which the model reads.
    new = (folder / "v3-translated.yaml").exists()
    files = [folder / "v3-translated.yaml", folder / "input" / "ERT.yaml"] if new else []
    files += [] if new else sorted((folder / "input").iterdir())
    files += [path for path in [folder / "mapping.yaml"] if path.exists()]
    return [path for path in files if energies or path.name != "ERT.yaml"]


def expected(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SETS / name / "expected.json").read_text())
    return content


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("energies", ["pat", "ert"])
@pytest.mark.parametrize("name", NAMES)
def test_costs_are_those_of_timeloop(name: str, energies: str, linked: bool) -> None:
    key = energies + "-link" * linked
    recorded = expected(name).get(key)
    if recorded is None:
        assert energies == "ert", "every set was run with Timeloop's own technology"
        assert not (SETS / name / "input" / "ERT.yaml").exists()
        return
    record = from_timeloop(files_of(name, energies=energies == "ert")).mapped()
    for level in record["arch"]["levels"]:
        level.pop("leakage_pj", None)  # which v3.0.3 does not know
    result = score([record], LoopNestModel(link_transfers=linked))[0]["result"]
    assert result["cycles"] == recorded["cycles"]
    assert result["energy_pj"] == pytest.approx(recorded["energy_pj"], rel=1e-9)
    assert result["utilization"] == pytest.approx(recorded["utilization"], rel=1e-9)
    assert [level["name"] for level in result["levels"]] == [
        level["name"] for level in recorded["levels"]
    ]
    for level, told in zip(result["levels"], recorded["levels"], strict=True):
        assert level["cycles"] == told["cycles"]
        assert level["tensors"].keys() == told["tensors"].keys()
        for tensor, counts in told["tensors"].items():
            for count in ("tile", "instances", "reads", "fills", "updates"):
                assert level["tensors"][tensor][count] == counts[count], (level["name"], tensor)


@pytest.mark.parametrize("name", [name for name in NAMES if "mapper" in expected(name)])
def test_map_spaces_have_the_sizes_that_timeloop_prints(name: str) -> None:
    read = from_timeloop(files_of(name))
    work, machine = read.problem()
    rules = read_constraints(read.constraints, work.dimensions, work.tensor_names, machine)
    printed = {part: int(size) for part, size in expected(name)["mapper"]["map_space"].items()}
    assert rules.sizes_of_parts() == printed


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_says_the_same_when_it_is_read(name: str, tmp_path: Path) -> None:
    record = from_timeloop(files_of(name)).mapped()
    file = tmp_path / "all.yaml"
    file.write_text(files_text(record))
    again = from_timeloop([file]).mapped()
    assert NestArch.model_validate(again["arch"]) == NestArch.model_validate(record["arch"])
    assert again["problem"] == record["problem"]
    assert again["mapping"] == record["mapping"]


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("v4-ispass03-bypass", ["MainMemory", "GlobalBuffer", "RegisterFile"]),
        (
            "v4-eyeriss-like",
            ["DRAM", "shared_glb", "inter_PE_column_spatial", "inter_PE_spatial", "ifmap_spad",
             "weights_spad", "psum_spad"],
        ),
    ],
)  # fmt: skip
def test_tagged_nodes_are_what_the_front_end_makes_of_them(name: str, levels: list[str]) -> None:
    made = from_timeloop([SETS / name / "v3-translated.yaml"]).record
    files = [
        path
        for path in (SETS / name / "input").iterdir()
        if "arch" in path.name or "prob" in path.name
    ]
    nodes = [path for path in files if "parsed" not in path.name]
    if not any("prob" in path.name for path in nodes):
        nodes.append(SETS / "eyeriss-like-alexnet1" / "input" / "AlexNet_layer1.yaml")
    arch = NestArch.model_validate(from_timeloop(nodes).record["arch"])
    assert [level.name for level in arch.levels] == levels
    assert arch == NestArch.model_validate({**made["arch"], "name": arch.name})


def test_what_the_front_end_left_empty_is_taken_from_the_other_files(tmp_path: Path) -> None:
    folder = SETS / "v4-eyeriss-like"
    parsed = folder / "input" / "parsed-processed-input.yaml"
    mapping = folder / "mapping.yaml"
    assert from_timeloop([parsed]).record.get("mapping") is None
    read = from_timeloop([parsed, mapping, folder / "input" / "timeloop-mapper.map.yaml"])
    assert read.mapped()["mapping"] == from_timeloop([parsed, mapping]).mapped()["mapping"]
    other = tmp_path / "other.yaml"
    other.write_text(mapping.read_text().replace("P14 Q4", "P7 Q8"))
    with pytest.raises(ConfigError, match=r"other.yaml: mapping: .*mapping.yaml: mapping says"):
        from_timeloop([parsed, mapping, other])


ARCH = """
architecture:
  version: 0.3
  subtree:
    - name: system
      local:
        - {name: DRAM, class: DRAM, attributes: {word-bits: 8}}
        - {name: Buffer, class: SRAM, attributes: {entries: 64, word-bits: 8%s}}
        - {name: MAC, class: intmac, attributes: {datawidth: 8}}
"""
PROBLEM = "problem: {shape: gemm-ABZ, M: 4, N: 2, K: 3}\n"
MAPPING = """
mapping:
  - {target: DRAM, type: temporal, factors: M=2 N=1 K=1, permutation: MNK}
  - {target: Buffer, type: temporal, factors: M=%d N2 K0, permutation: KNM}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARCH % "" + PROBLEM + MAPPING % 3, r"factors of M multiply to 6 \(2 x 3\), .* size is 4"),
        (ARCH % "" + PROBLEM + MAPPING.replace("Buffer", "Bufer") % 2, "did you mean Buffer"),
        (ARCH % "" + PROBLEM + MAPPING.replace("K0", "Q2") % 2, "Unknown dimension 'Q'"),
        (ARCH % ", Word_Bits: 8" + PROBLEM + MAPPING % 2, "Word_Bits: unknown; did you mean word"),
        (ARCH % ", network-type: M:N" + PROBLEM + MAPPING % 2, "network-type: only 1:1 or 1:N"),
        (ARCH % "" + "problem: {shape: gemm-ABZ, M: 4, N: 2}\n" + MAPPING % 2, "K: expected a s"),
        (ARCH % "" + "problem: {shape: gemm, M: 4}\n" + MAPPING % 2, "Unknown shape 'gemm'"),
        (ARCH % "" + PROBLEM.replace("K: 3", "K: 3, densities: {A: 0.5}"), "densities: not mod"),
        (ARCH % "" + PROBLEM.replace("K: 3", "K: 3, bitwidths: {A: 0}"), "A: expected 1 to 256"),
        (ARCH % ", leak: 2" + PROBLEM, "leak: only 0 is modelled, got 2"),
        (ARCH % "" + PROBLEM.replace("K: 3", "K: 3, densites: {A: 1}"), "did you mean densities"),
        (
            ARCH % "" + PROBLEM.replace("M:", "instance: {M:").replace("}", "}, densites: {A: 1}}"),
            "problem.densites: unknown; did you mean densities",
        ),
        (ARCH % "" + PROBLEM + "sparse_optimizations: {}\n", "sparse_optimizations: not modelled"),
        (PROBLEM + MAPPING % 2, "no file has architecture or arch at its top level"),
        (ARCH % "" + PROBLEM + "mapping:\n\t- x\n", "a tab; YAML wants spaces"),
        (ARCH % "" + PROBLEM, "no file has mapping at its top level"),
        (ARCH.replace("class: intmac", "class: wire") % "" + PROBLEM, "one kind of multiply-acc"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        from_timeloop([file]).mapped()
    assert "\n" not in str(caught.value)


STRANGE = [None, True, -1, 0, 1.5, math.nan, "x", "", [], {}, [1], {"a": 1}, [[["K"]]], "K=2"]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from places(node[key], (*path, key))


@pytest.mark.parametrize("name", ["ispass04-cp", "nv-sample", "v4-ispass03-bypass"])
def test_damaged_files_are_refused_or_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("ART", "parsed", "timeloop-m")
    files = [file for file in (SETS / name / "input").iterdir() if file.suffix == ".yaml"]
    files = sorted(file for file in files if not any(part in file.name for part in parts))
    whole = [load_yaml(file, tags=True) for file in files]
    random = np.random.default_rng(7)
    refused = 0
    for _ in range(250):
        damaged = copy.deepcopy(whole)
        document = damaged[random.integers(len(damaged))]
        listed = list(places(document))
        *parents, last = listed[random.integers(len(listed))]
        for key in parents:
            document = document[key]
        document[last] = STRANGE[random.integers(len(STRANGE))]
        contents = dict(zip(files, damaged, strict=True))
        monkeypatch.setattr(documents, "_read", contents.__getitem__)
        try:
            read = from_timeloop(files)
            read.problem()
            if "mapping" in read.record:
                read.mapped()
        except MapspaceError:
            refused += 1
    assert 0 < refused < 250


def test_what_is_not_modelled_may_be_left_out_and_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(
        ARCH % ", network-type: M:N" + PROBLEM + MAPPING % 2 + "sparse_optimizations: {}\n"
    )
    left_out = from_timeloop([file], lenient=True).left_out
    assert [place.rpartition(" ")[2] for place in left_out] == [
        "architecture.subtree[system].local[Buffer].attributes.network-type",
        "sparse_optimizations",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        ("densities: {A: 1.0, B: {density: 1.0, distribution: fixed-structured}}", False),
        ("densities: {A: 1.0, B: {density: 0.5, distribution: fixed-structured}}", True),
        ("bitwidths: {A: 8, B: 8, Z: 8}", False),
    ],
)
def test_tensors_as_the_machine_has_them_change_nothing(
    said: str, left_out: bool, tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(ARCH % "" + PROBLEM.replace("K: 3", "K: 3, " + said) + MAPPING % 2)
    read = from_timeloop([file], lenient=True)
    assert len(read.left_out) == left_out
    assert read.idle == ()
    if not left_out:
        assert from_timeloop([file]) == read


def test_leakage_of_an_energy_table_is_charged_where_timeloop_charges_it(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    table = "ERT: {version: 0.4, tables: [%s]}\n"
    actions = "{name: 'system.%s[1..1]', actions: [{name: leak, energy: %s}]}"
    leaks = (("DRAM", 0), ("Buffer", 0.25), ("MAC", 0.5), ("Other", 0.5))
    entries = ", ".join(actions % leak for leak in leaks)
    text = ARCH % "" + PROBLEM + MAPPING % 2
    file.write_text(text)
    without = evaluate_files([file])
    file.write_text(text + table % entries)
    found = evaluate_files([file])
    assert found["energy_pj"] == pytest.approx(without["energy_pj"] + 0.25 * found["cycles"])
    read = from_timeloop([file])
    assert read.idle == (f"{file}: ERT[MAC].leak", f"{file}: ERT[Other]")
    written = ms.to_timeloop(read.mapped())
    assert written.left_out == ("Buffer.leakage_pj: charged by Timeloop 0.4, not by v3.0.3",)


def test_constraints_of_the_architecture_bind_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    rule = "architecture_constraints: {targets: [{target: Buffer, type: temporal, %s}]}\n"
    for said, allowed in (
        ("factors: M=2", True), ("factors: M=4", False), ("factors: M<=1", False),
        ("factors: M>=4", True), ("permutation: KNM", True), ("permutation: MNK", False),
    ):  # fmt: skip
        file.write_text(ARCH % "" + PROBLEM + MAPPING % 2 + rule % said)
        read = from_timeloop([file])
        if allowed:
            read.mapped()
            continue
        with pytest.raises(ConfigError, match="Buffer, temporal: M=2 N=2 K=3"):
            read.mapped()
