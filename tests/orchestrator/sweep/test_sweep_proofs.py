"""Proofs of a sweep by themselves: what they answer, which one counts, how they are kept."""

from __future__ import annotations

import contextlib
import itertools
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from sweeps import SMALL

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.choice import prove
from costmodel.explanation.admitting import what_would_admit
from costmodel.loop_nest.records import record_code
from costmodel.machines.bounds import floor
from mapspace.errors import ConfigError, DataError
from mapspace.storage import RemotePath
from orchestrator.sweep import proofs as sweep_proofs
from orchestrator.sweep.fitting import why_nowhere
from orchestrator.sweep.proofs import (
    WRITE_SECONDS,
    Problem,
    Proof,
    _kept_in,
    distinct,
    prove_chunk,
    prove_problem,
    read_proof_files,
    write_proofs,
)


def proof_of(key: str = "k", **known: Any) -> Proof:
    told: dict[str, Any] = {"status": "proven", "seconds": 1.0, "limit_seconds": 10.0, **known}
    return Proof(key=key, **told)


def test_only_more_time_tells_more_of_what_was_cut_off() -> None:
    for status in ("time_limit", "searched"):
        cut = proof_of(status=status)
        assert [cut.answers(limit) for limit in (5.0, 10.0, 10.5)] == [True, True, False]
    for status in ("proven", "infeasible"):
        assert proof_of(status=status).answers(1e9)
    assert not proof_of(status="unsupported").answers(1.0)


def test_of_several_proofs_the_one_that_tells_most_counts(tmp_path: Path) -> None:
    """Any answer is more than a cut-off one, of those the longest; of equal ones the last."""
    ranked = [
        proof_of(status="searched", limit_seconds=5.0),
        proof_of(status="time_limit", limit_seconds=5.0),
        proof_of(status="time_limit", limit_seconds=90.0),
        proof_of(status="infeasible", limit_seconds=1.0),
        proof_of(status="proven", limit_seconds=1.0, seconds=0.5),
        proof_of(status="proven", limit_seconds=2.0),
    ]
    path = tmp_path / "all.jsonl"
    for first, second in itertools.combinations(range(len(ranked)), 2):
        alike = (ranked[first].status in ("searched", "time_limit")) == (
            ranked[second].status in ("searched", "time_limit")
        ) and ranked[first].limit_seconds == ranked[second].limit_seconds
        write_proofs(path, [ranked[first], ranked[second]])
        assert read_proof_files([path])["k"] == ranked[second]
        write_proofs(path, [ranked[second], ranked[first]])
        assert read_proof_files([path])["k"] == ranked[first if alike else second]
    write_proofs(path, [proof_of("a"), proof_of("b")])
    with path.open("a") as file:
        file.write('{"key": "torn')
    assert set(read_proof_files([path])) == {"a", "b"}


def test_what_was_torn_spoils_no_further_line(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    with _kept_in(path) as keep:
        keep(proof_of("a"))
        # A proof is there as soon as it is made.
        assert set(read_proof_files([path])) == {"a"}
    assert not path.read_text().startswith("\n")
    path.write_text(path.read_text() + '{"key": "torn')
    with _kept_in(path) as keep:
        keep(proof_of("b"))
    assert set(read_proof_files([path])) == {"a", "b"}


class Bucket(RemotePath):
    """An object whose content lies here."""

    held: ClassVar[dict[str, bytes]] = {}

    def exists(self) -> bool:
        return self.key in self.held

    def read_bytes(self, most: int | None = None) -> bytes:
        return self.held[self.key]

    def write_bytes(self, content: bytes) -> None:
        self.held[self.key] = content


def test_objects_are_written_again_now_and_then_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Bucket("s3", "bucket/kept.jsonl")
    path.held.clear()
    now = 100.0
    monkeypatch.setattr(sweep_proofs.time, "monotonic", lambda: now)

    def there() -> str:
        lines = path.held.get(path.key, b"").splitlines()
        return "".join(Proof.model_validate_json(line).key for line in lines)

    seen = []
    with contextlib.suppress(KeyboardInterrupt), _kept_in(path) as keep:
        for key, later in (("a", 0.0), ("b", WRITE_SECONDS), ("c", WRITE_SECONDS / 2)):
            now += later
            keep(proof_of(key))
            seen.append(there())
        raise KeyboardInterrupt
    assert seen == ["", "ab", "ab"], "not too often"
    assert there() == "abc"
    with _kept_in(path) as keep:
        keep(proof_of("d"))
    assert there() == "abcd"


def test_a_chunk_goes_on_where_its_worker_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = accelerator("mm256")
    chunk = [Problem(workload(f"gemm:M={m},N=4,K=4"), machine, "edp") for m in (2, 4, 8)]
    asked = list[str]()

    def dies(problem: Problem, limit: float, store: object) -> Proof:
        asked.append(problem.key)
        if len(asked) == 3:
            raise KeyboardInterrupt
        status = "time_limit" if problem is chunk[0] else "proven"
        return proof_of(problem.key, status=status, limit_seconds=limit)

    monkeypatch.setattr(sweep_proofs, "prove_problem", dies)
    with pytest.raises(KeyboardInterrupt):
        prove_chunk(tmp_path, 1.0, None, chunk)
    found = prove_chunk(tmp_path, 1.0, None, chunk)
    assert [one.key for one in found] == [problem.key for problem in chunk]
    keys = [problem.key for problem in chunk]
    assert asked == [*keys, keys[2]]
    # With more time what was cut off is asked again, and that alone.
    prove_chunk(tmp_path, 9.0, None, chunk)
    assert asked == [*keys, keys[2], keys[0]]
    # Another chunk has a file of its own.
    prove_chunk(tmp_path, 1.0, None, chunk[:1])
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_equal_problems_are_one_whatever_their_names() -> None:
    machine, twin = accelerator("mm256"), accelerator({"extends": "mm256", "name": "twin"})
    work = workload(SMALL)
    some = [
        Problem(work, machine, "edp"),
        Problem(work, twin, "edp"),
        Problem(work, machine, "energy"),
        Problem(work, machine, "edp", Fraction(1, 2)),
        Problem(work, machine, "energy", Fraction(1, 2)),
    ]
    found = distinct(some)
    # Of a weighted sum the objective is no part.
    assert len(found) == 3
    assert {problem.accelerator.hash for problem in found.values()} == {machine.hash}
    assert all(problem.key == key for key, problem in found.items())


@pytest.mark.parametrize("weight", [Fraction(0), Fraction(500)])
def test_a_weighted_sum_is_proven(weight: Fraction) -> None:
    work, machine = workload("gemm:M=4,N=4,K=4"), accelerator("tiny3")
    found = prove_problem(Problem(work, machine, "edp", weight), 60.0)
    assert found.status == "proven"
    assert found.energy_pj is not None
    assert found.latency_cycles is not None
    total = found.energy_pj + float(weight) * found.latency_cycles
    assert found.lower_bound == pytest.approx(total, rel=1e-12)
    assert found.gap == pytest.approx(0.0, abs=1e-12)
    space = MapSpace(work, machine)
    assert found.record is not None
    costs = LoopNestModel().evaluate(space, record_code(space, found.record)[None, :])
    assert costs.energy_pj[0] == pytest.approx(found.energy_pj, rel=1e-12)
    least = prove(space, objective="energy")
    assert found.energy_pj >= least.energy_pj * (1 - 1e-12)
    if not weight:
        assert found.energy_pj == pytest.approx(least.energy_pj, rel=1e-12)


def test_why_there_is_no_proof_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be asked, what has no mapping, and what nothing was found of in its time."""
    work, machine = workload("gemm:M=4,N=4,K=4"), accelerator("tiny3")
    problem, summed = (Problem(work, machine, "edp", weight) for weight in (None, Fraction(1)))

    def fails(error: Exception) -> Any:
        def failing(*_: Any, **__: Any) -> None:
            raise error

        return failing

    nothing = "No mapping of einsum is feasible."
    line = SimpleNamespace(point=None, proven=True, bound=None)
    for place, change, asked, status, reason in (
        ("exact_any.choice.make_prover", fails(ConfigError("none")), problem, "infeasible", "none"),
        ("exact.certificate.certify", fails(DataError("late")), problem, "time_limit", "late"),
        ("exact.infeasible.why_infeasible", lambda _: "full", problem, "infeasible", "full"),
        ("exact_any.choice.why_not_proven", fails(ConfigError("no")), problem, "unsupported", "no"),
        ("exact_any.choice.why_not_proven", lambda _: "wide", summed, "unsupported", "wide"),
        ("exact_any.weighted.least_sum", lambda *_, **__: line, summed, "infeasible", nothing),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(f"costmodel.{place}", change)
            found = prove_problem(asked, 60.0)
        told = (found.reason or "").replace(work.name, "einsum")
        assert (found.status, told, found.limit_seconds) == (status, reason, 60.0)


def test_what_no_proof_treats_is_searched_and_bounded() -> None:
    machine = accelerator({"extends": "gemmini", "name": "pieces", "factors": "imperfect"})
    work = workload("gemm:M=7,N=5,K=3")
    found = prove_problem(Problem(work, machine, "energy"), 60.0)
    assert found.status == "searched"
    assert found.energy_pj is not None
    bound = floor(work, machine).energy_pj
    assert found.lower_bound == bound > 0
    assert found.gap == pytest.approx(found.energy_pj / bound - 1)
    space = MapSpace(work, machine)
    assert found.record is not None
    costs = LoopNestModel().evaluate(space, record_code(space, found.record)[None, :])
    assert float(costs.energy_pj[0]) == found.energy_pj
    assert int(costs.latency_cycles[0]) == found.latency_cycles


def small(name: str, words: int) -> Any:
    level = {"name": "L1", "capacity_words": words}
    return accelerator({"extends": "mm256", "name": name, "levels": [level]})


def test_the_smallest_change_of_any_machine_is_told() -> None:
    work = workload("gemm:M=16,N=16,K=16")
    machines = [small("one", 1), small("two", 2)]
    changes, _ = what_would_admit(MapSpace(work, machines[1]))
    assert str(changes[0]) in why_nowhere(work, machines)
    assert why_nowhere(work, machines) == why_nowhere(work, machines[::-1])
    assert why_nowhere(work, machines) != why_nowhere(work, machines[:1])
    # The first few are looked at; of none nothing is told.
    ones = [machines[0]] * 3
    assert why_nowhere(work, [*ones, machines[1]]) == why_nowhere(work, machines)
    assert why_nowhere(work, [*ones, machines[0], machines[1]]) == why_nowhere(work, ones)
    # Machines that have no map space are passed over, and named where there are no others.
    inner = [
        {"name": f"L{n}", "capacity_words": 64, "energy_pj": 1.0, "fanout": 2} for n in range(8)
    ]
    levels = [{"name": "DRAM", "energy_pj": 9.0}, *inner]
    deep = accelerator({"name": "deep", "mac_energy_pj": 1.0, "levels": levels})
    large = workload("gemm-512")
    assert "over 17 loops" in why_nowhere(large, [deep])
    assert why_nowhere(large, [deep, machines[1]]) == why_nowhere(large, machines[1:])
    assert why_nowhere(work, []) == f"{work.name} has no mapping on any machine"
