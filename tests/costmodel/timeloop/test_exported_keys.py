"""Exported files say nothing that Timeloop's parser would pass over: it ignores keys in silence.

The table holds what the sources of Timeloop v3.0.3 look up (`lookup`, `lookupValue`, `exists`,
`lookupArrayValue`), part by part.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from paths import GOLDEN

import mapspace as ms
from costmodel.machines.accelerators import accelerator_names

KEYS: Mapping[str, set[str]] = {
    # src/applications/model/model.cpp, src/applications/mapper/mapper.cpp
    "": {"architecture", "ERT", "problem", "mapping", "mapspace"},
    # src/model/topology.cpp, ParseTreeSpecs; the version is looked at in src/model/engine.cpp
    "architecture": {"version", "subtree"},
    "architecture.subtree[]": {"name", "local", "subtree"},
    "architecture.subtree[].local[]": {"name", "class", "attributes"},
    # src/model/buffer.cpp, src/model/network-legacy.cpp, src/model/arithmetic.cpp, each ParseSpecs
    "architecture.subtree[].local[].attributes": {
        *("addr-gen-energy", "block-size", "cluster-size", "entries", "instances", "meshX"),
        *("meshY", "min-utilization", "multiple-buffering", "network_drain_latency"),
        *("network_fill_latency", "read_bandwidth", "shared_bandwidth", "word-bits"),
        *("write_bandwidth", "energy-per-hop", "energy-per-ingress", "router-energy"),
    },
    # src/model/topology.cpp, ParseAccelergyERT; arguments stand in Accelergy's own tables
    "ERT": {"version", "tables"},
    "ERT.tables[]": {"name", "actions"},
    "ERT.tables[].actions[]": {"name", "energy", "arguments"},
    # src/workload/workload.cpp, src/workload/shape-models/problem-shape.cpp
    "problem": {"shape", "instance"},
    "problem.shape": {"name", "dimensions", "coefficients", "data-spaces"},
    "problem.shape.coefficients[]": {"name", "default"},
    "problem.shape.data-spaces[]": {"name", "projection", "read-write"},
    # src/mapping/parser.cpp
    "mapping[]": {"target", "type", "factors", "permutation", "split", "keep", "bypass"},
    # src/mapping/constraints.cpp
    "mapspace": {"constraints"},
    "mapspace.constraints[]": {
        *("target", "type", "factors", "permutation", "split", "keep", "bypass", "min"),
    },
}
# src/mapping/parser.cpp and constraints.cpp, the chains of `type ==`
TYPES = {"temporal", "spatial", "datatype", "bypass", "bypassing", "utilization", "parallelism"}
# include/model/topology.hpp: bufferClasses, computeClasses
CLASSES = {"DRAM", "SRAM", "intmac"}
# src/model/buffer.cpp and arithmetic.cpp, UpdateOpEnergyViaERT
ACTIONS = {"random_read", "random_fill", "random_update", "mac_random"}
# src/mapping/parser.cpp, ParseUserFactors: 0 means the whole dimension, as nobody wants here
FACTORS = re.compile(r"[A-Za-z]=[1-9]\d*(,[1-9]\d*)?( [A-Za-z]=[1-9]\d*(,[1-9]\d*)?)*")
# src/mapping/constraints.cpp, ParseFactors and its bounds
BOUNDS = re.compile(r"[A-Za-z](=|<=|>=)\d+(,\d+)?( [A-Za-z](=|<=|>=)\d+(,\d+)?)*")


def check(node: Any, place: str = "") -> None:
    """Holds every key, by its place, against the table."""
    if isinstance(node, list):
        for entry in node:
            check(entry, f"{place}[]")
    elif isinstance(node, dict) and place in KEYS:
        assert node.keys() <= KEYS[place], f"{place}: {node.keys() - KEYS[place]}"
        for key, value in node.items():
            check(value, f"{place}.{key}".removeprefix("."))
    elif isinstance(node, dict):
        assert place == "problem.instance", place  # sizes by dimension


def check_file(text: str) -> None:
    content = yaml.safe_load(text)
    check(content)
    (tree,) = content["architecture"]["subtree"]  # one subtree per level, asserted there
    assert {entry["class"] for entry in tree["local"]} <= CLASSES
    assert tree["local"][-1]["class"] == "intmac"
    names = {f"{tree['name']}.{entry['name']}" for entry in tree["local"]}
    assert {table["name"] for table in content["ERT"]["tables"]} == names
    actions = {a["name"] for table in content["ERT"]["tables"] for a in table["actions"]}
    assert actions - {"leak"} == ACTIONS  # of version 0.4, and said beside the text
    dims = set(content["problem"]["shape"]["dimensions"])
    assert set(content["problem"]["instance"]) == dims
    loops = content.get("mapping", [])
    rules = content.get("mapspace", {}).get("constraints", [])
    for form, entries in ((FACTORS, loops), (BOUNDS, rules)):
        for entry in entries:
            assert entry["type"] in TYPES
            # Every directive names the level from which it is.
            assert entry["target"] in {one["name"] for one in tree["local"]}
            assert form.fullmatch(entry.get("factors") or "A=1"), entry
            assert set(entry.get("permutation", "")) <= dims
            assert isinstance(entry.get("split", 0), int)


@pytest.mark.parametrize("name", accelerator_names())
def test_of_every_preset(name: str) -> None:
    check_file(ms.to_timeloop("cnn:N=1,K=8,C=6,P=7,Q=7,R=3,S=3,stride=2", name, lenient=True).text)


@pytest.mark.parametrize("name", sorted(p.name for p in (GOLDEN / "timeloop-general").glob("*.gz")))
def test_of_records(name: str) -> None:
    with gzip.open(GOLDEN / "timeloop-general" / name, "rt") as file:
        records = [json.loads(line) for _, line in zip(range(400), file, strict=False)]
    mapped = [record for record in records[::40] if "arch" in record and "mapping" in record]
    for record in mapped:
        check_file(ms.to_timeloop(record, lenient=True).text)


def test_of_constraints_that_a_machine_says() -> None:
    rules = [
        {"target": "L2", "type": "spatial", "factors": "C<=4 K=8", "permutation": "KC", "split": 1},
        {"target": "L1", "type": "utilization", "min": 0.5},
    ]
    machine = {"extends": "mm256", "constraints": rules}
    check_file(ms.to_timeloop("gemm:M=16,N=16,K=16", "mm256").text)
    text = ms.to_timeloop("cnn:N=1,K=8,C=8,P=8,Q=8,R=1,S=1", machine).text
    check_file(text)
    assert "utilization" in text


def test_a_key_that_nobody_reads_is_seen() -> None:
    text = ms.to_timeloop("gemm:M=16,N=16,K=16", "mm256").text
    with pytest.raises(AssertionError, match=r"attributes: \{'read-bandwidth'\}"):
        check_file(text.replace("word-bits:", "read-bandwidth: 4, word-bits:", 1))
