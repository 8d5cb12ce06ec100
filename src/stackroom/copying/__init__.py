"""Moving a collection whole: from any store to any other, and into one portable file and back.

Vectors, texts, scopes, metadata and times come over as they are; nothing is embedded again. `docs/moving.md` says how
to use it and what the file holds.
"""

from stackroom.copying._copy import (
    CopyProgress,
    CopyReport,
    copy_collection,
    export_collection,
    import_collection,
)

__all__ = [
    "CopyProgress",
    "CopyReport",
    "copy_collection",
    "export_collection",
    "import_collection",
]
