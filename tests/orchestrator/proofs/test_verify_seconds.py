"""A certificate is proven again within a time limit, and what was left is said."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import call

import mapspace as ms
from costmodel import MapSpace, accelerator, workload
from costmodel.exact.certificate import Certificate
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover, prove
from costmodel.exact_any.prover import AnyProver
from costmodel.independent import check
from orchestrator.proofs.certificates import verify_certificate


@pytest.fixture(scope="module")
def space() -> MapSpace:
    """Of which something below the optimum has to be searched: its floors do not reach that."""
    return MapSpace(workload("resnet-conv4"), accelerator("mm256"))


@pytest.fixture(scope="module")
def proven(space: MapSpace) -> Certificate:
    return prove(space)


def verify_file(certificate: Certificate, folder: Path, *options: str) -> int:
    path = folder / "best.certificate.json"
    path.write_text(certificate.text())
    return call("verify", str(path), *options)


def test_a_search_below_a_bound_goes_as_far_as_its_time(
    space: MapSpace, proven: Certificate
) -> None:
    bound = int(proven.bound_energy_units), proven.bound_cycles
    below, share = AnyProver(space, build=False).search_below(bound, 1e-9)
    assert below is None
    assert math.isnan(share)
    again = AnyProver(space)
    assert again.search_below(bound) == (None, 1)
    # What lies below is found, in time or not.
    above = (bound[0] + bound[0] // 10**9, bound[1])
    assert again.search_below(above, 1_000_000) == (bound, 1)
    assert again.search_below(above) == (bound, 1)


def test_what_was_not_proven_again_is_said(
    proven: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_file(proven, tmp_path, "--seconds", "1e-9") == 3
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "not proven again within 1e-09 s." in printed.err
    lines = printed.out.splitlines()
    assert lines[-1].startswith("the certificate is not proven again: the time ended")
    assert "  bound and mapping are equal: it is optimal, if the bound holds" in lines
    assert any(line.endswith("has less energy, if the bound holds") for line in lines)
    left = [line for line in lines if "not verified: that no mapping is below" in line]
    assert len(left) == 1
    assert "some of the pieces of the space that could hold one were searched, and none" in left[0]
    assert not any("by the same prover" in line for line in lines)

    assert verify_file(proven, tmp_path, "--seconds", "1e-9", "--json") == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["holds"], said["complete"]) == (True, False)


@pytest.mark.parametrize("options", [(), ("--seconds", "600"), ("--seconds", "inf")])
def test_where_the_time_suffices_nothing_differs(
    options: tuple[str, ...],
    proven: Certificate,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verify_file(proven, tmp_path, *options) == 0
    text = capsys.readouterr().out
    assert "by the same prover" in text
    assert "equal: it is optimal\n" in text
    assert "the certificate holds" in text
    assert verify_file(proven, tmp_path, *options, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["holds"], said["complete"]) == (True, True)


def test_a_false_claim_is_found_without_time(
    proven: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    false = proven.model_copy(update={"latency_cycles": proven.latency_cycles - 1})
    assert verify_file(false, tmp_path, "--seconds", "1e-9") == 1
    assert "does not hold" in capsys.readouterr().out


def test_a_mapping_below_the_bound_refutes_an_unfinished_search(
    proven: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = str(int(proven.bound_energy_units) + 1)
    false = proven.model_copy(update={"bound_energy_units": raised, "energy_units": raised})
    found = (int(proven.bound_energy_units), proven.bound_cycles), 0.5
    monkeypatch.setattr(AnyProver, "search_below", lambda *_: found)
    verdict = verify(false, make_prover, seconds=100.0)
    assert not verdict.holds
    assert verdict.complete
    assert any(line.startswith("WRONG: a mapping of") for line in verdict.findings)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_limit_that_is_none_is_refused(
    seconds: str, proven: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_file(proven, tmp_path, f"--seconds={seconds}") == 2
    assert "--seconds: expected more than 0, got" in capsys.readouterr().err


def test_an_independent_look_keeps_to_the_time_too(
    proven: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = verify_certificate(proven, independent=True, seconds=1e-9)
    look = result.independent
    assert look is not None
    assert (look.holds, look.complete, look.cut) == (True, False, True)
    assert not result.complete
    # Some mappings counted, then the end of the time.
    looks = itertools.count()
    monkeypatch.setattr(check, "time", SimpleNamespace(perf_counter=lambda: next(looks)))
    small = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator("mm256"))
    whole = verify_certificate(prove(small), independent=True, seconds=1_000_000)
    assert whole.independent is not None
    assert whole.independent.complete
    assert whole.complete
    assert ms.verify(whole.certificate).complete
    counted = whole.independent.mappings
    cut = verify_certificate(prove(small), independent=True, seconds=counted)
    assert cut.independent is not None
    assert 0 < cut.independent.mappings < counted
    assert cut.independent.cut
    assert any("the time ended before all were counted" in line for line in cut.not_verified)
    assert not cut.complete
    assert not any("settled" in line for line in cut.findings)
