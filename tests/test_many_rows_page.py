"""The code on the page about many rows, and the benchmark that it points to, run at a small size."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "many_rows.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs_in_its_order(tmp_path, monkeypatch):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    random, truth = np.random.default_rng(0), np.arange(200) % 3
    values = random.normal(size=(3, 8))[truth] * 3 + random.normal(size=(200, 8))
    np.save(tmp_path / "embeddings.npy", values)
    np.save(tmp_path / "labels.npy", np.where(np.arange(200) < 6, truth, -1))
    parquet.write_table(pyarrow.table({"embedding": values.tolist()}), tmp_path / "embeddings.parquet")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(code, "many_rows.md", "exec"), names)
    assert (names["answers"] == truth).mean() > 0.95
    np.testing.assert_array_equal(np.load("embeddings.npy"), values.astype(np.float32))


def test_every_file_the_page_links_to_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


@pytest.mark.slow
def test_the_benchmark_prints_a_line_a_size():
    sizes = ["--rows", "200", "500", "--dim", "8", "--classes", "3", "--rounds", "1", "--layers", "2"]
    command = [sys.executable, ROOT / "benchmarks" / "many_rows.py", *sizes]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^\| (\d+) \|.* MiB", printed, flags=re.MULTILINE) == ["200", "500"]
