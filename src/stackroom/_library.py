"""Library: the object that users hold. It writes, re-scopes, removes, lists and searches a collection's sources."""

from __future__ import annotations

import enum
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from stackroom import _keys as keys
from stackroom._cancel import raise_if_interrupted
from stackroom._check import Check
from stackroom._claims import Claim, claims_of
from stackroom._errors import Conflict, EmbedderMismatch, ScopeError, SourceError
from stackroom._filters import And, Eq, Exists, Filter, Range
from stackroom._fusion import Fusion, Weighted, check_fusion
from stackroom._legs import Asking, SideBySide
from stackroom._model import (
    Answer,
    Hit,
    Indexed,
    Mode,
    Narrowing,
    Page,
    Scope,
    Source,
    SourceInfo,
    Tier,
    check_unchanged,
    folder_of,
    groups_of,
    name_of,
    names_of,
    title_of,
    utc_now,
)
from stackroom._reading import Reading, cursor_after, listing_of, place_of
from stackroom._scoping import branches_of, check_scope, condition, microseconds
from stackroom._search import Notes, Search, Wish, check_capabilities, check_number, finished
from stackroom._writing import Prepared, Writing, of_sources
from stackroom.embedders import Embedder, LocalEmbedder
from stackroom.embedders._door import (
    EmbedderLimits,
    check_embedder,
    embed_in_batches,
    embed_passages,
    embed_query,
    gate_of,
)
from stackroom.stores import CollectionSpec, LexicalQuery, VectorStore
from stackroom.stores._legs import LegsQuery
from stackroom.stores._protocol import check_name
from stackroom.text import is_blank, query_terms
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from stackroom._async import AsyncLibrary
    from stackroom._values import MetadataValue

SAME_MODEL: Final = 0.99
"""The lowest cosine between a stored vector and a new one that passes for the same model."""


class Unset(enum.Enum):
    """What an argument holds that was not given, where None says something."""

    UNSET = enum.auto()


UNSET: Final = Unset.UNSET


class Library:
    """The sources of one collection of one store, embedded by one embedder.

    Makes the collection when the store has none. EmbedderMismatch when it belongs to another embedder, EmbedderError
    when the embedder cannot be one, ValueError for `batch_size` (texts a call, an int of at least 1) and `fusion`, how
    hybrid searches rank: Weighted(0.5) is no worse than the better of the two legs on the collections measured.
    `clock` answers an aware datetime; nothing else tells time. Every method may be called from any thread.
    """

    def __init__(
        self,
        store: VectorStore,
        collection: str,
        embedder: Embedder,
        *,
        batch_size: int = 64,
        fusion: Fusion = Weighted(0.5),
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._limits = _checked(embedder, batch_size, fusion, clock)
        self._gate = gate_of(embedder, self._limits)
        self._fusion = fusion
        self._store = store
        self._collection = collection
        self._embedder = embedder
        self._batch_size = batch_size
        self._clock = clock
        self._reading = Reading(store, collection)
        self._side_by_side = SideBySide()
        self._owns_store = False
        self._claims = claims_of(store, collection)
        self._writing = Writing(self._reading, self._claims, self._limits.fingerprint, self._now)
        self._belong_together()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        collection: str = "library",
        verify_embedder: bool = False,
        batch_size: int = 64,
        fusion: Fusion = Weighted(0.5),
        clock: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> Self:
        """Open the library in a directory, made when missing; without an embedder, the default local one.

        `options` are those of EmbeddedStore. With `verify_embedder`, a few stored passages are embedded again to see
        that the model is the same. StoreError when the directory is something else or of a newer format, ValueError for
        a DSN.
        """
        from stackroom.stores._dsn import check_is_no_dsn
        from stackroom.stores.embedded import EmbeddedStore

        check_is_no_dsn(path)
        fitting = LocalEmbedder() if embedder is None else embedder
        _checked(fitting, batch_size, fusion, clock)
        check_name(collection)
        store = EmbeddedStore(path, **options)
        try:
            library = cls(store, collection, fitting, batch_size=batch_size, fusion=fusion, clock=clock)
            library._owns_store = True
            if verify_embedder:
                library.verify_embedder()
        except BaseException:
            store.close()
            raise
        return library

    def as_async(self, *, max_threads: int = 40) -> AsyncLibrary:
        """Return these methods to be awaited; see `AsyncLibrary`."""
        from stackroom._async import AsyncLibrary

        return AsyncLibrary.of(self, max_threads=max_threads)

    def close(self) -> None:
        """Give back what this Library opened: a store that `open` made, no other. Twice is fine."""
        self._side_by_side.close()
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    def index_source(self, source: Source) -> Indexed:
        """Replace a source whole: the old version stands until the new one is complete, for every reader.

        Vectors of passages whose text comes again are reused, the others embedded, before anything is written.
        EmbedderError when an answer is no vector, Conflict when somebody else wrote the source meanwhile; in either
        case, and whatever else fails, the old version is as it was. Without passages it is a removal.
        """
        if not isinstance(source, Source):
            raise SourceError(f"index_source takes a Source, not {type(source).__name__}")
        check_unchanged(source)
        if not source.passages:
            return Indexed(0, self.remove_source(source.source_id, tenant_id=source.tenant_id), 0, 0)
        with self._claims.claim(source.tenant_id, source.source_id) as claim:
            return self._index(source, claim)

    def set_source_scope(
        self,
        source_id: str,
        *,
        tenant_id: str,
        acl_groups: Iterable[str] | Unset = UNSET,
        folder_id: str | Unset | None = UNSET,
        tags: Iterable[str] | Unset = UNSET,
        title: str | Unset | None = UNSET,
    ) -> int:
        """Change what is given of a source, for all its passages at once; answer how many passages it has.

        folder_id None and title None (or blank) take them out. Nothing is embedded. An unknown source, or nothing
        given: 0. ScopeError for the tenant and the groups, SourceError for all else.
        """
        where = of_sources(tenant_id, [source_id])
        patch: dict[str, MetadataValue | None] = {}
        if acl_groups is not UNSET:
            patch[keys.GROUPS] = list(groups_of(acl_groups))
        if folder_id is not UNSET:
            patch[keys.FOLDER] = folder_of(folder_id)
        if tags is not UNSET:
            patch[keys.TAGS] = list(names_of(tags, SourceError, "tags"))
        if title is not UNSET:
            patch[keys.TITLE] = title_of(title)
        if not patch:
            return 0
        patch[keys.UPDATED] = self._now()
        return self._store.update(self._collection, patch, where=where)

    def remove_source(self, source_id: str, *, tenant_id: str) -> int:
        """Remove a source of a tenant; answer how many passages went (0 for an unknown one)."""
        where = of_sources(tenant_id, [source_id])
        with self._claims.removing(tenant_id, source_id):
            return self._store.delete(self._collection, where=where)

    def remove_tenant(self, tenant_id: str) -> int:
        """Remove all sources of a tenant; answer how many passages went."""
        where = Eq(keys.TENANT, name_of(tenant_id, ScopeError, "tenant_id"))
        with self._claims.removing(tenant_id):
            return self._store.delete(self._collection, where=where)

    def sweep(self) -> int:
        """Delete the expired sources of all tenants; answer how many passages went. Reads hide them at once."""
        return self._store.delete(self._collection, where=Range(keys.EXPIRES, lte=self._now()))

    # Searching

    def search(
        self,
        text: str,
        *,
        scope: Scope,
        mode: Mode = "hybrid",
        top_k: int = 10,
        kinds: Iterable[str] | None = None,
        folder_id: str | None = None,
        folder_ids: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        source_ids: Iterable[str] | None = None,
        tiers: Iterable[Tier] | None = None,
        where: Filter | Mapping[str, Any] | None = None,
        any_of: Sequence[Narrowing | Mapping[str, Any]] | None = None,
        match: Literal["any", "all"] = "any",
        prefix: bool = False,
        min_score: float | None = None,
        fusion: Fusion | None = None,
    ) -> Answer:
        """Return the best `top_k` (1…10,000) passages in scope: by words, by meaning, or by both.

        Narrowings only take away. A lexical search embeds nothing; the others embed the text once. If k passages in
        scope match, k are answered; an answer that may be short says so (`complete`, `notes`). A ValueError names the
        argument that is wrong; CapabilityError and UnsupportedFilter say that the store cannot do what is asked.
        """
        wish = Wish(text, mode, top_k, match, prefix, min_score, self._fusion if fusion is None else fusion)
        check_scope(scope)
        own = Narrowing(kinds, folder_id, folder_ids, tags, source_ids, tiers, where)
        within = condition(scope, branches_of(own, any_of), self._time())
        if is_blank(text):
            return finished((), mode, [Notes.of("empty_query")])
        if within is None:
            return finished((), mode, ())
        return self._search(wish, within)

    # Reading

    def sources(
        self,
        *,
        scope: Scope,
        kinds: Iterable[str] | None = None,
        folder_id: str | None = None,
        folder_ids: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        source_ids: Iterable[str] | None = None,
        tiers: Iterable[Tier] | None = None,
        where: Filter | Mapping[str, Any] | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[SourceInfo]:
        """Return a page of the sources in scope, ordered by source id; `after` takes a page's `next`.

        With `where`, a source is listed when one of its passages matches. A cursor that no page of this scope and
        narrowing gave, and a `limit` that is no int of 1…10,000, are ValueErrors.
        """
        check_number(limit, "limit")
        narrowing = Narrowing(kinds, folder_id, folder_ids, tags, source_ids, tiers, where)
        within = condition(check_scope(scope), [narrowing], self._time())
        listing = listing_of(self._collection, scope, narrowing)
        place = place_of(after, listing)
        if within is None:
            return Page(())
        found, following = self._reading.sources(
            within, scope.tenant_id, place, limit, judges_passages=narrowing.where is not None
        )
        return Page(tuple(found), None if following is None else cursor_after(following, listing))

    def source(self, source_id: str, *, scope: Scope) -> SourceInfo | None:
        """Return a source in scope; None alike for what is absent and what is not visible."""
        return self._reading.source(self._visible(source_id, scope))

    def passages(self, source_id: str, *, scope: Scope) -> list[Hit]:
        """Return the passages of a source in scope, in order, with score 0.0; [] for what is not there."""
        return self._reading.passages(self._visible(source_id, scope))

    def count(
        self,
        *,
        scope: Scope,
        kinds: Iterable[str] | None = None,
        folder_id: str | None = None,
        folder_ids: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        source_ids: Iterable[str] | None = None,
        tiers: Iterable[Tier] | None = None,
        where: Filter | Mapping[str, Any] | None = None,
    ) -> int:
        """Return how many passages in scope the narrowing keeps."""
        narrowing = Narrowing(kinds, folder_id, folder_ids, tags, source_ids, tiers, where)
        within = condition(check_scope(scope), [narrowing], self._time())
        return 0 if within is None else self._store.count(self._collection, where=within)

    def verify_embedder(self, *, sample: int = 3) -> float:
        """Embed up to `sample` stored passages of one tenant again; return the lowest cosine to the stored vectors.

        EmbedderMismatch (problem "vectors") when it is below 0.99; 1.0 when nothing is stored.
        """
        require_size("sample", sample, least=1)
        self._writing.check_fingerprint()
        most = min(sample, self._limits.max_batch or sample)
        page = self._store.scan(self._collection, where=Exists(keys.TENANT), limit=most, vectors=True)
        taken = [record for record in page if record.tenant_id == page[0].tenant_id]
        if not taken:
            return 1.0
        texts = [record.text for record in taken]
        with self._gate:
            new = embed_passages(self._embedder, texts, self._limits.fingerprint.dimension)
        lowest = min(_cosine(vector, record.vector) for vector, record in zip(new, taken, strict=True))
        if lowest < SAME_MODEL:
            raise EmbedderMismatch(
                f"the embedder has the collection's fingerprint {self._limits.fingerprint}, yet its vectors differ "
                f"(lowest cosine {lowest:.4f}); use the model that the library was made with, or reembed",
                stored=self._limits.fingerprint,
                given=self._limits.fingerprint,
                problem="vectors",
            )
        return lowest

    # Inside

    def _belong_together(self) -> None:
        """Make the collection, or see that it belongs to this embedder."""
        given = self._limits.fingerprint
        if self._store.collection(self._collection) is None:
            with suppress(Conflict):  # somebody else may make it just now: whose it is, is seen below
                self._store.create_collection(self._collection, CollectionSpec(given.dimension, str(given)))
        self._writing.check_fingerprint()

    def _index(self, source: Source, claim: Claim) -> Indexed:
        self._writing.check_fingerprint()
        texts = {passage.text for passage in source.passages}
        stored = self._writing.look(source.tenant_id, {source.source_id: texts})[source.source_id]
        fresh = [passage.text for passage in source.passages if passage.text not in stored.vectors]
        embedded = iter(embed_in_batches(self._embedder, self._limits, fresh, self._batch_size, gate=self._gate))
        kept = stored.vectors
        vectors = [kept[passage.text] if passage.text in kept else next(embedded) for passage in source.passages]
        raise_if_interrupted()
        (replaced,) = self._writing.write([Prepared(source, vectors, stored, claim)])
        if isinstance(replaced, Conflict):
            raise replaced
        return Indexed(len(vectors), replaced, len(fresh), len(vectors) - len(fresh))

    def _search(self, wish: Wish, within: Filter) -> Answer:
        uses_lexical = check_capabilities(self._store, wish, within)
        has_words = bool(query_terms(wish.text))
        if wish.mode == "lexical" and not has_words:
            return finished((), wish.mode, [Notes.of("no_words")])
        vector = None
        if wish.mode != "lexical":
            with self._gate:
                vector = embed_query(self._embedder, wish.text, self._limits.fingerprint.dimension)
        asked = LegsQuery(
            vector=vector,
            words=LexicalQuery(wish.text, wish.match, wish.prefix) if has_words and uses_lexical else None,
            where=within,
            limit=wish.leg_length,
            across=wish.mode == "hybrid" and wish.fusion.needs_both_scores,
        )
        fingerprint = str(self._limits.fingerprint)
        search = Search(
            Asking(self._store, self._collection, fingerprint, asked, self._side_by_side), wish, Check(within)
        )
        for code in self._standing_notes(wish, has_words=has_words, uses_lexical=uses_lexical):
            search.note(Notes.of(code))
        with self._writing.telling_mismatch():
            return search.answer()

    def _standing_notes(self, wish: Wish, *, has_words: bool, uses_lexical: bool) -> Iterator[str]:
        longest = self._limits.max_input_chars
        if wish.mode != "lexical" and longest is not None and len(wish.text) > longest:
            yield "clipped_query"
        if wish.mode == "hybrid" and not uses_lexical:
            yield "no_lexical_leg"
        elif wish.mode == "hybrid" and not has_words:
            yield "no_words"

    def _visible(self, source_id: str, scope: Scope) -> Filter:
        named = Eq(keys.SOURCE, name_of(source_id, SourceError, "source_id"))
        within = condition(check_scope(scope), [Narrowing()], self._time())
        return named if within is None else And(within, named)

    def _time(self) -> datetime:
        now = self._clock()
        if not isinstance(now, datetime) or now.utcoffset() is None:
            raise ValueError("clock must answer an aware datetime, such as datetime.now(UTC)")
        return now

    def _now(self) -> int:
        return microseconds(self._time())


def _checked(embedder: Embedder, batch_size: object, fusion: object, clock: object) -> EmbedderLimits:
    """Check what a Library is made of before anything is opened or made; return what the embedder declares."""
    require_size("batch_size", batch_size, least=1)
    check_fusion(fusion)
    if not callable(clock):
        raise ValueError("clock must be a function that answers an aware datetime")
    return check_embedder(embedder)


def _cosine(left: NDArray[np.float32], right: NDArray[np.float32] | None) -> float:
    if right is None:
        return -1.0
    one, other = left.astype(np.float64), right.astype(np.float64)
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
