"""The proofs of a sweep: one per distinct problem, each kept the moment that it is finished.

A task appends one line of JSON per proof to a file of its own, so that whatever ends it, only the
proof at work is lost. A line that cannot be read, such as a torn last one, is proven again.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from costmodel.costs import Objective
from costmodel.exact.certificate import Certificate
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.bounded_reading import read_bytes
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place, RemotePath, own_path, write_atomically
from mapspace.strict_yaml import Name, NonNegativeNumber, PositiveNumber, Size, StrictModel
from orchestrator.store.folder import Store
from orchestrator.store.proofs import keep_proof, read_proofs

PROOFS_FOLDER = "proofs"
# Cost queries of the search before each proof, from which most proofs take a third less: some
# hundredths of a second. Walks of small spaces end at once and begin anew; such proofs are short.
FIRST_ITERATIONS, FIRST_SECONDS = 2000, 0.05
# And where no proof can treat the machine.
SEARCHED_ITERATIONS = 100_000
# Between two writes of the same object.
WRITE_SECONDS = 2.0

Status = Literal["proven", "time_limit", "searched", "infeasible", "unsupported"]


@dataclass(frozen=True)
class Problem:
    """What a proof is about."""

    workload: Workload
    accelerator: Accelerator
    objective: Objective
    weight: Fraction | None = None
    """With one the least energy + weight x cycles is sought, pJ per cycle, in place of it."""

    @property
    def key(self) -> str:
        """Equal for equal problems, whatever their names, under one cost model."""
        model = LoopNestModel()
        sought = self.objective if self.weight is None else f"sum:{self.weight}"
        return f"{self.workload.hash}-{self.accelerator.hash}-{sought}-{model.name}-{model.version}"


class Proof(StrictModel):
    """What one problem's proof has come to."""

    key: Name
    """The problem's key."""
    status: Status
    """`proven`: the mapping is optimal; `time_limit`: it may be off by the gap; `searched`: so may
    what a search found, where no proof can treat the machine; `infeasible`: it is proven that there
    is none; `unsupported`: no proof can treat the problem."""
    energy_pj: NonNegativeNumber | None = None
    """Energy of the mapping; null without one, as the next three."""
    latency_cycles: Size | None = None
    """Cycles of the mapping."""
    gap: NonNegativeNumber | None = None
    """How far the mapping can be above the optimum, as a share."""
    record: dict[str, Any] | None = None
    """The mapping, as a mapping record."""
    lower_bound: NonNegativeNumber | None = None
    """What no mapping's objective undercuts."""
    reason: str = ""
    """Why there is no mapping."""
    seconds: NonNegativeNumber
    """How long it took."""
    limit_seconds: PositiveNumber
    """How long it might have taken."""

    def answers(self, limit_seconds: float) -> bool:
        """Whether more work under a time limit cannot tell more.

        What was unsupported is asked again: that costs nothing, and a later version may treat it.
        """
        if self.status in ("time_limit", "searched"):
            return self.limit_seconds >= limit_seconds
        return self.status != "unsupported"


def prove_problem(problem: Problem, limit_seconds: float, store: Store | None = None) -> Proof:
    """Proves the best mapping of a problem, or gets as far as the time allows.

    Args:
        problem: the problem.
        limit_seconds: the most that it may take, s.
        store: where the certificate is kept; None: nowhere.
    """
    from costmodel.exact.certificate import certify
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.exact_any.choice import load_prover, make_prover, why_not_proven

    started = time.perf_counter()

    def proof(status: Status, **known: Any) -> Proof:
        seconds = time.perf_counter() - started
        common = {"key": problem.key, "seconds": seconds, "limit_seconds": limit_seconds}
        return Proof(status=status, **common, **known)

    try:
        space = MapSpace(problem.workload, problem.accelerator)
        reason = why_not_proven(space)
        if reason is not None and problem.weight is None and not _treated(problem):
            return proof("searched", **_best_known(space, problem.objective, limit_seconds))
    except ConfigError as error:
        reason = str(error)
    if reason is not None:
        return proof("unsupported", reason=reason)
    if (reason := why_infeasible(space)) is not None:
        return proof("infeasible", reason=reason)
    load_prover(space)
    # Loading what is compiled takes a busy machine seconds, and is no proof's time.
    started = time.perf_counter()
    try:
        if problem.weight is not None:
            return proof(**_least_sum(space, problem.weight, limit_seconds))
        prover = make_prover(space, objective=problem.objective, build=False)
        first_seconds = min(FIRST_SECONDS, limit_seconds)
        prover.offer(_searched(space, problem.objective, FIRST_ITERATIONS, first_seconds))
        while not prover.finished and time.perf_counter() - started < limit_seconds:
            prover.step()
        if prover.finished and prover.best_outcome is None:
            return proof("infeasible", reason=f"No mapping of {space.workload.name} is feasible.")
        certificate = certify(prover, time.perf_counter() - started)
    except ConfigError as error:
        return proof("infeasible", reason=str(error))
    except DataError as error:
        return proof("time_limit", reason=str(error))
    if store is not None:
        keep_proof(space, certificate, limit_seconds, store)
    return proof(**_certified(certificate))


def _certified(certificate: Certificate) -> dict[str, Any]:
    """What a certificate says of its problem."""
    return {
        "status": "proven" if certificate.proven else "time_limit",
        "energy_pj": certificate.energy_pj,
        "latency_cycles": certificate.latency_cycles,
        "gap": certificate.gap,
        "record": certificate.record,
        "lower_bound": certificate.lower_bound,
    }


def _least_sum(space: MapSpace, weight: Fraction, limit_seconds: float) -> dict[str, Any]:
    """What a proof of a weighted sum says of its problem; the bound is that of the sum."""
    from costmodel.exact_any.weighted import least_sum
    from costmodel.loop_nest.records import mapping_record

    line = least_sum(space, weight, seconds=limit_seconds)
    if line.point is None and line.proven:
        return {
            "status": "infeasible",
            "reason": f"No mapping of {space.workload.name} is feasible.",
        }
    known: dict[str, Any] = {
        "status": "proven" if line.proven else "time_limit",
        "lower_bound": float(line.bound),
    }
    if line.point is not None:
        known |= {
            "energy_pj": float(line.point.energy),
            "latency_cycles": line.point.cycles,
            "gap": float(line.sum_of(line.point) / line.bound - 1) if line.bound else None,
            "record": mapping_record(space, line.point.code),
        }
    return known


def stored_proofs(
    problems: Sequence[Problem], limit_seconds: float, store: Store
) -> Iterator[Proof]:
    """The proofs that the store has of some of the problems, of those with as much time at least.

    Args:
        problems: the problems.
        limit_seconds: time of one proof, s.
        store: the store.
    """
    # Certificates are of objectives alone.
    kept = [problem for problem in problems if problem.weight is None]
    asked = [(problem.workload, problem.accelerator, problem.objective) for problem in kept]
    for problem, found in zip(kept, read_proofs(asked, limit_seconds, store), strict=True):
        if found is not None:
            yield Proof(
                key=problem.key,
                seconds=found.seconds,
                limit_seconds=limit_seconds,
                **_certified(found),
            )


def _treated(problem: Problem) -> bool:
    """Whether proofs are for such a machine at all, so that a smaller problem would be proven."""
    from costmodel.exact_any.choice import why_not_proven

    sizes = dict.fromkeys(problem.workload.dimensions, 1)
    least = problem.workload.model_copy(update={"dimensions": sizes})
    return why_not_proven(MapSpace(least, problem.accelerator)) is None


def _best_known(space: MapSpace, objective: Objective, limit_seconds: float) -> dict[str, Any]:
    """What a search finds on a machine that no proof can treat, and how far off it may be."""
    from costmodel.loop_nest.records import mapping_record
    from costmodel.machines.bounds import floor

    code = _searched(space, objective, SEARCHED_ITERATIONS, limit_seconds)[:1]
    if not len(code):
        raise ConfigError("the search found no feasible mapping.")
    costs = LoopNestModel().evaluate(space, code)
    bound = floor(space.workload, space.accelerator).objective(objective)
    return {
        "energy_pj": float(costs.energy_pj[0]),
        "latency_cycles": int(costs.latency_cycles[0]),
        "gap": float(costs.objective(objective)[0]) / bound - 1 if bound else math.inf,
        "record": mapping_record(space, code[0]),
        "lower_bound": bound,
    }


def _searched(
    space: MapSpace, objective: Objective, iterations: int, seconds: float | None = None
) -> Codes:
    """`[0 or 1, D]` a good mapping."""
    import searchers

    evaluator = searchers.Evaluator(
        LoopNestModel(), space, objective=objective, iterations=iterations, seconds=seconds
    )
    searchers.make("structured", space, seed=0).run(evaluator)
    result = evaluator.result()
    found = [result.best_code] if math.isfinite(result.best_loss) else []
    return np.array(found, np.int32).reshape(len(found), space.cardinality.size)


def prove_chunk(
    folder: Place, limit_seconds: float, store: Store | None, chunk: Sequence[Problem]
) -> list[Proof]:
    """Proves problems one after another and keeps each proof at once, at a URI within seconds.

    Args:
        folder: where the file of the chunk lies; a chunk that is tried again after its worker died
            continues there.
        limit_seconds: time of one proof.
        store: where certificates are kept; None: nowhere.
        chunk: the problems.
    """
    keys = "\n".join(problem.key for problem in chunk)
    path = folder / f"{hashlib.sha256(keys.encode()).hexdigest()[:16]}.jsonl"
    known = read_proof_files([path]) if path.exists() else {}
    proofs = []
    with _kept_in(path) as keep:
        for problem in chunk:
            proof = known.get(problem.key)
            if proof is None or not proof.answers(limit_seconds):
                proof = prove_problem(problem, limit_seconds, store)
                keep(proof)
            proofs.append(proof)
    return proofs


def write_proofs(path: Place, proofs: Sequence[Proof]) -> None:
    """Writes a file of proofs."""
    write_atomically(path, "".join(f"{proof.model_dump_json()}\n" for proof in proofs).encode())


@contextmanager
def _kept_in(path: Place) -> Iterator[Callable[[Proof], None]]:
    """Adds proofs to a file."""
    if isinstance(path, RemotePath):
        # Nothing can be appended to an object: it is written again, not too often.
        content = path.read_bytes() if path.exists() else b""
        written, written_at = content, time.monotonic()

        def extend(proof: Proof) -> None:
            nonlocal content, written, written_at
            content += f"{proof.model_dump_json()}\n".encode()
            if time.monotonic() - written_at >= WRITE_SECONDS:
                path.write_bytes(content)
                written, written_at = content, time.monotonic()

        try:
            yield extend
        finally:
            if content != written:
                path.write_bytes(content)
        return
    with own_path(path.parent, path.name).open("a", encoding="utf-8") as file:
        if path.stat().st_size:
            # What was torn before must not spoil the next line; a blank one is passed over.
            file.write("\n")

        def append(proof: Proof) -> None:
            file.write(proof.model_dump_json() + "\n")
            file.flush()

        yield append


def read_proof_files(files: Iterable[Place]) -> dict[str, Proof]:
    """The proofs in files by key; of several of one problem the one that tells most."""
    found: dict[str, Proof] = {}
    for path in files:
        for line in read_bytes(path).decode(errors="replace").splitlines():
            try:
                proof = Proof.model_validate_json(line)
            except ValidationError:
                continue
            before = found.get(proof.key)
            if before is None or _rank(proof) >= _rank(before):
                found[proof.key] = proof
    return found


def _rank(proof: Proof) -> tuple[bool, float]:
    """Rises with what a proof tells: any answer is above a time limit, a long one above a short."""
    return proof.status in ("proven", "infeasible"), proof.limit_seconds


def chunks_of(problems: Sequence[Problem], most: int, *, tasks: int) -> list[tuple[Problem, ...]]:
    """Problems in chunks of equal size, so many at the most, and at least so many tasks."""
    size = max(1, min(most, -(-len(problems) // tasks)))
    return [tuple(problems[start : start + size]) for start in range(0, len(problems), size)]


def distinct(problems: Iterable[Problem]) -> Mapping[str, Problem]:
    """Each problem once, by key, in the order of their first occurrence."""
    found: dict[str, Problem] = {}
    for problem in problems:
        found.setdefault(problem.key, problem)
    return found
