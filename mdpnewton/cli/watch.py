"""`mdpnewton watch`: the report of a run that is under way, on this machine alone."""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress

HERE = "127.0.0.1"
SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to watch.

    Attributes:
        run: Run folders, or that of a sweep; several are compared.
        port: Port on this machine; 0 takes any that is free.
    """

    run: tuple[Path, ...] = flag(positional=True, metavar="RUN")
    port: int = flag(8711, least=0)


def _plan(options: Options, folder: Path) -> Plan:
    for one in options.run:
        if not one.is_dir():
            raise ValueError(f"{one}: there is no such folder; name a run folder")

    def run(progress: Progress) -> Outcome:
        try:
            server = page_server(options.run, options.port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"--port {options.port}: {reason}; name another port") from None
        with server:
            address = f"http://{HERE}:{server.server_address[1]}/"
            print(f"{address} shows the run as it goes on; Ctrl-C ends this", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return Outcome({"address": address}, lambda: "ended; the run itself is not touched")
        raise AssertionError("the server ends by an interrupt only")

    return Plan(run, writes=False)


def page_server(folders: Sequence[Path], port: int) -> ThreadingHTTPServer:
    """A server of the page of some run folders, for this machine alone.

    It answers only those who ask for it by an address of this machine, so that no page from
    elsewhere reads it under a name of its own (DNS rebinding).
    """
    lock = threading.Lock()  # one page is made at a time

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "mdpnewton", ""
        timeout = 30

        def do_GET(self) -> None:
            """Answer with the page, or with its data if they are new."""
            port = self.server.server_address[1]  # type: ignore[index]
            if self.headers.get("Host") not in (f"{HERE}:{port}", f"localhost:{port}"):
                self._answer(403, b"this page is for this machine alone\n", "text/plain")
                return
            asked = urlsplit(self.path)
            if asked.path not in ("/", "/data.json"):
                self._answer(404, b"there is nothing here\n", "text/plain")
                return
            with lock:
                stamp = stamp_of(folders)
                if asked.path == "/data.json":
                    if parse_qs(asked.query).get("have") == [stamp]:
                        self._answer(204, b"", "application/json")
                        return
                    self._answer(200, _data(folders), "application/json", stamp)
                else:
                    self._answer(200, _page(folders), "text/html; charset=utf-8")

        def _answer(self, status: int, content: bytes, kind: str, stamp: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in SAFE.items():
                self.send_header(name, value)
            if stamp:
                self.send_header("X-Stamp", stamp)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *about: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HERE, port), Handler)
    server.daemon_threads = True
    return server


def stamp_of(folders: Sequence[Path]) -> str:
    """Another text whenever something in the folders has changed, or who works on them."""
    from mdpnewton.files.found import run_folders
    from mdpnewton.files.lock import holder

    seen: list[Any] = []
    for folder in (one for each in folders for one in run_folders(each)):
        seen.append([str(folder), holder(folder)])
        for path in sorted(folder.glob("*")):
            try:
                about = path.stat()
            except OSError:
                continue  # it was renamed into place just now
            seen.append([path.name, about.st_mtime_ns, about.st_size])  # a folder of jobs too
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:24]


def _data(folders: Sequence[Path]) -> bytes:
    from mdpnewton.cli.pages import page
    from mdpnewton.report.page.document import embedded

    return embedded(page(folders)).encode()


def _page(folders: Sequence[Path]) -> bytes:
    from mdpnewton.cli.pages import page
    from mdpnewton.report.page import document

    return document(page(folders), live=True).encode()


COMMAND = Command(
    "watch",
    "the report of a run as it goes on, at an address of this machine",
    Options,
    _plan,
    json=False,
)
