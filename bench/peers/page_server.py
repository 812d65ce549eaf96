"""The local web server between a peer's process and its browser's page: media in, recordings out.

Bound to this host's loopback, so nothing of it crosses the link under test. The headers isolate the
page, which gives it a clock of 5 µs instead of 100.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

WEB = Path(__file__).resolve().parent / "web"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

Give = Callable[[list[str]], bytes]
"""Answers a GET under /media/: the path's parts after that. Raises LookupError for what is not."""
Take = Callable[[list[str], bytes], None]
"""Takes a POST under /media/."""


class PageServer:
    """Serves `web/` and media of this process. Use as a context manager."""

    def __init__(self, *, give: Give | None = None, take: Take | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # keeps the connection: 50 requests a second

            def do_GET(self) -> None:
                try:
                    parts = self.path.strip("/").split("/")
                    if parts[0] == "media" and give is not None:
                        self._answer(200, give(parts[1:]), "application/octet-stream")
                        return
                    file = WEB / Path(self.path).name
                    self._answer(200, file.read_bytes(), KINDS[file.suffix])
                except (LookupError, OSError, ValueError):
                    self._answer(404, b"", "text/plain")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if take is not None:
                    take(self.path.strip("/").split("/")[1:], body)
                self._answer(200, b"", "text/plain")

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Cross-Origin-Opener-Policy", "same-origin")
                self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        )

    @property
    def url(self) -> str:
        """Where the server is, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
