"""What is asked, as a hash of its content: two equal ones have the same answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import surrogate
from mapspace.bounded_reading import read_bytes
from mapspace.storage import Place, file_sizes, place
from orchestrator.store.canonical import canonical, digest

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.machines.levels import Level
    from costmodel.problems.affine import Workload

# What a level, a constraint or a restriction may call a tensor without naming it.
ROLES = frozenset({"input", "weight", "output"})


@dataclass(frozen=True)
class Question:
    """Everything that decides an answer.

    Attributes:
        content: problem, machine, objective, model, method, seed: JSON types.
        limits: budget and the gap that is enough: what may be larger than was asked for.
    """

    content: Mapping[str, Any]
    limits: Mapping[str, Any]

    @property
    def question(self) -> str:
        """32 hexadecimal digits: of everything but the limits."""
        return digest(self.content)[:32]

    @property
    def address(self) -> str:
        """32 hexadecimal digits: of everything."""
        return digest([self.content, self.limits])[:32]


def problem(
    workload: Workload,
    machine: Accelerator,
    keep: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The canonical problem of a workload on a machine, as JSON types.

    Names of dimensions and tensors and the order of both are left out. Where the machine names any,
    in constraints or as what a level keeps, the names that the workload has for them decide too.

    Args:
        workload: the operation.
        machine: the machine, its constraints included; its own name is left out.
        keep: tensors kept per level.
    """
    found = canonical(workload)
    content: dict[str, Any] = {"workload": found.form, "machine": machine.hash}
    if keep:
        at = {name: position for position, name in enumerate(found.tensors)}
        content["keep"] = {
            level: sorted(at[name] for name in names) for level, names in keep.items()
        }
    named = {name for level in machine.levels for name in (*level.keep, *level.bypass)} - ROLES
    # Parts of levels with tiles apart are called after tensors.
    apart = any(map(machine.has_tiles_apart, machine.levels))
    if named or apart or any(_names_something(entry.model_dump()) for entry in machine.constraints):
        content["names"] = [found.dimensions, found.tensors]
    if machine.constraints and any(map(_orders_a_row, machine.levels)):
        # Answers from when constraints fixed the order of loops there are not read.
        content["rows"] = "every order"
    if machine.factors == "imperfect" and _counts_anew(machine):
        content["remainders"] = 2
    return content


def _counts_anew(machine: Accelerator) -> bool:
    """Whether mappings with remainders are counted otherwise than when there was a first store.

    Counted truly, tiles rest through last passes; by Timeloop's counting, hops of classes without
    accesses are left out, which there are of memories outside the chip alone, and where map spaces
    have remainders across children, below the innermost level.
    """
    last = machine.levels[-1]
    return machine.counting == "true" or (last.is_dram and last.hop_energy_pj > 0)


def _orders_a_row(level: Level) -> bool:
    """Whether the order of loops across the children, which stand in one row, costs energy."""
    priced = level.hop_energy_pj > 0 or level.router_pj > 0
    return priced and level.fanout > 1 and min(level.width_height) == 1


def _names_something(entry: Mapping[str, Any]) -> bool:
    return bool({"factors", "permutation", "keep", "bypass", "stationary"} & entry.keys())


SHIPPED = Path(surrogate.__file__).parent / "weights"
# What a predictor is read from.
SURROGATE_FILES = ("surrogate.json", "surrogate.safetensors")


def surrogate_digest(folder: str | None) -> str:
    """The digest of a surrogate's files, or of all that are shipped where no folder is named."""
    return content_digest(SHIPPED if folder is None else place(folder))


def content_digest(source: Place) -> str:
    """SHA-256 over the files of a surrogate or the like, 16 digits.

    Of a folder that holds a trained surrogate these are its own: notes of the run that trained it
    lie beside them, and differ from run to run.
    """
    found = hashlib.sha256()
    files: list[Place]
    if not source.is_dir():
        files = [source]
    elif isinstance(source, Path):
        files = [file for file in sorted(source.rglob("*")) if file.is_file()]
    else:
        files = [source / name for name in sorted(file_sizes(source))]
    own = [file for file in files if file.name in SURROGATE_FILES]
    for file in own if len(own) == len(SURROGATE_FILES) else files:
        found.update(file.name.encode())
        found.update(read_bytes(file))
    return found.hexdigest()[:16]
