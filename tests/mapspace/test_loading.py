"""Strict loading: every refusal is one line with the file, the key, what came, what is allowed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import Field

from mapspace.errors import ConfigError
from mapspace.near_names import nearest
from mapspace.strict_yaml import (
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Size,
    StrictModel,
    load_yaml,
    shown,
    unknown_name,
    validate,
)


class Genetic(StrictModel):
    kind: Literal["genetic"]
    population: Size = 100


class Annealing(StrictModel):
    kind: Literal["annealing"]
    chains: Size = 8


class Budget(StrictModel):
    iterations: Size | None = None
    seconds: PositiveNumber | None = None


class Experiment(StrictModel):
    name: Name
    budget: Budget | None = None
    seeds: list[Size] = Field(default_factory=list, max_length=3)
    mode: Literal["iteration", "time"] = "iteration"
    share: NonNegativeNumber = 0.0
    shuffle: bool = Field(default=False, strict=True)
    budgets: dict[str, Budget] = Field(default_factory=dict)
    searchers: tuple[Annotated[Genetic | Annealing, Field(discriminator="kind")], ...] = ()


def refusal(data: object, where: str = "run.yaml") -> str:
    with pytest.raises(ConfigError) as caught:
        validate(Experiment, data, where)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{where}: ")
    return message.removeprefix(f"{where}: ")


def test_valid_data_pass() -> None:
    experiment = validate(
        Experiment,
        {"name": "a", "searchers": [{"kind": "genetic", "population": 5}], "share": 1},
        "run.yaml",
    )
    assert experiment.searchers == (Genetic(kind="genetic", population=5),)
    assert experiment.share == 1.0


TOP = "name, budget, seeds, mode, share, shuffle, budgets, searchers"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"nam": "a"}, f"nam: unknown key; did you mean name? Known keys: {TOP}."),
        ({"name": "a", "x-y": 1}, f"x-y: unknown key. Known keys: {TOP}."),
        ({}, f"missing name. Known keys: {TOP}."),
        (["a"], "expected a mapping, got ['a']."),
        ({"name": ""}, "name: expected one line of text, neither empty nor surrounded by blanks, "),
        ({"name": "two\nlines"}, "name: expected one line of text, "),
        ({"name": 3}, "name: expected text, got 3."),
        ({"name": "a", "budget": 5}, "budget: expected a mapping, got 5."),
        (
            {"name": "a", "budget": {"second": 5}},
            "budget.second: unknown key; did you mean seconds? Known keys: iterations, seconds.",
        ),
        (
            {"name": "a", "budgets": {"long": {"iterations": 5, "steps": 1}}},
            "budgets.long.steps: unknown key. Known keys: iterations, seconds.",
        ),
        (
            {"name": "a", "searchers": [{"kind": "annealing"}, {"kind": "genetic", "chains": 4}]},
            "searchers[1].chains: unknown key. Known keys: kind, population.",
        ),
        (
            {"name": "a", "searchers": [{"kind": "genetic", "population": 0}]},
            "searchers[0].population: expected at least 1, got 0.",
        ),
        ({"name": "a", "seeds": [1, 2, True]}, "seeds[2]: expected a whole number, got true."),
        ({"name": "a", "seeds": [1, 2.5]}, "seeds[1]: expected a whole number, got 2.5."),
        ({"name": "a", "seeds": [4.0]}, "seeds[0]: expected a whole number, got 4.0."),
        ({"name": "a", "seeds": 3}, "seeds: expected a list, got 3."),
        ({"name": "a", "seeds": [1, 1, 1, 1]}, "seeds: expected 3 or fewer entries, got [1, 1,"),
        ({"name": "a", "seeds": [2**62]}, f"seeds[0]: expected less than {2**62}, got {2**62}."),
        (
            {"name": "a", "mode": "tim"},
            "mode: expected 'iteration' or 'time', got 'tim'; did you mean time?",
        ),
        ({"name": "a", "share": -1}, "share: expected at least 0, got -1."),
        ({"name": "a", "share": float("inf")}, "share: expected a finite number, got inf."),
        ({"name": "a", "share": float("nan")}, "share: expected a finite number, got nan."),
        ({"name": "a", "share": True}, "share: expected a number, got true."),
        ({"name": "a", "shuffle": "yes"}, "shuffle: expected true or false, got 'yes'."),
        ({"name": "a", "budget": {"seconds": 0}}, "budget.seconds: expected more than 0, got 0."),
        (
            {"name": "a", "share": "1e3"},
            "share: expected a number, got '1e3', which is text here (write 1000.0 without quotes)",
        ),
        (
            {"name": "a", "seeds": ["4"]},
            "seeds[0]: expected a whole number, got '4', which is text here (write 4 without quo",
        ),
    ],
)
def test_refusals(data: object, message: str) -> None:
    assert refusal(data).startswith(message)


def test_unknown_key_comes_before_the_missing_one() -> None:
    assert refusal({"nmae": "a", "mode": "never"}).startswith("nmae: unknown key")


def test_missing_keys_of_one_mapping_come_together() -> None:
    class Sizes(StrictModel):
        rows: Size
        columns: Size

    with pytest.raises(ConfigError, match=r"^f: missing rows, columns\. Known keys: rows, columns"):
        validate(Sizes, {}, "f")


def test_thousands_of_slips_are_said_at_once() -> None:
    """The first eight, in order, and how many more: not in the square of their number."""

    class Pair(StrictModel):
        left: int
        right: int

    class Pairs(StrictModel):
        pairs: list[Pair]

    began = time.process_time()
    keys: dict[str, Any] = {f"k{number}": 1 for number in range(5_000)}
    with pytest.raises(ConfigError) as caught:
        validate(Pairs, {"pairs": [], **keys}, "f")
    others = " ".join(f"k{number}: unknown key." for number in range(1, 8))
    assert str(caught.value) == f"f: k0: unknown key. Known keys: pairs. {others} And 4992 more."
    holes = [{"right": 1}, *({} for _ in range(4_998)), {"left": 1, "right": "x"}]
    with pytest.raises(ConfigError) as caught:
        validate(Pairs, {"pairs": holes}, "f")
    said = [f"pairs[{number}]: missing left, right. Known" for number in range(1, 8)]
    assert str(caught.value).startswith("f: pairs[0]: missing left. Known keys: left, right. ")
    assert all(text in str(caught.value) for text in said)
    assert str(caught.value).endswith(" And 4992 more.")
    assert time.process_time() - began < 10


def test_a_named_entry_goes_by_its_name() -> None:
    class Run(StrictModel):
        name: Name
        steps: Size

    class Plan(StrictModel):
        runs: list[Run]

    with pytest.raises(ConfigError, match=r"^f: runs\[fast\]\.steps: expected at least 1, got 0"):
        validate(Plan, {"runs": [{"name": "slow", "steps": 1}, {"name": "fast", "steps": 0}]}, "f")


def test_numpy_integers_are_whole_numbers() -> None:
    budget = validate(Budget, {"iterations": np.int32(7)}, "f")
    assert budget.iterations == 7
    assert type(budget.iterations) is int


def test_models_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Budget(iterations=3).iterations = 4  # type: ignore[misc]


def write(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_load_yaml(tmp_path: Path) -> None:
    text = "a: {N: 1, Y: [2, x]}\nb: &base {c: 1, d: 2}\ne: {<<: *base, d: 3}\n"
    assert load_yaml(write(tmp_path, text)) == {
        "a": {"N": 1, "Y": [2, "x"]},
        "b": {"c": 1, "d": 2},
        "e": {"c": 1, "d": 3},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": expected a mapping of keys to values, got nothing (null)."),
        ("- 1\n- 2\n", ": expected a mapping of keys to values, got [1, 2]."),
        ("a: 1\nb: 2\na: 3\n", ", line 3, column 1: the key 'a' is given twice."),
        ("a:\n  b: 1\n  b: 1\n", ", line 3, column 3: the key 'b' is given twice."),
        ("no: 1\n", ", line 1, column 1: a key must be text, got no; quote it."),
        ("a: {3: 1}\n", ", line 1, column 5: a key must be text, got 3; quote it."),
        ("? [1, 2]\n: 3\n", ", line 1, column 3: a key must be text, got a list or mapping"),
        ("a: [1, 2\n", ", line 2, column 1: "),
        ("a: *nowhere\n", ", line 1, column 4: "),
        ("a: !!python/object:os.system {}\n", ", line 1, column 4: "),
        ("a: 2024-13-45\n", ": not valid YAML: "),
        ("a: 1\n---\nb: 2\n", ", line 2, column 1: "),
        ("a: \x07\n", ": not valid YAML: "),
    ],
)
def test_load_yaml_refuses(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_load_yaml_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        load_yaml(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_yaml(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match=r"b\.yaml: is not UTF-8 text \(byte 3\)"):
        load_yaml(binary)


def test_unknown_name() -> None:
    error = unknown_name("searcher", "Genetik", ["random", "genetic"])
    assert str(error) == (
        "Unknown searcher 'Genetik'; did you mean genetic? Known: genetic, random."
    )
    error = unknown_name("searcher", "zzz", ["random"], remedy="See the list.")
    assert str(error) == "Unknown searcher 'zzz'. See the list."


def test_nearest_ignores_case() -> None:
    assert nearest("MM256", ["mm256", "edge-1024"]) == ["mm256"]
    assert nearest("zzzz", ["mm256"]) == []


def test_shown_is_short_and_on_one_line() -> None:
    assert shown(None) == "nothing (null)"
    assert shown(False) == "false"
    assert len(shown(list(range(1000)))) < 70
    assert "\n" not in shown("a\nb")
