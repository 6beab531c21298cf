"""`docs/own-model.md`: the simulator of the page is built, called once, and searched with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import call, printed
from paths import ROOT

import mapspace as ms
from mapspace.errors import MapspaceError
from mapspace.strict_yaml import load_yaml

PAGE = (ROOT / "docs" / "own-model.md").read_text()
BLOCKS = re.findall(r"^```(c|yaml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = ("simulator.c", "simulator.yaml", "own.yaml", "benchmark.yaml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, the simulator built."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    for name, (_, text) in zip(FILES, BLOCKS, strict=True):
        (tmp_path / name).write_text(text)
    subprocess.run([compiler, "-O2", "-o", "simulator", "simulator.c"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_mapping(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "evaluate", "--simulator", "simulator.yaml", "own.yaml"))
    # DRAM 16 steps; GLB 8 of tiles A 128, B 128, Z 256; then psum 256 of a tile of 32.
    assert found["result"]["model"] == "command"
    assert found["result"]["cycles"] > 0
    assert found["result"]["energy_pj"] > 0
    assert call("evaluate", "--model", "command", "own.yaml") == 2
    assert "needs --simulator FILE.yaml" in capsys.readouterr().err
    assert call("evaluate", "--model", "loopnest", "--simulator", "x.yaml", "own.yaml") == 2
    assert "Cost model loopnest has no simulator; command has." in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("ray_runtime")
def test_a_benchmark_of_two_searchers(folder: Path) -> None:
    experiment = load_yaml("benchmark.yaml")
    few = {"searchers": {"random": {}, "structured": {}}, "seeds": 1, "iterations": 12}
    result = ms.benchmark({**experiment, **few}, folder / "run")
    frame = result.frame
    assert len(frame) == 2
    best = json.loads((folder / "run" / "best.jsonl").read_text().splitlines()[0])
    (folder / "best.jsonl").write_text(json.dumps(best))
    (again,) = ms.evaluate(folder / "best.jsonl", model="command", simulator="simulator.yaml")
    found = again["result"]
    assert found["energy_pj"] * found["cycles"] == pytest.approx(best["value"])


@pytest.mark.usefixtures("ray_runtime")
def test_a_simulator_that_hangs_ends_a_benchmark_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three queries without an answer end a search, which is not tried again and again."""
    monkeypatch.chdir(tmp_path)
    run = ["sh", "-c", f"echo >> {tmp_path}/calls; sleep 60"]
    costs = {"energy_pj": {"regex": "e (.*)"}, "latency_cycles": {"regex": "c (.*)"}}
    settings = {"run": run, "costs": costs, "timeout_s": 0.3, "retries": 0}
    Path("hang.yaml").write_text(json.dumps(settings))
    experiment = {
        "kind": "benchmark",
        "name": "hangs",
        "model": "command",
        "measurement": {"simulator": "hang.yaml"},
        "accelerator": "eyeriss",
        "workloads": ["gemm:M=64,N=64,K=64"],
        "searchers": {"random": {}},
        "seeds": 2,
        "iterations": 50,
    }
    with pytest.raises(MapspaceError, match=r"1 of 1 trials failed; the first: 3 runs failed, and"):
        ms.benchmark(experiment, tmp_path / "run")
    # A fourth may have begun while the third was looked at.
    assert len((tmp_path / "calls").read_text().splitlines()) <= 4


FUNCTION = re.search(r"^```python\n(# own.py\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_function_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert FUNCTION is not None
    Path("own.py").write_text(FUNCTION[1])
    Path("own.yaml").write_text(dict(zip(FILES, BLOCKS, strict=True))["own.yaml"][1])
    found = json.loads(printed(capsys, "evaluate", "--simulator", "own.py:cost", "own.yaml"))
    # 16 steps of DRAM, 8 of GLB and 256 of psum, which steps through 16 x 8 + 8 x 2 + 16 x 2.
    assert found["result"]["model"] == "python"
    assert found["result"]["cycles"] == 16 * 8 * 256
    assert found["result"]["energy_pj"] == 2 * 176 + 16 * 8 * 256


@pytest.mark.slow
@pytest.mark.usefixtures("ray_runtime")
def test_a_benchmark_of_five_searchers_on_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert FUNCTION is not None
    Path("own.py").write_text(FUNCTION[1])
    Path("benchmark.yaml").write_text(dict(zip(FILES, BLOCKS, strict=True))["benchmark.yaml"][1])
    experiment = load_yaml("benchmark.yaml")
    own = {"model": "python", "measurement": {"call": "own.py:cost"}}
    result = ms.benchmark({**experiment, **own, "seeds": 1, "iterations": 30}, tmp_path / "run")
    assert set(result.frame["searcher"]) == {
        "random",
        "annealing",
        "genetic",
        "structured",
        "cma-es",
    }
