"""`python -m mdpnewton`."""

import sys

from mdpnewton.cli import main

sys.exit(main())
