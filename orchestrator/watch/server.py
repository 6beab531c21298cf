"""Serves the live page of a run folder: three fixed answers, and no path ever becomes a file.

It listens on this machine's loopback alone, as at the end of an SSH tunnel. A page of another site
cannot read it through a name that it lets resolve to 127.0.0.1 (DNS rebinding): whoever asks for
another host than localhost is refused.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mapspace.errors import ConfigError
from orchestrator.report.palette import PALETTE

ADDRESS = "127.0.0.1"
# Where no port is asked for: the first of these that is free.
PORTS = range(8770, 8790)
# Any port: that of a tunnel is another one.
_OWN_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
# A connection whose reader has gone is noticed when something is sent.
KEEP_ALIVE_SECONDS = 10.0
# A request that does not come, and a reader that takes nothing, end.
TIMEOUT_SECONDS = 30.0
MOST_STREAMS = 32
PAGE = "page.html"


class Latest:
    """What is watched, looked at for all who ask together, and only while somebody asks."""

    def __init__(self, look: Callable[[], Any], seconds: float) -> None:
        """Prepares to look.

        Args:
            look: gives JSON types.
            seconds: the least time between two looks.
        """
        self.seconds = seconds
        self._look = look
        self._lock = threading.Lock()
        self._looked = -seconds
        self._text, self._number = "", 0

    def get(self) -> tuple[int, str]:
        """The number of the state, and the state as one line of JSON."""
        with self._lock:
            if time.monotonic() - self._looked >= self.seconds:
                text = json.dumps(self._look(), allow_nan=False)
                self._number += text != self._text
                self._text, self._looked = text, time.monotonic()
            return self._number, self._text


class WatchServer(ThreadingHTTPServer):
    """The page, `/`, the state as JSON, `/state`, and its changes as server-sent events."""

    daemon_threads = True
    # On Linux this lets a port be used again at once, and no two servers share one.
    allow_reuse_address = True

    def __init__(self, latest: Latest, port: int) -> None:
        self.latest = latest
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.over = threading.Event()
        super().__init__((ADDRESS, port), _Handler)
        # The first look imports what is watched: it is made while the reader opens the page.
        threading.Thread(target=latest.get, name="first look", daemon=True).start()

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def shutdown(self) -> None:
        """Ends the streams as well."""
        self.over.set()
        super().shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a reader that goes away is no error."""


def open_server(latest: Latest, port: int | None) -> WatchServer:
    """A server on a port of this machine's loopback.

    Args:
        latest: what it serves.
        port: which; 0: any that is free; None: the first of `PORTS` that is.

    Raises:
        ConfigError: it is not to be had.
    """
    for candidate in PORTS if port is None else [port]:
        try:
            return WatchServer(latest, candidate)
        except OSError as error:
            taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
            if not taken or (port is not None):
                raise ConfigError(
                    f"--port: {candidate} cannot be used: {error.strerror}; give another one, or 0 "
                    "for any that is free."
                ) from error
    raise ConfigError(
        f"--port: {PORTS.start} to {PORTS.stop - 1} are all taken; give one, or 0 for any that is "
        "free."
    )


@cache
def page() -> tuple[bytes, str]:
    """The page, and the policy that lets a browser run its own script and nothing else."""
    content = Path(__file__).with_name(PAGE).read_text()
    content = content.replace("/*PALETTE*/[]", json.dumps(PALETTE))

    def digests(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
        hashes = (base64.b64encode(hashlib.sha256(part.encode()).digest()) for part in parts)
        return " ".join(f"'sha256-{one.decode()}'" for one in hashes)

    policy = (
        f"default-src 'none'; script-src {digests('script')}; style-src {digests('style')}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return content.encode(), policy


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: WatchServer
    timeout = TIMEOUT_SECONDS
    protocol_version = "HTTP/1.0"
    server_version, sys_version = "mapspace", ""

    def do_GET(self) -> None:
        """The page, the state or its changes; the name of the host comes first."""
        if not _OWN_NAMES.fullmatch(self.headers.get("Host", "")):
            self._text(HTTPStatus.FORBIDDEN, "Expected the host localhost or 127.0.0.1.\n")
            return
        match self.path.partition("?")[0]:
            case "/":
                content, policy = page()
                self._send("text/html; charset=utf-8", content, policy=policy)
            case "/state":
                self._send("application/json", self.server.latest.get()[1].encode())
            case "/events":
                self._events()
            case _:
                self._text(HTTPStatus.NOT_FOUND, "Expected /, /state or /events.\n")

    def log_message(self, *_: Any, **__: Any) -> None:
        """Says nothing: requests are no news."""

    def _events(self) -> None:
        """Every state as it comes, until the reader goes."""
        if not self.server.streams.acquire(blocking=False):
            self._text(HTTPStatus.SERVICE_UNAVAILABLE, f"More than {MOST_STREAMS} watch.\n")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            sent, wrote = 0, time.monotonic()
            while not self.server.over.is_set():
                number, text = self.server.latest.get()
                if number != sent:
                    self.wfile.write(f"id: {number}\ndata: {text}\n\n".encode())
                elif time.monotonic() - wrote >= KEEP_ALIVE_SECONDS:
                    self.wfile.write(b": still here\n\n")
                else:
                    self.server.over.wait(self.server.latest.seconds)
                    continue
                self.wfile.flush()
                sent, wrote = number, time.monotonic()
        except OSError:
            pass  # the reader has gone
        finally:
            self.server.streams.release()

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send("text/plain; charset=utf-8", text.encode(), status=status)

    def _send(
        self, kind: str, content: bytes, *, status: HTTPStatus = HTTPStatus.OK, policy: str = ""
    ) -> None:
        self._head(status, kind, **{"Content-Length": str(len(content))}, policy=policy)
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, policy: str = "", **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Security-Policy": policy or "default-src 'none'",
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
