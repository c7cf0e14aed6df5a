"""Every example runs from end to end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
LONG = {"07_train_on_characters"}  # ten seconds of training


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in EXAMPLES],
)
def test_an_example_runs_and_prints_something(path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()


def test_there_are_examples() -> None:
    assert EXAMPLES
