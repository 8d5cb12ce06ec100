"""The kits over a store that is set otherwise take minutes: `make test-postgres-other` asks for them."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("STACKROOM_TEST_POSTGRES_ALL") else ["test_postgres_kits.py"]
