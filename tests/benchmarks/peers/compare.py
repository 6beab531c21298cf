"""Our proof beside AccelForge's mapper, each winner by both countings.

    tests/benchmarks/peers/install.sh /tmp/accelforge
    python tests/benchmarks/peers/compare.py --run /tmp/accelforge/run

It may store the tensors of one memory at loops of their own, and so may ours (`tiles: apart`), on
all levels. Seconds are of the processor, of both, once everything is loaded and compiled, and the
machine and the layer are read.

Without `--run` AccelForge's recorded answers stand beside ours (`accelforge/answers.jsonl`).
`--keep docs/results/kept/peers` also writes the table that docs/results/peers.md is made of.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from accelforge_counting import accelforge_costs

import mapspace as ms
from costmodel.accelforge.mapping import records
from costmodel.loop_nest.nest_writing import arch_of, problem_record
from orchestrator.report.document import LEFT, Row, Table
from orchestrator.report.text_table import table_lines
from orchestrator.runs.tables_file import write_tables

HERE = Path(__file__).parent
LAYERS = ("gemm", "attention", "pointwise", "depthwise", "convolution")
FANOUTS: dict[str, dict[str, tuple[str, str]]] = {
    "eyeriss": {"reuse_weight": ("GlobalBuffer", "X"), "reuse_output": ("GlobalBuffer", "Y")},
    "simba": {
        "reuse_all": ("GlobalBuffer", "X"),
        "reuse_output": ("AccumulationBuffer", "X"),
        "reuse_input": ("AccumulationBuffer", "Y"),
    },
    "nvdla": {"reuse_input": ("GlobalBuffer", "X"), "reuse_output": ("GlobalBuffer", "Y")},
    "tpu-v4i": {
        "Z": ("GlobalBuffer", "X"),
        "reuse_input": ("LocalBuffer", "X"),
        "reuse_output": ("LocalBuffer", "Y"),
    },
}
"""Where each of its fan-outs stands in our machines."""
Answer = dict[str, Any]


def recorded() -> dict[tuple[str, str], Answer]:
    """What AccelForge answered when it was recorded; a row without energy did not end."""
    lines = (HERE / "accelforge" / "answers.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in lines]
    return {(answer["machine"], answer["layer"]): answer for answer in answers}


def ask(run: str, machine: str, layer: str) -> Answer:
    """AccelForge's answer now; without energy where it does not end within its processor time."""
    bits = ms.accelerator(machine_file(machine)).word_bits
    ended = subprocess.run(
        [run, machine, f"{layer}-{bits}b"], capture_output=True, text=True, check=False
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    answer = json.loads(lines[-1]) if lines else {}
    return {"machine": machine, "layer": layer, **answer}


def machine_file(machine: str) -> str:
    """Our description of one of its machines."""
    return str(HERE / "machines" / f"{machine}.yaml")


def layer_file(layer: str) -> str:
    """Our description of one of its layers."""
    return str(HERE / "layers" / f"{layer}.yaml")


class Ours(NamedTuple):
    """record, edp (J s, by our count), seconds (of the processor) and what is said of it."""

    record: Answer
    edp: float
    seconds: float
    said: str


def ours(machine: str, layer: str, seconds: float, tiles: str) -> Ours:
    """Our answer: of one place per level, or of a place per tensor."""
    work, description = ms.workload(layer_file(layer)), ms.accelerator(machine_file(machine))
    # Its own clock starts when it has read its files, too.
    start = time.process_time()
    # Without a store: it would hand out what an earlier run proved.
    found = ms.search(work, description, tiles=tiles, seconds=seconds, store=False)
    edp = found.costs.energy_pj * found.costs.latency_s * 1e-12
    said = "proven" if found.proven else f"{found.gap:.1%}"
    return Ours(found.record, edp, time.process_time() - start, said)


def warm_up(tiles: str) -> None:
    """Loads or compiles what a search needs: the recorded seconds of AccelForge are of its search.

    Its own interpreter has everything imported when its clock starts.
    """
    for machine in ("nvdla", "eyeriss"):
        path = machine_file(machine)
        ms.search("gemm:M=8,N=8,K=8", path, tiles=tiles, seconds=30, store=False)


def same_nests(answer: Answer, clock_ghz: float) -> Iterator[tuple[float, float, float]]:
    """Its mapping wherever our levels can stand: our EDP (J s), its energy (J) and latency (s)."""
    machine = ms.accelerator(machine_file(answer["machine"]))
    problem = problem_record(ms.workload(layer_file(answer["layer"])))
    blank = {"problem": problem, "arch_name": machine.name, "arch": arch_of(machine)}
    for nest in records(answer["mapping"], blank, FANOUTS[answer["machine"]]):
        try:
            energy, latency = accelforge_costs(nest, clock_ghz)
        except (ms.MapspaceError, ValueError):  # a tile too large, or a dimension twice in a level
            continue
        (scored,) = ms.evaluate([nest])
        cycles, energy_pj = scored["result"]["cycles"], scored["result"]["energy_pj"]
        yield energy_pj * cycles * 1e-21 / clock_ghz, energy, latency


def main() -> None:
    """Prints the table; `--record` writes AccelForge's answers down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", help="what install.sh wrote")
    parser.add_argument("--record", action="store_true", help="with --run: write its answers")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of our searches")
    parser.add_argument("--tiles", default="apart", choices=("apart", "together"))
    parser.add_argument("--machines", nargs="+", default=list(FANOUTS))
    parser.add_argument("--layers", nargs="+", default=LAYERS)
    parser.add_argument("--keep", type=Path, help="a folder that gets the table")
    options = parser.parse_args()
    warm_up(options.tiles)
    known = recorded() if options.run is None else {}
    rows: list[Row] = []
    answers = []
    for machine in options.machines:
        clock = ms.accelerator(machine_file(machine)).clock_ghz
        for layer in options.layers:
            answer = known.get((machine, layer)) or ask(options.run, machine, layer)
            answers.append(answer)
            found = ours(machine, layer, options.seconds, options.tiles)
            energy, latency = accelforge_costs(found.record, clock)
            its = answer.get("energy_j", float("nan")) * answer.get("latency_s", float("nan"))
            read = list(same_nests(answer, clock)) if "mapping" in answer else []
            edp = energy * latency
            by_our_count = min(read)[0] if read else None
            its_seconds = answer.get("seconds", float("nan"))
            rows.append(
                (
                    machine, layer, its, by_our_count, edp, edp / its,
                    its_seconds, found.seconds, found.said,
                )
            )  # fmt: skip
    table = Table(
        "answers",
        "EDP (J s, by AccelForge's count) and seconds of the processor",
        ("machine", "layer", "its EDP", "by our count", "our EDP", "ours / its",
         "its s", "our s", ""),
        (LEFT, LEFT, *["{:.5e}"] * 3, "{:.3f}", "{:.1f}", "{:.2f}", LEFT),
        rows,
    )  # fmt: skip
    print("\n".join(table_lines(table)))
    if options.keep:
        options.keep.mkdir(exist_ok=True)
        write_tables(options.keep, "python tests/benchmarks/peers/compare.py", {}, [table])
    if options.record:
        text = "".join(json.dumps(answer) + "\n" for answer in answers)
        (HERE / "accelforge" / "answers.jsonl").write_text(text)


if __name__ == "__main__":
    main()
