"""How a source becomes records, and how records become hits and listings again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stackroom import _keys as keys
from stackroom._errors import SourceError
from stackroom._model import Hit, Source, SourceInfo
from stackroom._scoping import EPOCH, microseconds
from stackroom._values import MetadataValue, ReadOnly, metadata_copy
from stackroom.stores import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._fusion import Candidate


def records_of(
    source: Source,
    vectors: Sequence[NDArray[np.float32]],
    *,
    created_at: int,
    updated_at: int,
    own: Mapping[str, MetadataValue],
) -> list[Record]:
    """Return a source's passages as records; times are microseconds since 1970, `own` more keys of the Library's.

    Texts were checked with the source, vectors at the embedder's door. Lists of metadata are checked and copied here,
    since whoever made the source may still hold them.
    """
    of_all = {**_source_metadata(source), **own, keys.CREATED: created_at, keys.UPDATED: updated_at}
    given = {key: value for key, value in source.metadata.items() if not keys.is_reserved(key)}
    shared = metadata_copy({**given, **of_all}, SourceError, "metadata")  # once a source, not once a passage
    records = []
    for index, (passage, vector) in enumerate(zip(source.passages, vectors, strict=True)):
        of_passage = {key: value for key, value in passage.metadata.items() if not keys.is_reserved(key)}
        checked = metadata_copy(of_passage, SourceError, "a passage's metadata")
        records.append(Record.stored(passage.text, vector, {**checked, **shared, keys.INDEX: index}, 0))
    return records


def _source_metadata(source: Source) -> dict[str, MetadataValue]:
    optional = {
        keys.FOLDER: source.folder_id,
        keys.TITLE: source.title,
        keys.TIER: source.tier,
        keys.EXPIRES: None if source.expires_at is None else microseconds(source.expires_at),
    }
    return {
        keys.TENANT: source.tenant_id,
        keys.GROUPS: list(source.acl_groups),
        keys.STATUS: keys.ACTIVE,
        keys.SOURCE: source.source_id,
        keys.KIND: source.kind,
        keys.TAGS: list(source.tags),
        keys.PASSAGES: len(source.passages),
        keys.SOURCE_METADATA: [key for key in source.metadata if not keys.is_reserved(key)],
        **{key: value for key, value in optional.items() if value is not None},
    }


def hit_of(record: Record, score: float, candidate: Candidate) -> Hit:
    """Return a record as a hit with its final score and what the legs say of it."""
    metadata: Mapping[str, Any] = record.metadata
    return Hit(
        id=record.id,
        source_id=record.source_id,
        kind=metadata.get(keys.KIND, ""),
        index=record.index,
        text=record.text,
        score=score,
        title=metadata.get(keys.TITLE),
        folder_id=metadata.get(keys.FOLDER),
        tags=tuple(metadata.get(keys.TAGS, ())),
        metadata=ReadOnly((key, value) for key, value in metadata.items() if not key.startswith(keys.OWN)),
        dense_score=candidate.dense_score,
        dense_rank=candidate.dense_rank,
        lexical_score=candidate.lexical_score,
        lexical_rank=candidate.lexical_rank,
    )


def info_of(record: Record) -> SourceInfo:
    """Return the source that a record belongs to, as its metadata tells."""
    metadata: Mapping[str, Any] = record.metadata
    expires_at = metadata.get(keys.EXPIRES)
    return SourceInfo(
        source_id=record.source_id,
        kind=metadata.get(keys.KIND, ""),
        tenant_id=record.tenant_id,
        acl_groups=tuple(metadata.get(keys.GROUPS, ())),
        folder_id=metadata.get(keys.FOLDER),
        tags=tuple(metadata.get(keys.TAGS, ())),
        title=metadata.get(keys.TITLE),
        metadata=ReadOnly((key, metadata[key]) for key in metadata.get(keys.SOURCE_METADATA, ()) if key in metadata),
        passages=metadata.get(keys.PASSAGES, 0),
        created_at=_moment(metadata.get(keys.CREATED, 0)),
        updated_at=_moment(metadata.get(keys.UPDATED, 0)),
        expires_at=None if expires_at is None else _moment(expires_at),
        tier=metadata.get(keys.TIER),
    )


def _moment(since_epoch: int) -> datetime:
    return (EPOCH + timedelta(microseconds=since_epoch)).astimezone(UTC)
