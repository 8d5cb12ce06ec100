"""Documents and folders in bulk: embedded across sources in full batches, each source written whole."""

from stackroom._cancel import CancelToken
from stackroom._errors import InputCeilingWarning
from stackroom.indexing._documents import Document, index_documents
from stackroom.indexing._folder import index_folder
from stackroom.indexing._loaders import Loaded
from stackroom.indexing._reembed import reembed
from stackroom.indexing._reports import (
    EmbeddingReport,
    Failed,
    IndexReport,
    Progress,
    ReembedReport,
)

__all__ = [
    "CancelToken",
    "Document",
    "EmbeddingReport",
    "Failed",
    "IndexReport",
    "InputCeilingWarning",
    "Loaded",
    "Progress",
    "ReembedReport",
    "index_documents",
    "index_folder",
    "reembed",
]
