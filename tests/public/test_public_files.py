"""Files of public projects give what is right, or one line; none of their keys is passed over."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import GOLDEN, TESTS

import mapspace as ms
from costmodel.timeloop import documents
from costmodel.timeloop.reading import from_timeloop
from mapspace.errors import ConfigError, MapspaceError
from orchestrator.answers.result_text import search_text
from orchestrator.records.timeloop_files import evaluate_files

PUBLIC = TESTS / "public"
_SPEC = importlib.util.spec_from_file_location("public_run", PUBLIC / "run.py")
assert _SPEC is not None
assert _SPEC.loader is not None
public = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(public)

# Searches of some seconds; `run.py` runs all.
LONG = ("three-dimensional convolution", "dilations of 0")


CASES = [
    pytest.param(one, id=one["name"], marks=[pytest.mark.slow] * (one["name"] in LONG))
    for one in public.cases()
]


@pytest.mark.parametrize("case", CASES)
def test_public_files(case: dict[str, Any]) -> None:
    came = public.run(case)
    assert came.right, came.text


V4 = ["parsed-processed-input.yaml", "timeloop-mapper.map.yaml", "timeloop-mapper.ERT.yaml"]
SIMBA = PUBLIC / "21-cosa-simba"
SETS: dict[str, list[Path]] = {
    "v4": [PUBLIC / "06-v4-output-stationary" / name for name in V4],
    "dosa": [
        PUBLIC / "15-dosa-shapes" / name
        for name in ("gemmini-arch.yaml", "c3d-mended.yaml", "mapspace_real_gemmini.yaml")
    ],
    "simba": [SIMBA / name for name in ("arch.yaml", "mapspace.yaml", "fc.yaml")],
    "nodes": [PUBLIC / "23-v4-raw" / "eyeriss_like.yaml", SIMBA / "fc.yaml"],
}
for _folder in (GOLDEN / "timeloop-imports").iterdir():
    if _folder.is_dir() and not _folder.name.startswith("v4"):
        _mapping = [path for path in [_folder / "mapping.yaml"] if path.exists()]
        SETS[_folder.name] = sorted((_folder / "input").iterdir()) + _mapping
# Of areas, of components that Accelergy makes and of what an energy holds for: listed as a whole.
UNREAD = ("ART", "globals", "compound_components", "components", "arguments")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key that says something."""
    entries = node.items() if isinstance(node, dict) else ()
    entries = enumerate(node) if isinstance(node, list) else entries
    for key, value in entries:
        if isinstance(key, str) and value is not None:
            yield (*path, key)
        yield from places(value, (*path, key))


def misspelt(node: Any, path: tuple[Any, ...]) -> tuple[Any, str]:
    """A copy with two letters of a key exchanged, and that key."""
    node = copy.deepcopy(node)
    around = node
    for key in path[:-1]:
        around = around[key]
    word = path[-1]
    wrong = word[:-2] + word[-1] + word[-2] if len(set(word[-2:])) == 2 else word + "x"
    entries = [(wrong if key == word else key, value) for key, value in around.items()]
    around.clear()
    around.update(entries)
    return node, wrong


def spoilt(files: list[Path], every: int) -> Iterator[tuple[str, str]]:
    """What became of each misspelt key of some files: refused, listed or silent."""
    whole = {file: documents._read(file) for file in files}
    seen = set()
    with pytest.MonkeyPatch.context() as patch:
        for file in files:
            for path in places(whole[file]):
                kind = (file.name, *("" if isinstance(key, int) else key for key in path))
                if kind in seen or any(part in path[:-1] for part in UNREAD):
                    continue
                seen.add(kind)
                if len(seen) % every:
                    continue
                node, wrong = misspelt(whole[file], path)
                contents = {**copy.deepcopy(whole), file: node}
                patch.setattr(documents, "_read", contents.__getitem__)
                place = f"{file.name}: {'.'.join(map(str, path))}"
                try:
                    read = from_timeloop(files)
                    read.mapped() if "mapping" in read.record else read.problem()
                except MapspaceError as error:
                    yield place, "refused" if "\n" not in str(error) else "several lines"
                else:
                    said = [*read.idle, *read.left_out, *read.mapper]
                    named = any(f".{wrong}" in f".{entry}" for entry in said)
                    yield place, "listed" if named or f": {wrong}" in str(said) else "silent"


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_no_key_is_misspelt_in_silence(every: int) -> None:
    found = [entry for files in SETS.values() for entry in spoilt(files, every)]
    assert [place for place, became in found if became not in ("refused", "listed")] == []
    became = [became for _, became in found]
    assert became.count("refused") > became.count("listed") > 0


def test_the_front_end_names_no_shape(tmp_path: Path) -> None:
    folder = PUBLIC / "20-v4-tutorial-dump"
    assert from_timeloop([folder / name for name in V4]).record["problem"]["name"] == "timeloop"


def test_the_tutorial_is_proven_with_link_transfers() -> None:
    """Timeloop has 66,980.81 uJ for the mapping that it ships (67,547.65 without link transfers).

    Leakage is 0.29 uJ more; without link transfers what was best came to 67,514.75 there.
    """
    folder = PUBLIC / "20-v4-tutorial-dump"
    files = [folder / name for name in V4]
    shipped = evaluate_files(files)["energy_pj"], evaluate_files(files, link_transfers=False)
    assert shipped[0] / 1e6 == pytest.approx(66_980.81 + 0.29, abs=0.01)
    assert shipped[1]["energy_pj"] / 1e6 == pytest.approx(67_547.65 + 0.29, abs=0.01)
    work, machine = from_timeloop(files).problem()
    found = ms.search(work, machine, store=False)
    assert found.proven
    assert found.costs.energy_pj / 1e6 == pytest.approx(66_948.19, abs=0.01)
    assert "with link transfers" in search_text(found)


ARCH = SIMBA / "arch.yaml"
PROBLEM = (SIMBA / "fc.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROBLEM.replace("Wstride: 1", "Wstride: 0"), "problem.Wstride: expected a coefficient"),
        (PROBLEM.replace("shape: cnn-layer", "name: conv7"), "shape: missing, .* 'conv7'"),
        (PROBLEM + "  densities: {Weight: 1.0}\n", "did you mean Weights"),
        (PROBLEM + "  densites: {Weights: 1.0}\n", "densites: .*did you mean densities"),
        (PROBLEM + "mapspace: {template: ruby}\n", "got 'ruby'.*--factors imperf"),
        (PROBLEM + "mapspace: [{target: 0, type: temporal, facotrs: K=2}]\n", "mean factors"),
        (PROBLEM + "mapspace: [{target: 0, type: temporal, max: 2}]\n", "max: not modelled"),
    ],
)  # fmt: skip
def test_problems_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        from_timeloop([ARCH, file])
    assert str(caught.value).startswith(f"{file}: ")


def test_what_is_lenient_leaves_out_and_lists(tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    lines = "mapspace: {template: ruby, constraints: [{target: 0, type: temporal, max: 2}]}\n"
    file.write_text(PROBLEM.replace("shape: cnn-layer", "name: conv7") + lines)
    read = from_timeloop([ARCH, file], lenient=True)
    assert read.left_out == (
        f"{file}: problem.name", f"{file}: mapspace.template: ruby", f"{file}: mapspace[0].max"
    )  # fmt: skip
    work, _ = read.problem()
    assert work.dimensions["K"] == 1000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num-ports", "read_bandwith", "read_bandwith: unknown; did you mean read_bandwidth"),
        ("num-banks", "sizeKBs", "sizeKBs: unknown; did you mean sizeKB"),
        ("storage:", "storag:", "storag: unknown; did you mean storage"),
    ],
)
def test_typos_of_machines_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "arch.yaml"
    assert old in ARCH.read_text()
    file.write_text(ARCH.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        from_timeloop([file, SIMBA / "fc.yaml"])
