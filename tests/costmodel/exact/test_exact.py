"""The proof against exhaustive enumeration, the golden records and the optima proven before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import GOLDEN
from small_problems import check_problem, check_space, random_mesh, random_problem

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify, read_certificate
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover, prove, why_not_proven
from costmodel.exact_any.front import prove_front
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.records import read_mapping, record_code
from mapspace.errors import ConfigError

RECORDS = sorted((GOLDEN / "timeloop").glob("*.jsonl.gz"))

# Proven elsewhere, by an independent program, to seven digits (pJ x cycles).
OPTIMA = {
    "gemm-1024": 3.088396e16,
    "mttkrp-0": 3.226108e22,
    "mttkrp-1": 3.215334e22,
    "resnet-conv3": 7.687803e16,
    "resnet-conv4": 7.925257e16,
    "alexnet-conv2": 2.875811e17,
    "alexnet-conv4": 7.395732e16,
    "vgg-conv2": 5.040044e18,
    "inception-conv2-c64": 2.807981e18,
    "inception-conv2": 2.517077e19,
}


def proven(space: MapSpace, **options: Any) -> AnyProver:
    prover = AnyProver(space, **options)
    prover.run()
    return prover


@pytest.mark.parametrize("seed", range(100))
def test_equals_exhaustive_enumeration(seed: int) -> None:
    check_problem(seed, most=30_000)


@pytest.mark.parametrize("block", range(5))
def test_equals_exhaustive_enumeration_of_tiny_problems(block: int) -> None:
    """Problems of at most 150 mappings: few enough for an interpreter, as in `make mutants`."""
    for seed in range(20_000 + 24 * block, 20_024 + 24 * block):
        check_problem(seed, most=150)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(80))
def test_equals_exhaustive_enumeration_of_many(block: int) -> None:
    """2,000 further problems of up to 120,000 mappings each."""
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        check_problem(seed)


@pytest.mark.parametrize("name", OPTIMA)
def test_the_known_optima_are_proven(name: str) -> None:
    certificate = prove(MapSpace(workload(name), accelerator("mm256")))
    assert certificate.proven
    assert certificate.value == pytest.approx(OPTIMA[name], rel=1e-6)


def test_a_product_by_hand() -> None:
    """2 x 2 x 2 MACs on one element whose buffers hold everything: counted on paper.

    Every tensor of 4 words crosses each level once. DRAM: 4 + 4 reads and 4 writes. Buffer: inputs
    8 fills and 8 reads, the output 4 updates and 4 reads for DRAM less the 4 that were never
    written before, 0 fills; so 20. Element: inputs 8 fills and 16 reads, the output 8 updates and
    8 - 4 reads; so 36, 8 MACs in 8 cycles.
    """
    machine: dict[str, Any] = {
        "name": "hand",
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0},
            {"name": "L2", "energy_pj": 10.0, "capacity_words": 100},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 12},
        ],
        "mac_energy_pj": 0.5,
    }
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator(machine))
    certificate = prove(space)
    assert certificate.energy_pj == 12 * 100 + 20 * 10 + 36 + 8 * 0.5
    assert certificate.latency_cycles == 8
    assert certificate.proven
    # 8 words hold a column of A, a row of B and all of Z; with 7 something is fetched twice.
    machine["levels"][2]["capacity_words"] = 7
    assert prove(MapSpace(space.workload, accelerator(machine))).energy_pj > certificate.energy_pj


@pytest.mark.parametrize("path", RECORDS, ids=[path.name.split(".")[0] for path in RECORDS])
def test_bounds_hold_on_the_golden_records(path: Path) -> None:
    """No bound lies above what the real Timeloop counted."""
    with gzip.open(path, "rt") as lines:
        records = [json.loads(line) for line in lines]
    groups: dict[str, tuple[MapSpace, list[Any], list[Any]]] = {}
    for record in records:
        key = json.dumps(
            [record["problem"], record["arch"], "keep" in record["mapping"]], sort_keys=True
        )
        if key not in groups:
            groups[key] = read_mapping(record)[0], [], []
        space, codes, results = groups[key]
        codes.append(record_code(space, record))
        results.append(record["result"])
    for space, codes, results in groups.values():
        assert why_not_proven(space) is None
        prover = AnyProver(space)
        # So that floors are raised as they are beside something known, if no further.
        prover.offer(np.array(codes))
        prover.run(0.05)
        least = prover.value_of(prover.lower_outcome) * float(prover.unit_pj)
        # Timeloop adds energies in floating point.
        values = [result["energy_pj"] * result["cycles"] for result in results]
        assert least <= min(values) * (1 + 1e-9)


@pytest.mark.parametrize("block", range(4))
def test_meshes_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(3000 + 6 * block, 3006 + 6 * block):
        check_space(*random_mesh(np.random.default_rng(seed), 5000))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_more_meshes_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(4000 + 20 * block, 4020 + 20 * block):
        check_space(*random_mesh(np.random.default_rng(seed), 60_000))


@pytest.mark.parametrize("seed", [2, 11, 17, 24, 46, 52])
def test_the_best_tilings_equal_enumeration(seed: int) -> None:
    space, codes, objective = random_problem(np.random.default_rng(seed), 30_000)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    tilings = codes.copy()
    for column, kind in enumerate(space.attribute_kinds):
        if kind in ("order", "banks", "spatial-order", "spatial-axis"):
            tilings[:, column] = 0
    # The element buffers' order is 0 throughout; what is left names the tiling.
    _, group = np.unique(tilings, axis=0, return_inverse=True)
    least = np.full(group.max() + 1, np.inf)
    np.minimum.at(least, group.ravel(), values)
    top = min(7, len(least))
    prover = proven(space, objective=objective, top=top)
    best = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
    np.testing.assert_allclose(best, np.sort(least)[:top], rtol=1e-12)


@pytest.mark.parametrize("seed", [17, 20, 23, 37])
def test_a_fixed_keep_set_equals_enumeration(seed: int) -> None:
    space, codes, objective = random_problem(np.random.default_rng(seed), 30_000)
    columns = {name: space.attribute_names.index(f"keep.{name}") for name in ("L2", "L1")}
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    tensors = space.workload.tensor_names
    for inner, outer in ((0b001, 0b110), (0b101, 0b111), (0b000, 0b011)):
        allowed = (codes[:, columns["L1"]] == inner) & (codes[:, columns["L2"]] == outer)
        kept = {
            name: [tensor for t, tensor in enumerate(tensors) if (chosen >> t) & 1]
            for name, chosen in (("L1", inner), ("L2", outer))
        }
        if not allowed.any():
            continue
        winner = proven(space, objective=objective, keep=kept).codes()[0]
        assert winner[columns["L1"]] == inner
        assert winner[columns["L2"]] == outer
        reached = LoopNestModel().evaluate(space, winner[None]).objective(objective)[0]
        assert reached == pytest.approx(values[allowed].min(), rel=1e-12)


@pytest.mark.parametrize("seed", [2, 5, 24, 31, 37, 46, 52, 54])
def test_the_front_equals_enumeration(seed: int) -> None:
    space, codes, _ = random_problem(np.random.default_rng(seed), 30_000)
    costs = LoopNestModel().evaluate(space, codes)
    expected = []
    least = np.inf
    for cycles in np.unique(costs.latency_cycles):
        energy = costs.energy_pj[costs.latency_cycles == cycles].min()
        if energy < least * (1 - 1e-12):
            least = energy
            expected.append((cycles, energy))
    front = [(point.latency_cycles, point.energy_pj) for point in prove_front(space)]
    np.testing.assert_allclose(front, expected, rtol=1e-12)


def test_what_is_printed_on_the_way_stays_true() -> None:
    space = MapSpace(workload("mttkrp-1"), accelerator("mm256"))
    optimum = proven(space)
    assert optimum.best_outcome is not None
    best = optimum.value_of(optimum.best_outcome)
    prover = AnyProver(space)
    lower, gap = 0, float("inf")
    while not prover.finished:
        prover.step()
        certain = prover.value_of(prover.lower_outcome)
        assert lower <= certain <= best
        assert prover.gap <= gap
        lower, gap = certain, prover.gap
    # To within what closer energies count as equal.
    assert lower == pytest.approx(best, rel=2e-12)


def test_an_offered_mapping_shortens_the_proof() -> None:
    space = MapSpace(workload("alexnet-conv4"), accelerator("mm256"))
    first = proven(space)
    second = AnyProver(space)
    second.offer(first.codes())
    assert second.best_outcome == first.best_outcome
    second.run()
    assert second.best_outcome == first.best_outcome
    assert second.bounds_computed <= first.bounds_computed
    np.testing.assert_array_equal(second.codes(), first.codes())


def test_a_certificate_survives_its_file(tmp_path: Path) -> None:
    space = MapSpace(workload("resnet-conv3"), accelerator("mm256-bw-bypass"))
    prover = AnyProver(space, objective="ed2p")
    prover.offer(space.sample(np.random.default_rng(0), 64, feasible=True))
    certificate = certify(prover, 1.0)
    (tmp_path / "c.json").write_text(certificate.text())
    assert read_certificate(tmp_path / "c.json") == certificate
    small = prove(MapSpace(workload("gemm:M=24,N=24,K=24"), space.accelerator), objective="ed2p")
    assert verify(small, make_prover).holds


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ("mindmappings-released", "overflow"),
        ({"extends": "mm256", "mac_energy_pj": 1e300}, "may come to"),
    ],
)
def test_what_cannot_be_proven_is_refused(machine: Any, reason: str) -> None:
    space = MapSpace(workload("mttkrp-0"), accelerator(machine))
    assert reason in str(why_not_proven(space))
    with pytest.raises(ConfigError, match=reason):
        AnyProver(space)


def test_an_objective_that_may_fall_is_refused() -> None:
    space = MapSpace(workload("gemm-512"), accelerator("mm256"))
    with pytest.raises(ConfigError, match="never falls when energy or latency rises"):
        AnyProver(space, objective="utilisation")  # type: ignore[arg-type]
