"""Results of `import mapspace`: what they say, show and write, and how mistakes read."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from commands import answer
from paths import ROOT

import mapspace as ms
from orchestrator.report.shown import Shown

SMALL = "gemm:M=16,N=16,K=16"
AWKWARD = "gemm:M=263,N=257,K=16"
# What differs from run to run.
VARYING = {"seconds", "wall_seconds", "iterations", "true_queries"}


def steady(found: Any) -> Any:
    """As JSON reads it, without what differs from run to run."""
    if isinstance(found, dict):
        return {key: steady(value) for key, value in found.items() if key not in VARYING}
    return [steady(value) for value in found] if isinstance(found, list | tuple) else found


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, ()),
        ({"searcher": "random", "iterations": 50}, ("--searcher", "random", "--iterations", "50")),
        ({"top": 3, "objective": "energy"}, ("--top", "3", "--objective", "energy")),
        ({"accelerator": "mindmappings-released", "iterations": 90, "seed": 2},
         ("--accelerator", "mindmappings-released", "--iterations", "90", "--seed", "2")),
        ({"accelerator": "mm256-bypass", "keep": {"L1": "Z"}},
         ("--accelerator", "mm256-bypass", "--keep", "L1=Z")),
    ],
)  # fmt: skip
def test_a_result_is_what_the_command_prints(
    options: dict[str, Any], arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    result = ms.search(SMALL, **options)
    there = answer(capsys, "search", SMALL, *arguments)
    here = result.to_dict()
    assert list(here) == list(there)
    if "top" in options:
        # Of mappings that are equal any may be found.
        for found in (here, there):
            found["top"] = [(one["energy_pj"], one["latency_cycles"]) for one in found["top"]]
        kept = ("top", "proven", "energy_pj", "latency_cycles", "space")
        here, there = ({key: found[key] for key in kept} for found in (here, there))
    assert steady(here) == steady(there)


def test_padding_is_part_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    for options, arguments in (({}, ()), ({"pad": True}, ("--pad",))):
        result = ms.search(AWKWARD, **options)
        assert list(result.to_dict()) == list(answer(capsys, "search", AWKWARD, *arguments))
        assert result.padding is not None
    assert result.original is not None
    assert result.original.dimensions["M"] == 263 < result.workload.dimensions["M"]


def test_other_results_are_what_their_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    front = ms.pareto(SMALL)
    assert front.to_dict() == answer(capsys, "pareto", SMALL)
    source = tmp_path / "net.yaml"
    source.write_text(f'layers: ["{SMALL}", {{workload: "gemm:M=8,N=8,K=8", count: 3}}]')
    network = ms.search_network(source)
    there = answer(capsys, "search", "--network", str(source))
    assert steady(network.to_dict()) == steady(there)
    # Small: to look again without the prover is to list all mappings.
    ms.search("gemm:M=2,N=2,K=2").save(tmp_path / "best.jsonl")
    verified = ms.verify(tmp_path / "best.certificate.json", independent=True)
    there = answer(capsys, "verify", str(tmp_path / "best.certificate.json"), "--independent")
    # What the command says of itself: it is never read from a store.
    assert steady({**verified.to_dict(), "from_store": False}) == steady(there)


def test_a_result_says_what_was_found() -> None:
    result = ms.search("resnet-conv4", accelerator="mm256")
    assert result.costs.edp == pytest.approx(7.925257e16, rel=1e-6)
    assert result.proven
    assert result.gap == result.gap_to_optimum == 0
    assert result.lower_bound == pytest.approx(result.costs.edp, rel=1e-12)
    assert result.proven_under_restriction is None
    assert result.searcher == "exact"
    assert result.certificate is not None
    assert result.certificate.record == result.record
    assert "multiply-accumulate" in str(result.mapping)
    assert result.seconds > 0 < result.iterations
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.seed = 1  # type: ignore[misc]


def test_results_show_themselves() -> None:
    result = ms.search(SMALL)
    text = repr(result)
    assert 4 < len(text.splitlines()) < 12
    assert text.startswith(f"{SMALL} on mm256\n")
    for part in ("mJ", "cycles", "J s", "proven optimal", "with exact"):
        assert part in text
    html = result._repr_html_()
    assert html.count("<tr") == len(text.splitlines()) - 1
    assert "multiply-accumulate" in html
    shown: list[Shown] = [ms.pareto(SMALL), ms.verify(result)]
    for other in shown:
        assert other.heading() in repr(other)
        assert "<table>" in other._repr_html_()
    assert len(shown[0].frame) == len(ms.pareto(SMALL).points)


def test_names_are_escaped_in_html() -> None:
    layer = ms.workload(SMALL).model_copy(update={"name": "<b>layer"})
    html = ms.search(layer)._repr_html_()
    assert "<b>layer" not in html
    assert "&lt;b&gt;layer" in html


def test_nothing_is_printed_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    ms.prove(SMALL, seconds=math.inf)
    assert capsys.readouterr() == ("", "")
    ms.search(SMALL, progress=True)
    assert "searching" in capsys.readouterr().err


def test_files_are_what_the_command_writes(tmp_path: Path) -> None:
    result = ms.search(SMALL, top=3)
    result.save(str(tmp_path / "best.jsonl"))
    lines = (tmp_path / "best.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == result.records
    assert len(lines) == 3
    assert ms.verify(str(tmp_path / "best.certificate.json")).holds
    scored = ms.evaluate(tmp_path / "best.jsonl")
    assert scored == ms.evaluate(result.records)
    assert scored[0]["result"]["energy_pj"] == result.costs.energy_pj


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"searcher": "random", "top": 2}, "top is for the exact searcher; random has no such"),
        ({"searcher": "random", "gap": 0.1}, "gap is for the exact searcher"),
        ({"searcher": "random", "surrogate": "x"}, "surrogate is for a learned searcher"),
        ({"objective": "area"}, "expected 'edp', 'energy', 'latency' or 'ed2p', got 'area'"),
        ({"factors": "imperfct"}, "got 'imperfct'; did you mean imperfect?"),
        ({"accelerator": "tpu"}, "Unknown accelerator 'tpu'"),
        ({"iterations": 0}, "at least 1 iteration, got 0"),
        ({"gap": -1.0}, "gap"),
        ({"gap": 2.0}, "expected a share of the optimum, 0 to 1, got 2; did you mean 0.02?"),
        ({"top": 0}, "top"),
        ({"keep": {"L1": "A"}}, "mm256 keeps every tensor there"),
    ],
)
def test_a_mistake_names_the_argument(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ms.ConfigError) as raised:
        ms.search(SMALL, **options)
    assert message in str(raised.value)
    assert "--" not in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_the_command_line_names_the_option() -> None:
    error = ms.ArgumentError("time_limit", " is for measurements.")
    assert str(error) == "time_limit is for measurements."
    assert error.as_option == "--time-limit is for measurements."


def test_where_nothing_is_proven_there_is_nothing_to_verify() -> None:
    result = ms.search("gemm-512", "mindmappings-released", iterations=50)
    assert result.certificate is None
    with pytest.raises(ms.ConfigError, match="nothing is proven"):
        ms.verify(result)
    with pytest.raises(ms.ConfigError, match="overflow"):
        ms.prove("gemm-512", "mindmappings-released")


def test_experiments_are_read_strictly() -> None:
    with pytest.raises(ms.ConfigError, match="experiment: seedz: unknown key"):
        ms.benchmark({"kind": "benchmark", "name": "a", "workloads": [SMALL],
                      "searchers": {"random": {}}, "seedz": 1, "iterations": 5})  # fmt: skip
    with pytest.raises(ms.ConfigError, match="kind"):
        ms.sweep("smoke")


def constants(path: Path) -> list[str]:
    """The texts of a file but its docstrings."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


def test_no_library_function_names_an_option() -> None:
    """Options and texts for people are the command line's."""
    wrong = [
        f"{path.name}: {text}"
        for folder in ("search", "map_space")
        for path in sorted((ROOT / "orchestrator" / folder).glob("*.py"))
        if not path.name.endswith(("text.py", "command.py", "options.py"))
        for text in constants(path)
        if re.search(r"(^|\W)--[a-z]", text)
    ]
    assert not wrong


def test_options_are_shown_one_by_one_and_checked() -> None:
    shown = inspect.signature(ms.search).parameters
    assert shown["objective"].default == "edp"
    assert shown["top"].default == 1
    assert len(shown) == 27
    assert "searcher" not in inspect.signature(ms.prove).parameters
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'sedd'; did you mean seed\?"):
        ms.search("gemm-512", sedd=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"prove\(\): .* 'searcher'"):
        ms.prove("gemm-512", searcher="random")  # type: ignore[call-arg]
