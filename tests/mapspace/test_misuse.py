"""Every public function, called with every kind of wrong argument, says what it expected."""

from __future__ import annotations

import dataclasses
import inspect
import io
import itertools
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Never, cast

import numpy as np
import pandas as pd
import pytest

import mapspace as ms
from mapspace.errors import MapspaceError
from searchers.structured import Structured

SMALL = "gemm:M=4,N=4,K=4"
WRONG: tuple[Any, ...] = (
    None, 5, -1, float("nan"), "", "nope", Path("/nowhere/nope.yaml"), [], [5], {}, {"nope": 5},
    {5: "nope"}, object(), int, b"nope", io.StringIO("nope"), "\ud800", range(3), np.float32(2.5),
    np.array([[1, 2]]), np.array(["nope"]), 1 << 70,
)  # fmt: skip
# Called by itself, it is what is asked for.
RIGHT = {("walk", int)}
# They look at nothing where a machine leaves nothing to choose.
LENIENT = {"MapSpace.draw_axes", "MapSpace.in_order"}
OURS = {"costmodel", "mapspace", "orchestrator", "searchers", "surrogate"}


def public() -> list[str]:
    """Names of functions, and of classes that a user makes: no errors, no results but costs."""
    found = [name for name in ms.__all__ if is_called(getattr(ms, name))]
    return [*found, "MappingCosts", "tune.MappingSearch"]


def is_called(found: Any) -> bool:
    if inspect.isfunction(found):
        return True
    data = dataclasses.is_dataclass(found) or hasattr(found, "model_fields")
    return inspect.isclass(found) and not (data or issubclass(found, tuple | Exception))


def methods(cls: type) -> list[str]:
    """Public methods of ours that take anything."""
    found = []
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        owner = next(one for one in cls.__mro__ if name in vars(one))
        ours = owner.__module__.partition(".")[0] in OURS
        if ours and len(inspect.signature(method).parameters) > 1:
            found.append(name)
    return found


def public_methods() -> list[str]:
    """Of public classes, with the tables of searchers, and of what `make` makes."""
    classes = {name: getattr(ms, name) for name in ms.__all__}
    named = {name: one if inspect.isclass(one) else type(one) for name, one in classes.items()}
    return [
        f"{name}.{method}"
        for name, one in named.items()
        if one.__module__.partition(".")[0] in OURS and not issubclass(one, Exception)
        for method in methods(one)
    ] + [f"Searcher.{method}" for method in methods(Structured)]


SCALE_SIM = """[architecture_presets]
ArrayHeight: 4
ArrayWidth: 4
IfmapSramSzkB: 1
FilterSramSzkB: 1
OfmapSramSzkB: 1
Dataflow: ws
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One of every public class whose methods take anything."""
    files = [tmp_path_factory.mktemp("scalesim") / name for name in ("a.cfg", "a.csv")]
    files[0].write_text(SCALE_SIM)
    files[1].write_text("Layer, M, N, K,\nsmall, 4, 4, 4,\n")
    arrays = ms.from_scalesim(files)
    result = ms.search(SMALL)
    space, model = ms.MapSpace(SMALL, "mm256"), ms.LoopNestModel()
    codes = space.sample(np.random.default_rng(0), 3, feasible=True)
    evaluator = ms.Evaluator(model, space, iterations=100)
    made = (result, space, model, evaluator, ms.MaestroModel(), ms.TilingSpace(SMALL),
            ms.pareto(SMALL, "tiny3"), result.costs, model.evaluate(space, codes),
            ms.workload(SMALL), ms.accelerator("mm256"),
            ms.search_network({"layers": [SMALL]}))  # fmt: skip
    points = pd.DataFrame({"nope": [5]})
    return {
        **{type(one).__name__: one for one in made},
        "ScaleSimInput": arrays,
        "layer": arrays.layers[0],
        "dataflow": "ws",
        "SEARCHERS": ms.SEARCHERS,
        "Searcher": ms.make("structured", space, seed=0),
        "evaluate": evaluator,
        "remaining": 3,
        "ImportedNetwork": ms.ImportedNetwork("nope", "", (), (), ()),
        "SweepResults": ms.SweepResults(cast("Any", None), points, points),
        "codes": codes,
        "code": codes[0],
        "rng": np.random.default_rng(0),
        "n": 3,
        "mapping": space.describe(codes[0]),
        "mappings": [],
        "edits": np.zeros_like(codes),
        "mask": np.zeros(codes.shape, bool),
        "points": space.encode(codes),
        "space": space,
        "state": evaluator.state_dict(),
        "began": 0.0,
        "name": "edp",
        "kind": object,
        "path": "x.jsonl",
        "folder": ".",
        "tensor": 0,
        "factors": codes,
        "walk": int,
    }


@pytest.fixture(scope="module")
def right() -> dict[str, Any]:
    """What fits, by the name of a parameter; nothing of it runs an experiment."""
    result = ms.search(SMALL)
    return {
        "workload": SMALL,
        "accelerator": "mm256",
        "network": {"layers": [SMALL]},
        "result": result,
        "source": result.record,
        "first": result.record,
        "second": result.record,
        "records": [result.record],
        "certificate": result,
        "name": "random",
        "space": ms.MapSpace(SMALL, "mm256"),
        "model": ms.LoopNestModel(),
        "experiment": {"kind": "nope"},
        "path": "nope.onnx",
        "files": ["nope.yaml"],
        "module": "nope",
        "energy_pj": 1.0,
        "latency_cycles": 1.0,
        "clock_ghz": 1.0,
    }


def no_ray(*_: object, **__: object) -> Never:
    """In place of what takes ten seconds, after all arguments were looked at."""
    raise MapspaceError("Ray would start.")


def calls(function: Callable[..., Any], right: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Arguments of calls that have one wrong one each."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    needed = {one.name: right.get(one.name) for one in named if one.default is one.empty}
    if "searcher" in {one.name for one in named}:
        needed["seconds"] = 0.1
    for one in named:
        for value in WRONG:
            yield {**needed, one.name: value}


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", public())
def test_misuse_is_an_error_of_ours(
    name: str, step: int, right: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, said = operator.attrgetter(name)(ms), []
    for module in ("search.islands", "search.shared_proof", "runs.ray_runtime"):
        monkeypatch.setattr(f"orchestrator.{module}.start_ray", no_ray)
    # By default every third, which meets every kind of value; all if slow.
    for arguments in itertools.islice(calls(function, right), 0, None, step):
        try:
            function(**arguments)
        except MapspaceError as error:
            said.append(str(error))
        except Exception as error:
            pytest.fail(f"{name}({arguments}): {type(error).__name__}: {error}")
    assert all(line.strip() and "\n" not in line for line in said)
    assert len(said) > 5 // step or not inspect.signature(function).parameters


@pytest.mark.parametrize("name", public_methods())
def test_misuse_of_a_method_is_an_error_of_ours(
    name: str, objects: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    owner, method = name.split(".")
    function, said = getattr(objects[owner], method), []
    for arguments in calls(function, objects):
        if any((key, value) in RIGHT for key, value in arguments.items() if value is int):
            continue
        try:
            function(**arguments)
        except MapspaceError as error:
            said.append(str(error))
        except Exception as error:
            pytest.fail(f"{name}({arguments}): {type(error).__name__}: {error}")
    assert said or name in LENIENT
    assert all(line.strip() and "\n" not in line for line in said)


def test_numbers_of_numpy_are_numbers() -> None:
    """Wherever one is wanted, and in what is said by mappings."""
    result = ms.search(
        {"gemm": {"M": np.int64(4), "N": np.int32(4), "K": np.uint8(4)}},
        searcher="genetic",
        parameters={"population": np.int64(8)},
        iterations=np.int64(50),
        seed=np.int32(1),
        seconds=np.float32(60),
        pad=np.bool_(False),
    )
    same = ms.search(SMALL, searcher="genetic", parameters={"population": 8}, iterations=50, seed=1)
    assert result.record == same.record
    space = ms.MapSpace(SMALL, {"extends": "mm256", "clock_ghz": np.float32(2)})
    assert space.sample(np.random.default_rng(0), np.int64(3)).shape[0] == 3
    json.dumps(result.to_dict())


def test_every_kind_of_name_is_looked_at(objects: dict[str, Any]) -> None:
    assert {name.partition(".")[0] for name in public_methods()} <= objects.keys()
    assert {"MapSpace.sample", "SearchResult.save", "LoopNestModel.evaluate"} <= {*public_methods()}
    assert {"search", "evaluate", "MapSpace", "Evaluator", "make", "from_torch"} <= {*public()}


def test_names_are_taken_wherever_objects_are() -> None:
    space = ms.MapSpace("gemm-512", "mm256")
    assert space.workload == ms.workload("gemm-512")
    assert space.accelerator == ms.accelerator("mm256")
    assert ms.TilingSpace(SMALL).size() > 0
    with pytest.raises(MapspaceError, match=r"Unknown workload 'nope'.*"):
        ms.MapSpace("nope", "mm256")
    result = ms.search(SMALL)
    record = result.record
    assert (
        ms.evaluate(result)
        == ms.evaluate(record)
        == ms.evaluate([record])
        == ms.evaluate(iter([record]))
    )


def test_a_front_is_proven_again() -> None:
    front = ms.pareto("gemm:M=16,N=12,K=8", "tiny3")
    again = ms.verify(front)
    assert again.holds
    assert again.complete
    assert len(again.findings) == 2
    other = dataclasses.replace(front, points=front.points[:-1])
    assert not ms.verify(other).holds
    costs = dataclasses.replace(front.points[0].costs, energy_pj=1.0)
    points = (dataclasses.replace(front.points[0], costs=costs), *front.points[1:])
    assert "WRONG" in ms.verify(dataclasses.replace(front, points=points)).findings[0]
    cut = ms.verify(front, seconds=1e-9)
    assert cut.holds
    assert not cut.complete
