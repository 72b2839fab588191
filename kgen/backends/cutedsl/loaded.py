"""What `loaded` of templates/cutedsl/lib/loaded.py.j2 needs imported: compiled variants outlive their process."""

LOADED_IMPORTS = (
    "import os",
    "from hashlib import sha256",
    "from pathlib import Path",
    "from platform import machine",
    "from tempfile import TemporaryDirectory",
)
