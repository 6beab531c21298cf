"""MAESTRO's dataflows as records: held to the files that the real MAESTRO was run with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from commands import call
from paths import GOLDEN

from costmodel.maestro.dataflow_records import (
    mapping_text,
    read_hardware,
    read_mappings,
    record_of,
)
from costmodel.maestro.dataflow_text import parse_network
from costmodel.maestro.model import MaestroModel
from costmodel.maestro.records import score_records
from mapspace.errors import ConfigError

IMPORTS = GOLDEN / "maestro-imports"
KEYS = ("maestro_type", "l3_tile", "stride", "style", "order", "t1", "par", "hop_latency")


def golden() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "maestro" / "maestro-dev.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def test_files_that_maestro_was_run_with_are_their_records_and_are_written_again() -> None:
    """The text of 3,027 mapping files to the last character, and the mapping in each of them."""
    for record in golden():
        (layer,) = parse_network(record["dfsl"], "golden").layers
        platform = {"num_pes": record["num_pes_used"], "noc_bw": record["platform"]["noc_bw"]}
        read = record_of(layer, platform)
        assert {key: read[key] for key in KEYS} == {key: record[key] for key in KEYS}
        assert mapping_text(record) == f"// num_pes: {record['num_pes_used']}\n{record['dfsl']}"


def test_dataflows_of_a_shipped_file() -> None:
    """K across 4 clusters of 64 elements, which share 64 channels: 4 x 64 = num_pes."""
    (record,), left_out = read_mappings(IMPORTS / "example.m", IMPORTS / "accelerator_1.m")
    assert left_out == []
    assert record["platform"] == {"num_pes": 256, "noc_bw": 1000, "l1": 100, "l2": 3000}
    assert record["l3_tile"] == {"K": 64, "C": 128, "R": 3, "S": 3, "P": 222, "Q": 222}
    assert record["par"] == [["K", 4], ["C", 64]]
    assert record["order"] == ["K", "C", "Q", "P"]
    assert record["t1"] == {"K": 1, "C": 1, "P": 1, "Q": 1}
    (scored,) = score_records([record], MaestroModel())
    assert scored["result"]["macs"] == 64 * 128 * 9 * 222 * 222


def test_dimensions_that_a_cluster_leaves_out_are_whole() -> None:
    read, left_out = read_mappings(
        IMPORTS / "vgg16_ckp_ws.m", IMPORTS / "accelerator_1.m", lenient=True
    )
    assert (len(read), left_out) == (13, [])
    assert read[1]["par"] == [["C", 4], ["K", 64]]
    assert read[1]["t1"] == {"K": 1, "C": 1, "P": 1, "Q": 1}


def test_matrix_products_as_the_real_maestro_counts_them() -> None:
    """120 dataflows of GEMM layers that it was run with: every count and the cycles."""
    with gzip.open(GOLDEN / "maestro" / "gemm.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    records = [
        record_of(
            parse_network(row["dfsl"], "golden").layers[0],
            {"num_pes": row["num_pes"], "noc_bw": row["noc_bw"]},
        )
        for row in rows
    ]
    assert len(rows) == 120
    for row, scored in zip(rows, score_records(records, MaestroModel()), strict=True):
        assert scored["result"]["runtime"] == row["maestro"]["runtime"]
        assert scored["result"]["tensors"] == row["maestro"]["tensors"]


def test_its_own_matrix_product_is_scored_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """10,001 cycles, 980,200 inputs read from L2: as MAESTRO prints with a hop of one cycle."""
    files = ("evaluate", str(IMPORTS / "GEMM_Example.m"))
    assert call(*files, "--hardware", str(IMPORTS / "accelerator_1.m")) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)["result"]
    assert (result["model"], result["runtime"]) == ("maestro", 10_001)
    assert result["tensors"]["input"]["l2_read"] == 980_200
    assert call(*files) == 2
    assert "mapping file (.m) and --hardware together" in capsys.readouterr().err


def test_layers_without_a_counterpart_are_left_out_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.m"
    good = with_dataflow("SpatialMap(1,1) K").removesuffix(" }")
    file.write_text(f"{good} {with_dataflow('TemporalMap(1,1) K').partition('{')[2]}")
    hardware = ("--hardware", str(IMPORTS / "accelerator_1.m"))
    assert call("evaluate", str(file), *hardware) == 2
    assert "expected one SpatialMap" in capsys.readouterr().err
    assert call("evaluate", str(file), *hardware, "--lenient") == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert "left out: " in printed.err


def with_dataflow(directives: str, kind: str = "CONV", sizes: str = "") -> str:
    sizes = sizes or "K: 8, C: 8, R: 3, S: 3, Y: 10, X: 10"
    layer = f"Type: {kind} Stride {{X: 1, Y: 1}} Dimensions {{ {sizes} }}"
    return f"Network N {{ Layer A {{ {layer} Dataflow {{ {directives} }} }} }}"


@pytest.mark.parametrize(
    ("directives", "message"),
    [
        ("TemporalMap(1,1) K", "expected one SpatialMap of K, C, X or Y a level, got 0"),
        ("SpatialMap(1,1) K SpatialMap(1,1) C", "a level, got 2"),
        ("SpatialMap(2,1) K", r"SpatialMap\(2,1\) K: expected an offset of 2: no overlap"),
        ("SpatialMap(1,1) K TemporalMap(1,1) R", r"expected TemporalMap\(3,3\): filters are not"),
        ("SpatialMap(2,1) Y", r"expected a size of whole outputs, filter 3 and stride 1"),
        ("SpatialMap(3,2) Y", r"SpatialMap\(3,2\) Y: expected an offset of 1"),
        ("SpatialMap(1,1) K TemporalMap(1,1) K", "K stands twice in a level"),
        ("SpatialMap(1,1) K TemporalMap(1,1) N", "has K, C, R, S, X and Y"),
        (
            "SpatialMap(1,1) K TemporalMap(8,8) C Cluster(4,P) SpatialMap(1,1) C",
            "inside clusters of 4, 1 of C: expected the tile of 8 above in one step",
        ),
        ("SpatialMap(1,1) K Cluster(512,P) SpatialMap(1,1) C", "but num_pes is 256"),
    ],
)
def test_dataflows_without_a_counterpart(directives: str, message: str) -> None:
    (layer,) = parse_network(with_dataflow(directives), "a.m").layers
    with pytest.raises(ConfigError, match=r"^a\.m: A: Dataflow: .*" + message):
        record_of(layer, {"num_pes": 256, "noc_bw": 1})


def test_layers_without_a_counterpart() -> None:
    platform = {"num_pes": 4, "noc_bw": 1}
    other = with_dataflow("SpatialMap(1,1) K", "NGCONV")
    with pytest.raises(ConfigError, match="Type: expected CONV, DSCONV or GEMM"):
        record_of(parse_network(other, "a.m").layers[0], platform)
    product = with_dataflow("SpatialMap(1,1) X", "GEMM", "K: 1, M: 1, N: 1")
    with pytest.raises(ConfigError, match=r"SpatialMap\(1,1\) X: a GEMM's dataflow has M, N and K"):
        record_of(parse_network(product, "a.m").layers[0], platform)
    product = with_dataflow("SpatialMap(1,1) K", "GEMM", "K: 1, N: 1")
    with pytest.raises(ConfigError, match=r"Dimensions\.M is missing"):
        record_of(parse_network(product, "a.m").layers[0], platform)
    batch = with_dataflow("SpatialMap(1,1) K", sizes="N: 2, K: 1, C: 1, R: 1, S: 1, Y: 1, X: 1")
    with pytest.raises(ConfigError, match=r"Dimensions\.N: expected 1, got 2"):
        record_of(parse_network(batch, "a.m").layers[0], platform)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_pes: 4", "noc_bw_cstr is missing"),
        ("num_pes: 4\nnum_pes: 4", "hw.m:2: num_pes is given twice"),
        ("num_pes: -4", "hw.m:1: expected KEY: NUMBER"),
        ("Network N { }", "hw.m:1: expected KEY: NUMBER with one of num_pes"),
    ],
)
def test_hardware_files_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "hw.m"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_hardware(file)
