"""`mapspace search --problems`: in order, proven where small, never against constraints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from commands import call
from whole_spaces import golden

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import score
from orchestrator.cli import cli

Record = dict[str, Any]


def run(tmp_path: Path, lines: list[Any], *options: str) -> Any:
    file = tmp_path / "problems.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    return CliRunner().invoke(cli, ["search", "--problems", str(file), *options])


def check_obeys(record: Record, entries: list[Record]) -> None:
    """Holds a printed mapping against the text of the constraints, without their reader."""
    sizes = record["problem"]["dims"]
    levels = {loops["level"]: loops for loops in record["mapping"]}
    for entry in entries:
        loops = levels[entry["target"]]
        if entry["type"] == "bypass":
            assert set(entry["keep"]) <= set(loops["keep"])
            assert not set(entry["bypass"]) & set(loops["keep"])
        if entry["type"] == "parallelism":
            working = 1
            for level in record["mapping"]:
                for _, factor, _ in level["spatial"]:
                    working *= factor
            assert working / record["arch"]["mac"]["instances"] >= entry["min"]
        if entry["type"] not in ("temporal", "spatial"):
            continue
        given = {loop[0]: loop[1] for loop in loops[entry["type"]]}
        for name, sign, number in re.findall(r"(\w)\s*(<=|>=|=)\s*(\d+)", entry.get("factors", "")):
            factor, limit = given.get(name, 1), int(number) or sizes[name]
            if sign == "=" and limit > sizes[name]:
                continue
            assert {"<=": factor <= limit, ">=": factor >= limit, "=": factor == limit}[sign]
        inside = [loop[0] for loop in reversed(loops[entry["type"]])]
        inner, _, outer = entry.get("permutation", "").partition("_")
        innermost = entry["target"] == record["mapping"][-1]["level"]
        if entry["type"] == "temporal" and not innermost:
            named = [name for name in inner if name in inside]
            assert inside[: len(named)] == named
            named = [name for name in outer if name in inside]
            assert inside[len(inside) - len(named) :] == named
        if entry["type"] == "spatial" and "split" in entry:
            along = [loop[2] for loop in loops["spatial"]]
            assert along.count("X") <= entry["split"]
            assert along.count("Y") <= max(0, len(sizes) - entry["split"])


def test_whole_spaces_are_proven_line_by_line(tmp_path: Path) -> None:
    lines = golden("mapspaces")
    result = run(tmp_path, lines, "--objective", "energy", "--json")
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(lines)
    for line, answer in zip(lines, answers, strict=True):
        assert answer["energy_pj"] == line["least_energy_pj"]
        assert answer["proven"]
        if answer["record"] is None:
            assert answer["why"].startswith("together these leave no feasible mapping: ")
            continue
        check_obeys(answer["record"], line["constraints"])
        (scored,) = score([answer["record"]], LoopNestModel())
        assert scored["result"]["energy_pj"] == line["least_energy_pj"]
        assert answer["gap"] == answer["gap_to_optimum"] == 0
        assert answer["conclusion"].startswith("proven: all ")


def test_a_space_that_is_not_small_is_proven_within_its_constraints(tmp_path: Path) -> None:
    line = golden("constraints")[0]
    sizes = {"I": 24, "J": 16, "K": 20, "L": 18}
    assert line["problem"]["dims"] == sizes
    result = run(tmp_path, [line], "--objective", "energy", "--seconds", "30", "--json")
    assert result.exit_code == 0, result.output
    (answer,) = (json.loads(row) for row in result.stdout.splitlines())
    assert answer["searcher"] == "exact"
    assert answer["proven"]
    assert len(answer["constraints"]) == len(line["constraints"])
    check_obeys(answer["record"], line["constraints"])


def test_what_levels_keep_is_known_to_the_proof(tmp_path: Path) -> None:
    line = golden("constraints")[0]
    kept = [{"target": "buffer", "type": "bypass", "keep": ["A"], "bypass": ["B"]}]
    line = {**line, "constraints": kept}
    line["problem"] = {**line["problem"], "dims": {"I": 12, "J": 8, "K": 4, "L": 6}}
    result = run(tmp_path, [line], "--objective", "energy", "--seconds", "30", "--json")
    (answer,) = (json.loads(row) for row in result.stdout.splitlines())
    assert answer["searcher"] == "exact"
    assert answer["proven"]
    check_obeys(answer["record"], kept)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([1], "problems.jsonl:2: expected a mapping with arch and problem"),
        ({"arch": {}}, "problems.jsonl:2: missing problem"),
        (
            {"constraint": []},
            "problems.jsonl:2: constraint: unknown key; did you mean constraints?",
        ),
        ({"densities": {"A": 0.5}}, "problems.jsonl:2: densities: sparse tensors are not modelled"),
        ({"constraints": [{"target": "L9", "type": "temporal"}]}, "constraints[0].target: expec"),
        ({"constraints": [{"target": "L1"}]}, "problems.jsonl:2: constraints[0]: missing type"),
        ({"problem": {"dims": {"M": 0}}}, "problems.jsonl:2: problem.dims.M: expected"),
        ({"arch": {"levels": 3, "mac": {}}}, "problems.jsonl:2: arch."),
    ],
)
def test_a_bad_line_is_refused_before_any_search(
    tmp_path: Path, line: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:

    good = golden("mapspaces")[0]
    bad = (
        {**good, **line}
        if isinstance(line, dict) and len(line) == 1 and "arch" not in line
        else line
    )
    if isinstance(line, dict) and "levels" in line.get("arch", {}):
        bad = {**good, **line}
    file = tmp_path / "problems.jsonl"
    file.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    assert call("search", "--problems", str(file), "--json") == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out
    assert shown.err.count("\n") == 1


def test_says_which_options_are_for_one_workload(tmp_path: Path) -> None:
    for options in (["--pad"], ["--keep", "L1=A"], ["--network", "vgg16"]):
        assert run(tmp_path, golden("mapspaces")[:1], *options).exit_code != 0
