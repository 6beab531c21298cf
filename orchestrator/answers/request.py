"""What a search is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mapspace.errors import ArgumentError

if TYPE_CHECKING:
    from costmodel.accelerators import Accelerator, AcceleratorSource
    from costmodel.costs import Objective
    from costmodel.exact.certificate import Certificate
    from costmodel.networks import NetworkSource
    from costmodel.workloads import WorkloadSource
    from orchestrator.store.folder import Store

# What searches where there is no proof.
HEURISTIC = "structured"


@dataclass(frozen=True)
class Request:
    """What to search, and how.

    Attributes:
        workload: a preset's name, a YAML file, an inline workload, or the workload itself.
        accelerator: a preset's name, a YAML file, or the accelerator itself.
        searcher: a key of the table of searchers; None: `exact` where it applies, else the best
            heuristic.
        seconds: budget of search time; with no budget at all a proof may take a minute, another
            searcher two seconds.
        iterations: budget of cost queries.
        objective: what to minimise.
        seed: decides the search under a budget of iterations.
        surrogate: a surrogate's folder for a learned searcher; None: the shipped one.
        gap: a proof stops when the mapping is certainly within this share of the optimum.
        top: how many of the best mappings a proof finds.
        keep: tensors that a level keeps, where the machine leaves that open.
        threads: how many work on a proof at a time; None: one per processor, at most four.
        pad: search the workload with sizes padded where that is better.
        factors: `perfect` or `imperfect`, in place of what the accelerator says.
        explain: also prove what holds a proven optimum up.
        counting: of remainders, `timeloop` or `true`, in place of what the accelerator says.
        continued: the certificate of an unfinished proof of this problem, which goes on; None: a
            search begins anew.
        constraints: what mappings must obey, beside what the accelerator says.
        max_cycles: of a network's own optimum: the most cycles of its least energy.
        max_energy_pj: likewise, the most energy of its fewest cycles, pJ.
        moves: count a network's operators that only move words, such as softmax, too.
        fused: of tensors that stay on the chip: two layers in a row may be tiled together.
        islands: how many searches with that searcher exchange their best; None: it is one search.
        workers: how many islands are searched, or pieces of a proof settled, at a time, on Ray;
            1: in this process. None: islands likewise, and a proof is not shared out.
        store: where answers are kept and looked for; None: nowhere.
        warm_start: begin from the winners that the store has of similar problems.
    """

    workload: WorkloadSource
    accelerator: AcceleratorSource = "mm256"
    searcher: str | None = None
    seconds: float | None = None
    iterations: int | None = None
    objective: Objective = "edp"
    seed: int = 0
    surrogate: str | None = None
    gap: float = 0.0
    top: int = 1
    keep: Mapping[str, tuple[str, ...]] | None = None
    threads: int | None = None
    pad: bool = False
    factors: Literal["perfect", "imperfect"] | None = None
    explain: bool = False
    counting: Literal["timeloop", "true"] | None = None
    continued: Certificate | None = None
    constraints: Sequence[Mapping[str, Any]] = ()
    max_cycles: int | None = None
    max_energy_pj: float | None = None
    moves: bool = False
    fused: bool = False
    islands: int | None = None
    workers: int | None = None
    store: Store | None = None
    warm_start: bool = False

    def __post_init__(self) -> None:
        """Refuses fewer than one worker.

        Raises:
            ConfigError: what was expected.
        """
        if self.workers is not None and self.workers < 1:
            raise ArgumentError("workers", f": expected at least 1, got {self.workers}.")
        if self.warm_start and self.store is None:
            raise ArgumentError(
                "warm_start", " takes its mappings from a store, and there is none."
            )

    @property
    def on_islands(self) -> Mapping[str, Any]:
        """What the searcher of islands is told; nothing where it is one search."""
        if self.islands is None:
            return {}
        return {"of": self.searcher or HEURISTIC, "islands": self.islands}

    @property
    def network(self) -> NetworkSource:
        """The workload as a network: a preset's name, a YAML file, or the content of one."""
        source = self.workload
        return source if isinstance(source, Mapping) else str(source)

    @property
    def device(self) -> Accelerator:
        """The accelerator, with what the request says of factors, counting and constraints.

        Raises:
            ConfigError: there is none of that name or content, or constraints cannot be read.
        """
        from costmodel.accelerators import accelerator, constrained

        found = constrained(accelerator(self.accelerator), self.constraints)
        said = {"factors": self.factors, "counting": self.counting}
        changed = {key: value for key, value in said.items() if value is not None}
        return found.model_copy(update=changed) if changed else found
