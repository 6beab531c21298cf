"""What a certificate claims is checked claim by claim: every one that is false is found."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.certificate import Certificate, certify, read_certificate
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover, prove
from costmodel.exact_any.prover import AnyProver
from mapspace.errors import ConfigError, DataError

SMALL: dict[str, Any] = {
    "name": "small",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 24, "fanout": 2},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 6},
    ],
}


def space() -> MapSpace:
    return MapSpace(workload("gemm:M=4,N=3,K=2"), accelerator(SMALL))


def proof(**options: Any) -> AnyProver:
    prover = AnyProver(space(), **options)
    while not prover.finished:
        prover.step()
    return prover


@pytest.fixture(scope="module")
def whole() -> Certificate:
    return certify(proof(), 1.0)


@pytest.fixture(scope="module")
def restricted() -> Certificate:
    return certify(proof(keep={"L1": ["Z"]}), 1.0)


@pytest.fixture(scope="module")
def unfinished() -> Certificate:
    """Of the worst mapping among some, so that bound and mapping are apart."""
    prover = proof()
    draws = space().sample(np.random.default_rng(0), 200)
    codes = draws[space().feasible(draws)]
    outcomes = prover.outcomes(codes)
    worst = max(range(len(codes)), key=lambda row: prover.rank_of(outcomes[row] or (0, 0)))
    return certify(prover, 1.0, codes[worst])


def test_what_is_true_holds(
    whole: Certificate, restricted: Certificate, unfinished: Certificate
) -> None:
    for certificate, proven, under, tie in (
        (whole, True, None, True),
        (restricted, False, True, True),
        (unfinished, False, None, False),
    ):
        claims = certificate.proven, certificate.proven_under_restriction, certificate.tie_proven
        assert claims == (proven, under, tie)
        verdict = verify(certificate, make_prover)
        assert verdict.holds, verdict.findings
        assert not any(finding.startswith("WRONG") for finding in verdict.findings)
        assert verdict.problem_hash == certificate.problem_hash
    assert unfinished.gap > 0
    assert whole.gap == restricted.gap == 0


@pytest.mark.parametrize(
    ("which", "change"),
    [
        ("whole", {"proven": False}),
        ("whole", {"proven_under_restriction": True}),
        ("whole", {"tie_proven": False}),
        ("whole", {"gap": 0.01}),
        ("whole", {"latency_cycles": 11}),
        ("whole", {"unit_pj": "2"}),
        ("whole", {"bound_cycles": 13}),
        ("whole", {"model_version": "0"}),
        ("whole", {"workload_hash": "x"}),
        ("whole", {"accelerator_hash": "x"}),
        ("whole", {"problem_hash": "x"}),
        ("restricted", {"proven": True}),
        ("restricted", {"proven_under_restriction": False}),
        ("restricted", {"keep": None}),
        ("unfinished", {"proven": True}),
        ("unfinished", {"tie_proven": True}),
        ("unfinished", {"gap": 0.0}),
    ],
    ids=str,
)
def test_what_is_false_is_found(
    which: str, change: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    certificate: Certificate = request.getfixturevalue(which)
    verdict = verify(certificate.model_copy(update=change), make_prover)
    assert not verdict.holds
    assert any(finding.startswith("WRONG") for finding in verdict.findings)


def in_units(certificate: Certificate, factor: Fraction) -> Certificate:
    """The same energies in another unit."""
    energies = ("energy_units", "bound_energy_units")
    told = {key: str(round(int(getattr(certificate, key)) / factor)) for key in energies}
    unit = Fraction(certificate.unit_pj) * factor
    return certificate.model_copy(update={**told, "unit_pj": str(unit)})


@pytest.mark.parametrize(
    "factor",
    [Fraction(1, 2), Fraction(1, 1024), Fraction(2), Fraction(8), Fraction(3, 5), Fraction(7, 9)],
)
@pytest.mark.parametrize("objective", ["edp", "energy", "latency"])
def test_energies_may_be_in_the_unit_of_another_release(
    factor: Fraction, objective: Objective
) -> None:
    """What a hierarchy's energies are counted in follows from the largest that it could have."""
    deep = {
        **SMALL,
        "levels": [*SMALL["levels"], {"name": "L0", "energy_pj": 0.1, "capacity_words": 4}],
    }
    certificate = prove(
        MapSpace(workload("gemm:M=4,N=3,K=2"), accelerator(deep)), objective=objective
    )
    told = in_units(certificate, factor)
    assert told.energy_pj == pytest.approx(certificate.energy_pj, rel=1e-12)
    verdict = verify(told, make_prover)
    assert verdict.holds, verdict.findings
    for key in ("energy_units", "bound_energy_units"):
        more = str(int(getattr(told, key)) * 1001 // 1000 + 1)
        wrong = verify(told.model_copy(update={key: more}), make_prover)
        assert not wrong.holds, (key, wrong.findings)
    other = certificate.model_copy(update={"unit_pj": told.unit_pj})
    assert not verify(other, make_prover).holds


def test_a_bound_above_the_optimum_is_found(whole: Certificate, unfinished: Certificate) -> None:
    """Of the worse mapping, as if nothing were below it."""
    claims = {
        "bound_energy_units": unfinished.energy_units,
        "bound_cycles": unfinished.latency_cycles,
        "gap": 0.0,
        "proven": True,
        "tie_proven": True,
    }
    verdict = verify(unfinished.model_copy(update=claims), make_prover)
    assert [finding for finding in verdict.findings if finding.startswith("WRONG")] == [
        f"WRONG: a mapping of ({whole.energy_units}, {whole.latency_cycles}) (energy in units, "
        f"cycles) is below {unfinished.value:.9g} pJ x cycles"
    ]


def test_a_little_above_the_optimum_is_found(whole: Certificate) -> None:
    above = str(int(whole.bound_energy_units) * (10**11 + 1) // 10**11)
    changed = whole.model_copy(update={"bound_energy_units": above, "tie_proven": None})
    assert not verify(changed, make_prover).holds


@pytest.mark.parametrize("content", [[], [1], "text", 3, None, {}, {"format": "else"}], ids=str)
def test_what_is_no_certificate_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"c\.json: format: expected 'mapspace-certificate-2'"):
        read_certificate(path)


def test_what_was_written_is_read(whole: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(whole.text())
    assert read_certificate(path) == whole
    assert json.loads(whole.text())["counts"] == proof().counts


def test_proving_says_what_it_reached() -> None:
    found = prove(space())
    assert found.proven
    assert found.value == certify(proof(), 0.0).value
    with pytest.raises(DataError, match="no mapping to certify"):
        certify(AnyProver(space()), 0.0)
