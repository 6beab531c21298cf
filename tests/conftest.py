"""Fixtures that several test files share."""

from __future__ import annotations

import logging
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import Nodes

if TYPE_CHECKING:
    from surrogate.storage import RemotePath

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Of the S3 server that tests start. Ray's workers inherit what is set before Ray starts.
for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
    os.environ[name] = "testing"
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


@pytest.fixture(scope="session")
def ray_runtime() -> Iterator[None]:
    """The one Ray of a test run: starting it takes seconds, and `ray stop` is never called."""
    from orchestrator import runtime

    with runtime.ray_runtime(cpus=2):
        yield


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 40 small CNN problems x 100 mappings on mm256, in 4 shards."""
    from orchestrator.generate import GenerateConfig, generate

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
    from surrogate.storage import RemotePath, place

    found = place(f"s3://bucket/{request.node.name}?scheme=http&endpoint_override={endpoint}")
    assert isinstance(found, RemotePath)
    return found


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks whose holders are taken for dead in half a second."""
    from orchestrator import lock

    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lock, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.05)


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """A cluster of several nodes, and this process connected to it; only in the faults' process."""
    import ray

    from orchestrator import runtime

    if ray.is_initialized():
        pytest.fail("run the faults in a process of their own: make faults")
    for name, value in runtime.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    nodes = Nodes()
    try:
        with runtime.ray_runtime(nodes.address):
            yield nodes
    finally:
        nodes.cluster.shutdown()
