"""How long questions to a store of a million searches take.

Makes the store in a folder that is thrown away, or in `--folder`, where it is found again; then
asks through the command line, start of Python included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from orchestrator.store.folder import Store
from orchestrator.store.parquet import schema, table_bytes
from orchestrator.store.rows import COLUMNS

METHODS = ("random", "annealing", "genetic", "structured")
PER_FILE = 100_000
QUESTIONS = (
    ["SELECT method, count(*) AS n, median(value) AS median FROM searches GROUP BY ALL"],
    ["SELECT workload, method, min(value) AS least FROM searches GROUP BY ALL ORDER BY ALL"],
    ["--workload", "layer-3", "--method", "structured", "--limit", "20"],
)


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    """Made-up searches of forty layers with curves of a hundred points."""
    texts = {name: np.full(rows, "x", object) for name in COLUMNS}
    texts |= {
        "kind": np.full(rows, "run", object),
        "question": np.array([f"{a:016x}{b:016x}" for a, b in rng.integers(2**62, size=(rows, 2))]),
        "workload": np.array([f"layer-{i % 40}" for i in range(rows)], object),
        "method": np.array([METHODS[i // 40 % 4] for i in range(rows)], object),
        "payload": np.array(
            [f'{{"loss": {rng.random(100).round(4).tolist()}}}' for _ in range(rows)], object
        ),
    }
    texts["address"] = texts["question"]
    numbers = {
        "seed": np.arange(rows),
        "value": rng.lognormal(size=rows) * 1e16,
        "energy_pj": rng.lognormal(size=rows) * 1e9,
        "latency_cycles": rng.lognormal(size=rows) * 1e6,
        "proven": np.zeros(rows, bool),
        "iterations": np.full(rows, 5000),
        "seconds": rng.random(rows),
        "stored": 1.7e9 + rng.random(rows) * 1e7,
        **dict.fromkeys(("budget_seconds", "budget_gap", "lower_bound", "gap"), np.zeros(rows)),
        "budget_iterations": np.full(rows, 5000),
    }
    columns = {"id": rng.integers(2**62, size=rows), **texts, **numbers}
    return pa.table([pa.array(columns[name]) for name in schema().names], schema().names).cast(
        schema()
    )


def ask(folder: Path) -> None:
    """Prints seconds of every question, the best and the median of five."""
    for question in QUESTIONS:
        command = [sys.executable, "-m", "orchestrator", "results", *question]
        seconds = []
        for _ in range(5):
            started = time.perf_counter()
            subprocess.run(
                [*command, "--store", str(folder)], check=True, stdout=subprocess.DEVNULL
            )
            seconds.append(time.perf_counter() - started)
        print(f"{min(seconds):.2f} s, median {sorted(seconds)[2]:.2f} s: {' '.join(question)}")


def main() -> None:
    """Makes the store if it is not there, and asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary) / "store"
        if not folder.exists():
            store, rng = Store(folder), np.random.default_rng(0)
            store.add([])
            for start in range(0, chosen.rows, PER_FILE):
                rows = min(PER_FILE, chosen.rows - start)
                store.write_parquet(table_bytes(table(rng, rows)))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{chosen.rows:,} searches, {size / 2**20:,.0f} MiB")
        ask(folder)


if __name__ == "__main__":
    main()
