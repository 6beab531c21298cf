"""The experiments, networks, machines and Python that pages show are what commands take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import yaml
from paths import ROOT

import mapspace as ms
from costmodel.networks.network import load_network
from orchestrator.runs.run_folder import experiment_of

# Pages that build what they show have tests of their own.
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.name not in ("own-model.md", "extending.md")
]
BLOCK = re.compile(r"^```(yaml|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages whose Python stands by itself; the others have tests of their own.
ALONE = ("index.md", "guide/searchers.md")


def shown(key: str) -> list[Any]:
    """Files of pages that have a key, with the page's name."""
    found = []
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text()):
            if language == "yaml" and re.search(rf"^{key}:", text, re.MULTILINE):
                found.append(pytest.param(yaml.safe_load(text), id=page.stem))
    return found


@pytest.mark.parametrize("content", shown("kind"))
def test_an_experiment_of_a_page_is_one(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mymachine.yaml").write_text("extends: mm256\nname: mine\n")
    experiment = experiment_of(content["kind"])
    experiment.prepare(experiment.config.model_validate(content), content["name"])


@pytest.mark.parametrize("content", shown("layers"))
def test_a_network_of_a_page_is_one(content: dict[str, Any]) -> None:
    name, layers = load_network(content)
    assert name == content["name"]
    assert len(layers) == len(content["layers"])


@pytest.mark.parametrize("content", shown("(?:levels|extends)"))
def test_a_machine_of_a_page_is_one(content: dict[str, Any]) -> None:
    machine = ms.accelerator(content)
    assert ms.MapSpace(ms.workload("gemm:M=64,N=64,K=64"), machine).size() > 0


@pytest.mark.parametrize("name", ALONE)
def test_python_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text())
    codes = [text for language, text in blocks if language == "python"]
    assert codes
    for code in codes:
        exec(compile(code, name, "exec"), {})
