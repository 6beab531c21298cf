"""Cheap cost models of a space, as what could decide a mapping's true cost.

Letters: M mappings, D attributes of a code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tiling.analytical_model import AnalyticalTiling
from costmodel.tiling.register_kernel import kernel_cycles
from costmodel.tiling.space import TilingSpace
from searchers.shared.causes import Causes, join, nest_causes, plain_causes

Prior = Callable[[Codes], Causes]
"""Causes of codes `[M, D]`."""

Which = Literal["model", "plain"]
"""The space's own analytic model, or the same without what `plain` takes off the machine."""

_FREE: dict[str, Any] = {
    **dict.fromkeys(("read_bandwidth", "write_bandwidth", "bandwidth")),
    **dict.fromkeys(("hop_energy_pj", "router_pj", "ingress_pj", "address_pj", "leakage_pj"), 0.0),
    **dict.fromkeys(("fill_latency", "drain_latency"), 0),
}


def plain(machine: Accelerator) -> Accelerator:
    """A machine without bandwidths, networks, addresses and leakage."""
    levels = tuple(level.model_copy(update=_FREE) for level in machine.levels)
    return machine.model_copy(update={"levels": levels, "mac_leakage_pj": 0.0})


def prior_of(space: MapSpace | TilingSpace, which: Which) -> Prior:
    """The cheap model of a space; of tilings there is one."""
    if isinstance(space, TilingSpace):
        return _of_tilings(space)
    if space.orders is None:
        return _of_nests(space, which)
    orders = space.orders
    inside = [_of_nests(one, which) for one in orders.spaces]

    def causes(codes: Codes) -> Causes:
        # No mapping at all has the columns of the first order.
        split = list(orders.split(codes)) or [(0, np.arange(0), orders.inside(0, codes))]
        back = np.argsort(np.concatenate([rows for _, rows, _ in split]))
        return join([inside[order](own) for order, _, own in split]).rows(back)

    return causes


def _of_nests(space: MapSpace, which: Which) -> Prior:
    model, own = LoopNestModel(), space
    if which == "plain":
        own = MapSpace(space.workload, plain(space.accelerator), space.constraints)
        # All children as the first: which tilings there are is for the true count to say.
        model = LoopNestModel(counting="timeloop")
    # A free network leaves nothing to choose of the order and axes of spatial loops.
    columns = [space.attribute_names.index(name) for name in own.attribute_names]

    def causes(codes: Codes) -> Causes:
        known = np.ascontiguousarray(codes[:, columns])
        costs = model.evaluate(own, known, detail=True)
        return nest_causes(own.tables, known, costs, described=True)

    return causes


def _of_tilings(space: TilingSpace) -> Prior:
    model = AnalyticalTiling()

    def causes(codes: Codes) -> Causes:
        factors = space.factors(codes)
        # What the innermost tiles of each dimension come to, which decides what fits where.
        features = np.log(factors).astype(np.float64)
        found = plain_causes(model.evaluate(space, codes, detail=True), features)
        kernel = np.log(kernel_cycles(space, factors, model.accelerator))
        return found._replace(latency=np.maximum(found.latency, kernel), compute=kernel)

    return causes
