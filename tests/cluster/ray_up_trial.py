#!/usr/bin/env python3
"""Brings a cluster up with `ray up` on three machines of this host, uses it, and takes it down.

    tests/cluster/ray_up_trial.py [--keep]

The machines are namespaces (`three-machines`), which nothing gets out of. `cluster.yaml` is used as
its last comment says for machines of one's own; only addresses, user and key are put in. One line
per step with its seconds, at last OK or FAIL; exit status 0, 1, or 77 where machines are not
permitted. Needs root, debootstrap, rsync and ssh. Work folder: RAY_UP_TRIAL, not on an overlay; the
image and wheels are kept there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = Path(os.environ.get("RAY_UP_TRIAL", "/tmp/ray-up-trial"))
MACHINES = HERE / "three-machines"
RAY = Path(sys.executable).parent / "ray"
NET = "10.77.0"
CLUSTER = "cluster-own.yaml"
FINISHED = re.compile(r"^ *\[\d+/\d+\]", re.MULTILINE)
"""A finished trial in the log of a benchmark."""

# The machines have no registry: uv is put where the setup commands look for it.
PREPARE = r"""
runuser -l mapspace -c 'set -e; python3 -m zipfile -e /wheels/uv-*.whl /tmp/uv
  mkdir -p ~/.local/bin; install -m 755 /tmp/uv/uv-*.data/scripts/uv ~/.local/bin/uv; rm -r /tmp/uv'
"""
# Some minutes of searches, so that a machine can die meanwhile.
SECOND = """
kind: benchmark
name: second
accelerator: mm256
workloads: [resnet-conv4, gemm-512]
searchers: {random: {}, annealing: {}, genetic: {}, structured: {}}
seeds: 8
iterations: 60000
"""


class StepError(Exception):
    """A step did not do what it should; says why."""


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """One line of the output: a step and its seconds, when it ends."""
    start, mark = time.monotonic(), "FAIL"
    try:
        yield
        mark = "ok"
    finally:
        print(f"{mark:4} {time.monotonic() - start:7.1f} s  {name}", flush=True)


def run(*command: object, log: str, timeout: float = 120, **options: Any) -> str:
    """What a command prints, also kept in WORK/log; it must end with 0 and in time."""
    path = WORK / "log" / f"{log}.log"
    try:
        done = subprocess.run(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, **options,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise StepError(f"{log}: no end after {timeout:.0f} s") from error
    # Without colours and carriage returns.
    text = re.sub(r"\x1b\[[0-9;]*m|\r", "", done.stdout)
    with path.open("a") as file:
        file.write(text)
    if done.returncode:
        tail = "\n    | ".join(text.splitlines()[-12:])
        raise StepError(f"{log}: exit status {done.returncode}\n    | {tail}")
    return text


def until(what: str, timeout: float, condition: Callable[[], object]) -> None:
    """Waits for True; any other answer, and a failure, says what there is instead."""
    end, last = time.monotonic() + timeout, None
    while time.monotonic() < end:
        try:
            last = condition()
        except StepError as error:
            last = error
        if last is True:
            return
        time.sleep(3)
    raise StepError(f"{what}: not within {timeout:.0f} s; at last: {last}")


def own_machines(text: str) -> str:
    """The cluster file as its last comment says to change it, with the machines' addresses."""
    head, _, comment = text.partition("# On-premises:")
    block = re.sub("^# ?", "", comment[comment.index("# provider:") :], flags=re.MULTILINE)
    gone = ("provider", "auth", "head_node_type", "available_node_types", "head_setup_commands")
    for key in (*gone, "max_workers"):
        head = re.sub(rf"^{key}:.*?(?=^\S|\Z)", "", head, flags=re.MULTILINE | re.DOTALL)
    own = {"head_ip": f"{NET}.11", "worker_ips": f"[{NET}.12, {NET}.13]", "ssh_user": "mapspace"}
    for key, value in (*own.items(), ("ssh_private_key", WORK / "home/.ssh/id_ed25519")):
        block = re.sub(rf"^( +{key}:).*", rf"\1 {value}", block, flags=re.MULTILINE)
    return f"{head}\nmax_workers: 2\n{block}"


class Trial:
    """The steps, from a copy of the checkout to machines on which no Ray is left."""

    def __init__(self) -> None:
        self.project = WORK / "project"
        self.tunnel: subprocess.Popen[bytes] | None = None
        os.environ["THREE_MACHINES"] = str(WORK / "machines")
        # Ray keeps connections of SSH by user and cluster: those of another trial lead elsewhere.
        name = f"trial-{os.getpid()}"
        self.connections = f"/tmp/ray_ssh_{hashlib.sha256(name.encode()).hexdigest()[:10]}"
        self.user = os.environ | {
            "LOGNAME": name, "HOME": str(WORK / "home"), "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:8265",
        }  # fmt: skip

    def machines(self, *command: object, log: str = "machines", **options: Any) -> str:
        return run(MACHINES, *command, log=log, **options)

    def type(self, *command: object, log: str, **options: Any) -> str:
        """What a user types in the checkout, on a host of the machines' network."""
        return self.machines("host", *command, log=log, cwd=self.project, env=self.user, **options)

    def nodes(self) -> int:
        """Active and idle nodes of `ray status`."""
        text = self.type(RAY, "exec", CLUSTER, "RAY_AUTH_MODE=token ray status", log="status")
        sections = re.findall(r"^(?:Active|Idle):\n((?: .*\n)*)", text, re.MULTILINE)
        return sum(int(count) for count in re.findall(r"^ (\d+) ", "".join(sections), re.MULTILINE))

    def wait_for_nodes(self, count: int) -> None:
        until(f"{count} nodes", 600, lambda: (now := self.nodes()) == count or f"{now} nodes")

    def run(self) -> None:
        with step("copy of the checkout, wheels"):
            self.copy()
            self.wheels()
        with step("three machines"):
            (WORK / "prepare.sh").write_text(f"# {self.wheelhouse.name}{PREPARE}")
            os.environ["THREE_MACHINES_WHEELS"] = str(self.wheelhouse)
            os.environ["THREE_MACHINES_PREPARE"] = str(WORK / "prepare.sh")
            self.machines("up", timeout=1200)
            self.sign_in()
        with step("ray up"):
            self.type(RAY, "up", "--yes", CLUSTER, log="ray-up", timeout=1500)
        with step("three nodes in ray status"):
            self.wait_for_nodes(3)
        with step("ray dashboard"):
            self.dashboard()
        with step("first job"):
            self.submit("first", "mapspace", "benchmark", "smoke")
            self.has_report("first")
        self.second_job()
        with step("ray down"):
            self.close()
            self.type(RAY, "down", "--yes", CLUSTER, log="ray-down", timeout=300)
            until("no raylet", 240, lambda: not any(map(self.has_raylet, (1, 2, 3))))

    def copy(self) -> None:
        shutil.rmtree(self.project, ignore_errors=True)
        listed = run("git", "ls-files", log="files", cwd=ROOT).splitlines()
        for name in listed:
            target = self.project / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        (self.project / CLUSTER).write_text(own_machines((ROOT / "cluster.yaml").read_text()))

    def wheels(self) -> None:
        """All that the extra of clusters asks for, by this host's pip."""
        files = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
        self.wheelhouse = WORK / "wheels" / hashlib.sha256(b"".join(files)).hexdigest()[:12]
        if (self.wheelhouse / ".complete").exists():
            return
        built = tomllib.loads(files[0].decode())["build-system"]["requires"]
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", self.wheelhouse)
        wanted = (f"{self.project}[cluster]", "pip", "setuptools", "wheel", "uv", *built)
        constraint = ("--constraint", self.project / "constraints.txt")
        run(*pip, *constraint, *wanted, log="wheels", timeout=2400)
        for wheel in self.wheelhouse.glob("mapspace-*.whl"):
            wheel.unlink()  # it must come from the files that `ray up` copies
        shutil.rmtree(self.project / "build", ignore_errors=True)
        (self.wheelhouse / ".complete").touch()

    def sign_in(self) -> None:
        """A home folder with the machines' key and a token of Ray, as the guide says."""
        (WORK / "home/.ssh").mkdir(parents=True, exist_ok=True)
        shutil.copy(WORK / "machines/key", WORK / "home/.ssh/id_ed25519")
        subprocess.run(
            [RAY, "get-auth-token", "--generate"], env=self.user, check=True, capture_output=True
        )
        (WORK / "home/.ray/auth_token").chmod(0o600)

    def dashboard(self) -> None:
        self.tunnel = subprocess.Popen(
            [MACHINES, "host", RAY, "dashboard", CLUSTER], cwd=self.project, env=self.user,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until("the job server", 90, lambda: bool(self.job("list") or True))

    def job(self, *words: object) -> str:
        return self.type(RAY, "job", *words, log="jobs", timeout=1200)

    def submit(self, name: str, *command: object, before: tuple[object, ...] = ()) -> None:
        output = ("--no-store", "--output", f"/shared/{name}")
        self.job("submit", "--submission-id", name, *before, "--", *command, *output)

    def second_job(self) -> None:
        with step("second job: a trial is done, another one runs on machine 3, which is killed"):
            experiments = WORK / "experiments"
            experiments.mkdir(exist_ok=True)
            (experiments / "second.yaml").write_text(SECOND)
            before = ("--no-wait", "--working-dir", experiments)
            self.submit("second", "mapspace", "benchmark", "second.yaml", before=before)
            until("a trial", 600, lambda: bool(FINISHED.search(self.job("logs", "second"))))
            busy = "pgrep -f ^ray::ImplicitFunc"
            until("a search on machine 3", 300, lambda: bool(self.machines("exec", 3, busy)))
            self.machines("kill", 3)
        with step("ray status has two nodes"):
            self.wait_for_nodes(2)
        with step("machine 3 comes back: three nodes"):
            self.machines("revive", 3)
            self.wait_for_nodes(3)
        with step("second job succeeded"):
            until("its end", 1200, lambda: "succeeded" in (s := self.job("status", "second")) or s)
            self.has_report("second")

    def has_report(self, folder: str) -> None:
        if not (WORK / "machines/shared" / folder / "report.html").exists():
            raise StepError(f"/shared/{folder} has no report.html")

    def has_raylet(self, machine: int) -> bool:
        return "raylet" in self.machines("exec", machine, "ps -eo comm; true")

    def close(self) -> None:
        """Ends `ray dashboard`, which goes on until then."""
        if self.tunnel and self.tunnel.poll() is None:
            os.killpg(self.tunnel.pid, signal.SIGTERM)
            self.tunnel.wait()

    def end(self) -> None:
        self.close()
        self.machines("down", timeout=600)
        shutil.rmtree(self.connections, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="leave the machines up at the end")
    keep = parser.parse_args().keep
    for tool in ("rsync", "ssh", "git"):
        if not shutil.which(tool):
            print(f"not possible: {tool} is not installed")
            return 77
    shutil.rmtree(WORK / "log", ignore_errors=True)
    for folder in ("log", "home", "wheels"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    trial, start = Trial(), time.monotonic()
    if subprocess.run([MACHINES, "check"], check=False).returncode:
        return 77
    try:
        trial.machines("down", timeout=600)
        try:
            trial.run()
        finally:
            if not keep:
                trial.end()
    except StepError as error:
        print(f"FAIL: {error}\nlogs: {WORK / 'log'}", flush=True)
        return 1
    print(f"OK: every step, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
