"""Good files that remp writes itself, and readers of them: caches, prepared sets, models, results, journals, parts."""

import gzip
import json
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import remp
from fuzz.mutation import damaged, damaged_json, odd_text
from made_up_labelling import made_up_labelling, write_pictures
from raw_data import write_tree
from remp.datasets.base import open_prepared, prepared_folder, read_index
from remp.datasets.prepare import prepare
from remp.datasets.raw import ReadOptions
from remp.engine import Threads
from remp.engine.dataset import open_dataset
from remp.engine.parts import EmbeddingParts, Part
from remp.engine.picture_blocks import Block, FolderBlock
from remp.export import read_results
from remp.labelling.embedding.cache import EmbeddingCache, Identity, KnownFiles, digest
from remp.labelling.output.result_folder import foreign_file, write_manifest
from remp.labelling.output.tables import write_labels
from remp.labelling.tasks import Items
from remp.report.thumbnails import Thumbnails
from remp.studio.session import open_session
from remp.system.files import Place

VALUES = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
KEYS = [digest(bytes([i])) for i in range(20)]


def write_caches(folder: Path) -> list[Path]:
    cache = EmbeddingCache(folder, "e" * 64, 4)
    cache.add(KEYS, VALUES, np.arange(20, dtype=np.uint64))
    cache.close()
    known = KnownFiles(folder)
    for key in KEYS:
        known.add(Identity(key, is_settled=True), digest(key))
    known.close()
    thumbnails = Thumbnails(9, 9, folder / "thumbnails.sqlite")
    for key in KEYS:
        thumbnails.keep(key, key * 9)
    thumbnails.close()
    return [path for path in folder.rglob("*") if path.is_file()]


def read_caches(folder: Path) -> None:
    for content, row, picture in EmbeddingCache(folder, "e" * 64, 4).take(set(KEYS)):
        number = KEYS.index(content)
        assert picture == number, "another picture"
        np.testing.assert_array_equal(row, VALUES[number])
    for key, content in zip(KEYS, KnownFiles(folder).contents([Identity(key, True) for key in KEYS]), strict=True):
        assert content in (None, digest(key)), "another content"
    thumbnails = Thumbnails(9, 9, folder / "thumbnails.sqlite")
    for key in KEYS:
        assert thumbnails.take(key) in (None, key * 9), "another thumbnail"
    thumbnails.close()


def write_prepared(folder: Path) -> list[Path]:
    write_tree(folder.parent / "raw", [f"kind{i}" for i in range(6)])
    prepare("folder", folder.parent / "raw", options=ReadOptions(size=12), save_as="toy", force=True)
    shutil.rmtree(folder.parent / "raw")
    for path in prepared_folder("toy").iterdir():
        shutil.copy(path, folder)
    return list(folder.iterdir())


def read_prepared(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.copy(path, prepared_folder("toy"))
    for split in read_index("toy")["splits"]:
        images = open_prepared("toy", split)
        assert len(images.labels) == len(images.images), "another number of images"
        assert int(images.labels.max(initial=-1)) < images.n_classes == len(images.class_names), "another class"


def write_labellings(folder: Path) -> list[Path]:
    given = np.where(np.arange(20) < 6, np.array(["ant", "bee", "cow"])[np.arange(20) % 3], "")
    return [
        remp.ReMPClassifier(**settings).fit(VALUES, given).save(folder / name)
        for name, settings in {"a": {}, "p": {"rule": "paper", "balanced": True}}.items()
    ]


def read_labellings(folder: Path) -> None:
    for path in folder.iterdir():
        model = remp.load_labelling(path)
        shares = model.predict_proba(np.outer([1, -2], np.ones(model.n_features_in_)))
        assert shares.shape == (2, len(model.classes_)), "another number of classes"
        assert np.allclose(shares.sum(1), 1, atol=1e-4), "no probabilities"


def write_result(folder: Path) -> list[Path]:
    paths = write_pictures(folder / "pictures", 6, side=4)
    labelling = made_up_labelling(["ant", "bee"], 6, n_given=1, paths=paths)
    (folder / "labelled").mkdir()
    write_labels(labelling, folder / "labelled")
    write_manifest(folder / "labelled")
    return list((folder / "labelled").iterdir())


def read_result(folder: Path) -> None:
    write_pictures(folder / "pictures", 6, side=4)
    assert isinstance(foreign_file(folder / "labelled"), str)
    found = read_results(folder / "labelled", folder / "pictures")
    assert all(isinstance(label, str | None) for label in found.labels), "a label that is no name"
    assert all(isinstance(status, str) for status in found.status), "a status that is no word"
    assert ((found.probability >= 0) & (found.probability <= 1)).all(), "no probabilities"


TASK = Items(tuple("abcdef"), np.full(6, -1), ())
ACTIONS: list[dict[str, Any]] = [
    {"do": "label", "items": ["a", "b"], "class": "ant"},
    {"do": "label", "items": ["c"], "class": "bee"},
    {"do": "accept", "classes": {"ant": ["d"], "bee": ["e"]}},
    {"do": "unknown", "items": ["f"]},
    {"do": "rename", "class": "bee", "to": "wasp"},
    {"do": "colour", "class": "ant", "colour": "#ff0000"},
    {"do": "merge", "class": "wasp", "into": "ant"},
    {"do": "undo"},
]


def write_journal(folder: Path) -> list[Path]:
    _write_items(folder)
    session = open_session(TASK, folder, folder / "x.journal", None)  # type: ignore[arg-type]
    for action in ACTIONS:
        session.journal.append(action)
    return [folder / "x.journal"]


def _write_items(folder: Path) -> None:
    for name in TASK.names:
        (folder / name).write_text(name)


def damaged_journal(content: bytes, random: np.random.Generator) -> bytes:
    """Damage a line as JSON, with its check sum set right again, or any bytes."""
    lines = content.splitlines()
    if len(lines) < 2 or random.random() < 0.3:
        return damaged(content, random)
    number = int(random.integers(len(lines)))
    text = odd_text(lines[number].partition(b" ")[2].decode(), random).encode()
    return b"\n".join([*lines[:number], b"%08x %b" % (zlib.crc32(text), text), *lines[number + 1 :], b""])


def read_journal(folder: Path) -> None:
    _write_items(folder)
    session = open_session(TASK, folder, folder / "x.journal", None)  # type: ignore[arg-type]
    state = session.state
    assert set(state.labels.tolist()) <= {-1, -2, *state.classes}, "a class that is not there"
    assert all(isinstance(one.name, str) for one in state.classes.values()), "a class without a name"


EMBEDDER: Any = SimpleNamespace(name="colour", hash="e" * 64, dim=4, side=8)


def _blocks() -> list[Block]:
    return [FolderBlock("pictures", names) for names in (("ant/a", "ant/b", "c"), ("bee/d", "e"))]


def write_parts(folder: Path) -> list[Path]:
    parts = EmbeddingParts(Place(str(folder)))
    for number, block in enumerate(parts.begin(Place("pictures"), EMBEDDER, _blocks())):
        n = len(block)
        part = Part(list(block.names), KEYS[:n], np.arange(n, dtype=np.uint64), VALUES[:n], skipped=[("x", "damaged")])  # type: ignore[union-attr]
        parts.write(number, block, part)
    return list(folder.iterdir())


def damaged_part(content: bytes, random: np.random.Generator) -> bytes:
    if not content.startswith(b"\x1f\x8b") or random.random() < 0.2:
        return damaged_json(content, random)
    lines = gzip.decompress(content).splitlines()
    number = int(random.integers(len(lines)))
    lines[number] = odd_text(lines[number].decode(), random).encode()
    return gzip.compress(b"\n".join(lines), mtime=0)


def read_parts(folder: Path) -> None:
    data = open_dataset(Place(str(folder)), Threads())
    assert len(data.task(None).names) == len(data.rows), "another number of names"
    for name, array in data.hashes.items():
        assert len(array) == len(data.rows), f"another number of {name}"
    parts = EmbeddingParts(Place(str(folder)))
    for number, skipped in parts.finished(parts.begin(Place("pictures"), EMBEDDER, _blocks())).items():
        assert json.dumps(skipped) == '[["x", "damaged"]]', f"part {number} says otherwise what was skipped"
