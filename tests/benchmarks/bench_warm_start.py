"""What it is worth to begin a search from the stored winners of similar layers.

Proves every layer of ResNet50 into a store of its own (or that of `--folder`, where it is found
again), then searches ten of the layers with and without a warm start, from the winners of the other
layers. A table for the documentation on standard output: per cent above the proven optimum,
geometric mean over layers and seeds, after so many cost queries, those of the warm start included.

    python tests/benchmarks/bench_warm_start.py --folder FOLDER
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import mapspace as ms
import searchers
from costmodel.accelerators import accelerator
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.networks import load_network
from orchestrator.store.folder import Store
from orchestrator.store.winners import winners
from searchers.shared.warm_start import begin_from

METHODS = ("genetic", "annealing", "model-guided")
AFTER = (10, 100, 500, 1000)


def best_after(
    space: MapSpace, method: str, seed: int, codes: npt.NDArray[np.int32], after: Sequence[int]
) -> list[float]:
    """The best losses of a search after so many queries."""
    evaluator = searchers.Evaluator(LoopNestModel(), space, iterations=max(after))
    searcher = searchers.make(method, space, seed=seed)
    begin_from(searcher, evaluator, codes)
    searcher.run(evaluator)
    result = evaluator.result()
    place = np.searchsorted(result.curve_iteration, after, side="right") - 1
    losses = np.where(place < 0, np.inf, result.curve_loss[np.maximum(place, 0)])
    return [float(loss) for loss in losses]


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--queries", type=int, default=max(AFTER), help="of every search")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    after = [count for count in AFTER if count <= given.queries]
    with tempfile.TemporaryDirectory() as temporary:
        store = Store(given.folder or Path(temporary) / "store")
        machine = accelerator("mm256")
        layers = [layer for layer, _ in load_network("resnet50")[1]]
        optima = {}
        for layer in layers:
            found = ms.search(layer, machine, store=store)
            assert found.proven
            optima[layer.hash] = found.costs.objective("edp")
        chosen = [
            layers[place] for place in np.linspace(0, len(layers) - 1, given.layers).astype(int)
        ]
        ratios: dict[tuple[str, bool], list[npt.NDArray[np.float64]]] = {}
        for layer in chosen:
            space = MapSpace(layer, machine)
            found_winners = winners(space, "edp", store)
            codes = np.concatenate([winner.codes for winner in found_winners])
            near = ", ".join(f"{one.workload} ({one.distance:.2f})" for one in found_winners)
            print(f"# {layer.name}: {near}", flush=True)
            for method in given.methods:
                for seed in range(given.seeds):
                    for warm in (False, True):
                        begin = codes if warm else codes[:0]
                        own = np.array(best_after(space, method, seed, begin, after))
                        ratios.setdefault((method, warm), []).append(own / optima[layer.hash])
    header = " | ".join(f"{count:,}" for count in after)
    print(f"| method | begins | {header} |\n|---|---|{'---|' * len(after)}")
    for (method, warm), rows in ratios.items():
        means = 100 * np.expm1(np.log(np.array(rows)).mean(axis=0))
        cells = " | ".join(f"{mean:.3g} %" for mean in means)
        print(f"| {method} | {'from winners' if warm else 'anew'} | {cells} |")


if __name__ == "__main__":
    main()
