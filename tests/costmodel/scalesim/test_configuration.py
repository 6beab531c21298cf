"""SCALE-Sim's two files: what is read of them, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import mapspace as ms
from costmodel.networks.scalesim_topology import read_topology
from costmodel.scalesim.configuration import Bandwidths, read_configuration
from mapspace.errors import ConfigError

VERSION2 = """[general]
run_name = mine

[architecture_presets]
ArrayHeight:    16
ArrayWidth:     8
IfmapSramSzkB:    64
FilterSramSzkB:   32
OfmapSramSzkB:    16
IfmapOffset:    0
FilterOffset:   10000000
OfmapOffset:    20000000
Bandwidth : 10
Dataflow : is
MemoryBanks:   1

[run_presets]
InterfaceBandwidth: USER
"""
VERSION3 = (
    VERSION2.replace("MemoryBanks:   1", "ReadRequestBuffer: 32\nWriteRequestBuffer: 32")
    + """UseRamulatorTrace: False
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 20
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 5
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport : false
SparseRep : ellpack_block
OptimizedMapping : false
BlockSize : 8
RandomNumberGeneratorSeed : 40
"""
)
CONVOLUTIONS = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
    "Strides,{}\nConv1, 12, 9, 3, 1, 4, 8, 2,{}\n\n"
)


def written(folder: Path, text: str, name: str = "scale.cfg") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_both_versions_are_read(tmp_path: Path) -> None:
    second = read_configuration(written(tmp_path, VERSION2)).array
    third = read_configuration(written(tmp_path, VERSION3)).array
    for array in (second, third):
        assert (array.rows, array.columns, array.dataflow) == (16, 8, "is")
        sizes = (array.input_bytes, array.filter_bytes, array.output_bytes)
        assert sizes == (64 * 1024, 32 * 1024, 16 * 1024)
    assert second.bandwidths == Bandwidths(10, 10, 10)
    assert third.bandwidths == Bandwidths(20, 5, 10)
    calculated = VERSION3.replace("USER", "CALC")
    assert read_configuration(written(tmp_path, calculated)).array.bandwidths is None


def test_what_has_no_effect_is_listed(tmp_path: Path) -> None:
    idle = read_configuration(written(tmp_path, VERSION3)).idle
    names = {place.rpartition(".")[2] for place in idle}
    assert {"run_name", "IfmapOffset", "ReadRequestBuffer", "SparseRep", "BlockSize"} <= names
    assert not {"ArrayHeight", "Bandwidth", "Dataflow", "IfmapSRAMBankBandwidth"} & names


WRONG = {
    "ArrayHeight: 0": "architecture_presets.ArrayHeight: expected a whole number of at least 1, "
    "got '0'.",
    "ArrayHeight: -4": "got '-4'.",
    "ArrayHeight: 4.5": "got '4.5'.",
    "Dataflow : rs": "architecture_presets.Dataflow: expected os or ws or is, got 'rs'.",
    "Bandwidth : 10,x": "architecture_presets.Bandwidth: expected whole numbers of at least 1",
    "ArrayHeigt: 16": "architecture_presets.arrayheigt: unknown; did you mean ArrayHeight?",
    "InterfaceBandwidth: MUCH": "run_presets.InterfaceBandwidth: expected CALC or USER, got 'MUCH'",
    "UseRamulatorTrace: True": "run_presets.UseRamulatorTrace: expected False (traces of a DRAM",
    "SparsitySupport : true": "sparsity.SparsitySupport: expected False (sparse filters are not",
    "IfmapCustomLayout: True": "layout.IfmapCustomLayout: expected False (layouts in banks are",
    "IfmapCustomLayout: maybe": "layout.IfmapCustomLayout: expected True or False, got 'maybe'.",
    "FilterSRAMBankBandwidth: 0": "layout.FilterSRAMBankBandwidth: expected a whole number",
    "[layouts]": "section [layouts]: unknown; did you mean layout?",
    "run_name = mine\nrun_name = other": "option 'run_name' in section 'general' already exists",
}


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_what_is_wrong_is_named(line: str, message: str, tmp_path: Path) -> None:
    lines = VERSION3.splitlines()
    head = line.rstrip("s]")[:9]
    place = next(place for place, one in enumerate(lines) if one.startswith(head))
    lines[place] = line
    with pytest.raises(ConfigError) as refused:
        read_configuration(written(tmp_path, "\n".join(lines)))
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "scale.cfg"))
    assert "\n" not in str(refused.value)


def test_what_is_missing_is_named_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing: ArrayWidth, IfmapSramSzkB, FilterSramSzkB"):
        read_configuration(written(tmp_path, "[architecture_presets]\nArrayHeight=3\n"))
    text = VERSION2.replace("Bandwidth : 10\n", "")
    with pytest.raises(ConfigError, match=r"presets.Bandwidth: missing: InterfaceBandwidth is"):
        read_configuration(written(tmp_path, text))
    with pytest.raises(ConfigError, match=r"expected SCALE-Sim's configuration: File contains no"):
        read_configuration(written(tmp_path, "hello\n"))


def test_topologies_of_both_versions(tmp_path: Path) -> None:
    second = read_topology(written(tmp_path, CONVOLUTIONS.format("", ""), "a.csv"))
    third = read_topology(written(tmp_path, CONVOLUTIONS.format(" Sparsity,", " 2:4,"), "b.csv"))
    assert not second.unused
    assert [place.rpartition(": ")[2] for place in third.unused] == ["Sparsity"]
    (one,), (other,) = second.layers, third.layers
    assert one[:-1] == other[:-1]
    # (12 - 3 + 2) / 2 is rounded up.
    assert (one.output, one.pixels, one.window, one.macs) == ((6, 5), 30, 12, 30 * 12 * 8)
    products = read_topology(written(tmp_path, "Layer, M, N, K,\nfirst, 4, 5, 6,\n", "c.csv"))
    (product,) = products.layers
    assert (product.pixels, product.filters, product.window) == (4, 5, 6)
    assert product.content == {"gemm": {"M": 4, "N": 5, "K": 6}}


def test_a_layer_named_dp_is_run_channel_by_channel(tmp_path: Path) -> None:
    text = CONVOLUTIONS.format("", "").replace("Conv1", "DP1")
    (layer,) = read_topology(written(tmp_path, text, "a.csv")).layers
    assert (layer.times, layer.channels, layer.filters) == (4, 1, 8)
    assert ms.workload(layer.content).macs == 4 * layer.macs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Layer, M, K, N,\nx, 4, 5, 6,\n", "expected the columns M, N, K in this order, got M, K"),
        (CONVOLUTIONS.format("", "dense,"), "line 2: expected nothing behind the sizes but a spar"),
        (CONVOLUTIONS.format("", "2:4, 1,"), "line 2: expected nothing behind the sizes but a sp"),
    ],
)
def test_topologies_that_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read_topology(written(tmp_path, text, "a.csv"))


def test_both_files_are_needed_in_any_order(tmp_path: Path) -> None:
    files = [
        written(tmp_path, VERSION2),
        written(tmp_path, CONVOLUTIONS.format("", ""), "net.csv"),
    ]
    assert ms.from_scalesim(files) == ms.from_scalesim(files[::-1])
    for wrong in (files[:1], files[1:], files + files[:1], files[:1] * 2, []):
        with pytest.raises(ConfigError, match=r"expected SCALE-Sim's configuration \(.cfg\) and"):
            ms.from_scalesim(wrong)
    files[1].write_text("Layer, M, N, K,\n")
    with pytest.raises(ConfigError, match="expected at least one layer"):
        ms.from_scalesim(files)
