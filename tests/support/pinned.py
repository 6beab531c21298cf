"""What proofs and seeded searches computed once, so that a change of any of it is noticed.

`python tests/support/pinned.py` writes `tests/golden/pinned` anew, where a change is meant. Only
whole numbers, codes and losses that any processor computes alike are held.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from paths import GOLDEN
from small_hierarchies import random_hierarchy, random_ports

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.prover import AnyProver
from costmodel.networks.network import read_network
from costmodel.networks.published_networks import PUBLISHED
from costmodel.networks.transformers import TRANSFORMERS
from mapspace.testing.toy_space import ToyModel, ToyPredictor, ToySpace
from searchers import SEARCHERS, Evaluator, hyperparameters, make, searcher_class

Case = dict[str, Any]

FOLDER = GOLDEN / "pinned"
# Banks, keep bits and a mesh: attributes of every kind.
RICH = {
    "name": "rich",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 64, "banks": 8, "fanout": 6,
         "mesh": [3, 2], "hop_energy_pj": 1.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 16},
    ],
}  # fmt: skip
# Two buffers side by side, which a mapping puts in either order.
ORDERED = {
    "name": "ordered",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0, "bandwidth": 2.0},
        {"name": "A", "energy_pj": 7.0, "capacity_words": 40, "beside": "group"},
        {"name": "B", "energy_pj": 5.0, "capacity_words": 24, "beside": "group", "fanout": 4},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 9},
    ],
}  # fmt: skip


def digest(codes: list[np.ndarray]) -> str:
    """Names a run's codes, and how many there are in each batch."""
    batches = [batch.astype(int).tolist() for batch in codes]
    return hashlib.sha256(json.dumps(batches).encode()).hexdigest()[:16]


# --- proofs


def hierarchies() -> Iterator[Case]:
    """Random problems of any depth, and such whose levels all have slow ports."""
    for kind in ("plain", "networks", "bits"):
        for seed in range(7000, 7010):
            yield {"kind": kind, "seed": seed}
    for seed in range(7000, 7010):
        for objective in ("energy", "latency", "edp", "ed2p"):
            yield {"kind": "ports", "seed": seed, "objective": objective}


def hierarchy(case: Case) -> Case:
    """What the proof for any depth answers, and what it took."""
    if case["kind"] == "ports":
        objective = case["objective"]
        leakage = 2.0 if objective == "energy" else None
        space, codes = random_ports(case["seed"], 2000, leakage=leakage)
    else:
        drawn = {key: case["kind"] == key for key in ("networks", "bits")}
        rng = np.random.default_rng(case["seed"])
        space, codes, objective = random_hierarchy(rng, 2000, **drawn)
    prover = AnyProver(space, objective=objective)
    # Among the worse half, so that something is left to find.
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    prover.offer(codes[values.argsort(kind="stable")[len(codes) // 2]][None])
    prover.run()
    _, cycles = prover.lower_outcome
    return {
        "cycles": int(cycles),
        "code": prover.codes(1)[0].tolist(),
        "counts": prover.counts,
    }


# --- searches


def searches() -> Iterator[Case]:
    """Runs of the searchers whose codes no library and no network decides."""
    options: dict[str, list[Case]] = {
        "random": [{}, {"patience": 20}],
        "annealing": [
            {"horizon": 300},
            {"preset": "paper", "horizon": 300},
            {"horizon": 90, "chains": 3, "tuning_share": 0.3, "log_loss": False},
            {"horizon": 120, "temperatures": [2.0, 0.1], "further_moves": 0.2},
            {"horizon": 5, "chains": 8},
        ],
        "genetic": [
            {"population": 20, "offspring": 30},
            {"preset": "paper"},
            {"preset": "paper", "population": 12, "offspring": 10, "elite": 3, "mutation": 0.02},
            {"population": 2, "offspring": 1, "tournament": 1},
            {"population": 8, "offspring": 8, "moves": "attribute", "mutation": 0.0},
            {"population": 8, "offspring": 8, "replacement": "generational", "elite": 0},
        ],
        "gradient": [
            {"chains": 3},
            {"preset": "paper", "inject_every": 4, "temperature": 0.5},
            {"preset": "released", "inject_every": 4},
            {"step": "whitened", "chains": 2, "learning_rate": 0.05, "temperature": 0.5},
            {"chains": 5, "rescored": 1, "round_steps": 1, "inject_every": 3},
        ],
        "primitive-annealing": [{}],
    }
    for name, cases in options.items():
        for case in cases:
            for space in ("toy", "rich"):
                if name != "primitive-annealing" or space == "rich":
                    yield {"searcher": name, "space": space, "seed": len(case), **case}
    yield {"searcher": "timeloop", "space": "rich", "seed": 2}
    for name in ("factorflow", "gamma", "gbfs", "islands", "loma", "salsa", "structured"):
        yield {"searcher": name, "space": "rich", "seed": 2}
    for name in ("annealing", "genetic", "primitive-annealing", "gbfs", "islands", "structured"):
        yield {"searcher": name, "space": "ordered", "seed": 3}


def search(case: Case) -> Case:
    """What a searcher asks for within 400 iterations, and the best that it finds."""
    space: Any = ToySpace()
    model: Any = ToyModel()
    if case["space"] != "toy":
        layer = "cnn:N=2,K=4,C=3,P=4,Q=3,R=3,S=1,stride=1"
        machine = RICH if case["space"] == "rich" else ORDERED
        space, model = MapSpace(workload(layer), accelerator(machine)), LoopNestModel()
    rest = {key: value for key, value in case.items() if key not in ("searcher", "space")}
    if "predictor" in searcher_class(case["searcher"]).USES:
        rest["predictor"] = ToyPredictor(len(space.feature_names))
    searcher = make(case["searcher"], space, **rest)
    evaluator = Evaluator(model, space, iterations=400)
    asked = []
    # Hosts ask for any number.
    for n in (1, 2, 3, 10, 7, 50, 33, 1, 400, 17, 400, 5, 400, 400, 400):
        left = min(n, evaluator.remaining)
        if left == 0 or not searcher.step(_Noting(evaluator, asked), left):
            break
    searcher.run(_Noting(evaluator, asked))
    result = evaluator.result()
    return {
        "codes": digest(asked),
        "asks": len(asked),
        "iterations": [result.iterations, result.true_queries, result.surrogate_queries],
        "best_loss": result.best_loss,
        "best_code": None if result.best_code is None else result.best_code.tolist(),
        "improvements": len(result.curve_loss) - 1,
    }


class _Noting:
    """An evaluator that notes what it is asked."""

    def __init__(self, evaluator: Evaluator, asked: list[np.ndarray]) -> None:
        self._evaluator, self._asked = evaluator, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def __call__(self, codes: np.ndarray, **counts: Any) -> np.ndarray:
        self._asked.append(codes.copy())
        return self._evaluator(codes, **counts)

    def walk(self, walk: Any) -> bool:
        """Passes on a compiled search, and notes what it scored."""

        def noted(costs: Any, left: int) -> Any:
            codes, scores = walk(costs, left)
            self._asked.append(codes.copy())
            return codes, scores

        return self._evaluator.walk(noted)


# --- defaults


def defaults() -> Case:
    """The hyperparameters of every searcher, their defaults and its sets of others."""

    def said(value: Any) -> Any:
        if value is inspect.Parameter.empty:
            return "required"
        return list(value) if isinstance(value, tuple) else value

    return {
        name: {key: said(value) for key, value in hyperparameters(name).items()}
        | {"presets": json.loads(json.dumps(searcher_class(name).OPTIONS.PRESETS))}
        for name in sorted(SEARCHERS)
    }


# --- networks


def networks() -> Iterator[str]:
    """Published networks, and transformers with what can be said of them."""
    yield from PUBLISHED
    for name, model in TRANSFORMERS.items():
        yield name
        yield f"{name}:batch=3{'' if model.image else ',sequence=40'}"
        if model.decodes:
            yield f"{name}:phase=decode,sequence=70,batch=2"


def network(name: str) -> Case:
    """Its layers, what it holds, and what its other operators move."""
    found = read_network(name)
    own = name.partition(":")[0]
    whole = PUBLISHED[own]() if own in PUBLISHED else None
    return {
        "parameters": TRANSFORMERS[own].parameters() if whole is None else whole.parameters,
        "words": {key: list(words) for key, words in found.words.items()},
        "layers": [
            [layer.name, count, layer.macs, [layer.words(t) for t in range(len(layer.tensors))]]
            for layer, count in found.layers
        ],
    }


def read(name: str) -> Any:
    """What one of the files holds."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def write(name: str, content: list[Any]) -> None:
    """One line per entry, so that a change shows which."""
    FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(entry) for entry in content)
    Path(FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    write("hierarchies", [[case, hierarchy(case)] for case in hierarchies()])
    write("searches", [{"case": case, "found": search(case)} for case in searches()])
    write("networks", [[name, network(name)] for name in networks()])
    write("defaults", [[name, values] for name, values in defaults().items()])
