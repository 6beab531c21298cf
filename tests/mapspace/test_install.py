"""What the core brings, what an extra brings, and one line where an extra is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from paths import ROOT

from mapspace.extras import EXTRA_OF
from orchestrator.store.compaction import compact
from orchestrator.store.folder import NEW, Store

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Distributions whose modules have other names.
MODULES = {
    "apache-tvm": "tvm",
    "hwcomponents-cacti": "hwcomponents_cacti",
    "xgboost-cpu": "xgboost",
}
# What nobody imports by name, or an extra that tests alone need.
OTHERS = {
    "apache-tvm-ffi", "hwcomponents", "hwcomponents-adc", "hwcomponents-library",
    "hwcomponents-neurosim", "psutil",
}  # fmt: skip
NOT_FOR_COMMANDS = {"all", "cluster", "dev", "docs", "testing"}
MEGABYTES = 400

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from orchestrator.cli import main
main(sys.argv[2:])
"""


def test_the_core_alone_reads_and_feeds_a_store(tmp_path: Path) -> None:
    """Files of many rows are for those who have Parquet: named in a line, and searched anew."""
    command = ["search", "gemm:M=4,N=4,K=4", "--json", "--store", str(tmp_path / "store")]

    def found(without: str) -> tuple[bool, str]:
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT, without, *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(run.stdout)["from_store"], run.stderr

    assert [found("pyarrow,duckdb")[0] for _ in range(2)] == [False, True]
    compact(Store(tmp_path / "store"))
    again, said = found("pyarrow,duckdb")
    assert not again
    assert "1 of its files need pyarrow: pip install 'mapspace[store]'" in said
    (path,) = (tmp_path / "store" / NEW).rglob("*.json")
    path.unlink()
    assert found("duckdb")[0]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=; ]", requirement)[0] for requirement in requirements}


def test_every_library_of_an_extra_is_explained_by_it() -> None:
    of_extra = {
        (MODULES.get(name, name), extra)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra not in NOT_FOR_COMMANDS
        for name in names(requirements) - OTHERS
    }
    assert {module for module, _ in of_extra} == set(EXTRA_OF)
    assert set(EXTRA_OF.items()) <= of_extra
    assert not names(PROJECT["dependencies"]) & set(EXTRA_OF)


def test_what_is_known_from_inside_is_bounded_and_the_pins_are_within() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = map(Requirement, [*PROJECT["dependencies"], *extras["ray"], *extras["tracking"]])
    bounds = {each.name: each.specifier for each in asked}
    pins = (ROOT / "constraints.txt").read_text()
    for name in ("llvmlite", "mlflow", "numba", "ray"):
        (pin,) = re.findall(rf"^{name}==(\S+)", pins, re.MULTILINE)
        assert {each.operator for each in bounds[name]} == {">=", "<"}
        assert pin in bounds[name]


@pytest.mark.parametrize(
    ("command", "library", "extra"),
    [
        (["benchmark", "smoke"], "ray", "ray"),
        (["run"], "torch", "surrogate"),
        (["search", "resnet-conv4", "--searcher", "gradient"], "torch", "surrogate"),
        (["search", "resnet-conv4", "--searcher", "ppo"], "ray", "ray"),
        (["import", "network.onnx"], "onnx", "onnx"),
        (["results", "SELECT 1", "--store", "new"], "duckdb", "store"),
        (["search", "gemm:M=4,N=4,K=4", "--store", "s3://bucket/store"], "pyarrow", "ray"),
        (["search", "resnet-conv4", "--searcher", "model-guided"], "scipy", "baselines"),
    ],
)
def test_a_missing_extra_is_one_line(
    command: list[str], library: str, extra: str, tmp_path: Path
) -> None:
    known = subprocess.run(
        [sys.executable, "-c", WITHOUT, library, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert known.returncode == 2
    assert f"needs {library}" in known.stderr or f"needs the library {library}" in known.stderr
    assert f"pip install 'mapspace[{extra}]'" in known.stderr
    assert "Traceback" not in known.stderr


@pytest.mark.parametrize(
    ("command", "missing", "extras"),
    [
        (["benchmark", "smoke"], "pandas, pyarrow and ray", "ray"),
        (["benchmark", "table1-iso-time"], "pandas, pyarrow, ray, safetensors and torch",
         "ray,surrogate"),
        (["sweep", "sweep-smoke", "--tracking-uri", "sqlite:///x"],
         "mlflow, pandas, pyarrow and ray", "ray,tracking"),
        (["design", "design-smoke"], "pandas, pyarrow and ray", "ray"),
        (["generate", "generate-cnn"], "pandas, pyarrow and ray", "ray"),
        (["train", "train-cnn"], "pandas, pyarrow, ray, safetensors and torch", "ray,surrogate"),
        (["run"], "pandas, pyarrow, ray, safetensors and torch", "ray,surrogate"),
    ],
)  # fmt: skip
def test_all_that_is_missing_is_said_before_any_work(
    command: list[str], missing: str, extras: str, tmp_path: Path
) -> None:
    known = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(EXTRA_OF), *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert known.returncode == 2
    says = f"This needs {missing}, which are not installed: pip install 'mapspace[{extras}]'."
    assert known.stderr == f"Error: {says}\n"
    assert not list(tmp_path.iterdir())


def test_the_core_needs_no_extra(tmp_path: Path) -> None:
    known = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(EXTRA_OF), "search", "gemm:M=8,N=4,K=2", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(known.stdout)["proven"]


def test_a_table_without_pandas_is_one_line() -> None:
    wanted = """
import mapspace as ms
found = ms.search("gemm:M=8,N=4,K=2", store=False, top=2)
try:
    found.frame
except ms.ConfigError as error:
    print(error)
"""
    without = WITHOUT.partition("from orchestrator")[0] + wanted
    words = [sys.executable, "-c", without, "pandas"]
    known = subprocess.run(words, capture_output=True, text=True, check=True)
    assert known.stdout.strip().endswith("pip install 'mapspace[ray]'.")


def test_a_network_needs_no_extra_where_a_proof_takes_long(tmp_path: Path) -> None:
    layers = "layers: ['gemm:M=8,N=4,K=2', 'gemm:M=8,N=8,K=2']"
    (tmp_path / "tiny.yaml").write_text(layers)
    # A searcher that proves nothing goes to Ray at once, where that is installed.
    words = ["search", "--network", "tiny.yaml", "--searcher", "random", "--iterations", "20"]
    known = subprocess.run(
        [sys.executable, "-c", WITHOUT, "ray", *words, "--no-store", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(known.stdout)["totals"]["complete"]


@pytest.mark.slow
@pytest.mark.every_part
def test_the_wheel_of_the_source_distribution_works_by_itself(tmp_path: Path) -> None:
    """Built, installed without extras into an empty environment, used outside of the checkout."""
    # A path of the tester's would make the checkout look installed.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, env=clean)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"

    def size() -> float:
        files = (tmp_path / "venv").rglob("*")
        return sum(f.lstat().st_size for f in files if f.is_file() and not f.is_symlink()) / 1e6

    before = size()
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    quiet = ["--quiet", "--disable-pip-version-check"]
    install = [binaries / "python", "-m", "pip", "install", *quiet, *pins, str(wheel)]
    subprocess.run(install, check=True, env=clean)
    print(f"installed {size() - before:.0f} MB")
    # A tenth above what is meant: bytecode differs.
    assert size() - before < 1.1 * MEGABYTES

    def mapspace(*words: str) -> str:
        command = [str(binaries / "mapspace"), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=clean)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(mapspace("search", "gemm:M=16,N=16,K=16", "--json"))
    assert found["proven"]
    assert json.loads(mapspace("search", "resnet-conv4", "--accelerator", "eyeriss", "--json"))
    mapspace("search", "gemm:M=16,N=16,K=16", "--output", "best.jsonl")
    assert "energy" in mapspace("evaluate", "best.jsonl")
    small = "gemm:M=16,N=16,K=16"
    commands = (
        ("list",),
        ("describe", "simba", "--plot", "machine.svg"),
        ("space", small, "--samples", "1000", "--plot", "space.svg", "--surface", "M,order.L2"),
        ("search", small, "--why-not", "best.jsonl", "--html", "page.html"),
        ("search", "--network", "alexnet", "--jointly", "--html", "network.html"),
        ("explain", "best.jsonl", "--html", "why.html"),
        ("diff", "best.jsonl", "best.jsonl"),
        ("bypass", small),
        ("export", "best.jsonl", "--as", "c"),
        ("verify", "best.certificate.json"),
    )
    for words in commands:
        assert mapspace(*words)
    mapspace("pareto", small, "--plot", "front.png")
    assert (tmp_path / "front.png").exists()
    ten_lines = "import mapspace as ms; print(ms.search('gemm:M=16,N=16,K=16').proven)"
    answer = subprocess.run(
        [binaries / "python", "-c", ten_lines],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=clean,
    )
    assert answer.stdout.strip() == "True"
