"""`mapspace check`: what files are, and what of them would be modelled, without a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from costmodel.accelforge.architecture import read_accelforge_machine
from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.networks.network import left_out_of, load_network
from costmodel.networks.network_files import ReadNetwork, distinct_layers
from costmodel.problems.workloads import workload
from costmodel.scalesim.configuration import read_configuration
from costmodel.timeloop.documents import WITHOUT_EFFECT
from costmodel.timeloop.reading import TimeloopInput, from_timeloop
from mapspace.errors import ConfigError
from orchestrator.records.importing import read_network
from orchestrator.records.recognising import Recognised, recognised
from orchestrator.report.shown import aligned

_MOST_NAMED = 6
_WORD_BITS = 16

Fact = tuple[str, str]


class Checked(NamedTuple):
    """What came of files."""

    text: str
    wrong: int
    """Files, or sets of Timeloop's, that nothing can be modelled of."""


def check(files: Sequence[Path], sizes: Mapping[str, int]) -> Checked:
    """What each file is and says; those of Timeloop's together, as `--timeloop` takes them.

    Args:
        files: of any tool.
        sizes: of open axes of ONNX models, and what stands for names in AccelForge's templates.
    """
    blocks, wrong = [], 0
    timeloops: list[Path] = []
    for file in files:
        facts: list[Fact] = []
        try:
            found = recognised(file)
            facts.append(("is", found.what))
            if found.kind == "timeloop":
                timeloops.append(file)
            else:
                facts += _facts(file, found, sizes)
            facts.append(("use", found.how.replace("FILE", str(file), 1)))
        except ConfigError as error:
            facts.append(("refused", str(error).removeprefix(f"{file}: ")))
            wrong += 1
        blocks.append("\n".join([str(file), *(f"  {line}" for line in aligned(facts))]))
    if timeloops:
        facts, bad = _timeloop(timeloops)
        wrong += bad
        head = f"Timeloop's {len(timeloops)} files together"
        blocks.append("\n".join([head, *(f"  {line}" for line in aligned(facts))]))
    return Checked("\n\n".join(blocks), wrong)


def _facts(file: Path, found: Recognised, sizes: Mapping[str, int]) -> Iterator[Fact]:
    """What is modelled of a file, and what not."""
    if found.kind in ("onnx", "maestro", "zigzag", "accelforge", "scalesim"):
        yield from _network(read_network(file, found.kind, sizes))
    elif found.kind == "accelforge-machine":
        machine = read_accelforge_machine(file, _WORD_BITS)
        yield from _machine(accelerator(machine.content))
        yield from _named("no effect", machine.unused)
    elif found.kind == "scalesim-array":
        read = read_configuration(file)
        array = read.array
        yield "modelled", f"{array.rows} x {array.columns} elements, dataflow {array.dataflow}"
        yield from _named("no effect", read.idle)
    elif found.kind == "machine":
        yield from _machine(accelerator(file))
    elif found.kind == "network":
        _, layers = load_network(file)
        macs = sum(count * layer.macs for layer, count in layers)
        yield "modelled", _of_layers(sum(count for _, count in layers), len(layers), macs)
        yield from _named("not modelled", left_out_of(file))
    elif found.kind == "workload":
        layer = workload(file)
        yield "modelled", f"{layer}: {layer.macs:,} multiply-accumulates"


def _network(read: ReadNetwork) -> Iterator[Fact]:
    count = sum(layer.times for layer in read.layers)
    yield "modelled", _of_layers(count, len(distinct_layers(read)), read.macs)
    yield from _named("no work", read.without_macs, whole=False)
    yield from _named("no effect", read.unused)
    yield from _named("not modelled", read.left_out)


def _of_layers(count: int, distinct: int, macs: int) -> str:
    return f"{count:,} layers, {distinct:,} of them distinct: {macs:,} multiply-accumulates"


def _machine(machine: Accelerator) -> Iterator[Fact]:
    levels = ", ".join(level.name for level in machine.levels)
    yield "modelled", f"{levels}; {machine.processing_elements:,} multiply-accumulate units"
    if machine.constraints:
        yield "constraints", f"{len(machine.constraints):,}"


def _timeloop(files: Sequence[Path]) -> tuple[list[Fact], int]:
    """What Timeloop's files say together, and whether nothing can be modelled of them."""
    refused: list[Fact] = []
    try:
        read = from_timeloop(files)
    except ConfigError as error:
        refused = [("refused", str(error))]
        try:
            read = from_timeloop(files, lenient=True)
        except ConfigError:
            return refused, 1
        refused.append(("use", "--lenient takes what follows as modelled, and leaves out the rest"))
    facts = [*refused, *_of_input(read)]
    try:
        read.problem()
        if "mapping" in read.record:
            read.mapped()
    except ConfigError as error:
        return [*facts, ("refused", str(error))], 1
    return facts, int(bool(refused))


def _of_input(read: TimeloopInput) -> Iterator[Fact]:
    arch, problem = read.record["arch"], read.record["problem"]
    parts = [
        f"{level['name']} x {level['instances']:,}" for level in (*arch["levels"], arch["mac"])
    ]
    yield "machine", ", ".join(parts)
    leaking = [level["name"] for level in arch["levels"] if level.get("leakage_pj")]
    yield from _named("leakage", leaking)
    yield "problem", " ".join(f"{name}={size:,}" for name, size in problem["dims"].items())
    yield "tensors", ", ".join(tensor["name"] for tensor in problem["tensors"])
    yield "mapping", "yes: evaluate" if "mapping" in read.record else "none: search"
    if read.constraints:
        yield "constraints", f"{len(read.constraints):,}"
    idle = [one for one in read.left_out if _short(one) in WITHOUT_EFFECT]
    yield from _named("no effect", [*read.idle, *idle], whole=False)
    yield from _named("not modelled", [one for one in read.left_out if one not in idle])


def _named(what: str, entries: Sequence[str], *, whole: bool = True) -> Iterator[Fact]:
    """How many entries there are, and the first of them, or of their last words."""
    if not entries:
        return
    names = list(dict.fromkeys(map(_short if whole else _last, entries)))
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    count = "" if whole else f"{len(entries):,}: "
    yield what, f"{count}{'; '.join(names[:_MOST_NAMED])}{more}"


def _short(entry: str) -> str:
    """Without the file, which stands above; a layer's reason is left as it is."""
    return entry if " (" in entry else entry.partition(": ")[2] or entry


def _last(entry: str) -> str:
    """The operator of a node such as `relu1 (Relu) moves 12 words`, or the last key of a place."""
    operator = entry.partition(" (")[2].partition(")")[0]
    return operator or entry.rpartition(": ")[2].rpartition(".")[2]
