"""OpenAIEmbedder: any server that speaks the OpenAI embeddings API. Needs the extra `openai` (httpx2)."""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from stackroom.embedders._door import checked_passage_vectors
from stackroom.embedders._openai_answers import Failure, failure_of, undecodable, vectors_of
from stackroom.embedders._openai_waiting import until_answered
from stackroom.embedders._protocol import Fingerprint, limit_problem
from stackroom.text import is_blank
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2
    import numpy as np
    from numpy.typing import NDArray

    from stackroom._cancel import CancelToken

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"

_KNOWN_DIMENSIONS: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
    "text-embedding-3-large": 3072,
}
_KNOWN_MAX_INPUT_CHARS: Final = 32_000
"""What these models take in: 8,191 tokens of about four characters."""

_LEARNED_FROM: Final = "dimension"
"""The text whose vector tells the dimension of a model that is not known."""


class OpenAIEmbedder:
    """Asks `{base_url}/embeddings` for vectors; its fingerprint is `openai:<model>` and the dimension.

    `api_key` None takes the environment's OPENAI_API_KEY; without any, another `base_url` than OpenAI's is asked
    without an Authorization header. `dimension` is sent as `dimensions` and then every answer must have it; None leaves
    it to the model: it is known of OpenAI's own, and learned of others by one request when `fingerprint` is first read.

    Busy and broken servers (408, 429, 500, 502, 503, 504, connections, timeouts of `timeout` seconds) are tried up to
    `attempts` times in all, after the time that the server names, else 0.25 s, doubling, at most 8 s. What is raised in
    the end is an EmbedderError with `status`, `retryable` and `retry_after`; no message, repr or log holds the key.

    ValueError: a blank model or key, no key for OpenAI's own server, an address that is no http(s) URL or holds a
    password, a limit that is none. ImportError when httpx2 is missing.
    """

    provider: ClassVar[str] = "openai"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimension: int | None = None,
        max_input_chars: int | None = None,
        max_batch: int | None = 2048,
        max_concurrency: int | None = 8,
        attempts: int = 5,
        timeout: float = 30.0,
    ) -> None:
        if not isinstance(model, str) or is_blank(model):
            raise ValueError("model must be the name of an embedding model, such as text-embedding-3-small")
        _check_limits(max_input_chars=max_input_chars, max_batch=max_batch, max_concurrency=max_concurrency)
        require_size("attempts", attempts, least=1)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ValueError("timeout must be a finite number of seconds above 0")
        self._url, is_openai = _checked_url(base_url)
        self._key = _checked_key(api_key, is_needed=is_openai)
        self._model = model
        self._dimensions = dimension
        known = _KNOWN_DIMENSIONS.get(model)
        self._fingerprint = Fingerprint(f"openai:{model}", dimension if dimension is not None else known or 1)
        self._is_learned = dimension is not None or known is not None
        is_known_length = max_input_chars is None and known is not None
        self.max_input_chars = _KNOWN_MAX_INPUT_CHARS if is_known_length else max_input_chars
        self.max_batch = max_batch
        self.max_concurrency = max_concurrency
        self.tokens_used = 0
        self._attempts = attempts
        self._timeout = timeout
        self._lock = threading.Lock()
        self._clients: dict[int, httpx2.Client] = {}
        weakref.finalize(self, _close, self._clients)
        _httpx2()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r})"

    @property
    def fingerprint(self) -> Fingerprint:
        """`openai:<model>` and the dimension; asks the server once when neither caller nor model tells it."""
        if not self._is_learned:
            (vector,) = self._ask([_LEARNED_FROM], None)
            self._fingerprint = Fingerprint(f"openai:{self._model}", len(vector))
            self._is_learned = True
        return self._fingerprint

    def embed_passages(self, texts: Sequence[str], *, cancel: CancelToken | None = None) -> NDArray[np.float32]:
        """Return the vectors of stored texts, shape (n, dimension). One request."""
        return self._ask(list(texts), cancel)

    def embed_query(self, text: str, *, cancel: CancelToken | None = None) -> NDArray[np.float32]:
        """Return the vector of a search's text, shape (dimension,)."""
        vector: NDArray[np.float32] = self._ask([text], cancel)[0]
        return vector

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            _close(self._clients)

    def _ask(self, texts: list[str], cancel: CancelToken | None) -> NDArray[np.float32]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        answer = until_answered(lambda: self._attempt(body), self._attempts, cancel)
        vectors, tokens = vectors_of(answer, len(texts))
        with self._lock:
            self.tokens_used += tokens
        dimension = self._fingerprint.dimension if self._is_learned else vectors.shape[1]
        return checked_passage_vectors(vectors, len(texts), dimension)

    def _attempt(self, body: dict[str, Any]) -> httpx2.Response | Failure:
        """Post once; whatever went wrong comes back as a Failure, so that no exception leads to the request's key."""
        httpx2 = _httpx2()
        try:
            with self._opened().stream("POST", self._url, json=body) as response:
                return self._read(response)
        except httpx2.HTTPError as error:
            return Failure(f"the embeddings server did not answer ({type(error).__name__})", retryable=True)

    def _read(self, response: httpx2.Response) -> httpx2.Response | Failure:
        try:
            response.read()
        except _httpx2().DecodingError:
            return undecodable(response)
        return response if response.is_success else failure_of(response, self._key)

    def _opened(self) -> httpx2.Client:
        with self._lock:
            if os.getpid() not in self._clients:  # a fork must not share connections
                headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
                client = _httpx2().Client(headers=headers, timeout=self._timeout, follow_redirects=False)
                self._clients[os.getpid()] = client
            return self._clients[os.getpid()]


def _close(clients: dict[int, httpx2.Client]) -> None:
    """Close this process's connections, not those that it has from before a fork."""
    client = clients.pop(os.getpid(), None)
    if client is not None:
        client.close()


def _httpx2() -> Any:
    try:
        import httpx2
    except ImportError as missing:
        raise ImportError('OpenAIEmbedder needs httpx2: pip install "stackroom[openai]"') from missing
    return httpx2


def _check_limits(**limits: object) -> None:
    for name, value in limits.items():
        problem = limit_problem(name, value)
        if problem is not None:
            raise ValueError(problem)


def _checked_url(base_url: str | None) -> tuple[str, bool]:
    """Return the address to post to, and whether it is OpenAI's own."""
    given = DEFAULT_BASE_URL if base_url is None else base_url
    if not isinstance(given, str) or not given.startswith(("http://", "https://")) or not urlsplit(given).hostname:
        raise ValueError("base_url must be an http or https address, such as http://localhost:8080/v1")
    if "@" in urlsplit(given).netloc:
        raise ValueError("base_url must hold no user and password; give the key as api_key")
    return f"{given.rstrip('/')}/embeddings", given.rstrip("/") == DEFAULT_BASE_URL


def _checked_key(api_key: str | None, *, is_needed: bool) -> str | None:
    given = os.environ.get(KEY_VARIABLE) or None if api_key is None else api_key
    if given is not None and (not isinstance(given, str) or is_blank(given)):
        raise ValueError(f"the API key is blank; give api_key, or set {KEY_VARIABLE}")
    if given is not None and not (given.strip().isascii() and given.strip().isprintable()):
        raise ValueError("the API key holds characters that no key has; copy it anew")
    if given is None and is_needed:
        raise ValueError(f"OpenAI's server needs a key: give api_key, or set {KEY_VARIABLE}")
    return None if given is None else given.strip()
