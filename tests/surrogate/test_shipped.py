"""The surrogates that are shipped: as good as their cards say, and for what they were trained."""

from __future__ import annotations

import numpy as np
import pytest

import surrogate
from costmodel.machines.accelerators import accelerator
from costmodel.problems.workload_families import cnn, gemm
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from surrogate import predictor
from surrogate.metrics import figures
from surrogate.problems import ProblemRanges
from surrogate.samples import draw

LAYER = cnn("layer", N=4, K=32, C=48, P=14, Q=12, R=3, S=5)
MATRICES = gemm("matrices", M=96, N=120, K=64)


@pytest.mark.parametrize("family", ["cnn", "mttkrp"])
def test_shipped_surrogates_reach_their_recorded_figures_on_fresh_samples(family: str) -> None:
    """12 new problems x 500 mappings, against figures that were taken from 100 problems.

    Over 16 such draws the errors were 0.7 to 1.4 times the recorded ones; 1.5 times are allowed.
    """
    machine, ranges = accelerator("mm256"), ProblemRanges(family=family)
    rng = np.random.default_rng(987)
    samples = draw(ranges, machine, rng, problems=12, mappings_per_problem=500)
    loaded = surrogate.shipped(ranges.draw(rng), machine)
    recorded = loaded.card.figures
    truth = np.log(samples.costs[:, -2:].astype(float)).sum(axis=1)
    sizes = samples.inputs[:, : len(loaded.card.ranges)]
    found = figures(sizes, truth, loaded.value(samples.inputs))
    assert found.rmse <= 1.5 * recorded.rmse
    assert 1 - found.spearman <= 1.5 * (1 - recorded.spearman)
    assert 1 - found.spearman_best_tenth <= 1.5 * (1 - recorded.spearman_best_tenth)
    # What the project asks of them.
    assert recorded.problems == 100
    assert recorded.rmse <= 0.06
    assert recorded.spearman >= 0.999
    assert recorded.spearman_best_tenth >= 0.97
    assert loaded.card.training["rows"] >= 1_000_000
    weights = predictor.SHIPPED / f"{family}-mm256.safetensors"
    assert weights.stat().st_size < 10_000_000


def test_shipped_surrogates_fit_table_1_and_nothing_else() -> None:
    machine = accelerator("mm256")
    for name in ("resnet-conv3", "resnet-conv4", "inception-conv2", "vgg-conv2", "alexnet-conv2"):
        assert surrogate.shipped(workload(name), machine).card.structure.family == "cnn"
    for name in ("mttkrp-0", "mttkrp-1"):
        assert surrogate.shipped(workload(name), machine).card.structure.family == "mttkrp"
    with pytest.raises(ConfigError, match="No shipped surrogate fits matrices on mm256"):
        surrogate.shipped(MATRICES, machine)
    with pytest.raises(ConfigError, match="not mindmappings"):
        surrogate.shipped(LAYER, accelerator("mindmappings"))
