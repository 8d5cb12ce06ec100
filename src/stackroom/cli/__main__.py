"""`python -m stackroom.cli` is the command `stackroom`."""

import sys

from stackroom.cli import main

sys.exit(main())
