"""Where prepared data, caches and downloads live on the user's machine."""

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """The folder for data and caches: `$REMP_HOME`, or the platform's cache folder."""
    chosen = os.environ.get("REMP_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("remp"))
