"""What the certificates of whole networks have in common: their claims, and one look at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from costmodel.exact.verification import Verdict
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Cycles
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Name, NonNegativeNumber, Size, StrictModel
from orchestrator.networks.jointly import ROUNDING, Optimum
from orchestrator.networks.layer_lines import rounded_down
from orchestrator.networks.lines import Cut, Limit, lower_bound, under_limit, value_of
from orchestrator.proofs.certificates import Verification

WRONG: Final = "WRONG: "
MOST_CUTS: Final = 10_000

Flag = Annotated[bool, Field(strict=True)]

Exact = Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,40}(/[1-9][0-9]{0,39})?$")]
"""A fraction whose digits bound the time that reading it takes."""


class RunOf(StrictModel):
    """A layer with its mapping, and what that takes once."""

    workload: Workload
    workload_hash: Name
    count: Size
    """How often the network has it, every time with this mapping."""
    energy_pj: Exact
    latency_cycles: Cycles
    record: dict[str, Any] = Field(repr=False)


class LineOf(StrictModel):
    """A weight of a line: energy + weight x cycles."""

    weight: Exact | None
    """PJ per cycle; null: cycles alone."""

    @property
    def rate(self) -> Fraction | None:
        """The weight as a number."""
        return None if self.weight is None else Fraction(self.weight)


class NetworkClaim(StrictModel):
    """What the search of a network's optimum ends with."""

    format: str
    network: Name
    objective: Literal["energy", "latency", "edp", "ed2p"]
    """Of the network: of total energy and total cycles."""
    most_cycles: Size | None = None
    """What the network had to be within; null: without such a limit."""
    most_energy_pj: Exact | None = None
    fronts: Flag = False
    """Whether the bound is from all fronts rather than from the lines."""
    proven: Flag
    """Whether no mappings of its layers have less in all, equal layers mapped alike or not."""
    gap: NonNegativeNumber
    """How far the choice can be above the bound, as a share."""
    energy_pj: Exact
    latency_cycles: Size
    lower_bound: Exact
    """No mappings have less of the objective in all, pJ and cycles."""
    model: Name
    model_version: Name
    accelerator: Accelerator
    accelerator_hash: Name
    seconds: NonNegativeNumber
    """How long it took: what the first proof says."""

    @property
    def limit(self) -> Limit | None:
        """What the network had to be within."""
        if self.most_cycles is not None:
            return Limit(cycles=self.most_cycles)
        return None if self.most_energy_pj is None else Limit(energy=Fraction(self.most_energy_pj))

    def text(self) -> str:
        """The certificate's file."""
        return self.model_dump_json(indent=1) + "\n"


def claimed(name: str, machine: Accelerator, found: Optimum) -> dict[str, Any]:
    """The fields of a `NetworkClaim`.

    Args:
        name: of the network.
        machine: the whole machine.
        found: what was reached.
    """
    model, limit = LoopNestModel(), found.limit or Limit()
    return {
        "network": name,
        "objective": found.objective,
        "most_cycles": limit.cycles,
        "most_energy_pj": None if limit.energy is None else str(limit.energy),
        "fronts": found.fronts,
        "proven": found.gap == 0,
        "gap": found.gap,
        "energy_pj": str(found.energy),
        "latency_cycles": found.cycles,
        "lower_bound": str(rounded_down(found.bound)),
        "model": model.name,
        "model_version": model.version,
        "accelerator": machine,
        "accelerator_hash": machine.hash,
        "seconds": found.seconds,
    }


def check_claim(found: NetworkClaim, lines: Sequence[LineOf], where: str) -> None:
    """Refuses what contradicts itself.

    Args:
        found: the claim.
        lines: what bounds it.
        where: what messages start with.

    Raises:
        ConfigError: a weight stands twice, a limit is not for the objective, or fronts have none.
    """
    if len({line.weight for line in lines}) < len(lines):
        raise ConfigError(f"{where}: cuts: expected every weight once, got one twice.")
    limited = [name for name in ("most_cycles", "most_energy_pj") if getattr(found, name)]
    other = {"energy": ["most_cycles"], "latency": ["most_energy_pj"]}.get(found.objective)
    if limited and limited != other:
        raise ConfigError(
            f"{where}: {limited[-1]}: expected it of the objective "
            f"{'energy' if limited[-1] == 'most_cycles' else 'latency'} alone."
        )
    if found.fronts and not limited:
        raise ConfigError(f"{where}: fronts: expected false where there is no limit.")


class WrongError(Exception):
    """A claim that is not true."""


class Look:
    """One look at a certificate.

    Attributes:
        findings: a line per claim that was checked and is true.
        left: a line per claim that the time did not suffice for.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """Begins.

        Args:
            seconds: the most that it may take; None: however long.
        """
        self.began = time.monotonic()
        self._ends = None if seconds is None else self.began + seconds
        self.findings: list[str] = []
        self.left: list[str] = []

    @property
    def seconds_left(self) -> float | None:
        """What is left of the time, less than 0 where it is over; None: however long."""
        return None if self._ends is None else self._ends - time.monotonic()

    def check(self, ok: bool, right: str, wrong: str) -> None:
        """Notes a claim.

        Raises:
            WrongError: it is not true.
        """
        if not ok:
            raise WrongError(wrong)
        self.findings.append(right)

    def machine(self, said: NetworkClaim, workload_hashes: Sequence[tuple[str, str]]) -> None:
        """Looks at the model and the hashes.

        Args:
            said: the claim.
            workload_hashes: what is stated of every layer, and what is true.

        Raises:
            WrongError: one is another.
        """
        model = LoopNestModel()
        self.check(
            (said.model, said.model_version) == (model.name, model.version),
            f"cost model {model.name} {model.version}",
            f"made for {said.model} {said.model_version}; this is {model.name} {model.version}",
        )
        hashes = [(said.accelerator_hash, said.accelerator.hash), *workload_hashes]
        wrong = next((stated for stated, true in hashes if stated != true), None)
        self.check(
            wrong is None,
            f"the machine and {len(workload_hashes)} layers are those that the hashes name",
            f"hash {wrong} is that of other content",
        )

    def totals(self, said: NetworkClaim, energy: Fraction, cycles: int) -> None:
        """Looks at what the layers take in all, and at the limit.

        Args:
            said: the claim.
            energy: the sum, pJ.
            cycles: likewise.

        Raises:
            WrongError: that is not what is said, or not within the limit.
        """
        taken = f"in all they take {float(energy):.9g} pJ and {cycles:,} cycles"
        self.check(
            (energy, cycles) == (Fraction(said.energy_pj), said.latency_cycles),
            taken,
            f"{taken}, not {float(Fraction(said.energy_pj)):.9g} and {said.latency_cycles:,}",
        )
        if said.limit is not None:
            within = f"within {said.limit}"
            self.check(said.limit.admits(energy, cycles), within, f"they are not {within}")

    def bound(
        self, said: NetworkClaim, cuts: Sequence[Cut], rounded: Fraction = Fraction(0)
    ) -> None:
        """Looks at the bound, by what lines say of the whole network, and at the gap.

        Args:
            said: the claim.
            cuts: the lines.
            rounded: by which share they were rounded down.

        Raises:
            WrongError: the lines say less, or the gap is another.
        """
        value = value_of(said.objective, Fraction(said.energy_pj), Fraction(said.latency_cycles))
        lines = value if said.fronts else _bound_of(said.objective, cuts, said.limit)
        bound, stated = min(value, lines), Fraction(said.lower_bound)
        self.check(
            stated <= bound * (1 + rounded),
            f"{len(cuts)} lines say that none is below {float(bound):.9g}"
            if not said.fronts
            else "the bound is from the fronts",
            f"the lines say {float(bound):.9g}, not {float(stated):.9g}",
        )
        above = value / stated - 1 if stated else None
        proven = above is not None and above <= ROUNDING
        near = above is not None and abs(float(above) - said.gap) <= 1e-9 * (1 + said.gap)
        self.check(
            said.proven == proven and near,
            "bound and mappings are equal: they are optimal"
            if proven
            else f"bound and mappings are {100 * said.gap:.3g} % apart",
            f"bound and mappings are {100 * float(above or 0):.3g} % apart, not "
            f"{100 * said.gap:.3g} %, or proven is wrong",
        )


def looked(
    certificate: NetworkClaim, look: Look, through: Callable[[], None], unseen: str
) -> Verification:
    """What comes of a look.

    Args:
        certificate: at what.
        look: begun.
        through: looks at everything; raises `WrongError`.
        unseen: what nobody can check.
    """
    holds = True
    try:
        through()
    except WrongError as error:
        holds = False
        look.findings.append(f"{WRONG}{error}")
    verdict = Verdict(
        holds,
        tuple(look.findings),
        (unseen, *look.left),
        None,
        None,
        time.monotonic() - look.began,
        complete=not look.left or not holds,
    )
    return Verification(certificate, verdict)


def _bound_of(objective: str, cuts: Sequence[Cut], limit: Limit | None) -> Fraction:
    """What lines say of a network's objective; 0 where they say nothing."""
    weights = {cut.weight for cut in cuts}
    if limit is None and objective in ("energy", "latency"):
        wanted = None if objective == "latency" else Fraction(0)
        return next((cut.bound for cut in cuts if cut.weight == wanted), Fraction(0))
    if not {None, Fraction(0)} <= weights:
        return Fraction(0)
    return (under_limit(limit, cuts) if limit is not None else lower_bound(objective, cuts))[0]
