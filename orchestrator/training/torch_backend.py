"""PyTorch's process group on Ray Train: workers meet at the addresses that Ray has for them."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

import ray
from ray.train._internal.base_worker_group import BaseWorkerGroup
from ray.train.torch import TorchConfig
from ray.train.torch.config import _TorchBackend

# Linux's request for an interface's address, and what it reads and writes: a name, then a socket's
# address, in which four bytes of an IPv4 address follow family and port.
SIOCGIFADDR, REQUEST, FIRST = 0x8915, "16s240x", 20


class AddressedTorch(TorchConfig):
    """PyTorch's process group, on the interface of Ray.

    Gloo listens at the address that the machine's name has. That is 127.0.1.1 in the `/etc/hosts`
    that Debian and Ubuntu write, and on another machine it means that machine.
    """

    @property
    def backend_cls(self) -> type[_TorchBackend]:
        """Tells the workers first."""
        return _AddressedBackend


class _AddressedBackend(_TorchBackend):
    def on_start(self, worker_group: BaseWorkerGroup, backend_config: TorchConfig) -> None:
        worker_group.execute(choose_interface)
        super().on_start(worker_group, backend_config)


def choose_interface() -> None:
    """Lets Gloo listen at this node's address of Ray, unless the user has said where."""
    name = interface_of(ray.util.get_node_ip_address())
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def interface_of(address: str) -> str | None:
    """Name of the network interface that has an IPv4 address; None where none says so."""
    wanted = socket.gethostbyname(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                said = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack(REQUEST, name.encode()))
            except OSError:
                continue  # it has no address, or the system knows no such request
            if socket.inet_ntoa(said[FIRST : FIRST + 4]) == wanted:
                return name
    return None
