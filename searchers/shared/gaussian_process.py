"""Gaussian-process regression on a few hundred points: one Cholesky factor per fit, no gradients.

The kernel is a squared exponential of one length plus a linear part. Its length and noise are
those of a small grid with the largest marginal likelihood, for which the variance has a closed
form. Optimising a length per feature by gradients, as scikit-learn's does, would take longer than
all evaluations may.

Source: Rasmussen & Williams, "Gaussian Processes for Machine Learning", 2006, section 2.2,
Algorithm 2.1, and equation 5.8.

Letters: N points, M queries, F features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

# Squared lengths, in standardised features and per feature, and variances of the noise as shares
# of the kernel's.
SQUARED_LENGTHS = (0.5, 2.0, 8.0)
NOISES = (1e-5, 1e-3, 1e-1)

# Weight of the linear part of the kernel.
LINEAR = 0.3

# Least spread of a feature or target that counts as a spread.
TINY = 1e-12


class GaussianProcess:
    """A fit of targets `[N]` over features `[N, F]`."""

    def __init__(self, features: Reals, targets: Reals) -> None:
        """Fits.

        Args:
            features: `[N, F]`, finite, N at least 1; standardised here.
            targets: `[N]`, finite.
        """
        import scipy.linalg

        self._centre = features.mean(axis=0)
        spread = features.std(axis=0)
        self._used = spread > TINY * (1 + np.abs(self._centre))
        self._spread = spread[self._used]
        self._points = self._standardise(features)
        self._mean = float(targets.mean())
        scale = float(targets.std())
        self._scale = scale if scale > TINY else 0.0
        standard = (targets - self._mean) / (self._scale or 1.0)
        squares, linear = self._compare(self._points)
        best = -np.inf
        for length in SQUARED_LENGTHS:
            kernel = np.exp(squares / -length) + LINEAR * linear
            for noise in NOISES:
                noisy = kernel + noise * np.eye(len(kernel))
                factor = scipy.linalg.cho_factor(noisy, lower=True, overwrite_a=True)
                weights = scipy.linalg.cho_solve(factor, standard)
                variance = max(float(standard @ weights) / len(weights), TINY)
                determinant = np.log(factor[0].diagonal()).sum()
                likelihood = -0.5 * len(weights) * np.log(variance) - determinant
                if likelihood > best:
                    best = likelihood
                    self.length, self.noise, self._weights = length, noise, weights

    def predict(self, features: Reals) -> Reals:
        """Posterior means `[M]` of queries `[M, F]`."""
        predicted: Reals = self._mean + self._scale * (self._kernel(features) @ self._weights)
        return predicted

    def _kernel(self, features: Reals) -> Reals:
        squares, linear = self._compare(self._standardise(features))
        kernel: Reals = np.exp(squares / -self.length) + LINEAR * linear
        return kernel

    def _standardise(self, features: Reals) -> Reals:
        standard: Reals = (features - self._centre)[:, self._used] / self._spread
        return standard

    def _compare(self, points: Reals) -> tuple[Reals, Reals]:
        """Squared distances and inner products `[M, N]` with the points, per feature."""
        share = 1.0 / max(1, points.shape[1])
        linear = points @ self._points.T * share
        own = np.einsum("mf,mf->m", points, points) * share
        theirs = np.einsum("nf,nf->n", self._points, self._points) * share
        return np.maximum(own[:, None] + theirs - 2 * linear, 0.0), linear
