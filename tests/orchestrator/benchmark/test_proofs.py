"""What a benchmark is measured against: proven, read from a certificate, or looked up."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel import accelerator, known_optimum, workload
from costmodel.exact.certificate import read_certificate
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.machines.bounds import floor
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import optimum_task, reference_optima
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.optimum_task import kept_certificate, prove_optimum
from orchestrator.benchmark.reference_optima import Optima, certificate_file
from orchestrator.benchmark.run import run_benchmark
from orchestrator.comparison.results import Bounds


def plan_of(*workloads: str, **changes: Any) -> Plan:
    data = {
        "kind": "benchmark",
        "name": "small",
        "workloads": list(workloads),
        "searchers": {"random": {}},
        "seeds": 1,
        "iterations": 100,
        **changes,
    }
    return prepare(validate(Benchmark, data, "small"), "small")


def proven(folder: Path, *workloads: str, **changes: Any) -> tuple[dict[str, Bounds], list[str]]:
    lines: list[str] = []
    folder.mkdir(exist_ok=True)
    return Optima(plan_of(*workloads, **changes), folder, lines.append).bounds(), lines


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "certificates").iterdir()}


def test_certificates_are_written_once_and_hold(tmp_path: Path) -> None:
    inline = "gemm:M=6,N=8,K=4"
    first, lines = proven(tmp_path, "gemm-512", inline)
    assert lines[0] == "small: proving the best edp of each workload"
    assert all("proven in" in line for line in lines[-2:])
    before = files(tmp_path)
    for bounds in first.values():
        certificate = read_certificate(tmp_path / str(bounds.certificate))
        assert certificate.value == bounds.optimum == bounds.lower_bound == bounds.reference
        assert bounds.floor <= certificate.value
        assert verify(certificate, make_prover).holds
    again, lines = proven(tmp_path, "gemm-512", inline)
    assert again == first
    assert [line.endswith("proven before") for line in lines] == [False, True, True]
    assert files(tmp_path) == before


@pytest.mark.slow
def test_proofs_beside_searches_are_those_of_one_process(
    tmp_path: Path, ray_runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second proof takes longer than the searches.
    names, hard = ("gemm-512", "vgg-conv2"), {"accelerator": "mm256-bw-bypass"}
    alone, _ = proven(tmp_path / "alone", *names, **hard)
    # None is proven before the searches.
    monkeypatch.setattr(reference_optima, "ALL_FIRST_SECONDS", 0.0)
    lines: list[str] = []
    results = run_benchmark(plan_of(*names, **hard), tmp_path / "run", progress=lines.append)
    assert "  gemm-512, vgg-conv2: proven beside the searches, for 60 s at most" in lines
    assert list(results.bounds) == list(names)
    for name, bounds in results.bounds.items():
        assert replace(bounds, proof_seconds=0.0) == replace(alone[name], proof_seconds=0.0)
        here, there = (
            read_certificate(tmp_path / run / str(bounds.certificate)) for run in ("run", "alone")
        )
        # A proof that went on from its first second counts a little more.
        own = {"seconds": here.seconds, "counts": here.counts, "rounds": here.rounds}
        assert here == there.model_copy(update=own)
    seconds = sum(bounds.proof_seconds or 0.0 for bounds in results.bounds.values())
    assert results.provenance["proof_seconds"] >= seconds > 0
    assert any(" s of proofs in " in line for line in lines)


def test_a_proof_that_died_goes_on_from_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("mttkrp-0", accelerator="mm256-bw-bypass", objective="ed2p")
    proof = Optima(plan, tmp_path, print)._proof("mttkrp-0")
    whole = prove_optimum(replace(proof, file=tmp_path / "whole" / "certificates" / "a.json"))
    monkeypatch.setattr(optimum_task, "KEEP_SECONDS", 0.0)
    # However fast it is, it dies amid its work.
    monkeypatch.setattr("costmodel.exact_any.prover.STEP_SECONDS", 0.0005)
    proof = replace(proof, file=tmp_path / "certificates" / "b.json")

    class WorkerDiesError(Exception):
        pass

    def die(prover: Any) -> None:
        if proof.file.exists():
            raise WorkerDiesError

    with pytest.raises(WorkerDiesError):
        prove_optimum(proof, after_step=die)
    kept = kept_certificate(proof)
    assert kept is not None
    assert not kept.proven
    copy = tmp_path / "certificates" / "c.json"
    shutil.copy(proof.file, copy)
    earlier = set()
    again = prove_optimum(
        proof, after_step=lambda prover: earlier.add(prover.earlier_seconds)
    ).read()
    assert again.proven
    # What it has settled is not settled again, and its time counts.
    assert earlier == {kept.seconds}
    short = prove_optimum(replace(proof, seconds=kept.seconds, file=copy))
    assert "needs more than 0 s" in short.reason
    assert (again.value, again.record) == (whole.read().value, whole.read().record)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "energy"},
        {"accelerator": "mm256-bw"},
        {"key": "model_version"},
        {"key": "workload_hash"},
        {"damage": "{"},
    ],
    ids=["objective", "accelerator", "model", "workload", "damage"],
)
def test_another_certificate_is_not_believed(changes: dict[str, Any], tmp_path: Path) -> None:
    bounds, _ = proven(tmp_path, "gemm-512")
    path = tmp_path / str(bounds["gemm-512"].certificate)
    if "damage" in changes:
        path.write_text(changes.pop("damage"))
    if "key" in changes:
        path.write_text(json.dumps({**json.loads(path.read_text()), changes.pop("key"): "0"}))
    again, lines = proven(tmp_path, "gemm-512", **changes)
    assert "proven in" in lines[-1]
    other = "objective" in changes or "accelerator" in changes
    assert (again["gemm-512"].optimum != bounds["gemm-512"].optimum) == other
    assert read_certificate(path).value == again["gemm-512"].optimum


def test_without_proofs_the_optimum_is_looked_up(tmp_path: Path) -> None:
    bounds, lines = proven(tmp_path, "resnet-conv4", "gemm-512", proof_seconds=0.0)
    known = known_optimum(workload("resnet-conv4"), accelerator("mm256"))
    assert bounds["resnet-conv4"].optimum == known
    assert bounds["gemm-512"].optimum is None
    assert bounds["gemm-512"].note == "proof_seconds is 0"
    assert lines == []
    assert list(tmp_path.iterdir()) == []
    # The table is for EDP.
    other, _ = proven(tmp_path, "resnet-conv4", proof_seconds=0.0, objective="energy")
    assert other["resnet-conv4"].optimum is None


def test_a_proof_that_is_not_finished_gives_a_lower_bound(tmp_path: Path) -> None:
    problem = {"accelerator": "mm256-bw-bypass", "objective": "ed2p"}
    bounds, lines = proven(tmp_path, "vgg-conv2", **problem, proof_seconds=3.0)
    one = bounds["vgg-conv2"]
    assert not one.proven
    assert one.note.startswith("the proof was not finished in ")
    assert one.lower_bound is not None
    assert one.reference == max(one.lower_bound, one.floor)
    certificate = read_certificate(tmp_path / str(one.certificate))
    assert one.lower_bound == certificate.lower_bound < certificate.value
    assert not certificate.proven
    assert "optimum at least" in lines[-1]
    before = files(tmp_path)
    again, _ = proven(tmp_path, "vgg-conv2", **problem, proof_seconds=2.0)
    assert again == bounds
    assert files(tmp_path) == before
    # With more time than before it is tried again.
    proven(tmp_path, "vgg-conv2", **problem, proof_seconds=4.0)
    assert files(tmp_path) != before
    # What was proven elsewhere still counts.
    known, lines = proven(tmp_path, "vgg-conv2", accelerator="mm256-bw-bypass", proof_seconds=0.3)
    assert known["vgg-conv2"].proven
    assert known["vgg-conv2"].reference != known["vgg-conv2"].lower_bound


def test_what_the_exact_search_cannot_treat_has_the_floor(tmp_path: Path) -> None:
    bounds, lines = proven(tmp_path, "gemm-512", accelerator="mindmappings-released")
    one = bounds["gemm-512"]
    assert one.reference == floor(workload("gemm-512"), accelerator("mindmappings-released")).edp
    assert one.certificate is None
    assert "bypasses what overflows" in one.note
    assert lines[-1] == f"  gemm-512: not proven: {one.note}"


def test_a_problem_without_a_mapping_is_refused(tmp_path: Path) -> None:
    machine = tmp_path / "tiny.yaml"
    machine.write_text("extends: mm256\nlevels:\n  - {name: L1, capacity_words: 2}\n")
    with pytest.raises(ConfigError, match="gemm-512: "):
        proven(tmp_path, "gemm-512", accelerator=str(machine))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("resnet-conv4", "resnet-conv4.json"),
        ("v1.0_a", "v1.0_a.json"),
        ("gemm:M=1,N=2,K=3", "gemm-M-1-N-2-K-3-hash.json"),
        ("../up", "up-hash.json"),
        (".", "-hash.json"),
        ("x" * 300, "x" * 100 + "-hash.json"),
    ],
)
def test_file_names_are_safe(name: str, file: str) -> None:
    assert certificate_file(name, "hash") == file
