"""The projects of `examples/` from outside: copied, and every command of their pages run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import printed
from paths import ROOT

EXAMPLES = ROOT / "examples"
PROJECTS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
# What they leave behind, and say.
LEFT = {
    "chip-company": ("mappings.jsonl", "designs/sweep.html"),
    "compiler": (),
    "researcher": ("runs/report.html",),
}
SAID = {
    "chip-company": "180 machines: ",
    "compiler": "the same results",
    "researcher": "above the proven",
}


def commands(page: Path) -> list[list[str]]:
    """The words of every command of a page."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", page.read_text(), re.M | re.S)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def test_every_project_is_listed() -> None:
    listed = re.findall(r"^\| \[(\S+)\]\((\S+)/\)", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(listed) == [(name, name) for name in PROJECTS]
    assert {*PROJECTS} == {*LEFT} == {*SAID}


def test_the_chip_and_its_network_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    folder = EXAMPLES / "chip-company"
    said = printed(capsys, "check", folder / "chip.yaml", folder / "network.yaml")
    assert "64 multiply-accumulate units" in said
    assert "6 layers, 4 of them distinct: 2,765,568 multiply-accumulates" in said


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROJECTS)
def test_all_commands_of_a_project_work(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mapspace").write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n')
    (programs / "mapspace").chmod(0o755)
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])
    found = os.pathsep.join([str(programs), os.environ["PATH"]])
    own = {
        "pip": ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                "--no-build-isolation", "--target", "site", "."],
        "python": [],
        "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider"],
        "mapspace": ["-m", "orchestrator"],
    }  # fmt: skip
    told = ""
    for program, *words in commands(folder / "README.md"):
        words = [] if program == "pip" else words
        done = subprocess.run(
            [sys.executable, *own[program], *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PATH": found},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (program, words, done.stderr)
        told += done.stdout
    assert SAID[name] in " ".join(told.split())
    for file in LEFT[name]:
        assert (folder / file).is_file()
