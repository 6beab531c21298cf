"""Finds the best way to run a tensor operation on a spatial accelerator, and proves it.

```python
import mapspace as ms

result = ms.search("resnet-conv4", accelerator="mm256")
```

Every name is imported when it is first used: `import mapspace` itself loads nothing. docs/python.md
shows what there is. The modules of this package are the ground of all others: errors, strict YAML,
storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapspace.lazy import lazy

if TYPE_CHECKING:
    from costmodel import (
        Accelerator,
        Costs,
        LoopNestModel,
        MaestroModel,
        Mapping,
        MapSpace,
        TilingSpace,
        Workload,
        accelerator,
        workload,
    )
    from costmodel.scalesim.reading import ScaleSimInput, from_scalesim
    from costmodel.timeloop.exporting import TimeloopOutput, to_timeloop
    from costmodel.timeloop.reading import TimeloopInput, from_timeloop
    from mapspace import tune
    from mapspace.errors import (
        ArgumentError,
        ConfigError,
        ContractError,
        DataError,
        MapspaceError,
    )
    from mapspace.version import __version__
    from orchestrator.answers.explained import ExplainedOptimum
    from orchestrator.answers.results import SearchResult
    from orchestrator.api import (
        benchmark,
        continue_proof,
        design,
        evaluate,
        explain,
        pareto,
        prove,
        search,
        search_network,
        sweep,
        verify,
        widen,
    )
    from orchestrator.comparison.benchmark_result import BenchmarkResult
    from orchestrator.design.results import DesignResults
    from orchestrator.explain.comparison import ComparedMappings
    from orchestrator.explain.functions import diff, explain_mapping, why_not
    from orchestrator.explain.record_explanation import ExplainedMapping
    from orchestrator.explain.why_not import WhyNot
    from orchestrator.imports.from_onnx import from_onnx
    from orchestrator.imports.from_torch import from_torch
    from orchestrator.imports.imported import ImportedNetwork
    from orchestrator.networks.result import NetworkResult
    from orchestrator.proofs.certificates import Verification
    from orchestrator.proofs.pareto import Front
    from orchestrator.records.found_mapping import MappingCosts
    from orchestrator.search.widening import Widened
    from orchestrator.sweep.results import SweepResults
    from searchers import SEARCHERS, Evaluator, TrialResult, make

__all__ = [
    "SEARCHERS",
    "Accelerator",
    "ArgumentError",
    "BenchmarkResult",
    "ComparedMappings",
    "ConfigError",
    "ContractError",
    "Costs",
    "DataError",
    "DesignResults",
    "Evaluator",
    "ExplainedMapping",
    "ExplainedOptimum",
    "Front",
    "ImportedNetwork",
    "LoopNestModel",
    "MaestroModel",
    "MapSpace",
    "Mapping",
    "MappingCosts",
    "MapspaceError",
    "NetworkResult",
    "ScaleSimInput",
    "SearchResult",
    "SweepResults",
    "TilingSpace",
    "TimeloopInput",
    "TimeloopOutput",
    "TrialResult",
    "Verification",
    "WhyNot",
    "Widened",
    "Workload",
    "__version__",
    "accelerator",
    "benchmark",
    "continue_proof",
    "design",
    "diff",
    "evaluate",
    "explain",
    "explain_mapping",
    "from_onnx",
    "from_scalesim",
    "from_timeloop",
    "from_torch",
    "make",
    "pareto",
    "prove",
    "search",
    "search_network",
    "sweep",
    "to_timeloop",
    "tune",
    "verify",
    "why_not",
    "widen",
    "workload",
]

# Text alone, as the ground imports nothing from above it.
_PLACES = {
    "costmodel": "Accelerator Costs LoopNestModel MaestroModel MapSpace Mapping TilingSpace "
    "Workload accelerator workload",
    "costmodel.timeloop.exporting": "TimeloopOutput to_timeloop",
    "costmodel.scalesim.reading": "ScaleSimInput from_scalesim",
    "costmodel.timeloop.reading": "TimeloopInput from_timeloop",
    "mapspace": "tune",
    "mapspace.errors": "ArgumentError ConfigError ContractError DataError MapspaceError",
    "mapspace.version": "__version__",
    "orchestrator.api": "benchmark continue_proof design evaluate explain pareto prove search "
    "search_network sweep verify widen",
    "orchestrator.comparison.benchmark_result": "BenchmarkResult",
    "orchestrator.design.results": "DesignResults",
    "orchestrator.explain.comparison": "ComparedMappings",
    "orchestrator.explain.functions": "diff explain_mapping why_not",
    "orchestrator.explain.record_explanation": "ExplainedMapping",
    "orchestrator.explain.why_not": "WhyNot",
    "orchestrator.search.widening": "Widened",
    "orchestrator.imports.from_onnx": "from_onnx",
    "orchestrator.imports.from_torch": "from_torch",
    "orchestrator.imports.imported": "ImportedNetwork",
    "orchestrator.proofs.certificates": "Verification",
    "orchestrator.answers.explained": "ExplainedOptimum",
    "orchestrator.records.found_mapping": "MappingCosts",
    "orchestrator.networks.result": "NetworkResult",
    "orchestrator.proofs.pareto": "Front",
    "orchestrator.answers.results": "SearchResult",
    "orchestrator.sweep.results": "SweepResults",
    "searchers": "SEARCHERS Evaluator TrialResult make",
}

if not TYPE_CHECKING:  # so that a misspelt name is an error to type checkers
    __getattr__ = lazy(
        __name__, {name: module for module, names in _PLACES.items() for name in names.split()}
    )


def __dir__() -> list[str]:
    return [*globals(), *__all__]
