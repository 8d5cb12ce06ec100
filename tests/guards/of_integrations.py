"""Guards of the adapters for other frameworks; that nothing is asked without a scope is the Library's own."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

INTEGRATIONS: Final = (
    Guard(
        "a vector store of LangChain's removes within its scope",
        "stackroom.integrations.langchain",
        "if self._library.source(name, scope=self._scope) is not None:",
        "if name:",
        ("tests/integrations/test_langchain.py", "-k", "neither_shows_nor_removes"),
    ),
    Guard(
        "tenant and groups come before no model",
        "stackroom.integrations._hits",
        "if key not in keys.DOCUMENTED}",
        "if key != keys.TITLE}",
        ("tests/integrations/test_langchain.py", "-k", "by_whom_it_says"),
    ),
)
