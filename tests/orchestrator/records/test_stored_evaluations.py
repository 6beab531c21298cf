"""What a simulator has said of a mapping once is read from the store."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import call

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from mapspace.errors import ConfigError
from orchestrator.records.stored_evaluations import read_or_score
from orchestrator.store.folder import Store

# Counts its runs; mappings of 3 have no cycles, those of 5 end with 1.
SCRIPT = """
import json, sys
m = json.load(open("m.json"))
open({count!r}, "a").write("x")
size = m["problem"]["dims"]["M"]
if size == 5:
    sys.exit(1)
print(json.dumps({{"energy": 2.5 * size, "cycles": None if size == 3 else size}}))
"""


@pytest.fixture
def simulator(tmp_path: Path) -> Path:
    file = tmp_path / "simulator.yaml"
    script = SCRIPT.format(count=str(tmp_path / "runs"))
    settings = {
        "run": [sys.executable, "s.py"],
        "files": {
            "m.json": "{{ record | tojson }}",
            "s.py": "{% raw %}" + script + "{% endraw %}",
        },
        "costs": {"energy_pj": {"json": "energy"}, "latency_cycles": {"json": "cycles"}},
        "retries": 0,
    }
    file.write_text(json.dumps(settings))
    return file


def records(*sizes: int) -> list[dict[str, Any]]:
    return [
        ms.search(f"gemm:M={size},N=2,K=2", "tiny3", store=False).record | {"note": "mine"}
        for size in sizes
    ]


def test_what_was_simulated_is_read(tmp_path: Path, simulator: Path) -> None:
    def evaluated(*sizes: int, **options: Any) -> list[dict[str, Any]]:
        found = ms.evaluate(
            records(*sizes), "command", simulator=simulator, store=tmp_path / "store", **options
        )
        return [record["result"] for record in found]

    def runs() -> int:
        return len((tmp_path / "runs").read_text())

    first = evaluated(2, 4)
    assert [result["from_store"] for result in first] == [False, False]
    assert runs() == 2
    second = evaluated(4, 6, 2)
    assert [result["from_store"] for result in second] == [True, False, True]
    assert [result["energy_pj"] for result in second] == [10.0, 15.0, 5.0]
    assert runs() == 3
    # What failed is tried again.
    failing = [evaluated(2, 5)[1] for _ in range(2)]
    assert [result["from_store"] for result in failing] == [False, False]
    assert runs() == 5
    # Another simulator has other answers.
    simulator.write_text(simulator.read_text().replace("2.5", "3.5"))
    assert evaluated(2)[0]["energy_pj"] == 7.0


def test_a_record_that_cannot_be_read_is_counted_among_all(tmp_path: Path) -> None:
    def score(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for place, record in enumerate(some):
            if record["size"] < 0:
                raise ConfigError(f"record {place}: expected more.")
        return [record | {"result": {"energy_pj": 1.0}} for record in some]

    stored = read_or_score(score, "loopnest", LoopNestModel(), Store(tmp_path))
    stored([{"size": 1}, {"size": 2}])
    with pytest.raises(ConfigError, match=r"^record 3: expected more"):
        stored([{"size": 1}, {"size": 2}, {"size": 3}, {"size": -1}])


def test_cheap_models_ask_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records(2)))
    assert call("evaluate", file, "--store", tmp_path / "store") == 0
    assert "from_store" not in json.loads(capsys.readouterr().out)["result"]
    assert not (tmp_path / "store" / "new").exists()


def test_what_failed_is_counted_apart_from_what_is_infeasible(
    tmp_path: Path, simulator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # It says so where nothing can be run, and prints no number where it fails.
    settings = json.loads(simulator.read_text()) | {"infeasible": {"exit_codes": [1]}}
    simulator.write_text(json.dumps(settings))
    file = tmp_path / "three.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records(2, 3, 5)))
    assert call("evaluate", "--simulator", simulator, file, "--no-store") == 0
    said = capsys.readouterr().err
    assert "3 records scored, 1 of them infeasible, 1 of them failed" in said
    assert "Error" not in said
    # Where every run fails it is the simulator; what each of them said is printed all the same.
    simulator.write_text(json.dumps({**settings, "run": ["false"], "infeasible": {}}))
    assert call("evaluate", "--simulator", simulator, file, "--no-store") == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.err.endswith("Error: the simulator answered none of them; each result says why.\n")
