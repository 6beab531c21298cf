"""The loop-nest cost model: what Timeloop computes for a mapping, for whole batches at once."""

from __future__ import annotations

import math

import numpy as np

from costmodel.arrays.remainders import walk_of
from costmodel.arrays.scratch import scratch_of
from costmodel.costs import Costs, Detail
from costmodel.loop_nest import cost_kernel
from costmodel.loop_nest.link_transfers import make_links
from costmodel.loop_nest.remainder_kernel import evaluate_imperfect
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError, ContractError


class LoopNestModel:
    """Energy and cycles of mappings by Timeloop's counting, in closed form.

    Equal to Timeloop v3.0.3 for dense workloads, with perfect and imperfect factors: tiles,
    reads, fills and updates per level and tensor, bypass, spatial multicast and reduction, partial
    overlap of sliding windows, first-read elision of outputs, bandwidth limits, hop energy.

    Attributes:
        name: `loopnest`.
        version: changes whenever a figure could change.
        link_transfers: whether neighbours below a level hand words to each other, as Timeloop has
            it unless told otherwise (`costmodel.loop_nest.link_transfers`).
    """

    name = "loopnest"
    version = "1"

    def __init__(self, *, link_transfers: bool = False) -> None:
        """Takes the switch of link transfers."""
        self.link_transfers = link_transfers

    def evaluate(self, space: MapSpace, codes: Codes, *, detail: bool = False) -> Costs:
        """Costs of a batch of mappings.

        Args:
            space: the map space that the codes belong to.
            codes: `[B, D]`.
            detail: also return counts per level and tensor.

        Returns:
            Costs `[B]`; energy in pJ, latency in cycles, inf with a status where infeasible.

        Raises:
            ContractError: the space is no loop-nest map space, or the codes are none of its.
        """
        if not isinstance(space, MapSpace):
            raise ContractError(f"LoopNestModel needs a MapSpace, got {type(space).__name__}.")
        space.check(codes)
        if space.orders is not None:
            return space.orders.evaluate(self.evaluate, codes, detail)
        costs = cost_kernel.make_costs(len(codes))
        details = cost_kernel.make_details(space.tables, len(codes) if detail else 0)
        macs = np.full(len(codes), float(space.workload.macs))
        scratch = scratch_of(space.tables)
        codes = np.ascontiguousarray(codes, dtype=np.int32)
        if space.remainders is not None:
            if self.link_transfers:
                raise ConfigError("Imperfect factors are not counted with link transfers.")
            evaluate_imperfect(
                space.tables, space.remainders, scratch, walk_of(space.tables, space.remainders),
                codes, costs, details, macs,
            )  # fmt: skip
        else:
            links = make_links(space.tables) if self.link_transfers else None
            cost_kernel.evaluate_mappings(space.tables, scratch, codes, costs, details, links)
        if not detail:
            return Costs(*costs)
        elements = math.prod(level.fanout for level in space.accelerator.levels)
        return Costs(
            *costs,
            Detail(
                tile=details.tiles,
                reads=details.counts[:, 0],
                fills=details.counts[:, 1],
                updates=details.counts[:, 2],
                instances=details.instances,
                energy_pj=details.charges[:, 0] + details.charges[:, 1],
                network_energy_pj=details.network,
                mac_energy_pj=float(macs.max(initial=0.0)) * space.accelerator.mac_energy_pj,
                utilisation=macs / (elements * costs.latency),
            ),
        )
