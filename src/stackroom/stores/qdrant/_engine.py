"""Qdrant as an engine of generations, over qdrant-client: a server, or the client's own local mode.

Every shelf is a collection of Qdrant's, with a dense vector, a sparse one of words, and tokens to filter by; the notes
of the store are points of one more. Conditions on tokens are `MatchAny` alone: what Qdrant makes of types, of an empty
filter, of `should=[]` or of `except` on lists never matters here.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
from qdrant_client.local.qdrant_local import QdrantLocal

from stackroom._errors import StoreError, StoreUnavailable
from stackroom._model import Note
from stackroom.stores._tokens import Every, Form, Holds, HoldsAll, No, Some, digest
from stackroom.stores.generations import Found, Nearest, Place, Row, ShelfIsGone, Stored, Worded
from stackroom.stores.generations._fields import PLACE, fields, place_of, stored_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PREFIX: Final = "stackroom"
_DENSE, _SPARSE = "direction", "words"
_SCROLLED: Final = 1_000
_EVERYTHING: Final = 2**31
_LONG: Final = 100
_CONDITIONAL: Final = (1, 16)
"""The first version of the server that writes a point on a condition."""

_LIMIT: Final = Note(
    "scan_limit", "the index of Qdrant was walked, which may miss some of the nearest; see exact_limit"
)


class QdrantEngine:
    """Rows as points, notes as points of a collection of their own."""

    def __init__(
        self, client: QdrantClient, *, prefix: str = PREFIX, exact_limit: int | None = None, owns: bool = False
    ) -> None:
        if not isinstance(client, QdrantClient):
            raise TypeError(f"client must be a qdrant_client.QdrantClient, not {type(client).__name__}")
        if not prefix or not prefix.replace("_", "").replace("-", "").isalnum() or not prefix.isascii():
            raise ValueError("prefix must be of letters, digits, - and _, and not empty")
        if exact_limit is not None and (isinstance(exact_limit, bool) or exact_limit < 0):
            raise ValueError("exact_limit must be None or a number of passages")
        self._client = client
        self._prefix = prefix
        self._exact_limit = exact_limit
        self._owns = owns
        self._lock = threading.RLock()
        self._walked = threading.local()
        self.is_local = isinstance(client._client, QdrantLocal)  # noqa: SLF001 - the client has no other way to tell
        if not self.is_local:
            self._check_version()
        self._make_notes()

    def _check_version(self) -> None:
        with self._calling():
            version = self._client.info().version
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < _CONDITIONAL:
            raise StoreError(f"this needs Qdrant 1.16 or newer, for writes on a condition; the server is {version}")

    # Shelves

    def make_shelf(self, shelf: str, dimension: int) -> None:
        """Make a collection of Qdrant's, with indexes on what is filtered by."""
        name = self._name(shelf)
        with self._calling():
            self._client.create_collection(
                name,
                vectors_config={_DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE)},
                sparse_vectors_config={_SPARSE: models.SparseVectorParams()},
            )
            if not self.is_local:
                tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                self._client.create_payload_index(name, "tenant", tenants, wait=True)
                self._client.create_payload_index(name, "tokens", models.PayloadSchemaType.KEYWORD, wait=True)

    def drop_shelf(self, shelf: str) -> None:
        """Drop a collection of Qdrant's."""
        with self._calling():
            self._client.delete_collection(self._name(shelf))

    def put(self, shelf: str, rows: Sequence[Row]) -> None:
        """Write points, and wait until they are found."""
        with self._on(shelf) as name:
            self._client.upsert(name, [_point(row) for row in rows], wait=True)

    def erase(self, shelf: str, tenant: str, form: Form) -> None:
        """Delete points by a filter, and wait until they are gone."""
        with self._on(shelf) as name:
            selected = models.FilterSelector(filter=self._filter(name, tenant, form))
            self._client.delete(name, selected, wait=True)

    def count(self, shelf: str, tenant: str, form: Form) -> int:
        """Count points, exactly."""
        with self._on(shelf) as name:
            return self._client.count(name, count_filter=self._filter(name, tenant, form), exact=True).count

    def places(self, shelf: str, tenant: str, form: Form) -> Iterator[Place]:
        """Scroll through the points."""
        offset: Any = None
        while True:
            with self._on(shelf) as name:
                found, offset = self._client.scroll(
                    name,
                    scroll_filter=self._filter(name, tenant, form),
                    limit=_SCROLLED,
                    offset=offset,
                    with_payload=list(PLACE),
                )
            yield from (place_of(_values(point)) for point in found)
            if offset is None:
                return

    def fetch(self, shelf: str, keys: Sequence[str], *, vectors: bool) -> Sequence[Stored]:
        """Retrieve points."""
        with self._on(shelf) as name:
            found = self._client.retrieve(
                name, [str(uuid.UUID(key)) for key in keys], with_payload=fields(vectors=vectors)
            )
        return [stored_of(_values(point)) for point in found]

    def best(
        self, shelf: str, tenant: str, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool
    ) -> Sequence[Found]:
        """Query by the one vector or the other."""
        query: Any
        if isinstance(asked, Nearest):
            query, using = asked.direction.tolist(), _DENSE
        else:
            numbers = sorted(asked.weights)
            query, using = (
                models.SparseVector(indices=numbers, values=[asked.weights[number] for number in numbers]),
                _SPARSE,
            )
        is_exact = isinstance(asked, Worded) or self._compares_all(shelf, tenant, form)
        with self._on(shelf) as name:
            found = self._client.query_points(
                name,
                query=query,
                using=using,
                query_filter=self._filter(name, tenant, form),
                limit=limit,
                search_params=None if self.is_local else models.SearchParams(exact=is_exact),
                with_payload=fields(vectors=vectors),
            ).points
        if not is_exact:
            self._walked.told = True
        return [Found(stored_of(_values(point)), point.score) for point in found]

    def _compares_all(self, shelf: str, tenant: str, form: Form) -> bool:
        return self._exact_limit is None or self.count(shelf, tenant, form) <= self._exact_limit

    def remarks(self) -> tuple[Note, ...]:
        """Say of an answer that the index was walked for it."""
        told = getattr(self._walked, "told", False)
        self._walked.told = False
        return (_LIMIT,) if told else ()

    # Notes

    def note(self, name: str) -> bytes | None:
        """Return a note."""
        found = self._noted(name)
        return None if found is None else str(found["content"]).encode()

    def notes_of(self, prefix: str) -> Mapping[str, bytes]:
        """Scroll through all notes."""
        notes: dict[str, bytes] = {}
        offset: Any = None
        while True:
            with self._calling():
                found, offset = self._client.scroll(self._notes, limit=_SCROLLED, offset=offset, with_payload=True)
            for point in found:
                held = point.payload or {}
                if held["name"].startswith(prefix):
                    notes[held["name"]] = held["content"].encode()
            if offset is None:
                return notes

    def write_note(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write a note on condition that it holds what is expected. Qdrant does not say whether it did: it is read."""
        with self._lock:
            there = self._noted(name)
            if (None if there is None else str(there["content"]).encode()) != expected:
                return False
            held = (
                None
                if there is None
                else models.Filter(
                    must=[models.FieldCondition(key="stamp", match=models.MatchValue(value=there["stamp"]))]
                )
            )
            if content is None:
                return there is None or self._take_note(name, held)
            stamp = uuid.uuid4().hex
            stamps = [*(there["stamps"] if there else []), stamp][-20:]
            payload = {"name": name, "content": content.decode(), "stamp": stamp, "stamps": stamps}
            with self._calling():
                self._client.upsert(
                    self._notes,
                    [models.PointStruct(id=_note_id(name), vector={}, payload=payload)],
                    wait=True,
                    ordering=models.WriteOrdering.STRONG,
                    update_filter=held,
                    update_mode=models.UpdateMode.INSERT_ONLY if held is None else models.UpdateMode.UPDATE_ONLY,
                )
            now = self._noted(name)
            return now is not None and stamp in now["stamps"]

    def _take_note(self, name: str, held: models.Filter | None) -> bool:
        named = models.HasIdCondition(has_id=[_note_id(name)])
        with self._calling():
            selected = models.FilterSelector(filter=models.Filter(must=[named, *(held.must if held else [])]))  # type: ignore[misc] # a list here
            self._client.delete(self._notes, selected, wait=True, ordering=models.WriteOrdering.STRONG)
        return self._noted(name) is None

    def _noted(self, name: str) -> dict[str, Any] | None:
        with self._calling():
            found = self._client.retrieve(
                self._notes, [_note_id(name)], with_payload=True, consistency=models.ReadConsistencyType.ALL
            )
        return found[0].payload if found else None

    def _make_notes(self) -> None:
        with self._calling():
            if has_notes(self._client, self._prefix):
                return
            try:
                self._client.create_collection(
                    self._notes, vectors_config={}, sparse_vectors_config={_SPARSE: models.SparseVectorParams()}
                )
            except (UnexpectedResponse, ValueError):
                if not self._client.collection_exists(self._notes):  # else somebody else was quicker
                    raise

    def close(self) -> None:
        """Close a client of one's own."""
        if self._owns:
            self._client.close()

    # Inside

    def _filter(self, name: str, tenant: str, form: Form) -> models.Filter:
        """Return a condition as a filter of Qdrant's, which is never empty."""
        of_tenant = models.FieldCondition(key="tenant", match=models.MatchValue(value=tenant))
        return models.Filter(must=[condition(form, partial(self._holds, name)), of_tenant])

    def _holds(self, name: str, tokens: frozenset[str]) -> Any:
        """Return the condition of points that hold one of these tokens.

        Local mode compares each of them with each of a point's, so a long list is looked up here.
        """
        if not self.is_local or len(tokens) <= _LONG:
            return holds(tokens)
        points, _ = self._client.scroll(name, limit=_EVERYTHING, with_payload=["tokens"])
        found = [point.id for point in points if not tokens.isdisjoint((point.payload or {})["tokens"])]
        return models.HasIdCondition(has_id=found)

    @property
    def _notes(self) -> str:
        return _notes_of(self._prefix)

    def _name(self, shelf: str) -> str:
        return f"{self._prefix}_{shelf}"

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Call the client; its local mode bears one call at a time."""
        with self._lock if self.is_local else nullcontext(), _errors():
            yield

    @contextmanager
    def _on(self, shelf: str) -> Iterator[str]:
        """Call the client about a shelf."""
        with self._calling():
            yield self._name(shelf)


def has_notes(client: QdrantClient, prefix: str) -> bool:
    """Tell whether there are notes of ours in a Qdrant."""
    with _errors():
        return client.collection_exists(_notes_of(prefix))


def _notes_of(prefix: str) -> str:
    return f"{prefix}_notes"


@contextmanager
def _errors() -> Iterator[None]:
    """Say StoreUnavailable for what keeps the server from answering, StoreError for what it refuses; show no values."""
    try:
        yield
    except UnexpectedResponse as error:
        status = error.status_code or 0
        kind = StoreUnavailable if status >= 500 or status in (408, 429) else StoreError  # noqa: PLR2004 - HTTP's own
        if status == 404:  # noqa: PLR2004 - HTTP's own
            raise ShelfIsGone from None
        raise kind(f"Qdrant refused the call (HTTP {status})") from None
    except (ApiException, ResponseHandlingException, httpx.HTTPError, ConnectionError, TimeoutError) as error:
        raise StoreUnavailable(f"Qdrant does not answer ({type(error).__name__}); try again") from None
    except ValueError as error:
        if "not found" not in str(error):
            raise
        raise ShelfIsGone from None


def _note_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, digest(name)))


def _point(row: Row) -> models.PointStruct:
    vectors: dict[str, Any] = {_DENSE: row.direction.tolist()}
    if row.terms:
        numbers = sorted(row.terms)
        vectors[_SPARSE] = models.SparseVector(indices=numbers, values=[row.terms[number] for number in numbers])
    return models.PointStruct(
        id=str(uuid.UUID(row.key)),
        vector=vectors,
        payload={name: value for name, value in values_of(row).items() if name != "key"},  # that is the point's id
    )


def _values(point: Any) -> dict[str, Any]:
    """Return what a point holds, by name; its id is the row's key."""
    return {**(point.payload or {}), "key": uuid.UUID(str(point.id)).hex}


def holds(tokens: frozenset[str]) -> Any:
    """Return the condition of points that hold one of these tokens."""
    return models.FieldCondition(key="tokens", match=models.MatchAny(any=sorted(tokens)))


def condition(form: Form, of_tokens: Callable[[frozenset[str]], Any] = holds) -> Any:
    """Return a condition as one of Qdrant's."""
    match form:
        case Holds(tokens) if tokens:
            return of_tokens(tokens)
        case HoldsAll(tokens):
            return models.Filter(must=[holds(frozenset({token})) for token in sorted(tokens)])
        case Every(parts) if parts:
            return models.Filter(must=[condition(part, of_tokens) for part in parts])
        case Some(parts) if parts:
            return models.Filter(should=[condition(part, of_tokens) for part in parts])
        case No(part):
            return models.Filter(must_not=[condition(part, of_tokens)])
    raise AssertionError("a condition without parts would match everything in Qdrant")
