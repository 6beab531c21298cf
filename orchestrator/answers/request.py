"""What a search is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mapspace.errors import ArgumentError, ConfigError, refuse, together

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.exact.certificate import Certificate
    from costmodel.machines.accelerators import Accelerator, AcceleratorSource
    from costmodel.networks.network import NetworkSource, ReadNetwork
    from costmodel.problems.affine import Workload
    from costmodel.problems.workloads import WorkloadSource
    from orchestrator.store.folder import Store

# What searches where there is no proof.
HEURISTIC = "structured"
# What finds the best mapping of a small space; no searcher.
ENUMERATION = "enumeration"
MOST = 1 << 63
"""What seeds and numbers of iterations stay below, so that every door can keep them."""


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
        threads: 1: a proof and the search beside it take turns; None: each has a thread.
        pad: search the workload with sizes padded where that is better.
        factors: `perfect` or `imperfect`, in place of what the accelerator says.
        explain: also prove what holds a proven optimum up.
        counting: of remainders, `timeloop` or `true`, in place of what the accelerator says.
        axes: how many axes of a mesh a dimension may run along at once, `one` or `both`, in place
            of what the accelerator says, but for levels that say it themselves.
        tiles: whether tensors of a level are stored at loops of their own, `together` or `apart`,
            likewise.
        link_transfers: whether neighbours on a mesh hand words to each other, in place of what the
            accelerator says.
        continued: the certificate of an unfinished proof of this problem, which goes on; None: a
            search begins anew.
        bits: of a value, by tensor or role, in place of what the workload says; None: nothing.
        constraints: what mappings must obey, beside what the accelerator says.
        max_cycles: of a network's own optimum: the most cycles of its least energy.
        max_energy_pj: likewise, the most energy of its fewest cycles, pJ.
        moves: count a network's operators that only move words, such as softmax, too.
        fused: of tensors that stay on the chip: layers in a row may be cascades.
        islands: how many searches with that searcher exchange their best; None: it is one search.
        workers: how many islands are searched, or pieces of a proof settled, at a time, on Ray;
            1: in this process. None: islands likewise, and a proof is not shared out.
        store: where answers are kept and looked for; None: nowhere.
        warm_start: begin from the winners that the store has of similar problems.
        preset: a named set of the searcher's hyperparameters; None: its defaults.
        parameters: hyperparameters of the searcher, beside those of the preset; None: none.
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
    axes: Literal["one", "both"] | None = None
    tiles: Literal["together", "apart"] | None = None
    link_transfers: bool | None = None
    continued: Certificate | None = None
    bits: Mapping[str, int] | None = None
    constraints: Sequence[Mapping[str, Any]] = ()
    max_cycles: int | None = None
    max_energy_pj: float | None = None
    moves: bool = False
    fused: bool = False
    islands: int | None = None
    workers: int | None = None
    store: Store | None = None
    warm_start: bool = False
    preset: str | None = None
    parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuses fewer than one worker or thread, and a warm start from nothing.

        Raises:
            ConfigError: what was expected.
        """
        wrong = []
        for name, given, least in (("workers", self.workers, 1), ("threads", self.threads, 0)):
            if given is not None and given < least:
                wrong.append(ArgumentError(name, f": expected at least {least}, got {given}."))
        if not 0 <= self.gap <= 1:
            meant = f"; did you mean {self.gap / 100:g}?" if 1 < self.gap <= 100 else "."
            why = f": expected a share of the optimum, 0 to 1, got {self.gap:g}{meant}"
            wrong.append(ArgumentError("gap", why))
        for name, given in (("seed", self.seed), ("iterations", self.iterations)):
            if given is not None and given >= MOST:
                wrong.append(ArgumentError(name, f": expected less than 2^63, got {given:.3g}."))
        if self.warm_start and self.store is None:
            why = " takes its mappings from a store, and there is none."
            wrong.append(ArgumentError("warm_start", why))
        refuse(wrong)

    def told(self, name: str) -> tuple[str | None, dict[str, Any]]:
        """Preset and hyperparameters that its searcher is told, read and found allowed.

        Args:
            name: the searcher that the request comes to.

        Raises:
            ConfigError: an unknown searcher, preset or hyperparameter, a value that is not allowed,
                or what only a proof or a learned searcher can give.
        """
        import searchers

        cls = searchers.searcher_class(name)
        preset, parameters = self.preset, dict(self.parameters or {})
        if self.islands is not None:
            of_each = parameters | ({"preset": preset} if preset else {})
            told = {"of": self.searcher or HEURISTIC, "islands": self.islands}
            preset, parameters = None, told | ({"parameters": of_each} if of_each else {})
        options = {"gap": (self.gap, 0.0), "top": (self.top, 1), "keep": (self.keep, None)}
        wrong: list[ConfigError] = []
        for key, (value, default) in options.items():
            if name == "exact" and key in parameters:
                why = " is an option of its own, not a hyperparameter to set."
                wrong.append(ArgumentError(key, why))
            elif value != default and name == "exact":
                parameters[key] = value
            elif value != default:
                why = f" is for the exact searcher; {name} has no such parameter."
                wrong.append(ArgumentError(key, why))
        if self.surrogate is not None and "predictor" not in cls.USES:
            why = f" is for a learned searcher such as gradient; {name} has no such parameter."
            wrong.append(ArgumentError("surrogate", why))
        checks: list[Callable[[], object]] = [lambda: refuse(wrong)]
        without = [*self._without_searcher(name)]
        wrong += without
        if not without:
            checks.append(lambda: cls.OPTIONS.read(name, preset, parameters))
        together(*checks)
        return preset, parameters

    def _without_searcher(self, name: str) -> Iterator[ConfigError]:
        """Why a preset or hyperparameters cannot be meant for the method that is taken by itself.

        Args:
            name: that method.
        """
        import searchers

        if self.searcher is not None or self.islands is not None:
            return
        own = searchers.searcher_class(name).OPTIONS
        why = f": expected a searcher beside it; without one {name} searches here, which has no"
        if self.preset is not None and self.preset not in own.PRESETS:
            yield ArgumentError("preset", f"{why} preset {self.preset!r}.")
        unknown = sorted({*(self.parameters or {})} - {*own.model_fields})
        if unknown:
            yield ArgumentError("parameters", f"{why} hyperparameter {' or '.join(unknown)}.")

    def resolved(self, name: str) -> dict[str, Any]:
        """All hyperparameters that its searcher runs with, as JSON types; see `told`."""
        import searchers

        return {} if name == ENUMERATION else searchers.resolved(name, *self.told(name))

    @property
    def network(self) -> NetworkSource:
        """The workload as a network: a preset's name, a YAML file, or the content of one."""
        source = self.workload
        return source if isinstance(source, Mapping) else str(source)

    @cached_property
    def read_network(self) -> ReadNetwork:
        """The workload as a network, read once.

        Raises:
            ConfigError: there is none of that name or content.
        """
        from costmodel.networks.network import read_network

        return read_network(self.network)

    @property
    def operation(self) -> Workload:
        """The workload, with what the request says of its tensors' bits.

        Raises:
            ConfigError: there is none of that name or content, or a tensor that it has not.
        """
        from costmodel.problems.bits import with_bits
        from costmodel.problems.workloads import workload

        found = workload(self.workload)
        return found if self.bits is None else with_bits(found, self.bits)

    @property
    def layers(self) -> tuple[str, list[tuple[Workload, int]]]:
        """The network's name, and its distinct layers with how often each occurs, likewise.

        Raises:
            ConfigError: as `operation`; bits where what only moves words is counted.
        """
        from costmodel.problems.bits import check_words, layers_with_bits

        name, layers = self.read_network.name, self.read_network.layers
        if self.bits is not None:
            layers = layers_with_bits(layers, self.bits)
        for layer, _ in layers if self.moves else ():
            check_words(layer, "what moves between layers (--moves)")
        return name, layers

    @property
    def device(self) -> Accelerator:
        """The accelerator, with what the request says of it and of constraints.

        Raises:
            ConfigError: there is none of that name or content, or constraints cannot be read.
        """
        from costmodel.machines.accelerators import accelerator, constrained

        found = constrained(accelerator(self.accelerator), self.constraints)
        return self.as_asked(found)

    def as_asked(self, machine: Accelerator) -> Accelerator:
        """A machine with what the request says of factors, counting, axes, tiles and links.

        Raises:
            ConfigError: what the machine has is not counted under them.
        """
        keys = ("factors", "counting", "axes", "tiles", "link_transfers")
        said = {key: getattr(self, key) for key in keys}
        changed = {key: value for key, value in said.items() if value is not None}
        return machine.with_rules(**changed) if changed else machine
