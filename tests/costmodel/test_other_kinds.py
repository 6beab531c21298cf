"""What is given in the place of another kind is said to be one, and where it belongs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mapspace as ms
from costmodel.map_space.constraint_reading import read_constraints
from costmodel.networks.network import load_network
from mapspace.errors import ConfigError

FILES = {
    "workload": "gemm: {M: 4, N: 4, K: 4}\n",
    "network": "layers: [gemm-512]\n",
    "machine": "extends: mm256\n",
}
NAMES = {
    "workload": ("gemm-512", "GEMM_512", "gemm:M=4,N=4,K=4"),
    "network": ("resnet50", "gpt2", "gpt2:phase=decode"),
    "machine": ("eyeriss", "tpu_v1"),
}
READ = {"workload": ms.workload, "network": load_network, "machine": ms.accelerator}
BELONGS = {
    "workload": "`mapspace search {}`",
    "network": "`mapspace search --network {}`",
    "machine": "`--accelerator {}`",
}


@pytest.mark.parametrize("expected", FILES)
@pytest.mark.parametrize("kind", FILES)
def test_another_kind_is_told_where_it_belongs(kind: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(FILES[kind])
    for source in (str(file), *NAMES[kind]):
        if kind == expected:
            READ[expected](source)
            continue
        given = BELONGS[kind].format(source)
        message = re.escape(f"{source}: expected a {expected}, got a {kind}; {given} takes it")
        with pytest.raises(ConfigError, match=message):
            READ[expected](source)


@pytest.mark.parametrize(
    ("said", "absent"),
    [
        ({"factors": "M=4 N=4 K=4"}, "; the operation has no M."),
        ({"factors": "N=4,K?4"}, "'K?4'."),
        ({"permutation": "MNJ_"}, "; the operation has no M, J."),
    ],
)
def test_dimensions_that_an_operation_lacks_are_named(said: dict[str, str], absent: str) -> None:
    work, machine = ms.workload("resnet-conv4"), ms.accelerator("mm256")
    entry = {"type": "temporal", "target": "L2", **said}
    with pytest.raises(ConfigError) as caught:
        read_constraints([entry], work.dimensions, work.tensor_names, machine)
    assert str(caught.value).endswith(absent)
