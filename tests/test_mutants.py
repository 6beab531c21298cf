"""The mutation run: what it makes, what it leaves out, and how it is shared."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import EQUIVALENT, Unseen, every_change, mutants, places, replacements, unseen
from paths import ROOT, TESTS

RUNNER = TESTS / "mutants.py"
GENETIC = "searchers/genetic.py"


def becomes(code: str) -> set[str]:
    """What mutants a line of code has."""
    return {
        ast.unparse(new) for place in places(ast.parse(code)) for new in replacements(place.node)
    }


@pytest.mark.parametrize("file", sorted({entry.file for entry in EQUIVALENT}))
def test_what_is_left_out_is_found_in_its_file(file: str) -> None:
    """An entry that matches nothing hides a change of the code that it was written for."""
    found = {unseen(mutant) for mutant in every_change(file)}
    assert {entry for entry in EQUIVALENT if entry.file == file} <= found


def test_an_entry_leaves_out_nothing_else() -> None:
    left_out = [m for m in every_change(GENETIC) if unseen(m) is not None]
    entries = [entry for entry in EQUIVALENT if entry.file == GENETIC]
    assert len(left_out) == len(entries)
    assert len(mutants(GENETIC)) == len(every_change(GENETIC)) - len(left_out)


def test_every_entry_says_why() -> None:
    assert len(set(EQUIVALENT)) == len(EQUIVALENT)
    for entry in EQUIVALENT:
        assert isinstance(entry, Unseen)
        assert len(entry.reason) > 10


def test_places_that_cannot_be_seen_have_no_mutant() -> None:
    assert becomes("x < 1") == {"x <= 1", "2"}
    assert becomes("rng.random(n) < share") == set()
    assert becomes("c = zip(a, b, strict=True)") == set()
    assert becomes("raise ValueError(x + 1)") == set()
    assert becomes("def f(x: int = 3) -> int: ...") == set()


def test_a_mutant_is_one_change_of_the_whole_file() -> None:
    before = ast.unparse(ast.parse((ROOT / GENETIC).read_text())).splitlines()
    for mutant in mutants(GENETIC)[::10]:
        after = mutant.source.splitlines()
        assert after != before
        assert len(set(before) - set(after)) <= 1
    names = [json.dumps(mutant.name) for mutant in mutants(GENETIC)]
    assert len(set(names)) == len(names)


def test_what_is_selected_is_there() -> None:
    """A file that has moved would leave its room without the tests that were chosen for it."""
    code = (
        "import mutants; from paths import ROOT\n"
        "chosen = {**mutants.ROOMS, **mutants.TESTS}\n"
        "every = [*mutants.ROOMS.values(), *mutants.TESTS.values()]\n"
        "named = [t for ts in every for t in ts if t.startswith('tests/')]\n"
        "there = lambda name: (ROOT / name).exists()\n"
        "assert all(map(there, chosen))\n"
        "for file, _, test in (name.partition('::') for name in named):\n"
        "    assert there(file), file\n"
        "    assert not test or f'def {test}(' in (ROOT / file).read_text(), test\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=RUNNER.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_shards_share_a_sample_and_survivors_run_again(tmp_path: Path) -> None:
    code = (
        "import mutants, json, sys; from pathlib import Path\n"
        "work = [m.name for m, _ in mutants.sample(30, 3, [])]\n"
        "assert work == [m.name for m, _ in mutants.sample(30, 3, [])]\n"
        "lines = [{**name, 'outcome': o} for name, o in zip(work, ['survived', 'killed'] * 15)]\n"
        "Path(sys.argv[1]).write_text('\\n'.join(map(json.dumps, lines)))\n"
        "again = [m.name for m, _ in mutants.survivors(Path(sys.argv[1]), [])]\n"
        "key = lambda name: json.dumps(name)\n"
        "assert sorted(map(key, again)) == sorted(map(key, work[::2])), (again, work[::2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out.jsonl")],
        cwd=RUNNER.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "15 survived" in done.stdout


# Where mutants survived that the whole suite kills.
SELECTED = {
    "costmodel/exact_any/pieces.py": "tests/costmodel/exact_any/test_pieces.py",
    "costmodel/cascades/plans.py": "tests/orchestrator/networks/test_fused.py",
    "orchestrator/store/compaction.py": "tests/orchestrator/store/test_store_folder.py",
    "orchestrator/store/address.py": "tests/orchestrator/store/test_addresses.py",
    "orchestrator/store/proofs.py": "tests/orchestrator/store/test_stored_searches.py",
    "orchestrator/networks/result.py": "tests/orchestrator/networks/test_network.py",
    "orchestrator/sweep/fitting.py": "tests/orchestrator/sweep/test_sweep_results.py",
    "orchestrator/comparison/results.py": "tests/orchestrator/comparison/test_results.py",
}


def test_tests_that_import_a_module_are_selected_first() -> None:
    code = (
        "import mutants, json, sys\n"
        "found = {w[0].file: w[1] for pool in mutants.every_mutant([]) for w in pool}\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=RUNNER.parent, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    for file, tests in SELECTED.items():
        assert tests in found[file]
        assert found[file].index(tests) < len(found[file]) - (file.split("/")[1] != "comparison")
