"""The judgement of labellings of real pictures, scored by their truth; minutes long, so run with `-m slow`."""

import subprocess
import sys
from pathlib import Path

import pytest

from remp.datasets import prepare

ROOT = Path(__file__).resolve().parents[3]
MAKE_ARCHIVES = ROOT.parent / "shared" / "data" / "make_archives.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_data,
    pytest.mark.skipif(not MAKE_ARCHIVES.is_file(), reason=f"the real data is not here: no {MAKE_ARCHIVES}"),
]


@pytest.fixture(scope="module")
def quality():
    """The module of the benchmark."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import label_quality

    yield label_quality
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def pictures(quality, request):
    """The test classes of CIFAR-FS in the features of a shipped model, kept in pytest's cache."""
    folder = request.config.cache.mkdir("real_data")
    subprocess.run([sys.executable, str(MAKE_ARCHIVES), str(folder), "cifar100"], check=True)
    prepare("cifar-fs", folder / "cifar-100-python.tar.gz")
    return quality.load("test", "cifar-fs-convnet64-5shot", folder / "label-quality")


def test_the_stated_interval_holds_the_truth_in_300_tasks(quality, pictures):
    measured = quality.coverage(pictures, 300)
    assert measured["covered %"] >= 85
    assert measured["mean width"] <= 0.35
    assert measured["calibration error %"] <= 5
    assert measured["accuracy of these %"] >= 88


def test_five_rounds_of_advice_beat_random_choice(quality, pictures):
    gain = quality.label_next(pictures, 30)["mean of the rounds, advice - random"]
    assert gain.mean - gain.half_width > 0


def test_few_items_of_known_classes_are_called_unknown(quality, pictures):
    measured = quality.unknown(pictures, 60)
    assert measured["known called unknown, no strangers %"] <= 5
    assert measured["strangers called unknown %"] > 2 * measured["known called unknown, 20 % strangers %"]


def test_wrong_labels_are_suspected_much_more_often_than_right_ones(quality, pictures):
    measured = quality.doubtful(pictures, 60)
    assert measured["wrong labels found %"] > 10 * measured["right labels suspected %"]
