"""Every private member of RLlib that is used, against the Ray that is installed."""

from __future__ import annotations

import ast
import inspect
from importlib.metadata import version

import pytest
from paths import ROOT

from searchers.reinforcement import rllib_seam

FOLDER = ROOT / "searchers/reinforcement"


@pytest.mark.parametrize(("owner", "name"), rllib_seam.USED, ids=lambda value: str(value))
def test_rllib_still_has_what_is_used_of_it(owner: type, name: str) -> None:
    bodies = "".join(inspect.getsource(each) for each in owner.__mro__ if each is not object)
    assert name in bodies, (
        f"Ray {version('ray')}: {owner.__module__}.{owner.__name__} has no {name} any more; "
        "searchers/reinforcement/rllib_seam.py is where it is used."
    )


def test_private_members_are_used_in_the_seam_alone() -> None:
    """Of other objects than the one a method belongs to."""
    found = []
    for path in FOLDER.glob("*.py"):
        if path.name == "rllib_seam.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                if owner not in ("self", "np", "torch") and not node.attr.startswith("__"):
                    found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    allowed = [entry for entry in found if "self._" in entry]
    assert found == allowed


def test_overridden_private_methods_are_named() -> None:
    """Private methods of our classes that RLlib calls or that hide one of RLlib's."""
    from searchers.reinforcement.ddpg_algorithm import DDPG, DDPGConfig
    from searchers.reinforcement.ddpg_learner import DDPGLearner
    from searchers.reinforcement.ddpg_networks import DDPGModule
    from searchers.reinforcement.policy import EditPolicy

    named = {name for _, name in rllib_seam.USED}
    for ours in (DDPG, DDPGConfig, DDPGLearner, DDPGModule, EditPolicy):
        theirs = {name for base in ours.__mro__[1:] for name in vars(base)}
        hidden = {name for name in vars(ours) if name.startswith("_") and name in theirs}
        assert {name for name in hidden if not name.startswith(("__", "_abc"))} <= named
