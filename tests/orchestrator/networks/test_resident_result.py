"""What is said of layers that run from the chip: each number and word for a pair known by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_fused import small_pair

import mapspace as ms
from costmodel.networks.moves import Words
from orchestrator.networks.operators import Operators
from orchestrator.networks.resident_result import ResidentOptimum

# Three times: two products of 5,336 pJ each, tiled together; 14,072 pJ where they are not.
ENERGY, APART = 32016.0, 42216.0


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ResidentOptimum:
    network, machine = small_pair(tmp_path_factory.mktemp("pair"), 14)
    asked: dict[str, Any] = {"jointly": True, "resident": True, "fused": True}
    result = ms.search_network(str(network), str(machine), objective="energy", **asked)
    assert isinstance(result, ResidentOptimum)
    return result


def test_the_tables(found: ResidentOptimum) -> None:
    lines = [line.split() for line in found.picture().splitlines()]
    for said in (
        "up 3 DRAM tile, 2 times 8 5.336e-06 16",
        "down 3 chip to DRAM 8 5.336e-06 16",
        "up > down yes M:2 none 8 1.4072e-05 1.4072e-05 1.0672e-05 32 32 32",
    ):
        assert said.split() in lines
    drawn = ["for M in 2:", "    up    DRAM -> a tile to L2", "    down  a tile from L2 -> DRAM"]
    assert "\n".join(drawn) in found.picture()
    assert found.energy_by_level == {"L2": 2160.0, "DRAM": 28800.0, "L1": 864.0, "MACs": 192.0}
    assert [(row["count"], row["iterations"], row["fused"]) for row in found.rows()] == [
        (3, 2, True), (3, 2, True),
    ]  # fmt: skip
    assert [entry["iterations"] for entry in found.records] == [2, 2]
    assert not found.picture().endswith("interrupted: the best so far.")
    stopped = replace(found, interrupted=True)
    assert stopped.picture() == f"{found.picture()}\ninterrupted: the best so far."


def test_the_facts(found: ResidentOptimum) -> None:
    facts = dict(found.facts())
    assert facts.pop("search").startswith("4 proofs a line, 1 lines, ")
    assert facts == {
        "energy": "3.2016e-05 mJ",
        "energy split": "L2 6.75 %, DRAM 89.96 %, L1 2.70 %, MACs 0.60 %",
        "latency": "96 cycles (9.6e-05 ms), one layer after another",
        "EDP": "3.07354e-15 J s (total energy x total time)",
        "stay in L2": "0 of 1 tensors that another layer reads",
        "cascades": "2 of 2 layers, up to 2 in one",
        "worth": "24.16 % of energy: 4.2216e-05 mJ where nothing stays",
        "of it fusing": "24.16 %: 4.2216e-05 mJ where tensors stay whole or not at all",
        "proven optimal": "no mappings and tensors that stay or run in cascades of this form "
        "have a lower energy",
    }


def test_operators_that_are_not_counted_would_cost_at_most_so_much(found: ResidentOptimum) -> None:
    words = {"softmax": Words(8, 8)}
    beside = replace(found, operators=Operators(words, found.operators.machine))
    said = dict(beside.facts())["not counted"]
    assert said.startswith("softmax move 16 words and multiply nothing: at most ")
    exact = Operators(words, found.operators.machine).fact()
    assert exact is not None
    assert "at most" not in exact[1]


def test_it_says_that_fusing_does_not_pay(found: ResidentOptimum) -> None:
    without = dict(replace(found, cascades=()).facts())
    assert without["cascades"] == "fusing does not pay: no layers run in passes together"


def test_of_equal_costs_tensors_stay_whole() -> None:
    """Two of three products fit whole: a cascade of one pass costs the same."""
    first = {"name": "p0", "gemm": {"M": 2, "N": 4, "K": 4}}
    rest = [{**first, "name": f"p{place}", "input": f"p{place - 1}"} for place in (1, 2)]
    levels = [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 12, "fanout": 3},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 5},
    ]
    machine = {"name": "small", "mac_energy_pj": 1.0, "levels": levels}
    found = ms.search_network(
        {"name": "chain", "layers": [first, *rest]}, machine, fused=True, store=False
    )
    assert found.proven
    assert not any(ran.fused for ran in found.ran)
    assert any(ran.output_stays for ran in found.ran)


def test_what_is_known_of_less(found: ResidentOptimum) -> None:
    alone, staying = found.alone, found.staying
    assert alone is not None
    assert staying is not None
    assert found.seconds == found.certificate.seconds + alone.seconds + staying.seconds
    free = alone.value * 0
    for changes, worth, said in (
        ({"alone": None}, None, "nothing is known within None where nothing stays"),
        ({"all_ways": False}, None, "not known: there was no time to look at what could stay"),
        ({"alone": alone._replace(gap=0.05)}, 1 - ENERGY / APART,
         "24.16 % of energy at most (5.00 % open): 4.2216e-05 mJ where nothing stays"),
        ({"alone": alone._replace(value=free)}, 0.0,
         "0.00 % of energy: 0 mJ where nothing stays"),
    ):  # fmt: skip
        other = replace(found, **changes)
        assert other.worth == (worth if worth is None else pytest.approx(worth))
        assert dict(other.facts())["worth"] == said
    assert "of it fusing" not in dict(replace(found, staying=None).facts())
    worthless = replace(found, staying=staying._replace(value=free))
    assert dict(worthless.facts())["of it fusing"].startswith("0.00 %: 0 mJ where")


def test_the_object(found: ResidentOptimum) -> None:
    said = found.to_dict()
    assert said["resident"]
    assert said["fused"]
    assert not said["interrupted"]
    assert (said["max_cycles"], said["max_energy_pj"]) == (None, None)
    totals = said["totals"]
    assert (totals["energy_pj"], totals["lower_bound"], totals["gap"]) == (ENERGY, ENERGY, 0.0)
    assert (totals["alone"], totals["staying"], totals["lines"]) == (APART, APART, 1)
    assert totals["proven"]
    assert totals["alone_proven"]
    unknown = replace(found, alone=None, staying=None).to_dict()["totals"]
    assert (unknown["alone"], unknown["staying"], unknown["alone_proven"]) == (None, None, False)
    assert found.alone is not None
    open_gap = replace(found, alone=found.alone._replace(gap=0.1)).to_dict()["totals"]
    assert not open_gap["alone_proven"]
