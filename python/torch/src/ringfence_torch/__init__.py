"""Where ringfence.torch's native library lies, and what it was built for. Loaded by ringfence.torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).parent / "_native.so"
BUILD: dict[str, Any] = json.loads((Path(__file__).parent / "build.json").read_text())
