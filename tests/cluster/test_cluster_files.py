"""cluster.yaml and deploy/ as far as they can be held to anything offline: Ray's own readers."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from paths import ROOT

# Names of the fields of `ray.io/v1`, from the API reference of KubeRay 1.6.2.
FIELDS = {
    "RayCluster": "apiVersion kind metadata spec",
    "RayJob": "apiVersion kind metadata spec",
    "RayClusterSpec": "authOptions autoscalerOptions enableInTreeAutoscaling "
    "gcsFaultToleranceOptions headGroupSpec headServiceAnnotations managedBy rayVersion suspend "
    "upgradeStrategy workerGroupSpecs",
    "RayJobSpec": "activeDeadlineSeconds backoffLimit clusterSelector deletionStrategy entrypoint "
    "entrypointNumCpus entrypointNumGpus entrypointResources jobId managedBy metadata "
    "rayClusterSpec runtimeEnvYAML shutdownAfterJobFinishes submissionMode submitterConfig "
    "submitterPodTemplate suspend ttlSecondsAfterFinished",
    "AuthOptions": "enableK8sTokenAuth mode secretName",
    "AutoscalerOptions": "env envFrom idleTimeoutSeconds image imagePullPolicy resources "
    "securityContext upscalingMode version volumeMounts",
    "HeadGroupSpec": "enableIngress headService labels rayStartParams resources serviceType "
    "template",
    "WorkerGroupSpec": "groupName idleTimeoutSeconds labels maxReplicas minReplicas numOfHosts "
    "rayStartParams replicas resources scaleStrategy suspend template",
}


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
        exports = words[words.index("export") + 1 : words.index(";", words.index("export"))]
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
    inbound = aws()["provider"]["security_group"]["IpPermissions"]
    assert [(rule["FromPort"], rule["ToPort"]) for rule in inbound] == [(22, 22)]


def test_what_the_nodes_install_is_synchronised() -> None:
    config = aws()
    assert config["file_mounts"]["~/mapspace"] == "."
    install = next(command for command in config["setup_commands"] if "--constraint" in command)
    arguments = shlex.split(install)
    constraints = arguments[arguments.index("--constraint") + 1]
    assert constraints == "~/mapspace/constraints.txt"
    assert arguments[-1] == "~/mapspace"
    for needed in ("constraints.txt", "pyproject.toml"):
        assert (ROOT / needed).is_file()
        assert not any(Path(needed).match(pattern) for pattern in config["rsync_exclude"])
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    (ray,) = (line.split("==")[1] for line in pinned if line.startswith("ray=="))
    assert manifest("raycluster.yaml")["spec"]["rayVersion"] == ray


def manifest(name: str) -> dict[str, Any]:
    (document,) = yaml.safe_load_all((ROOT / "deploy" / name).read_text())
    return dict(document)


def check_fields(kind: str, found: dict[str, Any]) -> None:
    unknown = set(found) - set(FIELDS[kind].split())
    assert not unknown, f"{kind} has no {unknown}"


@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml"])
def test_manifests_use_fields_that_kuberay_has(name: str) -> None:
    found = manifest(name)
    assert found["apiVersion"] == "ray.io/v1"
    check_fields(found["kind"], found)
    cluster = found["spec"]
    if found["kind"] == "RayJob":
        check_fields("RayJobSpec", cluster)
        cluster = cluster["rayClusterSpec"]
        assert cluster == manifest("raycluster.yaml")["spec"]
    check_fields("RayClusterSpec", cluster)
    check_fields("AuthOptions", cluster["authOptions"])
    check_fields("AutoscalerOptions", cluster["autoscalerOptions"])
    check_fields("HeadGroupSpec", cluster["headGroupSpec"])
    for group in cluster["workerGroupSpecs"]:
        check_fields("WorkerGroupSpec", group)


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
