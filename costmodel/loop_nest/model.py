"""The loop-nest cost model: what Timeloop computes for a mapping, for whole batches at once."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from costmodel.arrays.remainders import check_true_counting, walk_of
from costmodel.arrays.scratch import scratch_of
from costmodel.arrays.tables import NestTables
from costmodel.costs import Costs, Detail
from costmodel.loop_nest import cost_kernel
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.link_transfers import make_links
from costmodel.loop_nest.remainder_kernel import evaluate_imperfect
from costmodel.map_space.map_space import MapSpace, contiguous
from costmodel.space import Codes
from mapspace.arguments import check, checked
from mapspace.errors import ConfigError, ContractError

# Where multiply-accumulates are not counted.
NOTHING = np.empty(0)


class LoopNestModel:
    """Energy and cycles of mappings by Timeloop's counting, in closed form.

    Equal to Timeloop v3.0.3 for dense workloads, with perfect and imperfect factors: tiles,
    reads, fills and updates per level and tensor, bypass, spatial multicast and reduction, partial
    overlap of sliding windows, first-read elision of outputs, bandwidth limits, hop energy.

    Attributes:
        name: `loopnest`.
        version: changes whenever a figure could change.
        link_transfers: whether neighbours below a level hand words to each other, as Timeloop has
            it unless told otherwise (`costmodel.loop_nest.link_transfers`); None: as the machine
            says.
        counting: of mappings with remainders, `timeloop` or `true`
            (`costmodel.loop_nest.true_counting`); None: as the machine says.
    """

    name = "loopnest"
    version = "1"

    @checked
    def __init__(
        self,
        *,
        link_transfers: bool | None = None,
        counting: Literal["timeloop", "true"] | None = None,
    ) -> None:
        """Takes the switch of link transfers, and how remainders are counted."""
        self.link_transfers = link_transfers
        self.counting = counting

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
        if type(detail) is not bool:
            check("detail", detail, bool)
        space.check(codes)
        if space.orders is not None:
            return space.orders.evaluate(self.evaluate, codes, detail)
        handed = self.link_transfers
        if handed is None:
            handed = space.accelerator.link_transfers
        if handed and space.tables.machine.both.any():
            raise ConfigError("Dimensions along both axes are not counted with link transfers.")
        tables, costs = space.tables, cost_kernel.make_costs(len(codes))
        wanted = len(codes) if detail or space.remainders is not None else 0
        macs = np.full(wanted, float(space.workload.macs)) if wanted else NOTHING
        if detail:
            details = cost_kernel.make_details(tables, len(codes))
        else:  # Made anew, arrays without entries took a tenth of a call with one mapping.
            details = cost_kernel.no_details(tables.capacity.size, tables.sliding.size)
        truly = False
        scratch = scratch_of(space.tables)
        codes = contiguous(codes)
        if space.remainders is not None:
            if handed:
                raise ConfigError("Imperfect factors are not counted with link transfers.")
            walk = walk_of(space.tables, space.remainders)
            tables = self._counted(tables)
            evaluate_imperfect(tables, space.remainders, scratch, walk, codes, costs, details, macs)
            truly = tables.truly > 0
        else:
            links = make_links(space.tables) if handed else None
            cost_kernel.evaluate_mappings(
                tables, scratch, codes, costs, details, links, adds_cycles(tables)
            )
        if not detail:
            return Costs(*costs)
        counts: Any = details.counts
        if truly:
            counts = counts / np.maximum(1, details.instances)[:, None, :, None]
        elements = math.prod(level.fanout for level in space.accelerator.levels)
        return Costs(
            *costs,
            Detail(
                tile=details.tiles,
                reads=counts[:, 0],
                fills=counts[:, 1],
                updates=counts[:, 2],
                instances=details.instances,
                energy_pj=details.charges[:, 0] + details.charges[:, 1],
                network_energy_pj=details.network,
                mac_energy_pj=float(macs.max(initial=0.0)) * space.accelerator.mac_energy_pj,
                utilisation=macs / (elements * costs.latency),
            ),
        )

    def _counted(self, tables: NestTables) -> NestTables:
        """Tables of a space with remainders, with this model's counting of them."""
        truly = tables.truly if self.counting is None else int(self.counting == "true")
        if truly > tables.truly:
            check_true_counting(tables)
        return tables if truly == tables.truly else tables._replace(truly=truly)
