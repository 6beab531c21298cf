"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from parts import in_part, part_of, read_stay
from processes import Nodes
from ray_forks import Forks

if TYPE_CHECKING:
    from mapspace.storage import RemotePath

# Whether the files of tests share a cluster.
CLUSTER = pytest.StashKey[bool]()
# What starts the workers of the Ray that tests share.
FORKS = Forks()
# Processors of the Ray that tests share.
CPUS = 2
# The files that take longest, longest first; those that need a Ray come before all others.
LONG = (
    "test_searchers_contract.py",
    "test_kinds_contract.py",
    "test_exact.py",
    "test_exact_mutations.py",
    "test_extending.py",
    "test_blocks.py",
    "test_compiled.py",
    "test_structured.py",
    "test_golden_general.py",
    "test_independent.py",
    "test_api.py",
    "test_constrained_space.py",
    "test_install.py",
    "test_search_exact.py",
    "test_imports.py",
    "test_design.py",
    "test_limits_of_designs.py",
    "test_public_names.py",
)

# Of every test with `@given`: on a busy machine an example takes any time.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Tests start hundreds of processes: where no bytecode is kept, each of them compiles all that it
# imports, and pytest every test.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray makes its workers nice, and beside other tests they would hardly get a processor.
os.environ.setdefault("RAY_worker_niceness", "0")
# Texts for people are as wide as the terminal: no test depends on that of whoever runs it, and what
# is looked for in them stands in one line. `COLUMNS` of 80 is what users have who say nothing.
os.environ["COLUMNS"] = "400"
# No test reads or feeds the user's own store; one that wants a store names it. Processes that tests
# start inherit it.
os.environ["MAPSPACE_STORE"] = "off"
# Of the S3 server that tests start. Ray's workers inherit what is set before Ray starts.
for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
    os.environ[name] = "testing"
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


# A script and nohup start what they put into the background with interrupts ignored, and children
# inherit that; tests that press Ctrl-C, here and in other processes, need them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        metavar="K/N",
        type=part_of,
        help="run the K-th of N parts of the chosen tests, and those marked `every_part`",
    )
    parser.addoption(
        "--all-cases", action="store_true", help="no test is slow for standing in in_turn.txt"
    )
    parser.addoption(
        "--require-tvm", action="store_true", help="fail the tests marked `tvm` where TVM is absent"
    )


# Of tests that take long, how many of their cases are in the default suite: the others are slow.
STAY = read_stay(Path(__file__).with_name("in_turn.txt"))
# How many cases of each were collected.
SEEN: Counter[str] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    test = item.nodeid.split("[")[0]
    if test not in STAY or item.config.getoption("--all-cases"):
        return
    SEEN[test] += 1
    if SEEN[test] > STAY[test]:
        item.add_marker(pytest.mark.slow)


# After markers and keywords have chosen.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gone = sorted(STAY.keys() - SEEN.keys())
    if SEEN and gone and config.args == config.getini("testpaths"):
        raise pytest.UsageError(f"in_turn.txt: no test is called {', '.join(gone)}")
    # What takes longest comes first, so that no process is left with it at the end.
    with_ray = {item.path for item in items if uses_ray(item)}
    turn = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: (item.path not in with_ray, turn.get(item.path.name, len(LONG))))
    part = config.getoption("--part")
    if part is None:
        return
    always = [item.get_closest_marker("every_part") is not None for item in items]
    kept = in_part(always, part)
    config.hook.pytest_deselected(
        items=[i for i, keep in zip(items, kept, strict=True) if not keep]
    )
    items[:] = [item for item, keep in zip(items, kept, strict=True) if keep]


# The tests and the libraries they import are never garbage, and to go through them takes most of a
# second every time: not while they are read, and never again after that.
@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("tvm") and importlib.util.find_spec("tvm") is None:
        reason = "TVM is not installed: pip install 'mapspace[tvm]'"
        if item.config.getoption("--require-tvm"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def uses_ray(item: pytest.Item) -> bool:
    return "ray_runtime" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="module", autouse=True)
def _ray_of_those_who_ask(request: pytest.FixtureRequest) -> Iterator[None]:
    """One Ray for all files that ask for one; none for the others, and none with what was left."""
    asked = any(item.path == request.path and uses_ray(item) for item in request.session.items)
    if not asked:
        _end_ray(request.config)
    yield
    # What only waits for the collector would be ended through a Ray that is gone.
    gc.collect()
    # What is left is kept for good: compiled code, libraries.
    gc.freeze()
    if not (asked and _ray_is_idle()):
        _end_ray(request.config)


def _end_ray(config: pytest.Config) -> None:
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized() and not config.stash.get(CLUSTER, False):
        FORKS.end()
        ray.shutdown()


def pytest_sessionfinish() -> None:
    FORKS.end()


def _ray_is_idle() -> bool:
    """Whether all of the processors that tests need are there, and free within some seconds."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or ray.cluster_resources().get("CPU") != CPUS:
        return False
    # To start another costs as much of a processor.
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if ray.available_resources().get("CPU") == CPUS:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def ray_runtime() -> None:
    """A Ray with two processors, all of them free; later files get the same one."""
    from mapspace.ray_start import start_ray

    FORKS.prepare()
    if start_ray("local", cpus=CPUS, needed=CPUS):
        FORKS.serve()


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 40 small CNN problems x 100 mappings on mm256, in 4 shards."""
    from orchestrator.training.generate import GenerateConfig, generate

    folder = tmp_path_factory.mktemp("data") / "cnn"
    config = GenerateConfig.model_validate(
        {
            "kind": "generate",
            "name": "small",
            "problems": {"family": "cnn"},
            "rows": 4000,
            "mappings_per_problem": 100,
            "problems_per_shard": 10,
        }
    )
    generate(config, folder, execute=map)
    return folder


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """HOST:PORT of an S3 server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    request = urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")
    with urllib.request.urlopen(request):
        yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> RemotePath:
    """A folder of its own for every test."""
    from mapspace.storage import RemotePath, place

    found = place(f"s3://bucket/{request.node.name}?scheme=http&endpoint_override={endpoint}")
    assert isinstance(found, RemotePath)
    return found


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks whose holders are taken for dead in half a second."""
    from orchestrator.runs import lock

    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lock, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.05)


@pytest.fixture(scope="session")
def nodes(pytestconfig: pytest.Config) -> Iterator[Nodes]:
    """A cluster of several nodes, and this process connected to it; only in the faults' process."""
    import ray

    from mapspace.ray_start import ENVIRONMENT
    from orchestrator.runs import ray_runtime

    if ray.is_initialized():
        pytest.fail("run the faults in a process of their own: make faults")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    FORKS.prepare()
    nodes = Nodes()
    pytestconfig.stash[CLUSTER] = True
    try:
        with ray_runtime.ray_runtime(nodes.address):
            yield nodes
    finally:
        pytestconfig.stash[CLUSTER] = False
        nodes.cluster.shutdown()
