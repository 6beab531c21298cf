"""What certificates claim, under a restriction or not, and what verifying them answers."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from commands import answer, call
from paths import GOLDEN

from costmodel import MapSpace, accelerator, workload
from costmodel.exact.certificate import certify, read_certificate
from costmodel.exact.restriction import restriction
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover, prove
from costmodel.exact_any.choice import why_not_proven as why_not
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.records import (
    accelerator_from_record,
    arch_record,
    problem_record,
    workload_from_record,
)
from costmodel.machines.accelerators import accelerator_names
from costmodel.problems.workloads import workload_names
from mapspace.errors import ConfigError, DataError

OLD = GOLDEN / "certificates"
PRODUCT = "gemm:M=16,N=16,K=16"
BYPASS = ("--accelerator", "mm256-bypass")
KEEP = ("--keep", "L1=Z", "--keep", "L2=")
WORDS = "mappings that keep L1: Z; L2: nothing"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The certificate of a proof under a restriction."""
    folder = tmp_path_factory.mktemp("kept")
    assert call("search", PRODUCT, *BYPASS, *KEEP, "--output", str(folder / "m.jsonl")) == 0
    content: dict[str, Any] = json.loads((folder / "m.certificate.json").read_text())
    return content


def verified(
    content: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str, str]:
    path = tmp_path / "changed.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    capsys.readouterr()
    status = call("verify", str(path), *options)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_restricted_proof_claims_nothing_of_the_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    free = answer(capsys, "search", PRODUCT, *BYPASS)
    fixed = answer(capsys, "search", PRODUCT, *BYPASS, *KEEP)
    assert free["edp"] < fixed["edp"]
    assert free["proven"] is True
    assert free["keep"] is None
    assert free["proven_under_restriction"] is None
    assert free["lower_bound_under_restriction"] is None
    assert fixed["keep"] == {"L1": ["Z"], "L2": []}
    assert fixed["proven"] is False
    assert fixed["proven_under_restriction"] is True
    assert fixed["gap_to_optimum"] is None
    assert fixed["gap_under_restriction"] == 0
    # The floor of the machine: a mapping below the restricted optimum exists.
    assert fixed["lower_bound"] <= free["edp"] < fixed["lower_bound_under_restriction"]
    assert fixed["gap"] > 0
    assert free["problem_hash"] != fixed["problem_hash"]


def test_the_sentence_names_the_restriction(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", PRODUCT, *BYPASS, *KEEP) == 0
    text = capsys.readouterr().out
    assert f"proven optimal among {WORDS}" in text
    assert "other mappings of the machine may be better" in text
    assert "no mapping has a lower edp" not in text
    # A restriction of one level leaves the other open.
    assert call("search", PRODUCT, *BYPASS, "--keep", "L1=Z") == 0
    assert "among mappings that keep L1: Z:" in capsys.readouterr().out


def test_an_unfinished_restricted_proof_names_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("search", "inception-conv2", "--accelerator", "mm256-bw-bypass")
    assert call(*arguments, "--keep", "L1=Outputs", "--gap", "50%") == 0
    text = capsys.readouterr().out
    words = "of the optimum among mappings that keep L1: Outputs: none is below"
    assert any(line.startswith("certified") and words in line for line in text.splitlines())
    assert "proven" not in text


def test_what_excludes_nothing_is_no_restriction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m.jsonl"
    found = answer(capsys, "search", PRODUCT, "--keep", "L1=A,B,Z", "--output", str(output))
    assert found["keep"] is None
    assert found["proven"] is True
    assert found["gap_to_optimum"] == 0
    assert found["problem_hash"] == answer(capsys, "search", PRODUCT)["problem_hash"]
    certificate = read_certificate(tmp_path / "m.certificate.json")
    assert certificate.keep is None
    assert certificate.proven


def test_the_restriction_is_canonical() -> None:
    found, device = workload(PRODUCT), accelerator("mm256-bypass")
    one = restriction(found, device, {"L2": ("B", "A", "B"), "L1": ("Z",)})
    assert one == {"L1": ("Z",), "L2": ("A", "B")}
    assert list(one) == ["L1", "L2"]
    assert restriction(found, device, {}) is None
    assert restriction(found, accelerator("mm256"), {"L1": ("A", "B", "Z")}) is None


def test_a_network_names_the_restriction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = tmp_path / "two.yaml"
    network.write_text(
        "name: two\nlayers:\n"
        "- {workload: 'gemm:M=16,N=16,K=16'}\n- {workload: 'gemm:M=8,N=8,K=8'}\n"
    )
    arguments = ("search", "--network", str(network), *BYPASS, "--objective", "energy")
    free = answer(capsys, *arguments)
    fixed = answer(capsys, *arguments, *KEEP)
    assert free["keep"] is None
    assert free["totals"]["proven"] is True
    assert free["totals"]["proven_under_restriction"] is None
    assert fixed["keep"] == {"L1": ["Z"], "L2": []}
    totals = fixed["totals"]
    assert totals["proven"] is False
    assert totals["proven_layers"] == 0
    assert totals["proven_under_restriction"] is True
    assert totals["proven_layers_under_restriction"] == 2
    assert totals["lower_bound"] <= free["totals"]["energy_pj"]
    assert totals["energy_pj"] == totals["lower_bound_under_restriction"]
    assert [row["standing"] for row in fixed["layers"]] == ["proven, restricted"] * 2
    assert call(*arguments, *KEEP) == 0
    text = capsys.readouterr().out
    assert f"proven optimal among {WORDS}: no mappings have a lower energy in all" in text
    assert "2 of 2 proven, restricted" in text
    assert "other mappings of the machine may be better" in text


def test_a_restricted_certificate_says_so(
    kept: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kept["format"] == "mapspace-certificate-3"
    assert kept["keep"] == {"L1": ["Z"], "L2": []}
    assert kept["proven"] is False
    assert kept["proven_under_restriction"] is True
    status, text, _ = verified(kept, tmp_path, capsys)
    assert status == 0
    assert f"it is optimal among {WORDS}" in text
    assert f"none of the {WORDS} is below" in text
    assert f"problem {kept['problem_hash']}: least edp among {WORDS}" in text
    assert "not verified: that no other mapping of the machine is better" in text
    status, text, _ = verified(kept, tmp_path, capsys, "--json")
    found = json.loads(text)
    assert found["keep"] == kept["keep"]
    assert found["problem_hash"] == kept["problem_hash"]
    assert any("names" in line for line in found["not_verified"])


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"proven": True}, "proven: true"),
        ({"proven": True, "proven_under_restriction": None}, "proven: true"),
        ({"proven_under_restriction": False}, "proven under a restriction: false"),
        ({"keep": None}, "problem hash"),
        ({"keep": {"L1": ["A"], "L2": []}}, "none of the mappings that keep L1: A; L2: nothing"),
        ({"objective": "energy"}, "problem hash"),
        ({"problem_hash": "0123456789abcdef"}, "problem hash"),
    ],
)
def test_claims_beyond_the_restriction_are_wrong(
    change: dict[str, Any],
    finding: str,
    kept: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, text, _ = verified(kept | change, tmp_path, capsys)
    assert status == 1
    assert any("WRONG" in line and finding in line for line in text.splitlines()), text


def test_a_mapping_outside_the_restriction_is_not_certified(kept: dict[str, Any]) -> None:
    space = MapSpace(workload(PRODUCT), accelerator("mm256-bypass"))
    prover = AnyProver(space, keep={"L1": ("Z",), "L2": ()})
    other = AnyProver(space)
    other.step()
    with pytest.raises(DataError, match="keeps other tensors"):
        certify(prover, 1.0, other.codes()[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", ["it is optimal", "among all mappings"]),
        ("keeps-all", ["it is optimal", "among all mappings"]),
        ("free", ["it is optimal", "among all mappings"]),
        ("conv", ["it is optimal", "among all mappings"]),
        ("unfinished", ["31.2 % apart", "no mapping is below"]),
        ("kept", [f"it is optimal among {WORDS}", f"none of the {WORDS} is below"]),
    ],
)
def test_certificates_of_the_first_format_verify(
    name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = OLD / f"first-{name}.json"
    assert json.loads(path.read_text())["format"] == "mapspace-certificate-1"
    assert call("verify", str(path)) == 0
    text = capsys.readouterr().out
    for part in words:
        assert part in text
    assert read_certificate(path).proven is (name not in ("unfinished", "kept"))


@pytest.mark.parametrize("name", ["resnet-conv4", "kept", "unfinished"])
def test_certificates_in_whole_units_verify(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the proof for three levels, whose bounds held to the last unit; ties included."""
    path = OLD / f"second-{name}.json"
    content = json.loads(path.read_text())
    assert content["format"] == "mapspace-certificate-2"
    assert call("verify", str(path)) == 0
    told = read_certificate(path)
    for units in ("energy_units", "bound_energy_units"):
        more = str(int(content[units]) * 1001 // 1000 + 1)
        wrong = told.model_copy(update={units: more})
        assert not verify(wrong, make_prover).holds, units


def test_what_the_proof_for_three_levels_settled_is_not_taken_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = OLD / "second-unfinished.json"
    assert json.loads(path.read_text())["progress"]["prover"].startswith("three-levels")
    assert call("search", "--continue", str(path), "--no-store") == 0
    said = capsys.readouterr()
    assert "only its mapping is taken over" in said.err
    assert "proven optimal" in said.out


def test_a_record_of_another_problem_is_wrong(
    kept: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = kept["record"]
    problem = record["problem"]
    larger = problem | {"dims": problem["dims"] | {"M": 128}}
    slower = record["arch"] | {"mac_energy_pj": 2.0}
    for change in (record | {"problem": larger}, record | {"arch": slower}):
        status, text, _ = verified(kept | {"record": change}, tmp_path, capsys)
        assert status == 1
        assert "WRONG: the mapping's record is of workload" in text
        assert "not verified: the mapping, the bound and the gap" in text
    status, text, _ = verified(kept | {"record": record | {"arch": {}}}, tmp_path, capsys)
    assert status == 1
    assert "WRONG: the mapping's record cannot be read" in text


def test_nothing_is_proven_of_a_problem_that_the_hashes_do_not_name(
    kept: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, _ = verified(kept | {"workload_hash": "0"}, tmp_path, capsys, "--independent")
    assert status == 1
    assert "below" not in text


@pytest.mark.parametrize("name", workload_names())
def test_every_preset_belongs_to_its_record(name: str) -> None:
    found = workload(name)
    assert workload_from_record(problem_record(found)).hash == found.hash


@pytest.mark.parametrize("name", accelerator_names())
def test_every_machine_that_is_proven_belongs_to_its_record(name: str) -> None:
    device = accelerator(name)
    if len(device.levels) == 3 and device.further_key is None and device.levels[0].fanout == 1:
        searched = device.bypass == "searched"
        again = accelerator_from_record(arch_record(device), name=name, bypass=searched)
        assert again.hash == device.hash


def test_what_nobody_checks_is_printed(
    kept: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = kept | {"counts": {"orders": 10**15}, "rounds": 77, "seconds": 1e-9}
    status, text, _ = verified(changed, tmp_path, capsys)
    assert status == 0
    line = next(line for line in text.splitlines() if "not verified: what the first" in line)
    assert "orders 1,000,000,000,000,000; 77 rounds; 1e-09 s" in line
    assert "by the same prover" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("counts", {"orders": -5}),
        ("counts", {"orders": 10**30}),
        ("rounds", -7),
        ("seconds", -1e-9),
        ("unit_pj", "1e999999999"),
        ("unit_pj", "1/0"),
        ("unit_pj", "abc"),
        ("unit_pj", "1/25\n"),
        ("unit_pj", "٢"),
        ("energy_units", "9" * 39),
        ("bound_energy_units", "9" * 39),
        ("bound_energy_units", str(2**62)),
        ("latency_cycles", 2**62),
        ("bound_cycles", 2**70),
        ("bound_cycles", "12"),
        ("bound_cycles", True),
        ("proven", 1),
        ("gap", float("nan")),
        ("record", {}),
        ("record", {"problem": 1, "arch_name": "a", "arch": {}, "mapping": {}}),
        ("keep", {"L9": []}),
        ("keep", {"L1": ["nothing"]}),
    ],
)
def test_a_value_that_no_proof_writes_is_refused(
    key: str,
    value: Any,
    kept: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, error = verified(kept | {key: value}, tmp_path, capsys)
    assert status == 2
    assert len(error.splitlines()) == 1
    assert "changed.json" in error
    if value == value:  # NaN is refused before its key is known
        assert key in error


def test_a_nest_of_brackets_is_refused(
    kept: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(kept).replace('"arch_name"', '"x": ' + "[" * 200_000 + ', "arch_name"')
    status, _, error = verified(text, tmp_path, capsys)
    assert status == 2
    assert "levels of nesting" in error


@pytest.mark.parametrize("key", ["read_bandwidth", "write_bandwidth"])
def test_cycles_beyond_64_bits_are_refused_before_a_proof(key: str) -> None:
    def space(words: float) -> MapSpace:
        levels = [{"name": "DRAM", key: words}]
        return MapSpace(workload(PRODUCT), accelerator({"extends": "mm256", "levels": levels}))

    for words in (1e-17, 1e-30):
        reason = str(why_not(space(words)))
        assert f"DRAM of custom has a {key} of {words:g} words per cycle" in reason
        assert len(reason.splitlines()) == 1
        with pytest.raises(ConfigError, match="may not fit 64-bit integers"):
            prove(space(words))
    with pytest.raises(ConfigError, match=rf"levels\[DRAM\]\.{key}: expected at least 1e-30"):
        space(1e-300)
    # 3 kinds of access x 3 tensors x 4,096 multiply-accumulates in 2^62 cycles.
    least = 9 * 4096 / 2**62
    assert why_not(space(least)) is not None
    assert why_not(space(least * 1.001)) is None


def test_more_elements_than_memory_has_words_are_refused() -> None:
    levels = [{"name": "L2", "fanout": 2**61}]
    machine = accelerator({"extends": "mm256", "levels": levels})
    with pytest.raises(ConfigError, match=r"levels\[1\]\.fanout: .* cannot be counted apart"):
        prove(MapSpace(workload(PRODUCT), machine))


def test_the_lowest_bandwidth_that_is_admitted_is_proven_and_verified() -> None:
    levels = [{"name": "DRAM", "read_bandwidth": 9 * 64 / 2**62 * 1.001}]
    machine = accelerator({"extends": "mm256", "levels": levels})
    certificate = prove(MapSpace(workload("gemm:M=4,N=4,K=4"), machine), objective="latency")
    assert certificate.proven
    assert certificate.latency_cycles > 2**53
    assert verify(certificate, make_prover).holds


def test_a_full_disk_leaves_no_half_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if ".certificate.json" in self.name:
            write(self, content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    output = tmp_path / "m.jsonl"
    assert call("search", PRODUCT, "--output", str(output)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "m.certificate.json: No space left on device." in error
    # A search is not resumable.
    assert "continues" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["m.jsonl"]
