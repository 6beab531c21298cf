"""A cheap model teaches, expensive truth corrects: few true queries, each of them well chosen.

As `searchers.model_guided`, with a cheap analytic model in place of a law without prices: chains
walk by its prediction from the first batch on. After every batch the model is calibrated with all
true costs (`searchers.shared.calibration`): prices for what it leaves out, and a Gaussian process
on what no price explains. Idea: Kennedy and O'Hagan, Biometrika 2000.

Tilings of a matrix product are chosen otherwise, without chains: what tells them apart is what a
compiler makes of loops, of which the cheap model knows nothing (`searchers.shared.tiling_choice`).

The cheap model is that of the space: the loop-nest model for mappings, the tiling model for tilings
of a matrix product. Its queries are no iterations here, thousands of them for every batch: this is
for truths beside which they take no time, such as a simulation of hardware or a measurement.

Letters: M candidates, D attributes of a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from costmodel.costs import POWERS
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tiling.space import TilingSpace
from mapspace.errors import ConfigError
from searchers.context import Context
from searchers.model_guided import GuidedOptions, GuidedSearcher, Reals
from searchers.options import Count, Flag, ShareBelowOne
from searchers.scales import refused_as_worse
from searchers.shared.calibration import (
    FORMS,
    LEAST_CHOICE,
    Calibrated,
    Correction,
    Form,
    choose_form,
)
from searchers.shared.one_thread import one_thread
from searchers.shared.priors import Which, prior_of
from searchers.shared.tiling_choice import Chooser, Measured


class MultiFidelityOptions(GuidedOptions):
    """Hyperparameters of the search by a cheap model that true costs correct."""

    prior: Which = "model"
    """`model`: the space's analytic model; `plain`: the same without the machine's bandwidths,
    networks, addresses, leakage and true counts of remainders, as a truth to be learnt."""
    correction: Correction | Literal["auto", "bodies"] = "auto"
    """What true costs correct: prices of a law, a process on the rest, both; a line through all
    features; or nothing (the mappings that the cheap model ranks best, one after another).
    `bodies`: of tilings, a process that knows of innermost loops and how little it knows, in place
    of chains and random shares. `auto`: that one on tilings, law and process on mappings."""
    shuffled: Flag = False
    """Evaluate what the chains have met in random order: what the ranking is worth."""
    batch: Count = 6
    random_share: ShareBelowOne = 0.25


class MultiFidelity(GuidedSearcher):
    """Evaluates what a cheap model, corrected by the evaluations so far, predicts to be best."""

    OPTIONS = MultiFidelityOptions
    USES = frozenset({"objective"})
    SPACES: ClassVar[tuple[type[Any], ...]] = (MapSpace, TilingSpace)
    BLACK_BOX = False
    # To choose among laws takes what only a dear truth is worth.
    QUICK: ClassVar[Mapping[str, Any]] = {**GuidedSearcher.QUICK, "correction": "process"}
    options: MultiFidelityOptions

    def __init__(
        self,
        space: MapSpace | TilingSpace,
        options: MultiFidelityOptions,
        *,
        seed: int,
        context: Context | None = None,
    ) -> None:
        """Prepares the cheap model; see `Searcher`.

        Raises:
            ConfigError: bodies are asked for of another space.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.prior = prior_of(space, options.prior)
        self.correction: Correction = "law+process"
        # What chooses tilings by their bodies, where that is asked for.
        self._chooser: Chooser | None = None
        if options.correction != "auto" and options.correction != "bodies":
            self.correction = options.correction
        elif isinstance(space, TilingSpace):
            self._chooser = Chooser(space, self.prior, self.rng, self._never_proposed)
        elif options.correction == "bodies":
            raise ConfigError(
                f"correction: bodies needs a TilingSpace, got {type(space).__name__}."
            )
        # Forms of laws by the number of evaluations that they were chosen by: not part of the
        # memory, since they follow from it.
        self._forms: dict[int, Form] = {}

    def _fit(self) -> Corrected:
        return Corrected(self)

    @one_thread()
    def _propose(self) -> Codes:
        if self._chooser is None:
            return super()._propose()
        batch, finite = self.options.batch, np.isfinite(self._logs)
        if not finite.any():
            return self._unseen(self._chooser.first(2 * batch), 2 * batch)
        kept = np.argsort(self._logs, kind="stable")[: self.options.memory]
        out = np.stack([*self.out.values()]) if self.out else self._batch[:0]
        measured = Measured(self._codes[kept], refused_as_worse(self._logs)[kept], out)
        chosen = self._chooser.next(measured, batch, shuffled=self.options.shuffled)
        return self._unseen(chosen, batch)

    def _never_proposed(self, codes: Codes) -> Codes:
        return codes[self._visited.fresh(codes)]

    def _walk(self, model: Any) -> Codes:
        met = super()._walk(model)
        return self.rng.permutation(met) if self.options.shuffled else met

    def form(self) -> Form:
        """The form of the law: chosen anew whenever the evaluations have doubled."""
        finite = np.flatnonzero(np.isfinite(self._logs))
        count = LEAST_CHOICE
        while 2 * count <= len(finite):
            count *= 2
        if len(finite) < count:
            return FORMS[0]
        if count not in self._forms:
            rows = finite[:count]
            self._forms[count] = choose_form(
                self.prior(self._codes[rows]),
                self._logs[rows],
                self.context.objective,
                process=self.correction.endswith("process"),
            )
        return self._forms[count]

    def evaluated(self) -> tuple[Codes, Reals]:
        """The mappings evaluated so far `[N, D]` and their ln losses `[N]`, refused ones too."""
        return self._codes, self._logs


class Corrected:
    """The cheap model with what the evaluations so far say of it."""

    def __init__(self, searcher: MultiFidelity) -> None:
        """Calibrates with what the searcher has evaluated."""
        self._prior, options = searcher.prior, searcher.options
        codes, logs = searcher.evaluated()
        objective = searcher.context.objective
        self._powers = POWERS[objective]
        self._calibrated: Calibrated | None = None
        finite = np.isfinite(logs)
        if searcher.correction == "none" or not finite.any():
            return
        logs = refused_as_worse(logs)
        kept = np.argsort(logs, kind="stable")[: options.memory]
        self._calibrated = Calibrated(
            self._prior(codes[kept]),
            logs[kept],
            objective,
            form=searcher.form() if searcher.correction.startswith("law") else None,
            correction=searcher.correction,
        )

    def predict(self, codes: Codes) -> Reals:
        """Predicted ln losses `[M]` of codes `[M, D]`, up to a constant."""
        if not len(codes):
            return np.empty(0)
        causes = self._prior(codes)
        if self._calibrated is None:
            return causes.logs(*self._powers)
        return self._calibrated.predict(causes)
