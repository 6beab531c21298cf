"""A cheap cost model calibrated with few true costs: a law with its parts, then a Gaussian process.

The law says what a cheap model cannot have left out by much: energy is what the model says, plus
something per word; latency is at least what the model says, at least what the words of a level
take, softly the largest of these, plus something per run and per step. Its prices start near zero,
where the law is the cheap model times a constant, and true costs move them as far as they must. A
Gaussian process learns what no price explains.

Sources: the law's latency is a roofline (Williams et al., CACM 2009) as a p-norm; a model's output
with a scale and a Gaussian process on the rest is that of Kennedy and O'Hagan, "Predicting the
output from a complex computer code when fast approximations are available", Biometrika 2000.

Letters: M mappings, N measured ones, P parameters.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.costs import POWERS, Objective
from costmodel.space import Losses
from searchers.shared.causes import Causes, Reals
from searchers.shared.gaussian_process import GaussianProcess

Correction = Literal["law+process", "law", "process", "linear", "none"]
"""What true costs correct: prices of a law, a process on the rest, both; a linear law of all
features, as a control; or nothing."""

# Least sum of words.
TINY = 1e-300

# The maximum of a roofline, softly: the p of a p-norm.
SOFTNESS = 6.0

# What a group of words adds before anything was measured, as a share of the latency, and what else
# does: a start, a step, a word's energy.
SHARE, LITTLE = 0.3, 0.01

# Weight of a parameter's way from its start, against one measurement; how far it may go.
RIDGE = 0.1
WIDEST = 12.0

# Evaluations of a fit.
MOST_STEPS = 50

# Measurements below which there is a scale alone, no process, and no choice among forms.
LEAST_LAW = 4
LEAST_PROCESS = 6
LEAST_CHOICE = 20

# Parts of the measurements in turn, by which a form is chosen.
FOLDS = 5


class Form(NamedTuple):
    """What a law is made of: `base` is a field of `Causes`, `inner` whether inner levels count."""

    base: Literal["latency", "compute"]
    inner: bool


# The first is that of few measurements.
FORMS = (Form("latency", inner=True), Form("latency", inner=False), Form("compute", inner=False))


class Law:
    """Energy and latency of mappings from a cheap model's, with prices that were fitted."""

    def __init__(self, form: Form, causes: Causes, logs: Losses, objective: Objective) -> None:
        """Fits by least squared errors of ln losses, prices held near their starts.

        Args:
            form: what the law is made of.
            causes: of N mappings, N at least 1.
            logs: `[N]` their true ln losses, finite.
            objective: what a loss is.
        """
        self.form = form
        self._powers = POWERS[objective]
        self._starts = self._start(causes)
        self._prices = np.zeros(len(self._starts))
        self._scale = float(np.median(logs - self._figure(causes, self._prices)[0]))
        self._fit(causes, logs)

    def predict(self, causes: Causes) -> Reals:
        """Predicted ln losses `[M]`."""
        return self._scale + self._figure(causes, self._prices)[0]

    def _fit(self, causes: Causes, logs: Losses) -> None:
        import scipy.optimize

        rigid = RIDGE * np.eye(len(self._prices), len(self._prices) + 1, 1)

        def errors(theta: Reals) -> Reals:
            left = theta[0] + self._figure(causes, theta[1:])[0] - logs
            return np.concatenate([left, RIDGE * theta[1:]])

        def slopes(theta: Reals) -> Reals:
            by_price = self._figure(causes, theta[1:])[1]
            return np.concatenate([np.column_stack([np.ones(len(logs)), by_price]), rigid])

        first = np.append(self._scale, self._prices)
        bounds = (first - WIDEST, first + WIDEST)
        found = scipy.optimize.least_squares(
            errors, first, slopes, bounds=bounds, max_nfev=MOST_STEPS
        ).x
        self._scale, self._prices = float(found[0]), found[1:]

    def _loads(self, causes: Causes) -> tuple[Reals, ...]:
        return causes.loads if self.form.inner else causes.loads[:1]

    def _start(self, causes: Causes) -> Reals:
        """`[P]` ln prices at which a group is a share of the figure that it belongs to."""
        energy, latency = np.exp(causes.energy), np.exp(getattr(causes, self.form.base))
        prices = []
        if self._powers[0]:
            prices += [_price(causes.words, energy, LITTLE)]
        if self._powers[1]:
            prices += [_price(load, latency, SHARE) for load in self._loads(causes)]
            prices += [_price(one, latency, LITTLE) for one in _occasions(causes).T[:, :, None]]
        return np.log(np.concatenate(prices))

    def _figure(self, causes: Causes, changes: Reals) -> tuple[Reals, Reals]:
        """`[M]` ln of the figure before its scale, and `[M, P]` its slopes.

        Args:
            causes: of M mappings.
            changes: `[P]` by which powers of e prices differ from their starts.
        """
        prices = np.exp(self._starts + changes)
        figure, slopes, taken = np.zeros(len(causes.energy)), [], 0
        if self._powers[0]:
            taken = causes.words.shape[1]
            parts = causes.words * prices[:taken]
            total = np.logaddexp(causes.energy, np.log(np.maximum(parts.sum(axis=1), TINY)))
            figure = figure + self._powers[0] * total
            slopes += [self._powers[0] * parts / np.exp(total)[:, None]]
        if self._powers[1]:
            slowest = SOFTNESS * getattr(causes, self.form.base)
            loads = []
            for load in self._loads(causes):
                parts = load * prices[taken : taken + load.shape[1]]
                taken += load.shape[1]
                sums = np.maximum(parts.sum(axis=1), TINY)
                loads.append((parts / sums[:, None], SOFTNESS * np.log(sums)))
                slowest = np.logaddexp(slowest, loads[-1][1])
            besides = _occasions(causes) * prices[taken:]
            latency = np.logaddexp(slowest / SOFTNESS, np.log(besides.sum(axis=1)))
            figure = figure + self._powers[1] * latency
            busy = np.exp(slowest / SOFTNESS - latency)
            for shares, power in loads:
                weight = busy * np.exp(power - slowest)
                slopes += [self._powers[1] * weight[:, None] * shares]
            slopes += [self._powers[1] * besides / np.exp(latency)[:, None]]
        return figure, np.concatenate(slopes, axis=1)


def _occasions(causes: Causes) -> Reals:
    """`[M, 2]` how often what takes time happens: once, and at every step."""
    return np.column_stack([np.ones(len(causes.steps)), causes.steps])


def _price(columns: Reals, of: Reals, share: float) -> Reals:
    """One price for all columns `[M, K]`, at which they are a share of something, in the median."""
    median = float(np.median(columns.sum(axis=1) / of))
    return np.full(columns.shape[1], share / median if median > 0 else share)


class Linear:
    """A line through how far a cheap model was off: ridge regression on standardised features."""

    def __init__(self, features: Reals, targets: Reals) -> None:
        """Fits targets `[N]` over features `[N, F]`, N at least 1."""
        self._centre, spread = features.mean(axis=0), features.std(axis=0)
        self._spread = np.where(spread > TINY, spread, np.inf)
        self._mean = float(targets.mean())
        points = self._standardise(features)
        square = points.T @ points + np.eye(points.shape[1])
        self._slope = np.linalg.solve(square, points.T @ (targets - self._mean))

    def predict(self, features: Reals) -> Reals:
        """Expected targets `[M]` of features `[M, F]`."""
        predicted: Reals = self._mean + self._standardise(features) @ self._slope
        return predicted

    def _standardise(self, features: Reals) -> Reals:
        standard: Reals = (features - self._centre) / self._spread
        return standard


class Calibrated:
    """A cheap model, the law fitted to what was measured, and a process on the rest."""

    def __init__(
        self,
        causes: Causes,
        logs: Losses,
        objective: Objective,
        *,
        form: Form | None = None,
        machines: npt.NDArray[np.integer] | None = None,
        correction: Correction = "law+process",
    ) -> None:
        """Fits.

        Args:
            causes: of N mappings, N 0 or more.
            logs: `[N]` their true ln losses, finite.
            objective: what a loss is.
            form: of the law; None: as `choose_form` finds it.
            machines: `[N]` which machine each was measured on, where it is for others that
                predictions are; None: for the same one.
            correction: what is fitted; without a law the cheap model stands in its place.
        """
        law, process = correction.startswith("law"), correction.endswith("process")
        self._powers = POWERS[objective]
        self.law: Law | None = None
        self.rest: GaussianProcess | Linear | None = None
        # Of fewer measurements prices would be what they were before them.
        self._shift = 0.0
        if len(logs) and correction != "none":
            self._shift = float(np.median(logs - causes.logs(*self._powers)))
        if law and len(logs) >= LEAST_LAW:
            if form is None:
                form = choose_form(causes, logs, objective, machines=machines, process=process)
            self.law = Law(form, causes, logs, objective)
        if len(logs) >= LEAST_PROCESS and (process or correction == "linear"):
            learner = GaussianProcess if process else Linear
            self.rest = learner(causes.features, logs - self._expected(causes))

    def predict(self, causes: Causes) -> Reals:
        """Predicted ln losses `[M]`; before anything was measured, up to a constant."""
        predicted = self._expected(causes)
        if self.rest is not None:
            predicted = predicted + self.rest.predict(causes.features)
        return predicted

    def _expected(self, causes: Causes) -> Reals:
        if self.law is not None:
            return self.law.predict(causes)
        return self._shift + causes.logs(*self._powers)


def choose_form(
    causes: Causes,
    logs: Losses,
    objective: Objective,
    *,
    machines: npt.NDArray[np.integer] | None = None,
    process: bool = True,
) -> Form:
    """The form of a law that predicts those of N measurements best that it has not seen.

    Whole machines are left out where there are several, else every fifth measurement. Of few
    measurements, and of energy, it is the first.
    """
    parts = np.arange(len(logs)) % FOLDS if machines is None else machines
    if len(logs) < LEAST_CHOICE or not POWERS[objective][1] or len(np.unique(parts)) < 2:
        return FORMS[0]
    measured = _Measured(causes, logs, objective, parts)
    return min(FORMS, key=lambda one: measured.error(one, process))


class _Measured(NamedTuple):
    """Measurements in parts, each of which is left out once."""

    causes: Causes
    logs: Losses
    objective: Objective
    parts: npt.NDArray[np.integer]

    def error(self, form: Form, process: bool) -> float:
        """The mean error of ln losses of a form, where they were left out."""
        total = 0.0
        for part in np.unique(self.parts):
            out = self.parts == part
            seen, logs = self.causes.rows(~out), self.logs[~out]
            law = Law(form, seen, logs, self.objective)
            predicted = law.predict(self.causes.rows(out))
            if process:
                rest = GaussianProcess(seen.features, logs - law.predict(seen))
                predicted = predicted + rest.predict(self.causes.features[out])
            total += float(np.abs(predicted - self.logs[out]).sum())
        return total / len(self.logs)
