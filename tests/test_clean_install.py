"""The wheel has everything, installs into an empty environment, and the README works there from top to bottom."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remp.version import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "remp"
# The work of the README, but shorter; `make test` would run this test again.
SHORTER = {"--budget 30min": "--budget 4", "600": "20", "--methods all": "--methods protonet,remp,pt-map"}
LEFT_OUT = "make test"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints, run without this process's own packages on its path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    finished = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**kept, **variables}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout[-3000:]}\n{finished.stderr[-3000:]}"
    return finished.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that are kept in git, as a clone would have them."""
    folder = tmp_path_factory.mktemp("clone") / "remp"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout, so the files of a clone are not known")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    """The wheel of a clone."""
    wheels = checkout.parent / "dist"
    run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", wheels, cwd=checkout)
    (built,) = wheels.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, checkout: Path) -> dict[str, str]:
    """An empty environment in the clone's .venv with the wheel in it; variables to use it with. What remp depends on is
    taken from here: nothing is downloaded."""
    venv.create(checkout / ".venv", with_pip=True)
    python = checkout / ".venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=checkout)
    (checkout / ".venv" / ".ready").touch()
    home = checkout.parent / "home"
    home.mkdir()
    # An editable remp of this environment is found by a .pth file, which a path of PYTHONPATH does not read.
    return {"PYTHONPATH": sysconfig.get_path("purelib"), "REMP_HOME": str(home), "HOME": str(home)}


@pytest.mark.slow
def test_the_wheel_has_every_module_and_every_file_of_data(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    kept = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.relative_to(SOURCE.parent).as_posix() for path in kept} <= packed
    assert {name.partition("/")[0] for name in packed} == {"remp", f"remp-{__version__}.dist-info"}


@pytest.mark.slow
def test_the_source_distribution_makes_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("build", reason="python -m build is the tool of a release")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, cwd=checkout)
    (again,) = tmp_path.glob("*.whl")
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    contents = [
        {info.filename: info.CRC for info in zipfile.ZipFile(path).infolist() if "dist-info" not in info.filename}
        for path in (wheel, again)
    ]
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_the_command_runs_where_only_the_wheel_is_installed(checkout: Path, environment: dict[str, str]) -> None:
    folder = checkout.parent
    assert run(checkout / ".venv/bin/remp", "--version", cwd=folder, **environment) == f"remp {__version__}\n"
    where = "import remp.datasets; print(remp.__file__, len(remp.load('cifar-fs-convnet64-1shot').image_size))"
    place, sizes = run(checkout / ".venv/bin/python", "-c", where, cwd=folder, **environment).split()
    assert Path(place).is_relative_to(checkout / ".venv")
    assert sizes == "3"


@pytest.mark.slow
def test_the_readme_works_from_top_to_bottom(checkout: Path, environment: dict[str, str]) -> None:
    _write_pictures(checkout)
    script = _script((checkout / "README.md").read_text(encoding="utf-8"))
    assert [word in script for word in ("make demo", "remp label photos/", "remp train")] == [True] * 3
    run("bash", "-ec", script, cwd=checkout, **environment)
    for made in ("runs/demo/report.html", "photos-labelled/labels.csv", "runs/mine/best.safetensors"):
        assert (checkout / made).is_file(), made


def _script(readme: str) -> str:
    """The indented commands and the blocks of Python, in their order, as one program of bash."""
    before = (
        "import numpy as np\nX = np.repeat(np.eye(5), 12, axis=0) + np.random.default_rng(0).normal(size=(60, 5))\n"
        "y = np.where(np.arange(60) % 12 < 8, np.repeat(np.arange(5), 12), {unlabelled})\n"
        "support_images, query_images = np.zeros((4, 32, 32, 3), np.uint8), np.ones((2, 32, 32, 3), np.uint8)\n"
        "support_labels = list('aabb')\n"
    )
    parts = []
    for command, code in re.findall(r"^    (\S.*)$|^```python\n((?:.*\n)*?)```", readme, flags=re.MULTILINE):
        given = before.format(unlabelled=-1 if "ReMPClassifier" in code else "np.repeat(np.arange(5), 12)")
        parts.append(f"python - <<'END'\n{given}{code}END" if code else command)
    script = "\n".join(part for part in parts if not part.startswith(LEFT_OUT))
    for long, short in SHORTER.items():
        script = script.replace(long, short)
    return script


def _write_pictures(folder: Path) -> None:
    """What the README takes for granted: photos/ with two classes, and my_pictures/ to train on."""
    random = np.random.default_rng(0)
    places = [f"my_pictures/class {number}" for number in range(30)]
    for place in [*places, "photos/cat", "photos/dog", "photos/unlabelled"]:
        (folder / place).mkdir(parents=True)
        for number in range(20):
            pixels = random.integers(0, 255, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / place / f"{number}.png")
