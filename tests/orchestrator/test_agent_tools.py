"""`mapspace mcp`: the tools as the official client sees and calls them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

import mapspace as ms
from orchestrator.agent_tools import TOOLS, server
from orchestrator.schemas.published import schema

pytest.importorskip("mcp")
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

SMALL = "gemm:M=8,N=8,K=8"
OWN = {
    "workload": SMALL,
    "accelerator": "mm256",
    "mapping": [{"level": "L1", "temporal": [["M", 8], ["N", 8], ["K", 8]]}],
}


def talk(said: Callable[[Client], Awaitable[Any]], to: Any = None) -> Any:
    async def run() -> Any:
        async with Client(server() if to is None else to) as client:
            return await said(client)

    return anyio.run(run)


def call(name: str, **arguments: Any) -> Any:
    """What a tool answers; what it refuses as a text."""

    async def said(client: Client) -> Any:
        return await client.call_tool(name, arguments)

    found = talk(said)
    if found.is_error:
        return found.content[0].text
    (published,) = (key for key, tool in TOOLS.items() if tool.__name__ == name)
    jsonschema.Draft202012Validator(schema(published)).validate(found.structured_content)
    return found.structured_content


def test_every_tool_is_listed_with_its_types() -> None:
    async def said(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in talk(said)}
    assert list(tools) == [tool.__name__ for tool in TOOLS.values()]
    assert all(tool.description for tool in tools.values())
    for name, tool in TOOLS.items():
        assert tools[tool.__name__].output_schema == schema(name)
    search = tools["search"].input_schema["properties"]
    assert search["objective"]["enum"] == ["edp", "energy", "latency", "ed2p"]
    assert search["seconds"]["anyOf"][0]["maximum"] == 600
    # Those of Python's `search`, but for what is of the server's machine.
    assert {*search} | {"progress", "store", "surrogate", "threads", "workers"} == {
        *inspect.signature(ms.search).parameters, "progress",
    }  # fmt: skip
    assert tools["search"].input_schema["required"] == ["workload"]


def test_the_tools_say_what_the_functions_say() -> None:
    found = call("search", workload=SMALL, accelerator="mm256-bw")
    wanted = ms.search(SMALL, "mm256-bw")
    assert found["proven"]
    assert found["edp"] == wanted.costs.edp
    assert found["nest"] == str(wanted.mapping)
    options = {"searcher": "annealing", "iterations": 300, "seed": 3, "factors": "imperfect"}
    assert call("search", workload=SMALL, **options)["edp"] == ms.search(SMALL, **options).costs.edp
    best = call("search", workload=SMALL, top=3)
    assert [one["edp"] for one in best["top"]] == [
        one.costs.edp for one in ms.search(SMALL, top=3).top
    ]
    verified = call("verify", certificate=found["certificate"])
    assert verified["holds"]
    assert verified["findings"] == list(ms.verify(wanted).findings)
    (scored,) = call("evaluate", records=[found["record"]])["records"]
    assert scored["result"]["cycles"] == wanted.costs.latency_cycles
    assert call("explain_mapping", record=OWN) == ms.explain_mapping(OWN).to_dict()
    assert call("diff", first=OWN, second=found["record"])["decisions"]
    why = call("why_not", record=OWN, workload=SMALL, seconds=20)["why_not"]
    assert why["above"] == pytest.approx(ms.why_not(ms.search(SMALL), OWN).above)
    wide = call("widen", workload=SMALL, seconds=20)
    assert wide == ms.widen(ms.search(SMALL), seconds=20).to_dict()
    assert call("pareto", workload=SMALL)["front"] == ms.pareto(SMALL).to_dict()["front"]
    assert "eyeriss" in call("list_presets", kind="accelerators")["accelerators"]


def test_earlier_answers_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no store" in call("results", sql="SELECT 1")
    monkeypatch.setenv("MAPSPACE_STORE", str(tmp_path))
    assert not call("search", workload=SMALL)["from_store"]
    assert call("search", workload=SMALL)["from_store"]
    assert call("results", sql="SELECT count(*) AS n FROM proofs") == {"rows": [{"n": 1}]}
    assert "expected one SELECT" in call("results", sql="DROP VIEW proofs")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search", {"workload": "gemm:M=0"}, "M"),
        ("search", {"workload": SMALL, "accelerator": "nothing"}, "nothing"),
        ("search", {"workload": "/etc/passwd"}, "tools read no files"),
        ("search", {"workload": "my.yaml"}, "tools read no files"),
        ("search", {"workload": SMALL, "seconds": 1e9}, "600"),
        ("search", {"workload": SMALL, "stores": "a"}, "stores: unknown"),
        ("search", {"workload": SMALL, "keep": {"L9": "A"}}, "L9"),
        ("search", {"workload": SMALL, "top": 0}, "top"),
        ("search", {"workload": SMALL, "secnds": 1}, "secnds: unknown; did you mean seconds?"),
        ("search", {"workload": SMALL, "objective": "edpp"}, "got 'edpp'; did you mean edp?"),
        ("search", {"workload": 5}, "workload"),
        ("search", {}, "missing workload"),
        ("pareto", {"workload": SMALL, "seconds": -1}, "seconds: expected "),
        ("evaluate", {"records": [{**OWN, "workload": "/etc/passwd"}]}, "tools read no files"),
        ("explain_mapping", {"record": {}}, "problem: expected an object"),
        ("verify", {"certificate": {"format": 3}}, "certificate"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    text = call(name, **arguments)
    assert isinstance(text, str)
    assert said in text
    assert "Traceback" not in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "named",
    [
        {"base": "/etc/passwd", "grid": {"L2.capacity": [1]}, "workloads": [SMALL]},
        {"accelerators": ["/etc/passwd"], "workloads": [SMALL]},
        {"accelerators": ["mm256"], "workloads": [SMALL, "/etc/passwd"]},
        {"accelerators": ["mm256"], "workloads": [{"network": "/etc/passwd"}]},
        {"accelerators": "/etc/passwd", "workloads": [SMALL]},
    ],
)
def test_a_sweep_reads_no_file(named: dict[str, Any]) -> None:
    said = call("sweep", experiment={"kind": "sweep", "name": "it", **named})
    assert "tools read no files" in said
    assert "root:" not in said


def test_a_sweep_ends_in_time_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPSPACE_STORE", str(tmp_path))
    grid = {"L2.fanout": list(range(2, 42)), "mac_energy_pj": [1.0, 1.5, 2.0]}
    asked = {"kind": "sweep", "name": "it", "grid": grid, "workloads": [SMALL]}
    said = call("sweep", experiment=asked, seconds=0.01)
    assert "it: stopped after" in said
    assert "of 120 points" in said
    assert call("results", sql="SELECT count(*) AS n FROM proofs")["rows"][0]["n"] > 0
    few = {**asked, "grid": {"L2.fanout": [2]}}
    (row,) = call("sweep", experiment=few)["points"]
    assert row["status"] == "proven"
    assert "600" in call("sweep", experiment=few, seconds=1e9)


def test_a_file_in_the_folder_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("a: 1\n")
    assert "tools read no files" in call("search", workload="secret")
    (tmp_path / "chip.yaml").write_text("extends: mm256\n")
    machine = {"extends": "chip.yaml"}
    assert "tools read no files" in call("search", workload=SMALL, accelerator=machine)


def test_the_command_serves_on_standard_input() -> None:
    started = StdioServerParameters(command=sys.executable, args=["-m", "orchestrator", "mcp"])

    async def said(client: Client) -> Any:
        return await client.call_tool("search", {"workload": SMALL})

    assert talk(said, started).structured_content["proven"]
