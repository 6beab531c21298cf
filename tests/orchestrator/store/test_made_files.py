"""Files that were made once: whole or not at all, by what decides them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.compaction import clear
from orchestrator.store.folder import FILES, Store
from orchestrator.store.made_files import MADE, keep_files, take_files
from orchestrator.training.generate import GenerateConfig, GenerateExperiment

DECIDES = {"kind": "test", "seed": 1}
QUICK = GenerateExperiment.quick


def made(folder: Path, **contents: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, text in contents.items():
        (folder / name).write_text(text)
    return [folder / name for name in contents]


def stored(store: Store) -> list[Path]:
    assert isinstance(store.place, Path)
    return sorted(path for path in (store.place / FILES).rglob("*") if path.is_file())


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Store:
    return Store(tmp_path / "store", said.append)


def test_files_come_back_as_they_were(store: Store, said: list[str], tmp_path: Path) -> None:
    assert take_files(store, DECIDES, tmp_path) is None
    files = made(tmp_path / "first", one="1", two="2")
    assert keep_files(store, DECIDES, "two files", files, {"rows": 3})
    (tmp_path / "second").mkdir()
    found = take_files(Store(store.place), DECIDES, tmp_path / "second")
    assert found is not None
    assert (found.what, found.said) == ("two files", {"rows": 3})
    assert (tmp_path / "second" / "one").read_text() == "1"
    assert (tmp_path / "second" / "two").read_text() == "2"
    assert take_files(store, {**DECIDES, "seed": 2}, tmp_path) is None
    # That nothing was made before is no damage.
    assert not said


def test_who_stops_in_between_leaves_nothing_to_be_taken(store: Store, tmp_path: Path) -> None:
    keep_files(store, DECIDES, "two files", made(tmp_path / "first", one="1", two="2"))
    (file,) = (path for path in stored(store) if path.name == MADE)
    file.unlink()
    assert take_files(store, DECIDES, tmp_path) is None
    assert clear(store).leftovers == 0
    # An hour later nobody is about to name them.
    assert clear(store, grace=0).leftovers == 2
    assert stored(store) == []


@pytest.mark.parametrize("which", ["content", "made"])
def test_what_is_damaged_is_named_and_made_anew(
    which: str, store: Store, said: list[str], tmp_path: Path
) -> None:
    files = made(tmp_path / "first", one="1")
    keep_files(store, DECIDES, "a file", files)
    (file,) = (path for path in stored(store) if (path.name == MADE) is (which == "made"))
    file.write_text("{}")
    assert take_files(store, DECIDES, tmp_path) is None
    assert len(said) == 1
    assert str(file) in said[0]
    assert "computed anew" in said[0]
    assert not (tmp_path / "one").exists()
    assert keep_files(store, DECIDES, "a file", files)
    assert take_files(store, DECIDES, tmp_path) is not None


@pytest.mark.parametrize("name", ["../one", "a/b", ".hidden", ""])
def test_no_name_leads_out_of_the_folder(
    name: str, store: Store, said: list[str], tmp_path: Path
) -> None:
    keep_files(store, DECIDES, "a file", made(tmp_path / "first", one="1"))
    (file,) = (path for path in stored(store) if path.name == MADE)
    content = json.loads(file.read_text())
    content["files"] = {name: content["files"]["one"]}
    file.write_text(json.dumps(content))
    (tmp_path / "inside").mkdir()
    assert take_files(store, DECIDES, tmp_path / "inside") is None
    assert len(said) == 1
    assert not (tmp_path / "one").exists()


def test_many_writers_of_different_files_leave_those_of_one(store: Store, tmp_path: Path) -> None:
    folders = [made(tmp_path / str(i), one=f"one {i}", two=f"two {i}") for i in range(12)]

    def keep(files: list[Path]) -> bool:
        return keep_files(Store(store.place), DECIDES, "two files", files)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(keep, folders))
    assert take_files(store, DECIDES, tmp_path) is not None
    one, two = ((tmp_path / name).read_text() for name in ("one", "two"))
    assert one.replace("one", "two") == two


def test_a_larger_data_set_takes_the_shards_that_there_are(
    store: Store, said: list[str], tmp_path: Path
) -> None:
    def generated(folder: str, **changes: Any) -> Any:
        config = GenerateConfig.model_validate({**QUICK, **changes})
        experiment = GenerateExperiment(config, execute=map, store=store)
        return experiment, experiment.run(tmp_path / folder)

    first, result = generated("first")
    assert (result.taken, result.written) == (0, 2)
    second, larger = generated("second", rows=120, name="other")
    assert (larger.taken, larger.written) == (2, 2)
    assert (second.taken, second.made) == (2, 2)
    for shard in result.manifest.shards:
        files = [tmp_path / folder / shard.file for folder in ("first", "second")]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert larger.manifest.shards[:2] == result.manifest.shards
    assert generated("third", seed=1)[1].taken == 0
    # One that is damaged is drawn anew, the same.
    bad = next(p for p in stored(store) if p.read_bytes() == files[0].read_bytes())
    bad.write_bytes(b"no shard")
    assert (generated("fourth")[1].taken, generated("fifth")[1].taken) == (1, 2)
    assert any(str(bad) in line for line in said)
    assert first.taken == 0


def test_a_store_that_cannot_be_used_says_so(
    store: Store, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path / "first", one="1")
    assert keep_files(store, DECIDES, "a file", files)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Store, "write", full)
    assert not keep_files(store, {**DECIDES, "seed": 2}, "a file", files)
    assert said == [f"{store.place}: cannot be written, so nothing is kept: no space left"]
    monkeypatch.setattr("orchestrator.store.made_files.write_atomically", full)
    assert take_files(store, DECIDES, tmp_path / "second") is None
    assert said[1:] == [f"{store.place}: nothing is taken from it: no space left"]
