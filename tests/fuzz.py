"""`python tests/fuzz.py SECONDS`: the random tests again and again, each time with a seed of its own, for so long.

Exit code 1 at the first failure, with the seed that repeats it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from stackroom._seeds import SEED_VARIABLE

HERE: Final = Path(__file__).parent
RANDOM_TESTS: Final = ("library/test_library_model.py", "postgres/test_postgres_model.py", "stores/test_conformance.py")


def run(seed: int, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run the random tests with a seed; None when the time ends before they do."""
    files = [str(HERE / name) for name in RANDOM_TESTS]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "random or brute_force",
        *files,
    ]
    environment = {**os.environ, SEED_VARIABLE: str(seed)}
    try:
        return subprocess.run(
            command, env=environment, cwd=HERE.parent, timeout=seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def main() -> int:
    """Draw seeds until the time is over or one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, help="how long, in all")
    end = time.monotonic() + parser.parse_args().seconds
    for number in itertools.count():
        seed = secrets.randbelow(2**32)
        left = end - time.monotonic()
        done = run(seed, left) if left > 0 else None
        if done is None:
            sys.stdout.write(f"{number} seeds, nothing found\n" if number else "too short: no seed was done in time\n")
            return 0 if number else 1
        if done.returncode != 0:
            sys.stdout.write(f"{done.stdout}{done.stderr}\nrepeat it: {SEED_VARIABLE}={seed} make test\n")
            return 1
        sys.stdout.write(f"seed {seed}: {done.stdout.splitlines()[-1]}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
