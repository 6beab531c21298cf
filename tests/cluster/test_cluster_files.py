"""cluster.yaml and deploy/ as far as they can be held to anything offline: Ray's own readers."""

from __future__ import annotations

import copy
import fnmatch
import gzip
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from paths import ROOT


def prepared(config: dict[str, Any]) -> dict[str, Any]:
    """What `ray up` makes of a configuration before it calls a cloud."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(ready := prepare_config(copy.deepcopy(config)))
    return ready


def aws() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def on_premises() -> dict[str, Any]:
    """The file as its last comment says to change it."""
    text = (ROOT / "cluster.yaml").read_text()
    comment = text[text.index("# On-premises:") :]
    block = comment[comment.index("# provider:") :]
    replacement = yaml.safe_load(re.sub("^# ?", "", block, flags=re.MULTILINE))
    config = aws()
    for key in ("head_node_type", "available_node_types", "head_setup_commands"):
        del config[key]
    return {**config, **replacement, "max_workers": 2}


@pytest.mark.parametrize("config", [aws(), on_premises()], ids=["aws", "on-premises"])
def test_ray_up_takes_the_file(config: dict[str, Any]) -> None:
    ready = prepared(config)
    assert ready["setup_commands"] == config["setup_commands"]
    assert ready["head_start_ray_commands"] == config["head_start_ray_commands"]
    with pytest.raises(jsonschema.ValidationError, match="idle_time_out_minutes"):
        prepared({**config, "idle_time_out_minutes": 1})


def test_a_misspelt_key_of_a_node_type_is_refused() -> None:
    config = aws()
    config["available_node_types"]["cpu"]["min_worker"] = 1
    with pytest.raises(jsonschema.ValidationError, match="min_worker"):
        prepared(config)
    config = aws()
    config["head_node_type"] = "headd"
    with pytest.raises(ValueError, match="head_node_type"):
        prepared(config)


def test_the_node_types_are_what_the_commands_ask_for() -> None:
    types = prepared(aws())["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0}
    workers = {name: found for name, found in types.items() if name != "head"}
    # Nothing of ours asks for a resource of its own.
    assert {name for found in workers.values() for name in found["resources"]} == {"CPU", "GPU"}
    assert workers["cpu"]["resources"].get("GPU", 0) == 0
    assert workers["gpu"]["resources"]["GPU"] == 1
    for found in workers.values():
        assert found["min_workers"] == 0 < found["max_workers"]
    assert aws()["max_workers"] == sum(found["max_workers"] for found in workers.values())


def ray_starts(config: dict[str, Any]) -> Iterator[tuple[dict[str, str], Any]]:
    """Environment and parsed options of every `ray start` in a configuration."""
    from ray.scripts.scripts import start

    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        assert config[key][0].endswith("ray stop")
        words = shlex.split(config[key][1].replace(";", " ; "))
        exports = [word for word in words[: words.index("start")] if re.match(r"\w+=", word)]
        arguments = words[words.index("start") + 1 :]
        assert words[words.index("start") - 1] == "ray"
        # Fails on an option that `ray start` does not have.
        options = start.make_context("ray start", arguments).params
        yield dict(entry.split("=", 1) for entry in exports), options


def test_ray_starts_with_a_token_and_a_local_dashboard() -> None:
    (head_environment, head), (worker_environment, worker) = ray_starts(aws())
    for environment in (head_environment, worker_environment):
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert head["head"]
    assert head["dashboard_host"] == "127.0.0.1"
    assert head["autoscaling_config"] == "~/ray_bootstrap_config.yaml"
    assert not worker["head"]
    assert worker["address"] == f"$RAY_HEAD_IP:{head['port']}"
    # The second autoscaler starts one worker less on machines of one's own.
    assert head_environment["RAY_enable_autoscaler_v2"] == "0"


@pytest.fixture
def cloud() -> Iterator[None]:
    """An AWS that is not there; it leaves the buckets of the server in this process alone."""
    from moto import mock_aws

    mock = mock_aws()
    mock.start(reset=False)
    yield
    mock.stop(remove_data=False)


@pytest.mark.usefixtures("cloud")
def test_the_security_group_is_the_users_own() -> None:
    """What Ray makes of the file before it launches anything."""
    import boto3
    from ray.autoscaler._private.aws.config import bootstrap_aws

    ec2 = boto3.client("ec2", "us-west-2")
    network = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="mapspace", Description="of a test", VpcId=network)[
        "GroupId"
    ]
    image = ec2.describe_images()["Images"][0]["ImageId"]
    config = aws()
    for kind in config["available_node_types"].values():
        assert kind["node_config"]["SecurityGroupIds"] == ["sg-00000000000000000"]
        kind["node_config"] |= {"SecurityGroupIds": [group], "ImageId": image}
        # Else Ray makes both, and waits for them.
        kind["node_config"] |= {"IamInstanceProfile": {"Name": "own"}, "KeyName": "own"}
    config["auth"]["ssh_private_key"] = "own.pem"
    before = ec2.describe_security_groups()["SecurityGroups"]
    launched = bootstrap_aws(prepared(config))
    assert ec2.describe_security_groups()["SecurityGroups"] == before
    for kind in launched["available_node_types"].values():
        assert kind["node_config"]["SecurityGroupIds"] == [group]


def test_what_the_nodes_install_is_synchronised() -> None:
    config = aws()
    assert config["file_mounts"]["~/mapspace"] == "."
    install = next(command for command in config["setup_commands"] if "--constraint" in command)
    arguments = shlex.split(install)
    constraints = arguments[arguments.index("--constraint") + 1]
    assert constraints == "~/mapspace/constraints.txt"
    assert arguments[-1] == "$HOME/mapspace[cluster]"
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in tracked:
        parts = Path(name).parts
        for pattern in config["rsync_exclude"]:
            anchored, wanted = pattern.startswith("/"), pattern.removeprefix("**/").strip("/")
            assert not any(
                fnmatch.fnmatch(part, wanted) for part in (parts[:1] if anchored else parts)
            ), f"{pattern} leaves out {name}"


def test_setting_up_compiles_what_jobs_need() -> None:
    from orchestrator.cli import cli

    [*_, install, compiles] = aws()["setup_commands"]
    assert "pip install" in install
    words = shlex.split(compiles.partition(">")[0])
    assert words[:3] == ["OMP_NUM_THREADS=1", "~/venv/bin/mapspace", "search"]
    given = cli.commands["search"].make_context("search", words[3:]).params
    # What is found in a store compiles nothing.
    assert given["no_store"]


def test_the_extra_of_clusters_has_what_jobs_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {entry.removeprefix("mapspace[").removesuffix("]") for entry in extras["cluster"]}
    installed = " ".join(line for name in named for line in extras[name])
    for library in ("ray[default,rllib,train,tune]", "mlflow", "torch", "pyarrow", "optuna"):
        assert library in installed
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert '"/tmp/mapspace[cluster]"' in dockerfile


def test_image_and_nodes_have_the_same_ray() -> None:
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    (ray,) = (line.split("==")[1] for line in pinned if line.startswith("ray=="))
    assert manifest("raycluster.yaml")["spec"]["rayVersion"] == ray


def manifest(name: str) -> dict[str, Any]:
    (document,) = yaml.safe_load_all((ROOT / "deploy" / name).read_text())
    return dict(document)


def strict(schema: Any) -> Any:
    """A structural schema that refuses fields which it does not name, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found["properties"] = {key: strict(one) for key, one in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            found["additionalProperties"] = False
    return found


def operators() -> list[Path]:
    return sorted((ROOT / "tests" / "golden" / "kuberay").glob("*.json.gz"))


@pytest.mark.parametrize(
    "operator", operators(), ids=lambda path: path.name.removesuffix(".json.gz")
)
@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml"])
def test_manifests_are_what_the_operator_takes(name: str, operator: Path) -> None:
    found = manifest(name)
    assert found["apiVersion"] == "ray.io/v1"
    schema = strict(json.loads(gzip.decompress(operator.read_bytes()))[found["kind"]])
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(found)
    if found["kind"] == "RayJob":
        assert found["spec"]["rayClusterSpec"] == manifest("raycluster.yaml")["spec"]
    for where, key in (((), "rayVersionn"), (("headGroupSpec", "template", "spec"), "containerss")):
        wrong = copy.deepcopy(found)
        part = wrong["spec"].get("rayClusterSpec", wrong["spec"])
        for step in where:
            part = part[step]
        part[key] = "2"
        with pytest.raises(jsonschema.ValidationError, match=key):
            validator.validate(wrong)


def test_the_autoscaler_of_ray_reads_the_manifest() -> None:
    from ray.autoscaler._private.kuberay import autoscaling_config

    found = manifest("raycluster.yaml")
    found["metadata"]["namespace"] = "default"
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(found)
    gigabyte = 1 << 30
    resources = {name: kind["resources"] for name, kind in config["available_node_types"].items()}
    assert resources == {
        "headgroup": {"CPU": 0, "memory": 16 * gigabyte},
        "cpu": {"CPU": 8, "memory": 24 * gigabyte},
        "gpu": {"CPU": 8, "GPU": 1, "memory": 48 * gigabyte},
    }
    assert config["max_workers"] == 10
    assert config["idle_timeout_minutes"] == 10
    assert found["spec"]["enableInTreeAutoscaling"] is True


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    job = manifest("rayjob.yaml")["spec"]
    yield "submitter", job["submitterPodTemplate"]["spec"]
    yield "head", job["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    for group in job["rayClusterSpec"]["workerGroupSpecs"]:
        yield group["groupName"], group["template"]["spec"]


@pytest.mark.parametrize(("name", "pod"), list(pods()))
def test_pods_have_limits_and_no_rights(name: str, pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    # Only the autoscaler, in the head's pod, talks to Kubernetes.
    assert pod.get("automountServiceAccountToken", True) is (name == "head")
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        limits = container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(limits)
        mounted = {entry["name"] for entry in container.get("volumeMounts", [])}
        assert mounted <= {volume["name"] for volume in pod.get("volumes", [])}


def test_the_cluster_is_reached_from_inside_and_with_a_token_only() -> None:
    cluster = manifest("raycluster.yaml")["spec"]
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert cluster["authOptions"] == {"mode": "token", "secretName": "mapspace-token"}


def test_the_image_is_made_of_files_that_are_there() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    (install,) = (line for line in lines if "pip install" in line)
    words = shlex.split(install.rstrip(" \\"))
    assert words[words.index("--constraint") + 1] == "/tmp/mapspace/constraints.txt"
    assert "USER 1000:1000" in lines
    packages = ["costmodel", "mapspace", "orchestrator", "searchers", "surrogate"]
    for needed in ("constraints.txt", "pyproject.toml", "README.md", "LICENSE", *packages):
        assert (ROOT / needed).exists()
        assert needed not in ignored
