"""A home of its own for every test that asks for one."""

from pathlib import Path

import pytest


@pytest.fixture
def remp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("REMP_HOME", str(home))
    return home
