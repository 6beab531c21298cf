"""What the worst inputs that somebody made take at each door: seconds and peak memory.

Each input is made in a temporary folder and given to a command of its own. A row of Markdown per
input on standard output: the door, the input, its size, processor seconds, peak memory, the exit
status and the line that was said. Files that are not read to their ends take no room on the disk.

    python tests/benchmarks/bench_doors.py
    python tests/benchmarks/bench_doors.py --only import store --limit 120
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MIB = 1 << 20
ADDRESSES = 16 << 30
"""What a command may have at most, so that none takes the machine with it, bytes."""

PRODUCT = {"gemm": {"M": 8, "N": 8, "K": 8}}
OWN = {
    "workload": PRODUCT,
    "accelerator": "mm256",
    "mapping": [{"level": "L1", "temporal": [["M", 8], ["N", 8], ["K", 8]]}],
}


class Input(NamedTuple):
    """An input of a door.

    Attributes:
        what: for people.
        make: makes it in an empty folder, and returns the command's arguments.
    """

    what: str
    make: Callable[[Path], list[str]]


def file(name: str, content: Callable[[], str | bytes], *before: str) -> Callable[..., list[str]]:
    """Makes one file, whose path ends the arguments."""

    def make(folder: Path) -> list[str]:
        said = content()
        path = folder / name
        path.write_bytes(said.encode() if isinstance(said, str) else said)
        return [*before, str(path)]

    return make


def sparse(name: str, size: int, *before: str) -> Callable[[Path], list[str]]:
    """A file of so many zero bytes."""

    def make(folder: Path) -> list[str]:
        with (folder / name).open("wb") as made:
            made.truncate(size)
        return [*before, str(folder / name)]

    return make


def laughs() -> str:
    """Aliases of aliases: 10^9 values in a few lines."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return "\n".join(lines)


def machine(levels: int, **changes: Any) -> dict[str, Any]:
    """As many levels as asked, each of which may pass any tensor on."""
    inner = [
        {"name": f"L{i}", "capacity_words": 1 << 12, "energy_pj": 1.0, "fanout": 4}
        for i in range(levels - 1)
    ]
    outer = {"name": "DRAM", "energy_pj": 100.0, "fanout": 4, **changes}
    return {"mac_energy_pj": 1.0, "bypass": "searched", "levels": [outer, *inner]}


def einsum(dimensions: int, tensors: int, size: int) -> dict[str, Any]:
    """Every tensor has all dimensions."""
    names = [f"D{i}" for i in range(dimensions)]
    inputs = {f"T{i}": names for i in range(tensors - 1)}
    sizes = dict.fromkeys(names, size)
    return {"dimensions": sizes, "tensors": {**inputs, "Z": names}, "output": "Z"}


def searched(work: Any, on: Any, *options: str) -> Callable[[Path], list[str]]:
    """A search of a problem for three seconds."""

    def make(folder: Path) -> list[str]:
        (folder / "layer.yaml").write_text(json.dumps(work))
        (folder / "machine.yaml").write_text(json.dumps(on))
        names = [str(folder / "layer.yaml"), "--accelerator", str(folder / "machine.yaml")]
        return [*(options or ("search",)), *names, "--seconds", "3"]

    return make


def nested(depth: int) -> str:
    return "{a: " * depth + "1" + "}" * depth


def texts(*before: str, name: str = "x.yaml") -> Iterator[Input]:
    """Texts that a reader of YAML could choke on."""
    yield Input("64 MiB of one word", file(name, lambda: "a" * (64 * MIB), *before))
    yield Input("64 MiB of lines", file(name, lambda: "a: 1\n" * (64 * MIB // 5), *before))
    values = "a: [" + "1, " * 199_990 + "1]"
    yield Input("200,000 values", file(name, lambda: values, *before))
    keys = "\n".join(f"k{i}: 1" for i in range(99_990))
    yield Input("99,990 keys", file(name, lambda: keys, *before))
    yield Input("aliases for 10^9 values", file(name, laughs, *before))
    yield Input("nested 10^6 deep", file(name, lambda: nested(10**6), *before))
    yield Input("2 TiB", sparse(name, 2 << 40, *before))


def searches() -> Iterator[Input]:
    """Workloads, machines and problems at the limits."""
    yield from texts("search", "--seconds", "3")
    yield from texts("search", "gemm-512", "--seconds", "3", "--accelerator")
    yield Input("9 dimensions of 64, 9 tensors", searched(einsum(9, 9, 64), machine(3)))
    yield Input("2 dimensions of 2^31", searched(einsum(2, 3, 1 << 31), machine(4)))
    product = {"gemm": {"M": 8, "N": 8, "K": 8}}
    yield Input("16 levels", searched(product, machine(16)))
    million = {"gemm": {"M": 1 << 22, "N": 4, "K": 4}}
    wide = machine(2, fanout=1 << 22, hop_energy_pj=1.0)
    yield Input("4,194,304 children on a network", searched(million, wide))
    layers = [{"gemm": {"M": 8 + i, "N": 8, "K": 8}} for i in range(10_000)]
    network = file(
        "n.yaml", lambda: json.dumps({"layers": layers}), "search", "--seconds", "3", "--network"
    )
    yield Input("10,000 layers", network)


def fronts() -> Iterator[Input]:
    """Problems at the limits, whose front is asked for."""
    yield Input("9 dimensions of 16, 3 tensors", searched(einsum(9, 3, 16), machine(3), "pareto"))
    yield Input("2 dimensions of 2^24", searched(einsum(2, 3, 1 << 24), machine(4), "pareto"))


def records() -> Iterator[Input]:
    """Files of mappings."""
    line = json.dumps(OWN).encode()
    padded = line[:-1] + b" " * (15 * MIB) + b"}\n"
    yield Input("a line of 15 MiB", file("x.jsonl", lambda: padded, "evaluate"))
    lists = b"[" + b"[]," * 1_900_000 + b"[]]\n"
    yield Input("1,900,000 lists", file("x.jsonl", lambda: lists, "evaluate"))
    yield Input("4 GiB without an end of line", sparse("x.jsonl", 4 << 30, "evaluate"))
    blank = gzip.compress(b"\n" * (64 * MIB))
    yield Input("64 MiB of empty lines", file("x.jsonl.gz", lambda: blank, "evaluate"))
    deep = b"[" * (8 * MIB) + b"\n"
    yield Input("8 MiB of brackets", file("x.jsonl", lambda: deep, "evaluate"))
    loops = [["M", 1]] * 400_000
    long = {**OWN, "mapping": [{"level": "L1", "temporal": loops}]}
    yield Input("400,000 loops", file("x.jsonl", lambda: json.dumps(long), "evaluate"))


def imports() -> Iterator[Input]:
    """Files of other programs."""
    yield from texts("import")
    yield from texts("search", "--seconds", "3", "--timeloop")
    rows = "Layer, M, N, K,\n" + "a, 8, 8, 8,\n" * (64 * MIB // 13)
    yield Input("64 MiB of rows", file("x.csv", lambda: rows, "import"))
    dataflow = "Network a {\n" + "Layer b {\n" * (64 * MIB // 10)
    yield Input("64 MiB of layers", file("x.m", lambda: dataflow, "import"))
    yield Input("2 GiB of zeros", sparse("x.onnx", (2 << 30) - 1, "import"))
    power = "workload:\n  rank_sizes: {M: 9**9**9**9}\n  einsums:\n  - Z[m] = A[m]\n"
    yield Input("9**9**9**9", file("x.yaml", lambda: power, "import"))


def stores() -> Iterator[Input]:
    """Stores whose files somebody made."""

    def repeated(folder: Path) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from orchestrator.store.parquet import new_name, schema

        (folder / "rows").mkdir()
        (folder / "store.json").write_text('{"format": "mapspace-store-1"}')
        rows, said = 8192, {"payload": "x" * (4 * MIB), "kind": "search"}
        columns = [
            pa.DictionaryArray.from_arrays(pa.repeat(0, rows), [said.get(field.name, "a")])
            if field.type == pa.string()
            else pa.repeat(pa.scalar(0, pa.int64()), rows).cast(field.type)
            for field in schema()
        ]
        content = pa.BufferOutputStream()
        table = pa.Table.from_arrays(columns, names=schema().names)
        pq.write_table(table, content, store_schema=False, write_page_checksum=True)
        made = content.getvalue().to_pybytes()
        (folder / "rows" / new_name(made)).write_bytes(made)
        return ["results", "gc", "--store", str(folder)]

    def row(folder: Path) -> list[str]:
        (folder / "new" / "q").mkdir(parents=True)
        (folder / "store.json").write_text('{"format": "mapspace-store-1"}')
        path = folder / "new" / "q" / "r.json"
        path.write_text("[" + "[]," * (MIB * 21) + "1]")
        return ["results", "SELECT count(*) FROM searches", "--store", str(folder)]

    yield Input("a row of 64 MiB", row)
    yield Input("8,192 rows of one text of 4 MiB", repeated)


def experiments() -> Iterator[Input]:
    """Sweeps and designs of too many machines."""
    yield from texts("sweep")
    sizes = [*range(1, 10_001)]
    grid = {"L1.capacity_words": sizes, "L2.capacity_words": sizes}
    for kind in ("sweep", "design"):
        content = json.dumps({"kind": kind, "name": "it", "grid": grid, "workloads": ["gemm-512"]})
        made = file("it.yaml", lambda content=content: content, kind)  # type: ignore[misc]
        yield Input(f"{kind} of 10^8 machines", made)


def certificates() -> Iterator[Input]:
    """Files that claim to be proofs."""
    yield from texts("verify", name="x.json")
    lists = '{"format": 4, "cuts": [' + "[]," * 3_000_000 + "[]]}"
    yield Input("3,000,000 lists", file("x.json", lambda: lists, "verify"))


def runs() -> Iterator[Input]:
    """A benchmark's folder whose curves stand for more than memory holds."""

    def repeated(folder: Path) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kept = Path(__file__).parents[2] / "docs" / "results" / "kept" / "gemm-tiling-small"
        summary = json.loads((kept / "summary.json").read_text())
        rows, groups = 1_000_000, 40
        summary["runs"] = [{**summary["runs"][0], "points": rows * groups}]
        (folder / "summary.json").write_text(json.dumps(summary))
        plain = pq.read_schema(kept / "curves.parquet")
        columns = [pa.repeat(pa.scalar(1).cast(field.type), rows) for field in plain]
        table = pa.Table.from_arrays(columns, schema=plain)
        with pq.ParquetWriter(folder / "curves.parquet", plain) as writer:
            for _ in range(groups):
                writer.write_table(table)
        return ["report", str(folder)]

    yield Input("40,000,000 equal points", repeated)


DOORS = {
    "search": searches,
    "pareto": fronts,
    "evaluate": records,
    "import": imports,
    "store": stores,
    "sweep": experiments,
    "verify": certificates,
    "report": runs,
}


def measured(arguments: list[str], limit: float) -> tuple[float, int, str, str]:
    """Processor seconds, peak memory in bytes, exit status and the last line of a command."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))

    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "orchestrator", *arguments]
        environment = {**os.environ, "MAPSPACE_STORE": "off"}
        started = subprocess.Popen(
            command, stdout=said, stderr=said, env=environment, preexec_fn=bounded
        )
        until = time.monotonic() + limit
        while True:
            ended, status, used = os.wait4(started.pid, os.WNOHANG)
            if ended:
                code = str(os.waitstatus_to_exitcode(status))
                break
            if time.monotonic() > until:
                started.kill()
                _, _, used = os.wait4(started.pid, 0)
                code = "killed"
                break
            time.sleep(0.05)
        started.returncode = 0
        said.seek(0)
        lines = said.read(10_000).decode(errors="replace").strip().splitlines()
    seconds = used.ru_utime + used.ru_stime
    return seconds, used.ru_maxrss * 1024, code, lines[-1] if lines else ""


def main() -> None:
    """Measures every input of the doors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[*DOORS], help=f"of {', '.join(DOORS)}")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds per command")
    options = parser.parse_args()
    print("| door | input | processor, s | memory, MiB | status | said |")
    print("|---|---|---|---|---|---|")
    for door in options.only:
        for entry in DOORS[door]():
            with tempfile.TemporaryDirectory() as folder:
                found = measured(entry.make(Path(folder)), options.limit)
            seconds, memory, code, line = found
            numbers = f"{seconds:.1f} | {memory / MIB:.0f} | {code}"
            print(f"| {door} | {entry.what} | {numbers} | {line[-120:]} |", flush=True)


if __name__ == "__main__":
    main()
