"""Mappings that AccelForge's search printed, costed by its own rules beside its own costs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from paths import TESTS

from costmodel.accelforge.architecture import read_accelforge_machine
from costmodel.accelforge.mapping import mapping_record
from costmodel.machines.accelerators import accelerator
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError

PEERS = TESTS / "benchmarks" / "peers"
LINES = (PEERS / "accelforge" / "answers.jsonl").read_text().splitlines()
ANSWERS = {(a["machine"], a["layer"]): a for a in map(json.loads, LINES)}


def record_of(machine: str, layer: str, line: str | None = None) -> dict[str, Any]:
    read = read_accelforge_machine(PEERS / "accelforge" / f"{machine}.yaml", 8)
    work = workload(PEERS / "layers" / f"{layer}.yaml")
    text = ANSWERS[machine, layer]["mapping"] if line is None else line
    return mapping_record(text, "a.txt", work, accelerator(read.content), read.fanouts)


@pytest.mark.parametrize("machine", ["nvdla", "tpu-v4i"])
def test_what_it_found_costs_what_it_says(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    monkeypatch.delitem(sys.modules, "accelforge_counting", raising=False)
    from accelforge_counting import accelforge_costs

    record = record_of(machine, "depthwise")
    answer = ANSWERS[machine, "depthwise"]
    energy, latency = accelforge_costs(record, {"nvdla": 1.0, "tpu-v4i": 1.05}[machine])
    assert energy == pytest.approx(answer["energy_j"], rel=1e-6)
    assert latency == pytest.approx(answer["latency_s"], rel=1e-6)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (None, "tensors of one memory are stored at different loops"),
        ("[A in MainMemory] " * 7, "expected at most 4 stores in one memory"),
        ("[A in Register] T-m in [0..2) [A in MainMemory]", "or memories in another order"),
        ("", "expected a mapping such as"),
        ("[A in MainMemory] for m", "got 'for m'"),
        ("[A in Memory]", "expected tensors A, B, Z in one of MainMemory, GlobalBuffer, Register"),
        ("[W in MainMemory]", "expected tensors A, B, Z"),
        ("[A in MainMemory] T-x in [0..2)", "expected one of the dimensions m, n, k"),
        ("[A in MainMemory] T-m in [0..0)", "expected a range of at least 1"),
        ("[A in MainMemory] S-X-m in [0..2)", "the fan-outs reuse_input, reuse_output"),
    ],
)
def test_what_has_no_counterpart(line: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^a\.txt: .*" + message):
        record_of("nvdla", "gemm", line)
