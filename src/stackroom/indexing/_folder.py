"""index_folder: the files of a folder, each a source; only what is new is embedded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stackroom._model import NO_METADATA, Source, Tier, name_of
from stackroom.indexing._folder_options import check_folder_options, suffix_loaders
from stackroom.indexing._folder_run import FolderRun
from stackroom.indexing._inside import inside
from stackroom.indexing._loaders import OF_TURNS
from stackroom.indexing._options import ceiling_of, check_shared, expiry_of, warn_of_ceiling
from stackroom.indexing._plan import Planner
from stackroom.indexing._stored import StoredFolder, strings
from stackroom.indexing._walk import Wish, walk
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from stackroom._cancel import CancelToken
    from stackroom._library import Library
    from stackroom._values import MetadataValue
    from stackroom.indexing._loaders import Loader
    from stackroom.indexing._reports import EmbeddingReport, IndexReport, Progress


def index_folder(
    library: Library,
    path: str | os.PathLike[str],
    *,
    tenant_id: str,
    acl_groups: Iterable[str],
    kind: str = "document",
    folder_id: str | None = None,
    tags: Iterable[str] = (),
    metadata: Mapping[str, MetadataValue] = NO_METADATA,
    tier: Tier | None = None,
    ttl: timedelta | None = None,
    corpus: str | None = None,
    source_prefix: str = "",
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    hidden: bool = False,
    follow_symlinks: bool = False,
    encoding: str = "utf-8",
    max_file_bytes: int = 25 * 1024 * 1024,
    loaders: Mapping[str, Loader] | None = None,
    max_chars: int = 1200,
    overlap_chars: int = 150,
    prune: bool = False,
    dry_run: bool = False,
    budget_chars: int | None = None,
    price_per_million_tokens: float | None = None,
    attempts: int = 3,
    cancel: CancelToken | None = None,
    on_embedding: Callable[[EmbeddingReport], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    max_concurrency: int = 8,
    max_chunk_chars: int | None = None,
) -> IndexReport:
    """Index the files of a folder, each as a source whose id is `source_prefix` and its path relative to the folder.

    Files whose bytes and settings are as stored are left alone, but for who may see them and when they expire. Of the
    others a passage is embedded only when its text was in no source of the folder. A file that cannot be indexed is
    in the report's `failed`, and its old version stays. `prune` removes sources whose file is gone; `dry_run` says
    what would be done and does nothing. Run it again after whatever ended it: it goes on where it was.

    ValueError, TypeError or LookupError for an option, FileNotFoundError or NotADirectoryError for `path`, before
    anything. EmbedderError, StoreError and IndexingCancelled have the `report`.
    """
    parts = inside(library)
    check_shared(
        cancel=cancel,
        on_embedding=on_embedding,
        on_progress=on_progress,
        max_concurrency=max_concurrency,
        max_chunk_chars=max_chunk_chars,
    )
    check_folder_options(
        sizes={"max_file_bytes": max_file_bytes, "max_chars": max_chars, "attempts": attempts},
        overlap_chars=overlap_chars,
        budget_chars=budget_chars,
        price=price_per_million_tokens,
        encoding=encoding,
        flags={"hidden": hidden, "follow_symlinks": follow_symlinks, "prune": prune, "dry_run": dry_run},
        source_prefix=source_prefix,
    )
    shared: dict[str, Any] = {"tenant_id": tenant_id, "acl_groups": acl_groups, "kind": kind, "folder_id": folder_id}
    shared |= {"tags": tags, "metadata": metadata, "tier": tier, "expires_at": expiry_of(ttl, parts.time())}
    model = Source("checked before any file is read", passages=(), **shared)
    known = suffix_loaders(loaders, max_chars, overlap_chars)
    included = None if include is None else strings(include, TypeError, "include")
    wish = Wish(known.keys(), included, strings(exclude, TypeError, "exclude"), hidden, follow_symlinks)
    named = None if corpus is None else name_of(corpus, ValueError, "corpus")
    root = _existing(path)
    own_corpus = named or corpus_of(root)
    planner = Planner(model, own_corpus, source_prefix, encoding, max_file_bytes, known, max_chars, overlap_chars)
    stored = StoredFolder(parts, model.tenant_id, own_corpus)
    ceiling = ceiling_of(parts.limits, max_chunk_chars)
    run = FolderRun(
        parts=parts,
        planner=planner,
        stored=stored,
        walked=walk(root, wish),
        root=root,
        ceiling=ceiling[0],
        budget=budget_chars,
        price=price_per_million_tokens,
        dry_run=dry_run,
        prune=prune,
        cancel=cancel,
        on_progress=on_progress,
    )
    holds_uncut = loaders or any(file.suffix in OF_TURNS for file in run.walked.files)
    if not dry_run and (holds_uncut or max_chars > ceiling[0]):
        over, of = run.count_over_ceiling()
        advice = "give a smaller max_chars"
        warn_of_ceiling("index_folder", over, f"{of} passages", ceiling, advice, stacklevel=2)
    return run.to_its_end(max_concurrency, attempts, on_embedding)


def corpus_of(root: Path) -> str:
    """Return what a folder without a name is known by: a digest of where it stands, which tells nothing of that."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(root)), digest_size=16).hexdigest()


def _existing(path: str | os.PathLike[str]) -> Path:
    if is_blank(os.fsdecode(path)):
        raise ValueError("path must not be blank; the directory where one stands is '.'")
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError("there is no such folder: path must be an existing directory")
    if not root.is_dir():
        raise NotADirectoryError("path must be a directory; a single file goes through index_documents")
    return root
