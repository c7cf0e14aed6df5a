import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from remp.studio.plane import Cartographer, lay_out, main_directions, quick_plane


@pytest.fixture
def features() -> np.ndarray:
    """Three heaps of points, far from each other, in 30 dimensions."""
    random = np.random.default_rng(0)
    centres = 10 * random.normal(size=(3, 30))
    return (np.repeat(centres, 20, 0) + random.normal(size=(60, 30))).astype(np.float32)


def test_main_directions_are_those_of_scikit_learn(features):
    ours, theirs = main_directions(features), PCA(30).fit_transform(features)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-3)


def test_one_number_per_picture_is_a_line():
    places = quick_plane(main_directions(np.arange(5, dtype=np.float32)[:, None]))
    assert np.abs(places[:, 0]).tolist() == [1, 0.5, 0, 0.5, 1]
    assert not places[:, 1].any()


def test_pictures_that_look_alike_lie_together(features):
    for places in (quick_plane(main_directions(features)), lay_out(main_directions(features))):
        assert places.shape == (60, 2)
        assert np.abs(places).max() == pytest.approx(1)
        middles = places.reshape(3, 20, 2).mean(1)
        nearest = np.linalg.norm(places[:, None] - middles, axis=-1).argmin(1)
        assert nearest.tolist() == np.repeat(range(3), 20).tolist()


def test_another_process_draws_the_same_map_and_runs_nothing_of_the_present_folder(features, tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('this is not numpy')")
    monkeypatch.chdir(tmp_path)
    reduced = main_directions(features)
    np.testing.assert_allclose(Cartographer(reduced).places(), lay_out(reduced), atol=1e-4)


def test_a_process_that_is_stopped_has_no_map(features):
    process = Cartographer(main_directions(features))
    process.stop()
    assert process.places() is None


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the process in /proc")
def test_the_process_ends_with_the_one_that_started_it():
    code = """if True:
        import numpy as np
        from remp.studio.plane import Cartographer
        process = Cartographer(np.random.default_rng(0).normal(size=(20_000, 50)))
        print(process._process.pid, flush=True)
        process.places()
    """
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    number = int(starter.stdout.readline())
    assert Path(f"/proc/{number}").exists()
    starter.kill()
    starter.wait()
    until = time.monotonic() + 60
    while (text := _status(number)) and "zombie" not in text and time.monotonic() < until:
        time.sleep(0.05)
    assert not text or "zombie" in text


def _status(number: int) -> str:
    try:
        return Path(f"/proc/{number}/status").read_text()
    except OSError:
        return ""
