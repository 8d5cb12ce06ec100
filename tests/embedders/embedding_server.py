"""A server on loopback that speaks the OpenAI embeddings API as told: each request takes the next of the answers."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a request gets: a status, a body (JSON unless it is bytes), headers; None hangs up without a word."""

    status: int | None = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: Body


def numbers(text: str, length: int) -> list[float]:
    return [float(len(text)), *[1.0] * (length - 1)]


def right(body: Body, length: int = 3) -> Answer:
    """Answer as the API does."""
    length = body.get("dimensions", length)
    data = [
        {"object": "embedding", "index": at, "embedding": numbers(text, length)}
        for at, text in enumerate(body["input"])
    ]
    return Answer(200, {"object": "list", "data": data, "usage": {"total_tokens": 5 * len(data)}})


Reply: TypeAlias = Answer | Callable[[Body], Answer]


class EmbeddingServer:
    """Answers what `answers` says, one after the other, then rightly; `asked` is what came."""

    def __init__(self) -> None:
        self.answers: deque[Reply] = deque()
        self.asked: list[Asked] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner._answer(self)

            def log_message(self, *_given: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.asked.append(Asked(handler.path, dict(handler.headers), body))
        reply = self.answers.popleft() if self.answers else right
        answer = reply if isinstance(reply, Answer) else reply(body)
        if answer.status is None:
            handler.close_connection = True
            return
        written = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(written))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(written)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
