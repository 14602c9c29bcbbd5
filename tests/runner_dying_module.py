"""Handler module whose import ends the process."""

import os
import sys

if "pytest" not in sys.modules:
    os._exit(1)
