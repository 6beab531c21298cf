"""A Gaussian process on programs: smooth in what they do, and a chance of its own for every body.

What a compiler makes of the innermost loops is no smooth function of their lengths: a loop of four
is unrolled and one of eight is not. So the kernel has two parts besides a line: a Matern 5/2 with a
length for each feature, and one that says next to nothing from one innermost body to the next. The
second also says how little is known of a body that was never measured, which a search has to
find worth a try.

Lengths, variances and the noise are those of the largest posterior density, by gradients. Sources:
Rasmussen & Williams, "Gaussian Processes for Machine Learning", 2006, equations 4.17, 5.1 and 5.9;
what is believed while a batch is chosen: Ginsbourger, Le Riche and Carraro, "Kriging is well-suited
to parallelize optimization", 2010.

Letters: N points, M queries, F features, G coordinates of a body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

# Length of a body's part, in its coordinates (doublings); half of one: neighbours tell 14 %.
BODY_LENGTH = 0.5

# What is expected before anything is seen: standard deviations of the body's part and of the line,
# as shares of the targets' spread, and of the noise, in the targets' own unit.
BODY, LINE, NOISE = 0.3, 0.3, 0.03
# How far off any of these may be, as a standard deviation of its logarithm, and the most it may be.
DOUBT, FARTHEST = 1.0, 4.0

# Evaluations of a fit are about this many.
MOST_STEPS = 40

# Least spread of a feature or target that counts as a spread, and least variance.
TINY = 1e-12


class BodyProcess:
    """A fit of targets `[N]` over features `[N, F]` and bodies `[N, G]`."""

    def __init__(self, features: Reals, bodies: Reals, targets: Reals) -> None:
        """Fits.

        Args:
            features: `[N, F]`, finite, N at least 1; standardised here.
            bodies: `[N, G]` in units in which 1 makes another body.
            targets: `[N]`, finite, in a unit in which `NOISE` is a usual error.
        """
        self._centre, spread = features.mean(axis=0), features.std(axis=0)
        self._used = spread > TINY * (1 + np.abs(self._centre))
        self._spread = spread[self._used]
        self._points, self._bodies = self._standardise(features), bodies
        self._mean = float(targets.mean())
        self._scale = max(float(targets.std()), NOISE)
        self._targets = (targets - self._mean) / self._scale
        # Logarithms: of a length per feature, then of the deviations of four parts.
        self._theta = self._start()
        self._theta = self._fitted()
        self._solve()

    def predict(self, features: Reals, bodies: Reals) -> tuple[Reals, Reals]:
        """Posterior means and standard deviations `[M]` of queries `[M, F]`, `[M, G]`."""
        import scipy.linalg

        points = self._standardise(features)
        kernel = self._kernel(points, bodies)
        means = self._mean + self._scale * (kernel @ self._weights)
        told = scipy.linalg.solve_triangular(self._factor, kernel.T, lower=True)
        smooth, body, _, line = np.exp(2 * self._theta[-4:])
        own = smooth + body + line * (points**2).sum(axis=1) / max(1, points.shape[1])
        left = np.maximum(own - (told**2).sum(axis=0), TINY)
        return means, self._scale * np.sqrt(left)

    def believe(self, features: Reals, bodies: Reals) -> None:
        """Takes its own means of queries `[M, F]`, `[M, G]` for measured: less is open there."""
        means = (self.predict(features, bodies)[0] - self._mean) / self._scale
        self._points = np.concatenate([self._points, self._standardise(features)])
        self._bodies = np.concatenate([self._bodies, bodies])
        self._targets = np.append(self._targets, means)
        self._solve()

    def _start(self) -> Reals:
        """`[F + 4]` logarithms that are expected: as much as all features tell together, each."""
        count = self._points.shape[1]
        length = 0.5 * np.log(max(1, count))
        return np.append(np.full(count, length), np.log([1.0, BODY, NOISE / self._scale, LINE]))

    def _fitted(self) -> Reals:
        """`[F + 4]` those of the largest posterior density, nearly."""
        import scipy.optimize

        points, targets, start = self._points, self._targets, self._theta
        total, count = points.shape
        squares = ((points[:, None] - points[None]) ** 2).transpose(2, 0, 1).reshape(count, -1)
        body, one = self._alike(self._bodies), np.eye(total)
        line = points @ points.T / max(1, count)

        def density(theta: Reals) -> tuple[float, Reals]:
            """Minus the logarithm of the posterior density, and its slopes."""
            weights, parts = np.exp(-2 * theta[:count]), np.exp(2 * theta[count:])
            smooth, falls = _matern((weights @ squares).reshape(total, total))
            kernel = parts[0] * smooth + parts[1] * body + parts[2] * one + parts[3] * line
            try:
                factor = np.linalg.cholesky(kernel)
            except np.linalg.LinAlgError:
                return np.inf, np.zeros_like(theta)
            inverse = scipy.linalg.cho_solve((factor, True), one)
            solved = inverse @ targets
            way = (theta - start) / DOUBT
            value = 0.5 * targets @ solved + np.log(factor.diagonal()).sum() + 0.5 * way @ way
            pull = 0.5 * (inverse - np.outer(solved, solved))
            slopes = np.empty_like(theta)
            slopes[:count] = -2 * weights * (squares @ (pull * falls * parts[0]).ravel())
            sums = [(pull * part).sum() for part in (smooth, body, one, line)]
            slopes[count:] = 2 * parts * sums
            return float(value), slopes + way / DOUBT

        bounds = [(value - FARTHEST, value + FARTHEST) for value in start]
        found: Any = scipy.optimize.minimize(
            density, start, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": MOST_STEPS},
        )  # fmt: skip
        theta: Reals = found.x
        return theta

    def _solve(self) -> None:
        import scipy.linalg

        kernel = self._kernel(self._points, self._bodies)
        kernel += np.exp(2 * self._theta[-2]) * np.eye(len(kernel))
        self._factor = np.linalg.cholesky(kernel)
        self._weights = scipy.linalg.cho_solve((self._factor, True), self._targets)

    def _kernel(self, points: Reals, bodies: Reals) -> Reals:
        """`[M, N]` of standardised queries with the points."""
        lengths, parts = np.exp(-self._theta[:-4]), np.exp(2 * self._theta[-4:])
        smooth, _ = _matern(_squares(points * lengths, self._points * lengths))
        line = points @ self._points.T / max(1, points.shape[1])
        kernel: Reals = parts[0] * smooth + parts[1] * self._alike(bodies) + parts[3] * line
        return kernel

    def _alike(self, bodies: Reals) -> Reals:
        """`[M, N]` how much a body tells of another."""
        alike: Reals = np.exp(-0.5 * _squares(bodies, self._bodies) / BODY_LENGTH**2)
        return alike

    def _standardise(self, features: Reals) -> Reals:
        standard: Reals = (features - self._centre)[:, self._used] / self._spread
        return standard


def _matern(squares: Reals) -> tuple[Reals, Reals]:
    """Matern 5/2 of squared distances, and its slope by them."""
    far = np.sqrt(5 * squares)
    falling = np.exp(-far)
    return (1 + far + far * far / 3) * falling, -5 / 6 * (1 + far) * falling


def _squares(first: Reals, second: Reals) -> Reals:
    """Squared distances `[M, N]` of points `[M, F]` and `[N, F]`."""
    own, theirs = (first**2).sum(axis=1), (second**2).sum(axis=1)
    squares: Reals = np.maximum(own[:, None] + theirs - 2 * first @ second.T, 0.0)
    return squares
