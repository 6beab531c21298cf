"""Learned cost models: data sets, features, networks, training and the predictor for searchers.

`load` and `shipped` give a predictor. They import torch only when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload
    from mapspace.storage import Place
    from surrogate.predictor import SurrogatePredictor

__all__ = ["load", "shipped"]


def load(path: Place | str) -> SurrogatePredictor:
    """Loads a surrogate from its JSON file or from the folder of a training run, a path or a URI.

    Raises:
        DataError: If a file is missing or damaged; the message names it.
    """
    from surrogate.predictor import load_surrogate

    return load_surrogate(path)


def shipped(workload: Workload, accelerator: Accelerator) -> SurrogatePredictor:
    """The surrogate of this package for a workload on an accelerator.

    Raises:
        ConfigError: If none fits; the message says what there is.
    """
    from surrogate import predictor

    return predictor.shipped(workload, accelerator)
