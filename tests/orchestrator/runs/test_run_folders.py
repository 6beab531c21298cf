"""Run folders of one kind are not written into by another, and `report` says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call
from paths import ROOT

from mapspace.errors import ConfigError
from orchestrator.runs.kinds import KINDS, kind, require_own, why_no_report


def begin(folder: Path, name_of_kind: str, name: str) -> None:
    """What is in a folder from the beginning of a run."""
    folder.mkdir()
    (folder / kind(name_of_kind).file).write_text(json.dumps({"experiment": {"name": name}}))


@pytest.mark.parametrize("other", sorted(KINDS))
@pytest.mark.parametrize("own", sorted(KINDS))
def test_a_folder_is_of_one_kind(tmp_path: Path, own: str, other: str) -> None:
    folder = tmp_path / "run"
    begin(folder, other, "x")
    if own == other:
        require_own(folder, kind(own))
        return
    with pytest.raises(ConfigError, match="choose another --output") as caught:
        require_own(folder, kind(own))
    assert f"holds {kind(other).words} ({kind(other).file})" in str(caught.value)
    require_own(tmp_path / "new", kind(own))


def test_a_new_folder_is_nobodys_and_no_other_kind_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from orchestrator.runs.kinds import kind, require_own\n"
        "require_own(Path(sys.argv[1]), kind('benchmark'))\n"
        "print('pandas' in sys.modules, 'orchestrator.design.run' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "new")]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("command", "experiment", "holds"),
    [
        ("sweep", "sweep-smoke", "benchmark"),
        ("benchmark", "smoke", "sweep"),
        ("generate", "generate-cnn", "benchmark"),
        ("benchmark", "smoke", "generate"),
    ],
)
def test_a_run_into_another_kinds_folder_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    experiment: str,
    holds: str,
) -> None:
    folder = tmp_path / "run"
    begin(folder, holds, "x")
    before = sorted(folder.iterdir())
    assert call(command, experiment, "--output", str(folder)) == 2
    assert f"holds {kind(holds).words}" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


def test_report_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my run"
    begin(folder, "sweep", "sweep-smoke")
    assert call("report", str(folder)) == 2
    error = capsys.readouterr().err
    assert f"continue it with: mapspace sweep sweep-smoke --output '{folder}'" in error
    (folder / "sweep.html").touch()
    assert call("report", str(folder)) == 2
    assert f"whose page is {folder / 'sweep.html'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("of", "name", "expected"),
    [
        ("benchmark", "smoke", "continue it with: mapspace benchmark smoke --output"),
        # Not shipped: its file may lie anywhere.
        ("benchmark", "mine", "continue it with: mapspace benchmark EXPERIMENT --output"),
        ("marvel", "mine", "a Marvel study that is not finished"),
        ("generate", "mine", "a data set, of which there is no report"),
        ("train", "mine", "a training run that is not finished"),
    ],
)
def test_what_there_is_no_report_of(tmp_path: Path, of: str, name: str, expected: str) -> None:
    folder = tmp_path / "run"
    begin(folder, of, name)
    assert expected in why_no_report(folder)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    assert "holds no finished benchmark" in why_no_report(tmp_path)
    assert "there is no such folder" in why_no_report(tmp_path / "missing")
    (tmp_path / "sweep.json").write_text("[1")
    assert "mapspace sweep EXPERIMENT --output" in why_no_report(tmp_path)
