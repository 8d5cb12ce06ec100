"""The guards: where each stands in the source, what is left when it is taken out, and which tests must then fail.

Whoever adds a guard adds it to its module here. Its text must stand in the source exactly once, so that no table can go
stale.
"""

from __future__ import annotations

from typing import Final

from tests.guards.of_copying import COPYING
from tests.guards.of_generations import GENERATIONS
from tests.guards.of_indexing import BULK
from tests.guards.of_integrations import INTEGRATIONS
from tests.guards.of_postgres import POSTGRES
from tests.guards.of_rankers import RANKERS
from tests.guards.of_stores import THE_STORES
from tests.guards.of_the_library import EMPTY_LISTS, ONE_EMBEDDER, THE_CHECK, THE_SCOPE, WRITES

GUARDS: Final = (
    *THE_SCOPE,
    *EMPTY_LISTS,
    *THE_CHECK,
    *WRITES,
    *ONE_EMBEDDER,
    *THE_STORES,
    *POSTGRES,
    *BULK,
    *RANKERS,
    *COPYING,
    *INTEGRATIONS,
    *GENERATIONS,
)
