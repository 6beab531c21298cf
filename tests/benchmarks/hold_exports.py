"""Holds exported mappings against a real `timeloop-model` (v3.0.3), which this project has not.

    python tests/benchmarks/hold_exports.py PATH/timeloop-model [EVERY]

Every record of `tests/golden/timeloop-general` (or every EVERY-th) is exported and run; reads,
fills and updates of each level and tensor, energies to a cent of a picojoule and cycles must be
equal.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mapspace as ms

FOLDER = Path(__file__).parents[1] / "golden" / "timeloop-general"
_STATISTICS = {
    "Scalar reads (per-instance)": "reads",
    "Scalar fills (per-instance)": "fills",
    "Scalar updates (per-instance)": "updates",
    "Energy (total)": "energy_pj",
}


def statistics(text: str) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What the model prints of each level and tensor, the first time: networks come later."""
    level = tensor = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"=== (\S+) ===", line):
            level, tensor = match[1], ""
        elif match := re.fullmatch(r" {4}(\w+):", line):
            tensor = match[1]
        match = re.fullmatch(r" +(.+?) *: ([\d.e+-]+)( pJ)?", line)
        if match and tensor and match[1] in _STATISTICS:
            yield (level, tensor, _STATISTICS[match[1]]), float(match[2])


def run(binary: Path, text: str, links: bool) -> str:
    """The statistics of a file; empty where the model refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "all.yaml"
        file.write_text(text)
        environment = {**os.environ, "TIMELOOP_DISABLE_LINK_TRANSFERS": "0" if links else "1"}
        environment["LD_LIBRARY_PATH"] = str(binary.parent)
        subprocess.run(
            [binary, file], cwd=folder, env=environment, capture_output=True, check=False
        )
        found = Path(folder) / "timeloop-model.stats.txt"
        return found.read_text() if found.exists() else ""


def differs(result: dict[str, Any], text: str) -> str:
    """The first number that differs, or nothing."""
    cycles = re.search(r"^Cycles: (\d+)$", text, re.MULTILINE)
    if cycles is None or int(cycles[1]) != result["cycles"]:
        return f"cycles: expected {result['cycles']}, got {cycles and cycles[1]}"
    printed: dict[tuple[str, str, str], float] = {}
    for key, value in statistics(text):
        printed.setdefault(key, value)
    for level in result["levels"]:
        for tensor, counts in level["tensors"].items():
            for name in _STATISTICS.values():
                got = printed.get((level["name"], tensor, name), 0.0)
                slack = 0.006 + 1e-6 * counts[name] if name == "energy_pj" else 0
                if abs(got - counts[name]) > slack:
                    return f"{level['name']}.{tensor}.{name}: expected {counts[name]}, got {got}"
    return ""


def main() -> None:
    """Prints how many are equal, by file."""
    binary, every = Path(sys.argv[1]).resolve(), int([*sys.argv, "1"][2])
    wrong = 0
    for path in sorted(FOLDER.glob("*.gz")):
        with gzip.open(path, "rt") as file:
            records = [json.loads(line) for line in list(file)[::every]]
        found = [
            differs(
                one["result"], run(binary, ms.to_timeloop(one).text, path.stem == "links.jsonl")
            )
            for one in records
        ]
        bad = [why for why in found if why]
        wrong += len(bad)
        print(f"{path.stem}: {len(found) - len(bad)} of {len(found)} equal {bad[:1] or ''}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
