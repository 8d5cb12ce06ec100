"""index_documents: what the caller holds, each document stored whole as a source of one passage."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from stackroom._errors import Conflict, EmbedderError, IndexingCancelled, SourceError, StackroomError
from stackroom._model import NO_METADATA, Source, Tier, name_of
from stackroom.indexing._calls import Patience
from stackroom.indexing._engine import Engine, Job
from stackroom.indexing._inside import Inside, inside
from stackroom.indexing._options import ceiling_of, check_shared, expiry_of, warn_of_ceiling
from stackroom.indexing._reports import EmbeddingReport, IndexReport, Progress, say
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from datetime import timedelta

    from stackroom._cancel import CancelToken
    from stackroom._library import Library
    from stackroom._values import MetadataValue

_NAMED_AT_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Document:
    """A text to index under an id. `content` and `text` are two spellings of it; `content` wins when both are given."""

    id: str
    content: str | None = None
    text: str | None = None
    metadata: Mapping[str, MetadataValue] = field(default_factory=lambda: NO_METADATA)


_OTHER_NAMES_OF_AN_ID: Final = frozenset({"_id", "ID", "Id", "doc_id", "docid", "document_id", "source_id"})
_KEYS: Final = frozenset(one.name for one in fields(Document))


def index_documents(
    library: Library,
    documents: Iterable[Document | Mapping[str, Any]],
    *,
    tenant_id: str = "_global",
    acl_groups: Iterable[str] = ("everyone",),
    kind: str = "document",
    tier: Tier | None = None,
    ttl: timedelta | None = None,
    cancel: CancelToken | None = None,
    on_embedding: Callable[[EmbeddingReport], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    max_concurrency: int = 8,
    max_chunk_chars: int | None = None,
) -> IndexReport:
    """Index documents, each as a source of one passage, exactly as given; `int()` of the report is how many.

    Everything is checked before anything is embedded: TypeError for what is no iterable of documents, SourceError
    for a document that cannot be one, ValueError for an option. A document of an id that is there replaces it whole;
    an unchanged text keeps its vector. Texts beyond what the embedder covers raise one InputCeilingWarning.

    Up to `max_concurrency` calls to the embedder run at a time. After an EmbedderError, a StoreError, or
    IndexingCancelled, each document is either its new version, whole, or what it was; the error's `report` says how
    far it came. `ttl` counts from the beginning of the call.
    """
    parts = inside(library)
    check_shared(
        cancel=cancel,
        on_embedding=on_embedding,
        on_progress=on_progress,
        max_concurrency=max_concurrency,
        max_chunk_chars=max_chunk_chars,
    )
    expires_at = expiry_of(ttl, parts.time())
    shared: dict[str, Any] = {"tenant_id": tenant_id, "acl_groups": acl_groups, "kind": kind, "tier": tier}
    model = Source("checked before any document is read", passages=(), expires_at=expires_at, **shared)
    sources = _sources(documents, model)
    ceiling = ceiling_of(parts.limits, max_chunk_chars)
    over = sum(len(source.passages[0].text) > ceiling[0] for source in sources)
    advice = "cut it first (chunk_document), or give it as several documents"
    warn_of_ceiling("index_documents", over, f"{len(sources)} documents", ceiling, advice, stacklevel=2)
    run = _Run(parts, sources, cancel, on_progress, IndexReport(over_ceiling=over))
    return run.to_its_end(max_concurrency, on_embedding)


def _sources(documents: object, model: Source) -> list[Source]:
    """Read the documents to their end and check them all: ids first, then doubles, then empty passages."""
    items = [_item(item, position) for position, item in enumerate(_iterable(documents))]
    for position, item in enumerate(items):
        _check_keys(item, position)
    ids = [name_of(item.get("id"), SourceError, f"the id of document {at}") for at, item in enumerate(items)]
    doubles = [name for name, times in Counter(ids).items() if times > 1]
    _refuse(doubles, "id", "given more than once; give each id once")
    texts = [_text(item, position) for position, item in enumerate(items)]
    empty = [name for name, text in zip(ids, texts, strict=True) if isinstance(text, str) and is_blank(text)]
    _refuse(empty, "document", "without a text: neither content nor text holds one; leave them out, or give them one")
    return [_source(at, *each, model) for at, each in enumerate(zip(ids, texts, items, strict=True))]


def _iterable(documents: object) -> Iterable[Any]:
    if isinstance(documents, str | bytes | bytearray | Mapping | Document) or not isinstance(documents, Iterable):
        raise TypeError(f"documents must be an iterable of Documents or mappings, not {type(documents).__name__}")
    return documents


def _item(item: object, position: int) -> Mapping[str, Any]:
    if isinstance(item, Document):
        return {name: getattr(item, name) for name in _KEYS}
    if isinstance(item, Mapping):
        return item
    raise SourceError(f"document {position} must be a Document or a mapping, not {type(item).__name__}")


def _check_keys(item: Mapping[str, Any], position: int) -> None:
    for key in item:
        if key in _OTHER_NAMES_OF_AN_ID and "id" not in item:
            raise SourceError(f"document {position} has the key {key!r}, which is none: call its id 'id'")
        if key not in _KEYS:
            raise SourceError(f"document {position} has the key {key!r}: put what is known about it into metadata")


def _text(item: Mapping[str, Any], position: int) -> str:
    """Return the passage, "" where there is none; a SourceError for what is no document."""
    content = item.get("content")
    text = item.get("text") if content is None else content
    if text is not None and not isinstance(text, str):
        raise SourceError(f"the text of document {position} must be a string, not {type(text).__name__}")
    return text or ""


def _refuse(ids: Sequence[str], noun: str, what: str) -> None:
    if not ids:
        return
    named = ", ".join(repr(name) for name in ids[:_NAMED_AT_MOST])
    more = f", and {len(ids) - _NAMED_AT_MOST} more" if len(ids) > _NAMED_AT_MOST else ""
    counted = f"1 {noun}" if len(ids) == 1 else f"{len(ids)} {noun}s"
    raise SourceError(f"{counted} ({named}{more}) {'is' if len(ids) == 1 else 'are'} {what}")


def _source(position: int, source_id: str, text: str, item: Mapping[str, Any], model: Source) -> Source:
    metadata = item.get("metadata")
    try:
        return Source(
            source_id,
            model.kind,
            model.tenant_id,
            model.acl_groups,
            [text],
            metadata=NO_METADATA if metadata is None else metadata,
            expires_at=model.expires_at,
            tier=model.tier,
        )
    except SourceError as error:
        raise SourceError(f"document {position} ({source_id!r}): {error}") from None


@dataclass(slots=True)
class _Run:
    """One call's way from its sources to its report."""

    parts: Inside
    sources: Sequence[Source]
    cancel: CancelToken | None
    on_progress: Callable[[Progress], object] | None
    report: IndexReport
    conflict: Conflict | None = None
    began: float = field(default_factory=time.perf_counter)

    def to_its_end(self, width: int, on_embedding: Callable[[EmbeddingReport], object] | None) -> IndexReport:
        calls = self.parts.calls(width, self.cancel, Patience())
        engine = Engine(
            self.parts.write,
            self.parts.let_go,
            calls,
            self.parts.batch,
            self.cancel,
            self._written,
            self._failed,
            self._say_progress,
        )
        ending = engine.run(self._jobs()) if self.sources else None
        if embedded := calls.report():
            say(on_embedding, embedded)
        return self._ended(ending or self.conflict)

    def _jobs(self) -> Generator[Job[Source]]:
        self.parts.writing.check_fingerprint()
        left = iter(self.sources)
        while self.conflict is None and (group := list(islice(left, self.parts.batch))):
            yield from looked_at(self.parts, group)

    def _written(self, job: Job[Source]) -> None:
        is_new = not job.stored.passages
        self.report = replace(
            self.report,
            new=self.report.new + is_new,
            changed=self.report.changed + (not is_new),
            embedded=self.report.embedded + job.embedded,
            reused=self.report.reused + job.reused,
            characters=self.report.characters + job.characters,
        )

    def _failed(self, _job: Job[Source], error: EmbedderError | Conflict) -> None:
        if isinstance(error, Conflict):
            self.conflict = self.conflict or error

    def _say_progress(self) -> None:
        done = self.report
        say(self.on_progress, Progress(done.indexed, len(self.sources), done.embedded, done.reused))

    def _ended(self, ending: BaseException | None) -> IndexReport:
        report = replace(
            self.report,
            remaining=len(self.sources) - self.report.indexed,
            fingerprint=str(self.parts.limits.fingerprint),
            seconds=time.perf_counter() - self.began,
            stopped=None if ending is None else "cancelled" if isinstance(ending, IndexingCancelled) else "error",
        )
        if ending is None:
            return report
        if isinstance(ending, StackroomError):
            ending.report = report
        raise ending


def looked_at(parts: Inside, sources: Sequence[Source]) -> Generator[Job[Source]]:
    """Claim sources of one tenant, look at what is stored of them, and yield each with the vectors that come again."""
    claims = [parts.writing.claims.take(source.tenant_id, source.source_id) for source in sources]
    wanted = {source.source_id: {passage.text for passage in source.passages} for source in sources}
    yielded = 0
    try:
        found = parts.writing.look(sources[0].tenant_id, wanted)
        for source, claim in zip(sources, claims, strict=True):
            stored = found[source.source_id]
            yielded += 1
            yield Job(source, stored, claim, [stored.vectors.get(passage.text) for passage in source.passages])
    finally:
        for claim in claims[yielded:]:
            parts.writing.claims.drop(claim)
