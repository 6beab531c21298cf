"""Hand-made rows of a Marvel study, whose figures can be counted by hand."""

from __future__ import annotations

from typing import Any

from costmodel.maestro.distinct_blocks import LAYOUTS
from orchestrator.marvel.numbers import FLOWS, Study

Row = dict[str, Any]
L7 = {"K": 1000, "C": 1280, "R": 1, "S": 1, "P": 1, "Q": 1}
L7_COST = 634 / 40000  # (625 + 5 + 2 x 2) blocks


def bests(runtime: float, energy: float) -> Row:
    """Of one tile, a mapping for each objective."""
    values = {"runtime": runtime, "energy": energy, "edp": runtime * energy}
    return {
        name: {"runtime": runtime, "energy": energy, "value": value, "mapping": "", "family": ""}
        for name, value in values.items()
    }


def costs(first: float, second: float) -> list[float]:
    """Of the first two layouts; the others cost 0.4."""
    return [first, second, *[0.4] * (len(LAYOUTS) - 2)]


REMAINDERS = {
    "best": bests(8.0, 380.0),
    "seconds": 6.0,
    "budget_s": 6.0,
    "proven": True,
    "reference": bests(10.0, 400.0),
    "reference_seconds": 2.0,
}


def row(**changes: Any) -> Row:
    """L7 of Table 3 on the first platform; 5 tiles of 200 MACs, 10 cycles and 400 units each."""
    made: Row = {
        "layer": "marvel-l7",
        "kind": "FC",
        "accelerator": "eyeriss-168",
        "networks": {},
        "bounds": L7,
        "stride": 1,
        "depthwise": False,
        "macs": 1000,
        "failure": None,
        "off_chip": {
            "tile": [125, 320, 1, 1, 1, 1],
            "layout": ["C", "C", "K"],
            "cost": L7_COST,
            "total_blocks": 1000 * L7_COST,
            "blocks": [625, 5, 2],
            "order": ["C", "K"],
            "tiles": 90,
            "fitting": 80,
            "tied": 1,
            "seconds": 0.5,
            "least_costs": costs(0.1, 0.2),
        },
        "tiles_per_layer": 5,
        "whole": {"runtime": 50.0, "energy": 2000.0, "edp": 100000.0},
        "on_chip": {
            "best": bests(10.0, 400.0),
            "families": {
                "none": bests(90.0, 500.0),
                "K": bests(40.0, 450.0),
                "C": bests(30.0, 400.0),
                "KP": bests(20.0, 440.0),
                "CP": bests(10.0, 420.0),
            },
            "dataflows": {"KC": bests(20.0, 400.0), "QP": bests(40.0, 800.0), "QR": None},
            "mappings": 100,
            "evaluated": 60,
            "tilings": 50,
            "fitting": 40,
            "proven": True,
            "seconds": 1.5,
        },
        "remainders": None,
        "roofline": {"cycles": 40.0, "binding": "ingress", "macs_per_cycle": 25.0},
        "space": {
            "original": 1e12,
            "off_chip": 1e6,
            "on_chip": 1e5,
            "off_chip_pruned": 600.0,
            "on_chip_pruned": 400.0,
        },
        "baselines": [],
    }
    return made | changes


def second(**changes: Any) -> Row:
    """Another layer, three times as large, on the same platform."""
    made = row(layer="marvel-l5", kind="PWCONV", macs=3000, tiles_per_layer=2)
    made["off_chip"] = made["off_chip"] | {"least_costs": costs(0.2, 0.1)}
    made["on_chip"] = made["on_chip"] | {
        "best": bests(100.0, 300.0),
        "families": {"K": bests(100.0, 300.0), "CP": bests(150.0, 300.0)},
        "dataflows": {flow: bests(100.0, 600.0) for flow in FLOWS},
    }
    return made | changes


def sampled(method: str, seed: int, runtime: float, after: float) -> Row:
    found = {
        "runtime": {"value": runtime, "cost": 2 * L7_COST, "found_after_s": after},
        "energy": {"value": 4000.0, "cost": 2 * L7_COST, "found_after_s": after / 2},
    }
    return {"method": method, "seed": seed, "budget_s": 20.0, "evaluated": 9, "best": found}


def joint(runtime: float, *, complete: bool) -> Row:
    found = {
        "runtime": {"value": runtime, "tile": [250, 640, 1, 1, 1, 1], "cost": 3 * L7_COST},
        "energy": {"value": 2000.0, "tile": [125, 320, 1, 1, 1, 1], "cost": L7_COST},
    }
    run = {"seconds": 8.0, "complete": complete, "evaluated": 9, "tiles": 3}
    return {"method": "joint", **run, "best": found}


def study(*rows: Row) -> Study:
    return Study("mine", "", list(rows), [])
