"""Two models that were made apart score the same mapping: what both count must agree."""

from __future__ import annotations

import numpy as np
import pytest
from as_loop_nest import loop_nest, tile_workload
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.maestro import MaestroModel, OnChipSpace
from costmodel.maestro.distinct_blocks import layer_of
from mapspace.errors import ConfigError

MACHINE = accelerator("eyeriss-168")
WEIGHTS, OUTPUTS = 0, 2  # of the loop nest's tensors
MAESTRO_WEIGHTS, MAESTRO_OUTPUTS = 1, 2


@settings(max_examples=15)
@given(
    sizes=st.tuples(*(st.integers(1, 12) for _ in range(4))),
    filters=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 3])),
    stride=st.sampled_from([1, 2]),
    seed=st.integers(0, 1000),
)
def test_weights_and_partial_sums_agree(
    sizes: tuple[int, ...], filters: tuple[int, int], stride: int, seed: int
) -> None:
    """Corrected fetches of weights and writes of partial sums are the loop nest's, row by row.

    Inputs are not: only one of the two models shares halos between neighbours.
    """
    k, c, p, q = sizes
    r, s = filters
    text = f"cnn:N=1,K={k},C={c},P={p},Q={q},R={r},S={s},stride={stride}"
    layer = layer_of(workload(text))
    space = OnChipSpace(layer, layer.bounds, MACHINE)
    codes = space.sample(np.random.default_rng(seed), 30, feasible=True)
    mappings = space.mappings(codes)
    nests = MapSpace(tile_workload(mappings, 0), MACHINE)
    same = np.stack([nests.code(loop_nest(mappings, row)) for row in range(len(codes))])
    counts = MaestroModel(fidelity="corrected").cost(mappings).counts
    costs = LoopNestModel().evaluate(nests, same, detail=True)
    assert costs.detail is not None
    assert nests.workload.macs == mappings.macs[0]
    good = costs.status == 0
    reads = costs.detail.reads[good, 1, WEIGHTS]
    np.testing.assert_array_equal(reads, counts.l2_read[good, MAESTRO_WEIGHTS])
    updates = costs.detail.updates[good, 1, OUTPUTS]
    np.testing.assert_array_equal(updates, counts.l2_write[good, MAESTRO_OUTPUTS])


def test_what_has_no_loop_nest_is_refused() -> None:
    depthwise = OnChipSpace(layer_of(workload("marvel-l4")), (1, 64, 3, 3, 5, 5), MACHINE)
    codes = depthwise.sample(np.random.default_rng(0), 1, feasible=True)
    with pytest.raises(ConfigError, match="depthwise tile"):
        loop_nest(depthwise.mappings(codes), 0)
