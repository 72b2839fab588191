"""For all tests: shared modules of `tests/unit` are importable from every folder, and no test sees the user's cache."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unit"))
