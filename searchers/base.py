"""What every searcher is: it proposes mappings, is told their costs, and can stop anywhere.

Letters: m mappings in one proposal, D attributes of a code (a mapping as integers).

A subclass writes only its mathematics, `_ask` and `_tell`, and names in `STATE` the attributes
that make up its memory. Checks, call order, the generator and saving live here, once.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from mapspace.arguments import explained
from mapspace.errors import ConfigError, ContractError
from mapspace.strict_yaml import shown
from searchers.context import Context
from searchers.options import Options

if TYPE_CHECKING:
    from costmodel.space import Space
    from searchers.compiled.cost_function import Walk


# A proposal that no budget ever needs more of at once: it bounds memory and the work per call.
LARGEST_BATCH = 4096

# The most often that an infeasible move is proposed again before it is given up.
MOVE_ATTEMPTS = 20


class Evaluate(Protocol):
    """What a searcher may call to learn costs: it owns the budget."""

    @property
    def remaining(self) -> int:
        """Iterations left; 0 means stop."""
        ...

    @property
    def seconds_left(self) -> float | None:
        """Seconds of search left, 0 or less when they are spent; None where time is no budget."""
        ...

    @property
    def elapsed(self) -> float:
        """Seconds of search so far."""
        ...

    @property
    def query_latency(self) -> float:
        """Virtual seconds that a true query takes."""
        ...

    def __call__(self, codes: Codes, *, surrogate_queries: int = 0, counted: bool = True) -> Losses:
        """Costs of the mappings `[m, D]` as losses `[m]`, inf where infeasible.

        Args:
            codes: the mappings.
            surrogate_queries: surrogate queries spent to find them, counted as iterations.
            counted: False if the losses are only recorded, never used: then these true queries
                are neither iterations nor search time.
        """
        ...

    def walk(self, walk: Walk) -> bool:
        """Lets compiled code search by itself for a while; False where costs are not compiled."""
        ...


class Library(NamedTuple):
    """A library that a searcher needs, and the command that installs it."""

    module: str
    install: str


@explained
class Searcher(ABC):
    """Asks for mappings, is told their losses.

    ```
    searcher = Random(space, seed=0)
    while evaluate.remaining:
        codes = searcher.ask(evaluate.remaining)
        searcher.tell(evaluate(codes))
    ```

    Semantics that the contract tests hold every searcher to:
        * One seed gives one run, in any process; another seed gives another run. Where a network
          or linear algebra decides, that holds for the same libraries on the same kind of
          processor: sums in floating point may differ elsewhere.
        * `ask(n)` spends at most n iterations: rows returned plus surrogate queries made.
        * Every proposal is feasible as far as `space.feasible` can tell. That check is a look at
          tile sizes, no cost query, and is free of budget for every searcher alike.
        * `tell` takes one loss per row of the last `ask`, in its order. inf is an answer (the
          mapping is infeasible), nan is a bug of the caller and refused.
        * After `load_state_dict(state_dict())` on a new object the run continues exactly, also
          between `ask` and `tell`.

    Attributes:
        OPTIONS: the model of its hyperparameters, with its presets.
        USES: what it reads of its context, fields of `Context`; its constructor then takes one.
        SPACES: the kinds of space that it searches; empty: every kind.
        BLACK_BOX: whether it knows the space alone; False if it knows what a buffer, an array or
            a loop's reuse is.
        LIBRARY: a library that this project does not depend on, imported when it is made.
        EXHAUSTIBLE: whether it may end before its budget does, with nothing more to propose.
        ASYNCHRONOUS: whether it can be asked for more while losses are out
            (`searchers.shared.asynchronous`).
        TAKES_MIGRANTS: whether it can make use of a mapping that another search found (`take_in`).
        SLOW: whether it learns for minutes; `mapspace run` leaves it out.
        QUICK: hyperparameters that turn down what only costs time, for tests.
        STATE: names of the attributes that a subclass remembers between calls: arrays, numbers,
            strings, None, and dictionaries and lists of these.
        preparation: what a user waits for when the first object is made and asked.
        functions: how many are compiled for that in a new installation, about; None: not counted.
        learns: False if losses are only recorded, so that true queries cost nothing.
        failure: why a searcher ended before its budget although it was not done, such as a network
            that diverged; None where nothing failed. It is then exhausted, and what was found so
            far stands.
    """

    OPTIONS: ClassVar[type[Options]] = Options
    USES: ClassVar[frozenset[str]] = frozenset()
    SPACES: ClassVar[tuple[type[Any], ...]] = ()
    BLACK_BOX: ClassVar[bool] = True
    LIBRARY: ClassVar[Library | None] = None
    EXHAUSTIBLE: ClassVar[bool] = False
    ASYNCHRONOUS: ClassVar[bool] = False
    TAKES_MIGRANTS: ClassVar[bool] = False
    SLOW: ClassVar[bool] = False
    QUICK: ClassVar[Mapping[str, Any]] = {}
    STATE: ClassVar[tuple[str, ...]] = ()
    preparation: ClassVar[str] = "loading compiled code"
    functions: ClassVar[int | None] = None
    learns: bool = True
    failure: str | None = None

    def __init_subclass__(cls, **further: Any) -> None:
        super().__init_subclass__(**further)
        explained(cls)

    def __init__(
        self, space: Space, options: Options, *, seed: int, context: Context | None = None
    ) -> None:
        """Starts a search; users call `searchers.make`, which checks what it is given.

        Args:
            space: where to search, of one of `SPACES`.
            options: hyperparameters, of the class `OPTIONS`.
            seed: non-negative; decides the whole run.
            context: what the host knows of the run; None: nothing.

        Raises:
            ConfigError: the seed is no non-negative integer.
        """
        check_seed(seed)
        self.space = space
        self.options = options
        self.context = context or Context()
        self.rng = np.random.Generator(np.random.PCG64(int(seed)))
        self.surrogate_queries = 0
        self._asked: Codes | None = None

    @classmethod
    def libraries(cls) -> tuple[str, ...]:
        """The modules of all that it needs beside the core, a shipped surrogate's included."""
        own = () if cls.LIBRARY is None else (cls.LIBRARY.module,)
        return own + (("safetensors", "torch") if "predictor" in cls.USES else ())

    @classmethod
    def check(cls, name: str, space: Space, options: Any) -> None:
        """Refuses what cannot be searched, before anything is compiled, read or begun.

        Args:
            name: what the searcher is called.
            space: where to search.
            options: hyperparameters, of the class `OPTIONS`.

        Raises:
            ConfigError: the space is of none of `SPACES`, or nothing that this searcher takes.
        """
        if cls.SPACES and not isinstance(space, cls.SPACES):
            kinds = " or ".join(kind.__name__ for kind in cls.SPACES)
            raise ConfigError(f"The {name} searcher needs a {kinds}, got {type(space).__name__}.")

    @property
    def lower_bound(self) -> float | None:
        """A loss that no mapping undercuts, where the searcher can prove one; else None."""
        return None

    @property
    def conclusion(self) -> str | None:
        """What is certain of the best mapping proposed, in words for people; None: nothing."""
        return None

    @property
    def awaits_losses(self) -> bool:
        """Whether the last proposal's losses have yet to be told."""
        return self._asked is not None

    def ask(self, n: int) -> Codes:
        """Proposes mappings.

        Args:
            n: iterations that may be spent, at least 1.

        Returns:
            `[m, D]` int32 with m plus the surrogate queries of this call at most n. With m = 0
            and no surrogate query made, the searcher is exhausted.

        Raises:
            ContractError: n < 1, or the last proposal's losses have not been told.
        """
        if n < 1:
            raise ContractError(f"ask(n) needs n >= 1, got {n}.")
        if self._asked is not None:
            raise ContractError(
                f"ask() was called twice: tell() the losses of the last {len(self._asked)} "
                "mappings first."
            )
        self._asked = np.ascontiguousarray(self._ask(int(n)), dtype=np.int32)
        return self._asked.copy()

    def tell(self, losses: npt.ArrayLike) -> None:
        """Takes the losses of the last proposal.

        Args:
            losses: `[m]`, rows as asked; inf for an infeasible mapping.

        Raises:
            ContractError: nothing was asked, the shape is wrong, or a loss is nan.
        """
        if self._asked is None:
            raise ContractError("tell() was called without calling ask() first.")
        try:
            told = np.array(losses, dtype=np.float64)
        except (TypeError, ValueError):
            raise ContractError(f"Expected losses, numbers, got {shown(losses)}.") from None
        if told.shape != (len(self._asked),):
            raise ContractError(
                f"Expected losses of shape ({len(self._asked)},), one per row that ask() "
                f"returned, but got {told.shape}."
            )
        if np.isnan(told).any():
            row = int(np.flatnonzero(np.isnan(told))[0])
            raise ContractError(f"The loss of row {row} is nan; an infeasible mapping has inf.")
        asked, self._asked = self._asked, None
        self._tell(asked, told)

    def take_in(self, codes: Codes, losses: Losses) -> None:
        """Takes mappings that another search found; they count as no query.

        Args:
            codes: `[m, D]` feasible mappings of the space.
            losses: `[m]` their finite losses.

        Raises:
            ContractError: it has no use for them, or the last proposal's losses have not been told.
        """
        if not self.TAKES_MIGRANTS or self.awaits_losses:
            why = "awaits losses" if self.awaits_losses else "has no use for mappings of others"
            raise ContractError(f"take_in(): {type(self).__name__} {why}.")
        self._take_in(codes, losses)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the run continues, as copies.

        Returns:
            Arrays, numbers, strings, None, and dictionaries and lists of these.
        """
        return {
            "searcher": type(self).__name__,
            "generator": self.rng.bit_generator.state,
            "surrogate_queries": self.surrogate_queries,
            "asked": copy.deepcopy(self._asked),
            "memory": {name: copy.deepcopy(getattr(self, name)) for name in self.STATE},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()` of a searcher made with the same arguments.

        Raises:
            ContractError: the state is another searcher's, or has other fields.
        """
        if state.get("searcher") != type(self).__name__:
            raise ContractError(
                f"Expected the state of {type(self).__name__}, got that of "
                f"{state.get('searcher')!r}."
            )
        memory = state["memory"]
        if set(memory) != set(self.STATE):
            raise ContractError(
                f"Expected a memory of {', '.join(self.STATE) or 'nothing'}; got "
                f"{', '.join(memory) or 'nothing'}."
            )
        self.rng.bit_generator.state = copy.deepcopy(state["generator"])
        self.surrogate_queries = int(state["surrogate_queries"])
        asked = state["asked"]
        self._asked = None if asked is None else np.array(asked, dtype=np.int32)
        for name in self.STATE:
            setattr(self, name, copy.deepcopy(memory[name]))

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Searches until the budget is spent or the searcher is exhausted.

        Args:
            evaluate: scores mappings and owns the budget.
            after_step: called after every `tell`, for progress and checkpoints.
        """
        while (remaining := evaluate.remaining) > 0 and self.step(evaluate, remaining):
            if after_step is not None:
                after_step(self)

    def step(self, evaluate: Evaluate, remaining: int) -> bool:
        """Asks, evaluates and tells once.

        Args:
            evaluate: scores mappings and owns the budget.
            remaining: iterations left, at least 1.

        Returns:
            False if the searcher is exhausted.
        """
        spent = -self.surrogate_queries
        codes = self.ask(remaining)
        spent += self.surrogate_queries
        if len(codes) == 0 and spent == 0:
            # So that the object stays usable: an exhausted searcher awaits no losses.
            self.tell(np.empty(0))
            return False
        self.tell(evaluate(codes, surrogate_queries=spent, counted=self.learns))
        return True

    def _take_in(self, codes: Codes, losses: Losses) -> None:
        """Makes use of mappings `[m, D]` with losses `[m]`, where `TAKES_MIGRANTS` says so."""
        raise NotImplementedError

    @abstractmethod
    def _ask(self, n: int) -> Codes:
        """Proposes at most n mappings `[m, D]`; surrogate queries count towards n."""

    @abstractmethod
    def _tell(self, codes: Codes, losses: Losses) -> None:
        """Learns from the losses `[m]` of the codes `[m, D]` that `_ask` returned."""


def check_seed(seed: object) -> None:
    """Refuses what no search can begin from.

    Raises:
        ConfigError: the seed is no non-negative integer.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"A seed must be a non-negative integer, got {seed!r}.")


def log_losses(losses: Losses) -> Losses:
    """Natural logarithms `[m]` of losses that are 0 or more; inf stays inf."""
    return np.log(np.maximum(losses, np.finfo(np.float64).tiny))


def metropolis(
    rng: np.random.Generator,
    current: Losses,
    proposed: Losses,
    temperature: float | Losses,
) -> npt.NDArray[np.bool_]:
    """Metropolis' rule: take what is no worse, and what is worse with probability exp(-d / T).

    Args:
        rng: one number is drawn per row, whatever the losses are.
        current: `[m]` losses held, in the units of the temperature; inf allowed.
        proposed: `[m]` losses offered; inf allowed.
        temperature: above 0, one or `[m]`.

    Returns:
        `[m]` whether to move. From one infeasible mapping to another it always moves.
    """
    draws = rng.random(len(current))
    both = np.isfinite(current) & np.isfinite(proposed)
    rise = np.where(both, proposed, 0.0) - np.where(both, current, 0.0)
    # Scale before the exponential and clip: far rises underflow to a plain refusal.
    chance = np.exp(-np.minimum(np.maximum(rise, 0.0) / temperature, 700.0))
    result: npt.NDArray[np.bool_] = np.where(both, draws < chance, ~np.isfinite(current))
    return result


def feasible_moves(
    space: Space, codes: Codes, propose: Callable[[Codes], Codes]
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """Proposes one move per row until it is feasible, a bounded number of times.

    Args:
        space: says what is feasible.
        codes: `[m, D]` where to move from.
        propose: draws one move per row of what it is given.

    Returns:
        `[m, D]` the moves, and `[m]` whether each is feasible; a row that found none is the
        unmoved code.
    """
    moved = codes.copy()
    done = np.zeros(len(codes), dtype=bool)
    for _ in range(MOVE_ATTEMPTS):
        open_rows = np.flatnonzero(~done)
        if not open_rows.size:
            break
        candidates = propose(codes[open_rows])
        good = space.feasible(candidates)
        moved[open_rows[good]] = candidates[good]
        done[open_rows[good]] = True
    return moved, done
