"""What a design ends with, so that anybody can prove it again: its boxes and their proofs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from costmodel.exact.verification import Verdict
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import NonNegativeNumber, PositiveNumber, Size, StrictModel, validate
from orchestrator.design.aimed import AimedBranching
from orchestrator.design.aims import ROUNDING, aims_of, proof_aims
from orchestrator.design.branching import Branching, Why
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import machines_in
from orchestrator.design.plan import DesignPlan, planned
from orchestrator.design.wishes import Wish
from orchestrator.proofs.certificates import Verification
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Proof, prove_problem

FORMAT = "mapspace-design-certificate-1"
_MOST = 10_000_000

Place = Annotated[int, Field(strict=True, ge=0, lt=_MOST)]
Range = tuple[Place, Place]


class _LayerOf(StrictModel):
    """A workload, and how often it occurs."""

    workload: Workload
    count: Size


class _ProofOf(StrictModel):
    """A proof that the bounds stand on."""

    layer: Place
    """Which layer."""
    corner: tuple[tuple[Place, ...], ...] = Field(max_length=64)
    """Of which machine: per axis the places of the values that it takes."""
    seconds: NonNegativeNumber
    """How long it took."""
    aim: Place = 0
    """Of what: 0 is the objective, and then come the energy and the time where they, or the power,
    are limited; of energy-delay-area 0 is the energy, 1 the time, and then come the rates."""


class _BoxOf(StrictModel):
    """Machines that are settled, and why."""

    box: tuple[Range, ...] = Field(max_length=64)
    """Per axis of the grid, its values from worst to best, the first and the one after the last."""
    why: Why
    aim: Place = 0
    """For which aim."""


class DesignCertificate(StrictModel):
    """Why no other machine of a grid is better."""

    format: Literal["mapspace-design-certificate-1"]
    proven: Annotated[bool, Field(strict=True)]
    """Whether no machine of the grid is better than the front."""
    gap: NonNegativeNumber | None = None
    """How far what was found is above the best at most, as a share; None: not known."""
    design: Design
    base: Accelerator
    """What the grid changes, whatever name the design has for it."""
    layers: tuple[_LayerOf, ...] = Field(min_length=1, max_length=100_000)
    front: tuple[tuple[Place, ...], ...] = Field(min_length=1, max_length=_MOST)
    """Places of the machines of the front, or of the best one alone."""
    front_aims: tuple[Place, ...] = Field(default=(), max_length=_MOST)
    """Of energy-delay-area, for which aim each of them is on it."""
    boxes: tuple[_BoxOf, ...] = Field(max_length=_MOST)
    proofs: tuple[_ProofOf, ...] = Field(max_length=_MOST)
    seconds_per_proof: PositiveNumber


def certify_design(
    plan: DesignPlan, branching: AimedBranching, proofs: Mapping[Wish, Proof]
) -> DesignCertificate:
    """The certificate of a design that is finished."""
    gap = branching.gap
    parts = list(enumerate(branching.parts))
    front = [(aim, found.places) for aim, part in parts for found in part.front]
    several: dict[str, Any] = {}
    if len(parts) > 1:
        several["front_aims"] = tuple(aim for aim, _ in front)
    return DesignCertificate(
        format=FORMAT,
        proven=gap == 0,
        gap=None if math.isinf(gap) else gap,
        design=plan.design,
        base=plan.base,
        layers=tuple(_LayerOf(workload=x.workload, count=x.count) for x in plan.layers),
        front=tuple(places for _, places in front),
        boxes=tuple(
            _BoxOf(box=settled.box, why=settled.why, **_aim(aim))
            for aim, part in parts
            for settled in part.settled
        ),
        proofs=tuple(
            _ProofOf(layer=wish.layer, corner=wish.corner, seconds=proof.seconds, **_aim(wish.aim))
            for wish, proof in proofs.items()
        ),
        seconds_per_proof=plan.design.seconds_per_point,
        **several,
    )


def _aim(number: int) -> dict[str, int]:
    """Which aim, where it is not the first or only one."""
    return {"aim": number} if number else {}


def parse_design(data: object, where: str) -> DesignCertificate:
    """A certificate's content, checked.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected the certificate of a design.")
    return validate(DesignCertificate, dict(data), where)


def verify_design(certificate: DesignCertificate, *, seconds: float | None = None) -> Verification:
    """Makes every proof of a design again and settles every box with them.

    Args:
        certificate: what to prove again.
        seconds: the most that it may take; None: however long.

    Raises:
        ConfigError: a layer or a machine cannot be treated here.
    """
    started = time.monotonic()
    plan = planned(
        certificate.design,
        certificate.base,
        [Layer(layer.workload, layer.count) for layer in certificate.layers],
        "certificate",
    )
    aims = aims_of(plan.design)
    findings = [_parts(plan, certificate, aim) for aim in range(len(aims))]
    proofs: dict[Wish, Proof] = {}
    left = len(certificate.proofs)
    ends = math.inf if seconds is None else started + seconds
    for said in certificate.proofs:
        remaining = ends - time.monotonic()
        if remaining <= 0:
            break
        if said.aim >= len(proof_aims(plan.design)) or said.layer >= len(plan.layers):
            findings.append(f"WRONG: there is no layer {said.layer} or no aim {said.aim}")
            break
        wish = Wish(said.layer, said.corner, said.aim)
        problem = plan.problem(wish)
        limit = certificate.seconds_per_proof
        proof = prove_problem(problem, min(limit, remaining))
        if remaining < limit and not proof.answers(limit):
            break
        proofs[wish] = proof
        left -= 1
    complete = left == 0
    if complete:
        findings += _settled_again(plan, certificate, proofs)
    holds = not any(finding.startswith("WRONG") for finding in findings)
    verdict = Verdict(
        holds,
        tuple(findings),
        ("what the first proofs say of their seconds", *([f"{left:,} proofs"] if left else [])),
        None,
        None,
        time.monotonic() - started,
        complete=complete or not holds,
    )
    return Verification(certificate, verdict)


def _parts(plan: DesignPlan, certificate: DesignCertificate, aim: int) -> str:
    """Whether an aim's boxes are the grid together, and no two of them share a machine."""
    shape = [len(axis.values) for axis in plan.grid.axes]
    seen = np.zeros(shape, bool)
    boxes = [said.box for said in certificate.boxes if said.aim == aim]
    for box in boxes:
        within = len(box) == len(shape) and all(
            first < stop <= size for (first, stop), size in zip(box, shape, strict=False)
        )
        part = tuple(slice(first, stop) for first, stop in box)
        if not within or seen[part].any():
            return f"WRONG: box {box} is not in the grid, or shares machines with another one"
        seen[part] = True
    if not seen.all():
        return f"WRONG: {int((~seen).sum()):,} machines of the grid are in no box"
    return f"{len(boxes):,} boxes are the grid of {plan.grid.size:,} machines"


def _settled_again(
    plan: DesignPlan, certificate: DesignCertificate, proofs: Mapping[Wish, Proof]
) -> list[str]:
    """What comes of every box with proofs that were made again."""
    whole = AimedBranching(plan, begin=False)
    whole.tell(proofs)
    several = len(whole.parts) > 1
    if several and len(certificate.front_aims) != len(certificate.front):
        return ["WRONG: it does not say for which aim each machine is on the front"]
    for aim, part in enumerate(whole.parts):
        said = [
            places
            for place, places in enumerate(certificate.front)
            if not several or certificate.front_aims[place] == aim
        ]
        boxes = [box for box in certificate.boxes if box.aim == aim]
        if wrong := _part_again(part, said, boxes):
            return [f"WRONG: {wrong}"]
    most = 0.0 if certificate.proven else math.inf
    most = most if certificate.gap is None else certificate.gap
    if whole.gap > most + ROUNDING:
        return [f"WRONG: what was found is {how_near(whole.gap)}, not {how_near(most)}"]
    alone, left = _count(whole, "proven"), _count(whole, "open")
    counts = sum(part.machines_settled for part in whole.parts) - alone - left
    return [
        f"{len(proofs):,} proofs made again: {alone:,} machines by themselves, {counts:,} by "
        "bounds, area or because nothing fits" + (f", {left:,} are open" if left else ""),
        f"{whole.found:,} {'points' if several else 'machines'} of the front, and {how_good(most)}",
    ]


def _part_again(
    branching: Branching, front: Sequence[tuple[int, ...]], boxes: Sequence[_BoxOf]
) -> str:
    """What is wrong with an aim's front and boxes; empty: nothing."""
    for places in front:
        if branching.judge(tuple((place, place + 1) for place in places)) is None:
            return f"the machine of the front at {places} is not proven"
    for said in boxes:
        if said.why == "proven" and (machines_in(said.box) > 1 or not branching.take(said.box)):
            return f"the machine at {said.box} is not proven"
        if said.why == "open":
            branching.leave(said.box)
    found = [found.places for found in branching.front]
    if sorted(found) != sorted(front):
        return f"the front is at {found[:5]}, not at {list(front[:5])}"
    for said in boxes:
        if said.why not in ("proven", "open") and not branching.settle(said.box):
            return f"nothing settles the box {said.box}"
    return ""


def _count(branching: AimedBranching, why: Why) -> int:
    settled = (one for part in branching.parts for one in part.settled)
    return sum(machines_in(one.box) for one in settled if one.why == why)


def how_near(gap: float) -> str:
    """How far what was found is above the best, in words."""
    return f"at most {gap:.2%} above the best" if gap < math.inf else "not bounded"


def how_good(gap: float) -> str:
    """What is proven of the machines that were found, in words."""
    if gap == 0:
        return "no other one is better"
    return f"what was found is {how_near(gap)}" if gap < math.inf else "there may be better ones"
