"""Runs the files of public projects through the commands, and prints what came of each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from mapspace.strict_yaml import load_yaml
from orchestrator.cli import main

HERE = Path(__file__).resolve().parent


class Came(NamedTuple):
    """What came of a case."""

    right: bool
    text: str


def cases() -> list[dict[str, Any]]:
    """Every case, with all of its keys."""
    found: list[dict[str, Any]] = load_yaml(HERE / "cases.yaml")["cases"]
    return found


def run(case: dict[str, Any]) -> Came:
    """Runs a case in its folder."""
    words = case["command"].split()
    words += ["--json", *(["--no-store"] if words[0] == "search" else [])]
    output, errors = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(HERE / case["folder"])
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                main(words)
            except SystemExit as done:
                status = done.code
    finally:
        os.chdir(before)
    if status:
        said = errors.getvalue().strip().splitlines()[-1]
        wanted = case.get("refused")
        return Came(bool(wanted and status == 2 and re.search(wanted, said)), said)
    answer = json.loads(output.getvalue().splitlines()[-1])
    cycles = answer.get("cycles", answer.get("latency_cycles"))
    found = {"cycles": cycles, "energy_uj": answer["energy_pj"] / 1e6}
    right = "right" in case and all(
        abs(found[key] - value) <= (0.005 if isinstance(value, float) else 0)
        for key, value in case["right"].items()
    )
    return Came(right, f"{found['energy_uj']:,.2f} uJ, {found['cycles']:,} cycles")


if __name__ == "__main__":
    wrong = 0
    for one in cases():
        if not sys.argv[1:] or one["name"] in sys.argv[1:]:
            result = run(one)
            wrong += not result.right
            print(f"{'right' if result.right else 'WRONG':6}{one['name']:42}{result.text[:150]}")
    sys.exit(wrong > 0)
