"""Curves of a benchmark in the formats of IOHprofiler and COCO, whose tools then read them.

Both know functions (here workloads, numbered as in the experiment), dimensions (attributes of a
mapping) and runs (here seeds). They minimise `raw_y`, the objective, and the share by which it is
above the reference, the proven optimum where there is one.

Sources: Doerr et al., "IOHprofiler: A Benchmarking and Profiling Tool for Iterative Optimization
Heuristics" (2018), version 0.3.5 of its files; Hansen et al., "COCO: a platform for comparing
continuous optimizers in a black-box setting" (2021), `bbob-new2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mapspace.errors import ConfigError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.comparison.results import FloatArray, IntArray, Results, Run

_IOH_VERSION, _COCO_VERSION = "0.3.5", "2.6"
# What COCO writes of a target that counts as reached.
_PRECISION = 1e-8
# A search that found nothing has no row but that of its first query.
_NOTHING = float("inf")


def write_iohprofiler(results: Results, folder: Place) -> None:
    """Writes a folder per method, a JSON file and a table of its runs per workload.

    Args:
        results: of a benchmark; raw_y is its objective, pJ x cycles for EDP.
        folder: where to.
    """
    for number, workload in enumerate(results.workloads, 1):
        for label in results.searchers:
            runs = list(results.of(label, workload))
            path = f"data_f{number}_{_plain(workload)}/IOHprofiler_f{number}_DIM{_dimension(runs)}"
            place = folder / _plain(label)
            lines = ["evaluations raw_y\n" + _rows(run, "{} {:.10g}\n") for run in runs]
            _write(place / f"{path}.dat", "".join(lines))
            described = {
                "version": _IOH_VERSION,
                "suite": str(results.experiment["name"]),
                "function_id": number,
                "function_name": workload,
                "maximization": False,
                "algorithm": {"name": label, "info": results.method(label)},
                "experiment_attributes": [
                    {"machine": str(results.experiment["accelerator"])},
                    {
                        _reference(results, workload): repr(
                            float(results.bounds[workload].reference)
                        )
                    },
                ],
                "attributes": ["evaluations", "raw_y"],
                "scenarios": [
                    {
                        "dimension": _dimension(runs),
                        "path": f"{path}.dat",
                        "runs": [_ioh_run(run) for run in runs],
                    }
                ],
            }
            name = f"IOHprofiler_f{number}_{_plain(workload)}.json"
            _write(place / name, json.dumps(described, indent=1) + "\n")


def write_coco(results: Results, folder: Place) -> None:
    """Writes a folder per method, an `info` file and a table of its runs per workload.

    Args:
        results: of a benchmark; values are shares above the reference, and so is the target 1e-8.
        folder: where to.
    """
    for number, workload in enumerate(results.workloads, 1):
        least = results.bounds[workload].reference
        for label in results.searchers:
            runs = list(results.of(label, workload))
            data = f"data_f{number}/bbobexp_f{number}_DIM{_dimension(runs)}.dat"
            place = folder / _plain(label)
            head = (
                "% f evaluations | g evaluations | best noise-free fitness - Fopt (0) + sum g_i+ | "
                "measured fitness | best measured fitness or single-digit g-values\n"
            )
            row = "{0} 0 {1:.9e} {1:.9e} {1:.9e}\n"
            rows = [head + _rows(run, row, least) for run in runs]
            _write(place / data, "".join(rows))
            ends = (
                f"{run.seed + 1}:{run.iterations}|{_share(run.best_loss, least):.1e}"
                for run in runs
            )
            info = (
                f"suite = '{_plain(str(results.experiment['name']))}', funcId = {number}, "
                f"DIM = {_dimension(runs)}, Precision = {_PRECISION:.3e}, algId = '{label}', "
                f"coco_version = '{_COCO_VERSION}', logger = 'bbob', data_format = 'bbob-new2'\n"
                f"% {workload}, Fopt: {_reference(results, workload)} {least!r}\n"
                f"{data}, {', '.join(ends)}\n"
            )
            _write(place / f"bbobexp_f{number}.info", info)


FORMATS: Mapping[str, Callable[[Results, Place], None]] = {
    "iohprofiler": write_iohprofiler,
    "coco": write_coco,
}
"""Who writes curves, by the name of the format."""


def write_curves(results: Results, name: str, folder: Place) -> None:
    """Writes curves in a format of `FORMATS`.

    Raises:
        ConfigError: two methods or workloads would be one file there.
    """
    for kind, own in (("methods", results.searchers), ("workloads", results.workloads)):
        if len({_plain(one) for one in own}) < len(own):
            raise ConfigError(f"{name}: expected {kind} whose names differ by letters and digits.")
    FORMATS[name](results, folder)


def _ioh_run(run: Run) -> dict[str, Any]:
    found = [(count, loss) for count, loss in _entries(run) if loss == run.best_loss]
    count, loss = found[0] if found else (run.iterations, run.best_loss)
    # JSON has no number for nothing.
    best = {"evals": count, "y": loss if np.isfinite(loss) else 1e308, "x": []}
    return {"instance": run.seed + 1, "evals": run.iterations, "best": best}


def _entries(run: Run) -> Iterator[tuple[int, float]]:
    """Queries and the best so far: at the first, which starts a run there, and where it fell."""
    if not len(run.evaluation) or run.evaluation[0] > 1:
        yield 1, _NOTHING
    counts: IntArray = run.evaluation
    losses: FloatArray = run.loss
    for count, loss in zip(counts.tolist(), losses.tolist(), strict=True):
        yield int(count), float(loss)


def _rows(run: Run, text: str, above: float | None = None) -> str:
    """A line per entry: its losses, or by which share they are above one."""
    shown = [(n, loss if above is None else _share(loss, above)) for n, loss in _entries(run)]
    return "".join(text.format(*entry) for entry in shown)


def _reference(results: Results, workload: str) -> str:
    """What shares are above of."""
    proven = results.bounds[workload].optimum is not None
    return "proven_optimum" if proven else "lower_bound"


def _share(loss: float, least: float) -> float:
    """By which share a loss is above the least there is, which rounding may put above it."""
    return max(0.0, loss / least - 1)


def _dimension(runs: list[Run]) -> int:
    """Attributes of a mapping's code; 1 of kept results, which have no codes."""
    return max((len(run.best_code) for run in runs), default=0) or 1


def _plain(name: str) -> str:
    """A name as part of a file's: letters, digits, points and low lines."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("_.") or "_"


def _write(file: Place, text: str) -> None:
    make_folder(file.parent)
    write_atomically(file, text.encode())
