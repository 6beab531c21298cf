"""A search with a simulator of one's own: what it has answered once is not simulated again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import call

import mapspace as ms

SIMULATOR = """
class Model:
    def __call__(self, mapping):
        open({count!r}, "a").write("x")
        steps = 1
        for level in mapping.levels:
            for loop in level["temporal"]:
                steps *= loop["factor"]
        if steps % 3 == 0:
            return None
        return {{"energy_pj": 2.0 + len(mapping.map), "latency_cycles": steps}}
"""


@pytest.mark.usefixtures("ray_runtime")
def test_nothing_is_simulated_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same search, others on the same answers, `evaluate`; and none of that without a store."""
    count, store = tmp_path / "count", str(tmp_path / "store")
    count.touch()
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SIMULATOR.format(count=str(count)))
    options = ("--simulator", "own.py:Model", "--searcher", "random", "--json")
    what = ("search", "gemm:M=24,N=8,K=8", "--accelerator", "eyeriss", *options)

    def asked(*more: str) -> tuple[dict[str, Any], int]:
        before = len(count.read_text())
        assert call(*what, *more) == 0
        return json.loads(capsys.readouterr().out), len(count.read_text()) - before

    first, made = asked("--iterations", "40", "--store", store)
    assert not first["from_store"]
    assert 20 < made <= 40
    again, none = asked("--iterations", "40", "--store", store)
    assert (again.pop("from_store"), none) == (True, 0)
    assert again == {key: value for key, value in first.items() if key != "from_store"}
    # Fewer: the first of the same mappings.
    fewer, none = asked("--iterations", "20", "--store", store)
    assert (fewer["from_store"], none) == (True, 0)
    # More: only what is new is simulated.
    more, some = asked("--iterations", "60", "--store", store)
    assert not more["from_store"]
    assert 0 < some <= 20
    # `evaluate` reads the same answers.
    Path("best.jsonl").write_text(json.dumps(more["record"]))
    before = len(count.read_text())
    (scored,) = ms.evaluate("best.jsonl", "command", simulator="own.py:Model", store=store)
    assert scored["result"]["from_store"]
    assert len(count.read_text()) == before
    # What it was told is what it would be told anew.
    alone, made = asked("--iterations", "60", "--no-store")
    assert (alone["value"], alone["record"]) == (more["value"], more["record"])
    assert made >= 40
    # Another simulator has answered nothing.
    Path("own.py").write_text(Path("own.py").read_text().replace("2.0", "3.0"))
    other, made = asked("--iterations", "20", "--store", store)
    assert not other["from_store"]
    assert made >= 10
