"""Addresses: names and orders do not matter; everything that changes the answer does."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.machines.accelerators import accelerator, constrained
from costmodel.problems.affine import Axis, Tensor, Workload
from costmodel.problems.workloads import workload
from orchestrator.answers.request import Request
from orchestrator.search.one_workload import asked_of
from orchestrator.store.address import problem
from orchestrator.store.canonical import canonical


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Loop nests of up to five dimensions, many of whose dimensions look alike."""
    count = draw(st.integers(1, 5))
    names = [f"d{i}" for i in range(count)]
    sizes = {name: draw(st.sampled_from((2, 2, 3))) for name in names}
    tensors = []
    for index in range(draw(st.integers(1, 3))):
        chosen = draw(st.permutations(names))[: draw(st.integers(1, count))]
        axes, terms = [], []
        for name in chosen:
            terms.append((name, draw(st.sampled_from((1, 1, 2)))))
            if draw(st.booleans()):
                axes.append(Axis(terms=tuple(terms)))
                terms = []
        if terms:
            axes.append(Axis(terms=tuple(terms)))
        tensors.append(Tensor(name=f"t{index}", axes=tuple(axes)))
    used = {name for tensor in tensors for name in tensor.dimensions}
    missing = [name for name in names if name not in used]
    # Whatever no input has, the output has.
    kept = draw(st.lists(st.sampled_from(names), unique=True))
    out = sorted({*kept, *missing})
    output = Tensor(name="out", axes=tuple(Axis(terms=((name, 1),)) for name in out), output=True)
    return Workload(name="w", family="einsum", dimensions=sizes, tensors=(*tensors, output))


def other_names(found: Workload, draw: st.DrawFn) -> Workload:
    """The same workload with other names, and everything that has an order in another one."""
    order = draw(st.permutations(list(found.dimensions)))
    new = dict(zip(order, draw(st.permutations([f"x{i}" for i in range(len(order))])), strict=True))
    tensors = []
    for number, tensor in enumerate(draw(st.permutations(list(found.tensors[:-1])))):
        tensors.append((f"y{number}", tensor))
    tensors.append(("z", found.tensors[-1]))
    return Workload(
        name="other",
        family=found.family,
        dimensions={new[name]: found.dimensions[name] for name in order},
        tensors=tuple(
            Tensor(
                name=name,
                output=tensor.output,
                role=tensor.role,
                axes=tuple(
                    Axis(
                        terms=tuple(
                            (new[term], factor)
                            for term, factor in draw(st.permutations(axis.terms))
                        )
                    )
                    for axis in draw(st.permutations(tensor.axes))
                ),
            )
            for name, tensor in tensors
        ),
    )


@settings(max_examples=150)
@given(st.data())
def test_names_and_orders_do_not_matter(data: st.DataObject) -> None:
    found = data.draw(workloads())
    other = data.draw(st.composite(lambda draw: other_names(found, draw))())
    assert canonical(found).form == canonical(other).form
    machine = accelerator("tiny3")
    assert problem(found, machine) == problem(other, machine)


@settings(max_examples=60)
@given(workloads(), st.data())
def test_a_size_matters(found: Workload, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(found.dimensions)))
    larger = found.model_copy(
        update={"dimensions": {**found.dimensions, name: found.dimensions[name] + 5}}
    )
    assert canonical(found).form != canonical(larger).form


def test_a_coefficient_and_a_role_matter() -> None:
    first = workload("conv1d:N=1,K=1,C=1,P=14,R=3")
    strided = workload("conv1d:N=1,K=1,C=1,P=14,R=3,stride=2")
    assert canonical(first).form != canonical(strided).form
    swapped = first.model_copy(
        update={
            "family": "einsum",
            "tensors": (
                first.tensors[0].model_copy(update={"role": "input"}),
                first.tensors[1].model_copy(update={"role": "weight"}),
                first.tensors[2],
            ),
        }
    )
    assert canonical(first).form != canonical(swapped).form


def test_nine_dimensions_that_all_look_alike_take_no_time() -> None:
    names = "abcdefghi"
    axes = tuple(Axis(terms=((name, 1),)) for name in names)
    found = Workload(
        name="w",
        family="einsum",
        dimensions=dict.fromkeys(names, 2),
        tensors=(
            Tensor(name="t", axes=axes),
            Tensor(name="o", axes=axes, output=True),
        ),
    )
    assert canonical(found).dimensions == tuple(names)


def test_a_chain_of_nine_dimensions_of_one_size_takes_no_time() -> None:
    """Only its ends differ, so that colours have to be handed on."""
    names = "abcdefghi"
    pairs = [names[i : i + 2] for i in range(len(names) - 1)]
    tensors = [
        Tensor(name=f"t{pair}", axes=tuple(Axis(terms=((name, 1),)) for name in pair))
        for pair in pairs
    ]
    output = Tensor(name="o", axes=(Axis(terms=(("a", 1),)),), output=True)
    found = Workload(
        name="w",
        family="einsum",
        dimensions=dict.fromkeys(names, 2),
        tensors=(*tensors, output),
    )
    began = time.process_time()
    assert sorted(canonical(found).dimensions) == list(names)
    assert time.process_time() - began < 1.0


BASE = Request("gemm:M=8,N=4,K=6", "tiny3")


def address(request: Request) -> tuple[str, str]:
    question = asked_of(request, workload(request.workload), request.device).question
    return question.question, question.address


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "gemm:M=8,N=4,K=12"},
        {"accelerator": "tiny4"},
        {"objective": "energy"},
        {"searcher": "random"},
        {"top": 2},
        {"factors": "imperfect"},
        {"counting": "true"},
        {"constraints": ({"target": "L1", "type": "temporal", "factors": "K=2"},)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_changes_the_answer_changes_the_question(changes: dict[str, Any]) -> None:
    machine = accelerator(BASE.accelerator)
    if "constraints" in changes:
        level = machine.levels[-1].name
        changes = {"constraints": ({**changes["constraints"][0], "target": level},)}
    assert address(replace(BASE, **changes))[0] != address(BASE)[0]


def test_a_seed_matters_where_it_decides() -> None:
    random = replace(BASE, searcher="random")
    assert address(replace(random, seed=1))[0] != address(random)[0]
    question, whole = address(replace(BASE, seed=1))
    assert question == address(BASE)[0]  # what is proven is so from every seed
    assert whole != address(BASE)[1]


@pytest.mark.parametrize("changes", [{"seconds": 3.0}, {"iterations": 10}, {"gap": 0.1}], ids=str)
def test_a_budget_changes_the_address_alone(changes: dict[str, Any]) -> None:
    question, whole = address(replace(BASE, **changes))
    assert question == address(BASE)[0]
    assert whole != address(BASE)[1]


def test_an_energy_matters_and_a_machines_name_does_not() -> None:
    machine = accelerator("tiny3")
    renamed = machine.model_copy(update={"name": "mine"})
    dearer = machine.model_copy(update={"mac_energy_pj": math.nextafter(machine.mac_energy_pj, 9)})
    assert address(replace(BASE, accelerator=renamed)) == address(BASE)
    assert address(replace(BASE, accelerator=dearer))[0] != address(BASE)[0]


def test_threads_and_the_way_it_is_shown_do_not_matter() -> None:
    assert address(replace(BASE, threads=3, explain=True)) == address(BASE)


def test_where_constraints_name_dimensions_the_names_matter() -> None:
    machine = accelerator("tiny3")
    level = machine.levels[-1].name
    named = constrained(machine, [{"target": level, "type": "temporal", "factors": "K=2"}])
    ours, theirs = workload("gemm:M=8,N=4,K=6"), workload("gemm:M=8,N=4,K=6")
    swapped = Workload.model_validate(
        {
            **theirs.model_dump(),
            "dimensions": {"K": 8, "N": 4, "M": 6},
            "tensors": [
                {
                    **tensor.model_dump(),
                    "axes": [
                        str(axis).translate(str.maketrans("MK", "KM")) for axis in tensor.axes
                    ],
                }
                for tensor in theirs.tensors
            ],
        }
    )
    assert problem(ours, machine) == problem(swapped, machine)
    assert problem(ours, named) != problem(swapped, named)


def test_constraints_on_a_row_with_a_price_are_a_question_of_their_own() -> None:
    """What was stored while constraints fixed the order of loops there is not served."""
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 100.0, "fanout": 4},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
    ]
    entry = {"target": "L1", "type": "parallelism", "min": 0.0}
    found = []
    priced: dict[str, Any] = {"router_pj": 1.0}
    for more in ({}, {"hop_energy_pj": 1.0}, priced, {**priced, "mesh": [2, 2]}):
        device = accelerator(
            {"name": "row", "mac_energy_pj": 1.0, "levels": [levels[0] | more, levels[1]]}
        )
        assert "rows" not in problem(workload("gemm:M=4,N=2,K=2"), device)
        asked = problem(workload("gemm:M=4,N=2,K=2"), constrained(device, [entry]))
        found.append("rows" in asked)
    assert found == [False, True, True, False]


def test_what_a_level_keeps_is_asked_by_its_name() -> None:
    """Two products that differ in names only are two questions where a level keeps one of them."""
    first, second = (
        workload(
            {
                "dimensions": {"M": 4, "N": 8, "K": 16},
                "tensors": {left: ["M", "K"], right: ["K", "N"], "Z": ["M", "N"]},
                "output": "Z",
            }
        )
        for left, right in (("A", "B"), ("B", "A"))
    )
    free = accelerator({"extends": "mm256", "bypass": "searched"})
    assert problem(first, free) == problem(second, free)
    for key in ("keep", "bypass"):
        levels = [{"name": "L2", key: ["A"]}]
        bound = accelerator({"extends": "mm256", "bypass": "searched", "levels": levels})
        assert problem(first, bound) != problem(second, bound)


def test_remainders_that_are_counted_anew_are_questions_of_their_own() -> None:
    level = {"name": "DRAM", "energy_pj": 100.0, "fanout": 4, "technology": "DRAM"}
    inner = {"name": "L1", "energy_pj": 1.0}
    found = []
    for hop, told in ((0.0, {}), (1.0, {}), (0.0, {"counting": "true"})):
        levels = [inner, {**level, "hop_energy_pj": hop}]
        machine = {"name": "m", "mac_energy_pj": 1.0, "levels": levels, **told}
        asked = [
            problem(workload("gemm:M=4,N=2,K=2"), accelerator({**machine, "factors": factors}))
            for factors in ("perfect", "imperfect")
        ]
        found.append(["remainders" in one for one in asked])
    assert found == [[False, False], [False, True], [False, True]]
    told = address(replace(BASE, factors="imperfect", counting="true"))
    assert told != address(replace(BASE, factors="imperfect", counting="timeloop"))
