"""A Python callable as a cost model: what it sees, what it may return, and what goes wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.command.entry import named_simulator, read_python
from costmodel.command.python_model import PythonModel, PythonSimulator
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

SPACE = MapSpace(workload("gemm:M=8,N=4,K=4"), accelerator("mm256"))
CALLS = """
import math
seen = []

def steps(mapping):
    seen.append(mapping.record)
    loops = [loop["factor"] for level in mapping.levels for loop in level["temporal"]]
    return {"energy_pj": 1.0, "latency_cycles": math.prod(loops)}

def batch(mappings):
    seen.append(len(mappings))
    return [(1.0, steps(one)["latency_cycles"]) for one in mappings]

class Scaled:
    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, mapping):
        return self.scale, steps(mapping)["latency_cycles"]

def one(mapping):
    return 3.0

def odd(mapping):
    return ODD(mapping)

number = 5
"""


def codes(n: int = 6) -> np.ndarray:
    return SPACE.sample(np.random.default_rng(0), n, feasible=True)


def model(folder: Path, call: str, text: str = CALLS, **more: Any) -> PythonModel:
    (folder / "own.py").write_text(text)
    settings = read_python({"call": f"{folder}/own.py:{call}", **more})
    return PythonModel(validate(PythonSimulator, settings, ""))


@pytest.mark.parametrize(("call", "more"), [("steps", {}), ("batch", {"batch": 4}), ("Scaled", {})])
def test_it_sees_the_mapping(call: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Cycles by the mapping alone: the product of the loops in time, as of our model."""
    own = model(tmp_path, call, **more)
    found = own.evaluate(SPACE, codes())
    assert (found.latency_cycles == LoopNestModel().evaluate(SPACE, codes()).latency_cycles).all()
    assert (found.energy_pj == 1.0).all()
    again = own.evaluate(SPACE, codes())  # remembered: nothing is called again
    assert np.array_equal(again.latency_cycles, found.latency_cycles)
    seen = own._call.__globals__["seen"] if call != "Scaled" else None
    assert seen is None or len([one for one in seen if isinstance(one, dict)]) == len(codes())
    assert call != "batch" or [one for one in seen if isinstance(one, int)] == [4, 2]


def test_a_class_is_made_with_its_options_in_every_process(tmp_path: Path) -> None:
    own = model(tmp_path, "Scaled", options={"scale": 7.0})
    for one in (own, pickle.loads(pickle.dumps(own))):
        assert (one.evaluate(SPACE, codes()).energy_pj == 7.0).all()


def test_what_it_prints_is_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands print their answers on the other one, as JSON lines."""
    file = tmp_path / "talks.py"
    file.write_text("def cost(mapping):\n    print('so far so good')\n    return 1.0, 2.0\n")
    simulator = validate(PythonSimulator, {"call": f"{file}:cost"}, "")
    costs = PythonModel(simulator).evaluate(SPACE, SPACE.sample(np.random.default_rng(0), 1))
    assert costs.energy_pj[0] == 1.0
    assert capsys.readouterr() == ("", "so far so good\n")


def test_one_cost_alone(tmp_path: Path) -> None:
    own = model(tmp_path, "one", costs=["energy_pj"])
    assert (own.evaluate(SPACE, codes()).energy_pj == 3.0).all()
    with pytest.raises(ConfigError, match="latency needs more than energy_pj"):
        read_python({"call": f"{tmp_path}/own.py:one", "costs": ["energy_pj"]}, "latency")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("None", ""),
        ("(float('nan'), 1)", "finite number"),
        ("(1, float('inf'))", "finite number"),
        ("(-1, 1)", "finite number"),
        ("('x', 1)", "expected a number"),
        ("{'energy_pj': 1}", "expected latency_cycles"),
        ("1.0", "expected energy_pj and latency_cycles"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_has_no_costs_is_a_mapping_that_cannot_run(
    answer: str, why: str, tmp_path: Path
) -> None:
    """The first answers well; the next ones do not, and the search goes on."""
    first = "(1, 1) if len(seen) < 1 and not seen.append(1)"
    text = f"{CALLS}\nODD = lambda mapping: {first} else {answer}\n"
    own = model(tmp_path, "odd", text)
    found = own.evaluate(SPACE, codes())
    assert found.status.tolist() == [STATUS_OK, *[STATUS_OUTSIDE] * 5]
    assert own.failures == (5 if why else 0)
    assert why in own.last_failure


def test_only_failures_end_the_search(tmp_path: Path) -> None:
    own = model(tmp_path, "odd", f"{CALLS}\nODD = lambda mapping: 1 / 0\n")
    with pytest.raises(ConfigError, match="3 runs failed, and none answered: ZeroDivisionError"):
        own.evaluate(SPACE, codes())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("own.py", "module:attribute"),
        ("own.py:", "module:attribute"),
        ("none.py:f", "no file"),
        ("own.py:none", "has no none"),
        ("own.py:number", "something to call"),
        ("broken.py:f", "SyntaxError"),
        ("no_such_module_here:f", "cannot be imported"),
        ("own.py:steps", "takes any"),
    ],
)
def test_misuse_is_one_line(
    call: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(CALLS)
    (tmp_path / "broken.py").write_text("def f(:")
    with pytest.raises(ConfigError, match=words) as raised:
        PythonModel(validate(PythonSimulator, read_python({"call": call, "options": {"a": 1}}), ""))
    assert "\n" not in str(raised.value)


def test_a_changed_file_is_another_model(tmp_path: Path) -> None:
    versions = {
        model(tmp_path, "one", f"{CALLS}# {n}\n", costs=["energy_pj"]).version for n in "ab"
    }
    assert len(versions) == 2


def test_what_simulator_takes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CALLS)
    (tmp_path / "own.yaml").write_text("{call: 'own.py:batch', batch: 8}")
    name, settings = named_simulator(str(tmp_path / "own.yaml"))
    assert (name, settings["batch"]) == ("python", 8)
    assert settings["call"] == f"{tmp_path}/own.py:batch"
    assert named_simulator(f"{tmp_path}/own.py:steps")[0] == "python"
