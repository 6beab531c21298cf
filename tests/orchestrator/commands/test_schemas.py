"""Every command's `--json` is what its published schema says, and nothing else."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import call, printed
from jsonschema.exceptions import best_match
from marks import noisy_libraries
from paths import GOLDEN
from sample_results import lined_up
from whole_spaces import golden

from orchestrator.cli import cli
from orchestrator.comparison.results_files import save
from orchestrator.schemas.json_text import json_text
from orchestrator.schemas.published import ANSWERS, NAMES, NO_ANSWERS, OF_COMMANDS, schema

GEMM = "gemm:M=16,N=16,K=16"
OTHER = "gemm:M=8,N=16,K=11"
TIMELOOP = GOLDEN / "timeloop-imports" / "ispass04-cp" / "input"
SWEEP = {
    "kind": "sweep",
    "name": "small",
    "base": "mm256",
    "grid": {"L1.capacity_words": [32, 64]},
    "workloads": [GEMM],
}
DESIGN = {
    "kind": "design",
    "name": "quick",
    "grid": {"L2.fanout": [4, 8]},
    "workloads": ["gemm:M=4,N=4,K=4"],
}
MAESTRO = """Network one {
Layer CONV1 {
Type: CONV
Dimensions { K 8, C 4, R 3, S 3, Y 8, X 8 }
}
}
"""
SCALESIM = """[architecture_presets]
ArrayHeight: 4
ArrayWidth: 4
IfmapSramSzkB: 1
FilterSramSzkB: 1
OfmapSramSzkB: 1
Dataflow: os
"""
TABLE = {"title": "so far", "header": ["a"], "rows": [[1.5], ["b"], [None]]}
FREE = {"name": "free", "bypass": "searched"}
KEEP = "--accelerator {folder}/free.yaml --keep L1=A"


def no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def holds(name: str, answer: Any) -> Any:
    """Refuses what a schema does not allow."""
    found = best_match(validator(name).iter_errors(answer))
    assert found is None, f"{name}: {found.json_path}: {found.message[:300]}"
    return answer


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema(name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records, a certificate and lines of problems that commands read."""
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "free.yaml").write_text(json.dumps({**FREE, "extends": "mm256"}))
    for name in ("one", "two"):
        words = [GEMM, *([] if name == "one" else ["--accelerator", folder / "free.yaml"])]
        words += [] if name == "one" else ["--keep", "L1=A"]
        assert call("search", *words, "--output", folder / f"{name}.jsonl") == 0
    assert call("search", "gemm:M=2,N=2,K=2", "--output", folder / "small.jsonl") == 0
    own = {
        "workload": GEMM,
        "accelerator": "mm256",
        "mapping": [{"level": "L1", "temporal": [["M", 16], ["N", 16], ["K", 16]]}],
    }
    (folder / "own.json").write_text(json.dumps(own))
    lines = {bool(line["least_energy_pj"]): json.dumps(line) for line in golden("mapspaces")}
    (folder / "problems.jsonl").write_text("\n".join(lines.values()))
    noted = {"version": 1, "kind": "sweep", "name": "mine", "status": "finished", "process": "1"}
    noted |= {"started": 1.0, "updated": 2.0, "beat": 5.0, "tables": [TABLE]}
    (folder / "run").mkdir()
    (folder / "run" / "sweep.json").write_text("{}")
    (folder / "run" / "progress.json").write_text(json.dumps(noted))
    (folder / "compared").mkdir()
    save(lined_up(), folder / "compared")
    (folder / "alexnet.m").write_text(MAESTRO)
    (folder / "scale.cfg").write_text(SCALESIM)
    (folder / "layers.csv").write_text("Layer, M, N, K,\nfirst, 4, 5, 6,\n")
    (folder / "design.yaml").write_text(json.dumps(DESIGN))
    (folder / "sweep.yaml").write_text(json.dumps(SWEEP))
    network = {"name": "two", "layers": [{"workload": GEMM, "count": 2}, {"workload": OTHER}]}
    (folder / "network.yaml").write_text(json.dumps(network))
    up = {"name": "up", "gemm": {"M": 16, "N": 32, "K": 16}}
    down = {"name": "down", "gemm": {"M": 16, "N": 16, "K": 32}, "input": "up"}
    (folder / "chain.yaml").write_text(json.dumps({"name": "chain", "layers": [up, down]}))
    return folder


CASES = [
    ("search", f"search {GEMM}"),
    ("search", f"search {GEMM} --top 2 --explain"),
    ("search", f"search {GEMM} " + KEEP),
    ("search", f"search {GEMM} --searcher random --iterations 50 --objective latency"),
    ("search", f"search {GEMM} --why-not {{folder}}/own.json"),
    ("search", f"search {GEMM} --widen --seconds 20"),
    ("search", f"search {OTHER} --pad"),
    ("search", "search gemm:M=8,N=8,K=37"),
    ("search-problems", "search --problems {folder}/problems.jsonl"),
    ("search-network", "search --network {folder}/network.yaml"),
    ("search-network", "search --network {folder}/network.yaml " + KEEP),
    ("search-network-jointly", "search --network {folder}/network.yaml --jointly"),
    (
        "search-network-resident",
        "search --network {folder}/chain.yaml --jointly --resident --fused --objective energy",
    ),
    ("search-scalesim", "search --scalesim {folder}/scale.cfg {folder}/layers.csv"),
    ("search-scalesim", "search --scalesim {folder}/scale.cfg {folder}/layers.csv --prove"),
    ("tile", "tile gemm:M=64,N=64,K=64 --model tiling --iterations 30"),
    ("verify", "verify {folder}/one.certificate.json"),
    ("verify", "verify {folder}/small.certificate.json --independent"),
    ("pareto", f"pareto {GEMM}"),
    ("bypass", f"bypass {GEMM}"),
    ("bypass", "bypass --network {folder}/network.yaml"),
    ("evaluate-timeloop", f"evaluate --timeloop {' '.join(map(str, TIMELOOP.iterdir()))}"),
    ("explain", "explain {folder}/one.jsonl"),
    ("explain", "explain {folder}/own.json --objective energy"),
    ("diff", "diff {folder}/one.jsonl {folder}/two.jsonl"),
    ("compare", "compare {folder}/compared {folder}/compared"),
    ("space", f"space {GEMM} {OTHER} --samples 200"),
    ("space-family", "space --family mttkrp --samples 500"),
    ("describe-searcher", "describe searcher gradient"),
    *(("describe", f"describe {name}") for name in ("mm256", "eyeriss", "simba", "gemmini")),
    ("watch", "watch {folder}"),
    ("list", "list"),
    ("list", "list networks"),
    ("text", "export {folder}/one.jsonl --as c"),
    ("text", "export {folder}/one.jsonl --output {folder}/one.yaml"),
    ("text", "import {folder}/alexnet.m"),
    ("text", "check {folder}/alexnet.m {folder}/network.yaml"),
    ("results", "results --store {folder}/store"),
    ("results-gc", "results gc --store {folder}/store"),
    ("results-rm", "results rm --all --store {folder}/store"),
]


SLOW = [
    ("design", "design {folder}/design.yaml --output {folder}/designed"),
    ("experiment", "sweep {folder}/sweep.yaml --output {folder}/swept"),
    ("space", f"space {GEMM} --samples 200 --plot {{folder}}/plot.png"),
]


@pytest.mark.parametrize(
    ("name", "command"),
    [*CASES, *(pytest.param(*case, marks=[pytest.mark.slow, noisy_libraries]) for case in SLOW)],
)
def test_what_is_printed_is_what_the_schema_says(
    name: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.format(folder=folder).split()
    text = printed(capsys, *words, "--json")
    lines = text.splitlines() if name == "search-problems" else [text]
    for answer in (json.loads(line, parse_constant=no_number) for line in lines):
        holds(name, answer)
        assert name in NO_ANSWERS or isinstance(answer["from_store"], bool)
        if name.startswith("search") and answer.get("record") is not None:
            holds("record", answer["record"])


def test_every_command_with_json_is_tried() -> None:
    with_json = {
        name
        for name, command in cli.commands.items()
        if any("--json" in option.opts for option in command.params)
    }
    tried = {command.split()[0] for _, command in (*CASES, *SLOW)}
    # Tried in test_kinds_contract.py, test_marvel_study.py, test_jobs.py; a run is what report is.
    others = {"generate", "train", "benchmark", "sweep", "report", "run", "submit"}
    assert with_json - others <= tried
    assert set(cli.commands) - with_json == {"mcp", "schema"}


def test_every_schema_is_tried_or_a_tool_s() -> None:
    from orchestrator.agent_tools import TOOLS

    tried = {name for name, _ in (*CASES, *SLOW)} | set(TOOLS)
    assert set(ANSWERS) - tried == {"search-simulator", "report", "submit"}


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_one_and_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "schema", name))
    jsonschema.Draft202012Validator.check_schema(found)
    assert found == schema(name)


def test_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "schema").split() == list(NAMES)
    for command, name in OF_COMMANDS.items():
        assert command in cli.commands
        assert json.loads(printed(capsys, "schema", command)) == schema(name)
    assert call("schema", "serch") == 2
    assert "did you mean search?" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, kind in ANSWERS.items() if name != "results"])
def test_no_object_takes_another_key(name: str) -> None:
    def objects(part: Any) -> Any:
        if isinstance(part, list):
            for entry in part:
                yield from objects(entry)
        elif isinstance(part, dict):
            if "properties" in part and isinstance(part.get("type"), str):
                yield part
            for entry in part.values():
                yield from objects(entry)

    assert all(part["additionalProperties"] is False for part in objects(schema(name)))


def test_a_key_that_no_type_has_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = json.loads(printed(capsys, "explain", folder / "one.jsonl", "--json"))
    holds("explain", answer)
    for wrong in (answer | {"another": 1}, {**answer, "limits": [{"name": "compute"}]}):
        with pytest.raises(AssertionError):
            holds("explain", wrong)


def test_json_has_no_infinite_numbers() -> None:
    assert json_text({"gap": float("inf"), "of": (float("nan"), 1.5)}) == (
        '{"gap": null, "of": [null, 1.5]}'
    )
