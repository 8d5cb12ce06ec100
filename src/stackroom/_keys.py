"""The keys under which a passage's metadata holds what belongs to its source: spelled in this one place."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

TENANT: Final = "tenantId"
GROUPS: Final = "aclGroups"
STATUS: Final = "status"
SOURCE: Final = "sourceId"
KIND: Final = "kind"
INDEX: Final = "index"
FOLDER: Final = "folderId"
TAGS: Final = "tags"
TITLE: Final = "title"

ACTIVE: Final = "active"

OWN: Final = "stackroom."
"""Keys that begin so are the Library's own: no caller's metadata reaches them, no Hit shows them."""

CREATED: Final = OWN + "createdAt"
UPDATED: Final = OWN + "updatedAt"
EXPIRES: Final = OWN + "expiresAt"
TIER: Final = OWN + "tier"
PASSAGES: Final = OWN + "passages"
SOURCE_METADATA: Final = OWN + "keys"
SETTINGS: Final = OWN + "settings"

IDENTITY: Final = frozenset({TENANT, SOURCE, INDEX})
DOCUMENTED: Final = frozenset({TENANT, GROUPS, STATUS, SOURCE, KIND, INDEX, FOLDER, TAGS, TITLE})
LISTS: Final = frozenset({GROUPS, TAGS})
STRINGS: Final = frozenset({KIND, STATUS, FOLDER, TITLE})

_OF_SOURCE: Final = DOCUMENTED - {INDEX}

MAX_INDEX: Final = 2**31 - 1


@lru_cache(maxsize=1024)  # asked of each key of each record that is written
def is_source_key(key: str) -> bool:
    """Tell whether all records of one source hold the same under this key."""
    return key in _OF_SOURCE or key.startswith(OWN)


def is_reserved(key: str) -> bool:
    """Tell whether a caller's metadata may not say anything under this key."""
    return key in DOCUMENTED or key.startswith(OWN)
