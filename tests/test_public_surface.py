"""The public surface: what `__all__` promises is there, and has the signatures that were promised."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

import stackroom
from stackroom import Library
from stackroom.embedders import Embedder
from stackroom.stores import VectorStore

MODULES = [
    "stackroom",
    "stackroom.stores",
    "stackroom.filters",
    "stackroom.embedders",
    "stackroom.rankers",
    "stackroom.text",
    "stackroom.testing",
    "stackroom.indexing",
    "stackroom.auditing",
    "stackroom.evaluation",
]

NAMES: dict[str, str] = {
    "stackroom": (
        "Scope Passage Source Narrowing Hit Answer Note SourceInfo Indexed Page MetadataValue Library RRF Weighted "
        "lexical_tokens snippet_around Snippet Turn chunk_turns TurnChunk PlacedTurn chunk_document DocumentChunk "
        "find_quote Quote StackroomError ScopeError SourceError FilterError UnsupportedFilter EmbedderError "
        "EmbedderMismatch StoreError CapabilityError Conflict StoreUnavailable RankerError IndexingCancelled "
        "InputCeilingWarning"
    ),
    "stackroom.text": "index_terms query_terms",
    "stackroom.embedders": (
        "Embedder Fingerprint LocalEmbedder HashingEmbedder FunctionEmbedder OpenAIEmbedder CachingEmbedder "
        "SentenceTransformersEmbedder FastEmbedEmbedder Model2VecEmbedder"
    ),
    "stackroom.stores": (
        "MemoryStore EmbeddedStore PostgresStore SqlStore Record Match Matches CollectionSpec LexicalQuery Page Cursor "
        "Capabilities VectorStore"
    ),
    "stackroom.filters": "Filter Eq Ne In NotIn All Contains Range Exists And Or Not parse matches as_dict",
    "stackroom.evaluation": "evaluate tune Measured Tuned read_queries read_qrels",
    "stackroom.indexing": (
        "CancelToken Document index_documents index_folder Loaded IndexReport EmbeddingReport Progress Failed "
        "InputCeilingWarning ReembedReport reembed"
    ),
    "stackroom.auditing": "certify Certificate CapabilityCheck Wrong leak_test LeakReport DoorReport Leak",
    "stackroom.rankers": (
        "VectorRanker Ranked RankerFallback RankerHealth ExactRanker SqliteVecRanker HnswRanker FaissRanker "
        "UsearchRanker"
    ),
    "stackroom.testing": "StoreConformance RankerConformance",
}

NARROWING = "kinds=None folder_id=None folder_ids=None tags=None source_ids=None tiers=None where=None"
SIGNATURES: dict[str, str] = {
    "stackroom.Scope": "tenant_id acl_groups",
    "stackroom.Source": (
        "source_id kind tenant_id acl_groups passages folder_id=None tags=() title=None metadata={} expires_at=None "
        "tier=None"
    ),
    "stackroom.embedders.OpenAIEmbedder": (
        "model * api_key=None base_url=None dimension=None max_input_chars=None max_batch=2048 max_concurrency=8 "
        "attempts=5 timeout=30.0"
    ),
    "stackroom.embedders.CachingEmbedder": "embedder path",
    "stackroom.embedders.SentenceTransformersEmbedder": (
        "model * revision=None dimension=None query_prompt=None passage_prompt=None id=None max_input_chars=None "
        "max_batch=None batch_size=32 device=None"
    ),
    "stackroom.embedders.FastEmbedEmbedder": (
        "model * pooling=None model_file=None dimension=None query_prompt=None passage_prompt=None id=None "
        "max_input_chars=None max_batch=None batch_size=1 cache_dir=None threads=None"
    ),
    "stackroom.embedders.Model2VecEmbedder": (
        "model * dimension=None quantize_to=None id=None max_input_chars=1000000 max_batch=None"
    ),
    "stackroom.Passage": "text metadata={}",
    "stackroom.Narrowing": NARROWING,
    "stackroom.Library": "store collection embedder * batch_size=64 fusion=Weighted(weight=0.5) clock=...",
    "stackroom.Library.index_source": "self source",
    "stackroom.Library.set_source_scope": "self source_id * tenant_id acl_groups=... folder_id=... tags=... title=...",
    "stackroom.Library.remove_source": "self source_id * tenant_id",
    "stackroom.Library.remove_tenant": "self tenant_id",
    "stackroom.Library.search": (
        f"self text * scope mode='hybrid' top_k=10 {NARROWING} any_of=None match='any' prefix=False min_score=None "
        "fusion=None"
    ),
    "stackroom.Library.sources": f"self * scope {NARROWING} after=None limit=100",
    "stackroom.Library.source": "self source_id * scope",
    "stackroom.Library.passages": "self source_id * scope",
    "stackroom.Library.count": f"self * scope {NARROWING}",
    "stackroom.Library.sweep": "self",
    "stackroom.Library.verify_embedder": "self * sample=3",
    "stackroom.Library.close": "self",
    "stackroom.RRF": "k=60",
    "stackroom.Weighted": "weight",
    "stackroom.lexical_tokens": "text",
    "stackroom.snippet_around": "text words * before=80 after=120",
    "stackroom.Turn": "seq item_id text start_ms=None end_ms=None speaker=None",
    "stackroom.chunk_turns": "turns * max_chars=1200 overlap_turns=1",
    "stackroom.chunk_document": "text * max_chars=1200 overlap_chars=150",
    "stackroom.find_quote": "hit_or_chunk quote",
    "stackroom.EmbedderError": "message * retryable=False retry_after=None status=None",
    "stackroom.text.index_terms": "text",
    "stackroom.text.query_terms": "text",
    "stackroom.embedders.Fingerprint": "id dimension",
    "stackroom.embedders.Fingerprint.parse": "text",
    "stackroom.embedders.LocalEmbedder": "",
    "stackroom.embedders.HashingEmbedder": "dimension=256",
    "stackroom.embedders.FunctionEmbedder": (
        "function * id dimension max_input_chars=None query_function=None max_batch=None max_concurrency=None"
    ),
    "stackroom.embedders.Embedder.embed_passages": "self texts",
    "stackroom.embedders.Embedder.embed_query": "self text",
    "stackroom.stores.MemoryStore": "",
    "stackroom.stores.EmbeddedStore": (
        "path ranker=None ranker_fallback='exact' on_ranker_fallback=None sanitize_ranker_errors=True "
        "ranker_timeout=5.0 exact=False"
    ),
    "stackroom.stores.EmbeddedStore.ranker_health": "self",
    "stackroom.stores.EmbeddedStore.sync_ranker": "self * tenant_id=None",
    "stackroom.stores.EmbeddedStore.rebuild_ranker": "self * tenant_id=None",
    "stackroom.rankers.Ranked": "id score",
    "stackroom.rankers.RankerFallback": "tenant_id policy error",
    "stackroom.rankers.RankerHealth": "ranker owed failures last_error owed_since next_try tenants",
    "stackroom.rankers.VectorRanker.rank_by_similarity": "self * tenant_id query candidate_ids limit",
    "stackroom.rankers.VectorRanker.on_embedding_persisted": "self * tenant_id passage_id vector",
    "stackroom.rankers.VectorRanker.forget_tenant": "self * tenant_id",
    "stackroom.rankers.ExactRanker": "",
    "stackroom.rankers.SqliteVecRanker": "path=None",
    "stackroom.rankers.FaissRanker": "path=None",
    "stackroom.rankers.HnswRanker": "path=None",
    "stackroom.rankers.UsearchRanker": "path=None",
    "stackroom.stores.Record": "text vector metadata version=None",
    "stackroom.stores.Match": "record score",
    "stackroom.stores.CollectionSpec": "dimension fingerprint metric='cosine'",
    "stackroom.stores.LexicalQuery": "text match='any' prefix=False",
    "stackroom.stores.Cursor": "tenant_id source_id index",
    "stackroom.filters.Eq": "key value",
    "stackroom.filters.Ne": "key value",
    "stackroom.filters.Contains": "key value",
    "stackroom.filters.In": "key values",
    "stackroom.filters.NotIn": "key values",
    "stackroom.filters.All": "key values",
    "stackroom.filters.Range": "key * gt=None gte=None lt=None lte=None",
    "stackroom.filters.Exists": "key exists=True",
    "stackroom.filters.Not": "filter",
    "stackroom.filters.parse": "filter",
    "stackroom.filters.as_dict": "filter",
    "stackroom.filters.matches": "filter metadata",
    "stackroom.indexing.Document": "id content=None text=None metadata=...",
    "stackroom.indexing.index_documents": (
        "library documents * tenant_id='_global' acl_groups=('everyone',) kind='document' tier=None ttl=None "
        "cancel=None on_embedding=None on_progress=None max_concurrency=8 max_chunk_chars=None"
    ),
    "stackroom.indexing.index_folder": (
        "library path * tenant_id acl_groups kind='document' folder_id=None tags=() metadata={} tier=None ttl=None "
        "corpus=None source_prefix='' include=None exclude=() hidden=False follow_symlinks=False encoding='utf-8' "
        "max_file_bytes=26214400 loaders=None max_chars=1200 overlap_chars=150 prune=False dry_run=False "
        "budget_chars=None price_per_million_tokens=None attempts=3 cancel=None on_embedding=None on_progress=None "
        "max_concurrency=8 max_chunk_chars=None"
    ),
    "stackroom.indexing.reembed": "library embedder * cancel=None on_progress=None max_concurrency=8",
    "stackroom.indexing.Loaded": "text='' title=None passages=None",
    "stackroom.auditing.leak_test": "library * others=()",
}

STORE_METHODS: dict[str, str] = {
    "create_collection": "self name spec",
    "collection": "self name",
    "drop_collection": "self name",
    "replace": "self name records * where expect=None fingerprint=None",
    "update": "self name patch * where",
    "delete": "self name * where",
    "dense": "self name vector * where limit fingerprint=None",
    "lexical": "self name query * where limit",
    "scan": "self name * where after=None limit vectors=False",
    "count": "self name * where",
    "swap": "self name side * expect=None",
    "close": "self",
}
CAPABILITIES = ["lexical", "prefix", "update", "transactions", "swap", "filters", "exact", "durable", "shared"]


def named(path: str) -> Any:
    """Return what a dotted path names: a module's member, or a member of that."""
    module = max((name for name in MODULES if path.startswith(name + ".")), key=len)
    found: Any = importlib.import_module(module)
    for part in path.removeprefix(module + ".").split("."):
        found = getattr(found, part)
    return found


def written(parameters: Any) -> list[tuple[str, bool, str | None]]:
    """Return what callers rely on: the name, whether it is for keywords only, the default."""
    found = []
    for parameter in parameters:
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        found.append((parameter.name, parameter.kind is parameter.KEYWORD_ONLY, default))
    return found


def promised(signature: str) -> list[tuple[str, bool, str | None]]:
    found: list[tuple[str, bool, str | None]] = []
    is_keyword = False
    for word in signature.split():
        name, equals, default = word.partition("=")
        if name == "*":
            is_keyword = True
        else:
            found.append((name, is_keyword, default if equals else None))
    return found


@pytest.mark.parametrize("module_name", MODULES)
def test_all_and_the_module_agree(module_name: str) -> None:
    module = importlib.import_module(module_name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    public = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - {"annotations"} == set(module.__all__)


@pytest.mark.parametrize(("module_name", "names"), NAMES.items())
def test_every_promised_name_is_public(module_name: str, names: str) -> None:
    assert set(names.split()) - set(importlib.import_module(module_name).__all__) == set()


def test_a_page_of_sources_is_a_page_of_stores() -> None:
    assert named("stackroom.Page") is named("stackroom.stores.Page")


@pytest.mark.parametrize(("path", "signature"), SIGNATURES.items())
def test_signatures_are_as_promised(path: str, signature: str) -> None:
    parameters = list(inspect.signature(named(path)).parameters.values())
    found, expected = written(parameters), promised(signature)
    assert [(name, is_keyword) for name, is_keyword, _ in found[: len(expected)]] == [
        (name, is_keyword) for name, is_keyword, _ in expected
    ]
    for (name, _, default), (_, _, promise) in zip(found, expected, strict=False):
        assert (default is None) == (promise is None), name
        assert promise in {"...", default}, name
    for extra in parameters[len(expected) :]:
        assert extra.default is not extra.empty or extra.kind in {extra.VAR_KEYWORD, extra.VAR_POSITIONAL}, extra


@pytest.mark.parametrize(
    "store",
    [VectorStore, *(named(f"stackroom.stores.{kind}Store") for kind in ("Memory", "Embedded", "Postgres", "Sql"))],
)
@pytest.mark.parametrize(("method", "signature"), STORE_METHODS.items())
def test_stores_have_the_promised_methods(store: Any, method: str, signature: str) -> None:
    if method == "swap" and store is not VectorStore:
        signature += " expect_side=None"  # a store may take it, and ours do
    assert written(inspect.signature(getattr(store, method)).parameters.values()) == promised(signature)


@pytest.mark.parametrize("node", ["And", "Or"])
def test_and_and_or_take_any_number_of_filters(node: str) -> None:
    (parameter,) = inspect.signature(named(f"stackroom.filters.{node}")).parameters.values()
    assert parameter.kind is parameter.VAR_POSITIONAL


def test_open_takes_a_path_an_embedder_and_options() -> None:
    parameters = inspect.signature(Library.open).parameters
    path, *others = parameters.values()
    assert (path.name, path.default) == ("path", path.empty)
    defaults = {parameter.name: parameter.default for parameter in others if parameter.kind is path.KEYWORD_ONLY}
    assert defaults["embedder"] is None
    assert (defaults["collection"], defaults["verify_embedder"]) == ("library", False)
    assert others[-1].kind is path.VAR_KEYWORD


def test_a_library_and_its_answers_have_their_fields() -> None:
    fields = {
        "Hit": (
            "id source_id kind index text score title folder_id tags metadata dense_score dense_rank lexical_score "
            "lexical_rank"
        ),
        "Note": "code message",
        "SourceInfo": (
            "source_id kind tenant_id acl_groups folder_id tags title metadata passages created_at updated_at "
            "expires_at tier"
        ),
        "Indexed": "passages replaced embedded reused",
    }
    for name, expected in fields.items():
        assert list(inspect.signature(named(f"stackroom.{name}")).parameters) == expected.split()
    assert {"mode", "complete", "notes"} <= set(inspect.signature(stackroom.Answer).parameters)


def test_capabilities_have_their_fields() -> None:
    parameters = list(inspect.signature(named("stackroom.stores.Capabilities")).parameters)
    assert parameters[: len(CAPABILITIES)] == CAPABILITIES
    assert "max_dimension" in parameters


def test_embedded_store_takes_a_path_and_exact() -> None:
    parameters = inspect.signature(named("stackroom.stores.EmbeddedStore")).parameters
    assert next(iter(parameters)) == "path"
    assert parameters["exact"].default is False


def test_postgres_store_takes_a_dsn_or_a_pool() -> None:
    parameters = inspect.signature(named("stackroom.stores.PostgresStore")).parameters
    assert next(iter(parameters)) == "dsn_or_pool"


def test_values_are_frozen_and_slotted() -> None:
    for name in ("Scope", "Passage", "Source", "Narrowing", "Hit", "Answer", "Note", "SourceInfo", "Indexed", "Page"):
        value_class = named(f"stackroom.{name}")
        assert value_class.__dataclass_params__.frozen, name
        assert "__slots__" in vars(value_class), name


def test_the_protocols_name_every_member() -> None:
    assert {"fingerprint", "max_input_chars", "embed_passages", "embed_query"} <= set(dir(Embedder))
    assert {"capabilities", *STORE_METHODS} <= set(dir(VectorStore))
