"""What every cost model promises, held over the registry, plug-ins too."""

from __future__ import annotations

from costmodel.models import COST_MODELS, cost_model_entry
from mapspace.testing import CostModelContract


class TestCostModels(CostModelContract):
    # What measures promises nothing twice, and needs TVM.
    names = tuple(
        name
        for name in COST_MODELS
        if cost_model_entry(name).space is not None and not cost_model_entry(name).measured
    )
    workloads = {"maestro": "cnn:N=1,K=4,C=4,P=6,Q=6,R=3,S=3"}  # noqa: RUF012
