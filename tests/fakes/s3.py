"""A real S3-compatible server (moto's) on a free port of this machine, and a proxy before it that fails on purpose."""

from __future__ import annotations

import http.client
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import DEVNULL, PIPE
from typing import Literal

SECONDS = 120.0
"""How long a test waits for what must happen."""

SERVER = """
import os, sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

lock, answer = threading.Lock(), DomainDispatcherApplication.__call__

def answer_alone(self, environ, start_response):
    with lock:
        return answer(self, environ, start_response)

DomainDispatcherApplication.__call__ = answer_alone
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
main(["-H", "127.0.0.1", "-p", "0"])
"""
"""Ends with the process that started it, however that ends: its end of the pipe is closed then. One request at a time,
since moto looks whether an object is there and then puts it, which two threads may do at once."""

Fault = Literal["500", "503", "reset", "lost"]
"""What becomes of a request: refused so, its connection broken before it arrives, or after it was carried out."""
EVERY_KIND: tuple[Fault, ...] = ("500", "reset", "lost", "503")


@contextmanager
def server(*buckets: str) -> Iterator[int]:
    """The port of a server with these buckets, which ends with the context."""
    command = [sys.executable, "-W", "ignore", "-c", SERVER]
    with subprocess.Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=PIPE) as process:
        try:
            port = _port(process)
            for bucket in buckets:
                request(port, "PUT", f"/{bucket}")
            yield port
        finally:
            process.kill()


def request(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 300, (method, path, answer.status, content)
    return content


def environment(port: int) -> dict[str, str]:
    """What makes a process use the server at a port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stderr is not None
    said = b""
    while not (found := re.search(rb"http://127\.0\.0\.1:(\d+)\s", said)):
        ready, _, _ = select.select([process.stderr], [], [], SECONDS)
        read = os.read(process.stderr.fileno(), 10_000) if ready else b""
        assert read, f"the server did not start: {said!r}"
        said += read
    threading.Thread(target=process.stderr.read, daemon=True).start()  # or it would stop at a full pipe
    return int(found[1])


# ---- a proxy that fails ----------------------------------------------------------------------------------------------


@dataclass
class Proxy:
    """Hands requests on. `fault` decides by a request's number from 0, method and path; None lets it through."""

    target: int
    fault: Callable[[int, str, str], Fault | None] = lambda number, method, path: None
    conditional: bool = True  # False: the store ignores conditions, as some do
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: list[tuple[Fault, str, str]] = field(default_factory=list)
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            found = self.fault(len(self.requests), method, path)
            self.requests.append((method, path))
            if found is not None:
                self.faults.append((found, method, path))
        return found


def one_in(times: int) -> Callable[[int, str, str], Fault | None]:
    """Every so many requests one fails, each time in another way."""
    kinds = EVERY_KIND
    return lambda number, method, path: kinds[number // times % len(kinds)] if number % times == times - 1 else None


@contextmanager
def proxied(proxy: Proxy) -> Iterator[Proxy]:
    """The proxy at work, at `proxy.port`."""

    class Handler(_Handler):
        of = proxy

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        proxy.port = listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    of: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.of.next_fault(self.command, self.path)
        if fault == "reset":
            self._break()
        elif fault in ("500", "503"):
            self._answer(int(fault), [], b"", 0)
        else:
            self._hand_on(body, lost=fault == "lost")

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _carry  # noqa: N815 - the names that the server looks for

    def _hand_on(self, body: bytes, *, lost: bool) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        if not self.of.conditional:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        connection = http.client.HTTPConnection("127.0.0.1", self.of.target, timeout=SECONDS)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if lost:
            self._break()
            return
        length = int(answer.headers.get("Content-Length", len(content)))
        self._answer(answer.status, answer.getheaders(), content, length)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, length: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def _break(self) -> None:
        """The connection ends without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # the name that the server gives it
        """Nothing is said."""
