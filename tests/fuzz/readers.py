"""Every reader of remp with good files for it: what is read from a damaged one is right, or an error of remp."""

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from fuzz.mutation import Damage, damaged, damaged_json, damaged_safetensors, within
from fuzz.own_files import (
    VALUES,
    damaged_journal,
    damaged_part,
    read_caches,
    read_journal,
    read_labellings,
    read_parts,
    read_prepared,
    read_result,
    write_caches,
    write_journal,
    write_labellings,
    write_parts,
    write_prepared,
    write_result,
)
from raw_data import SPLIT_OF, png, random_pixels, write_cifar, write_mini_cache, write_tiered
from remp.backbones.efficientnet_lite import read_weights
from remp.checkpoint import load_trained, write_checkpoint
from remp.config import load_config, make_config
from remp.datasets import cifar, mini_imagenet, tiered_imagenet
from remp.datasets.archives import open_members
from remp.datasets.base import ImageSet
from remp.datasets.decode import HEIC, decode, reads_heic
from remp.datasets.raw import RawSet, ReadOptions
from remp.datasets.safe_pickle import as_text, load_pickle
from remp.episodes import EpisodeSampler, Protocol
from remp.episodes.files import load_episodes, save_episodes
from remp.labelling.tasks.embeddings import embedding_task
from remp.labelling.tasks.label_table import ID_COLUMNS, read_label_studio, read_label_table
from remp.trained import build_method


@dataclass(frozen=True)
class Reader:
    """write: puts good files into an empty folder and returns those to damage. read: reads the folder and raises
    AssertionError for what is wrong without a word. damage: of the bytes of one file."""

    write: Callable[[Path], list[Path]]
    read: Callable[[Path], object]
    damage: Damage = damaged


SETTINGS = {"data": "toy", "width": 4, "n_way": 3, "validation_way": 3}
SIZE = (16, 16, 3)


# Pickles and the data sets that come as such


def _write_pickles(folder: Path) -> list[Path]:
    contents: list[Any] = [
        {"data": np.arange(12, dtype=np.uint8).reshape(3, 4), "labels": [1, 2, 3], "names": {"a", "b"}},
        [b"bytes", "text", 1.5, None, (1, (2, 3)), {1: {2: [3]}}, np.float32(2), np.array(["x", "yz"])],
    ]
    paths = [folder / f"{i}-{protocol}.pkl" for i in range(len(contents)) for protocol in range(6)]
    for path in paths:
        path.write_bytes(pickle.dumps(contents[int(path.name[0])], int(path.name[2])))
    return paths


def _read_pickles(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            as_text(load_pickle(file, str(path)))


def _use_four_classes() -> None:
    """Small data sets in place of the published ones; the process is one of the fuzzer's own."""
    superclasses = {"train": ["mammal"], "val": ["insect"], "test": ["insect"]}
    lists = {"cifar-fs": SPLIT_OF, "fc100": superclasses, "mini-imagenet": SPLIT_OF}
    for module in (cifar, mini_imagenet):
        module.read_split_list = lists.__getitem__  # type: ignore[attr-defined]
    cifar._IMAGES_PER_CLASS, mini_imagenet._IMAGES_PER_CLASS = 4, 2
    tiered_imagenet._N_CLASSES = {split: len(names) for split, names in SPLIT_OF.items()}


def _all_images(raw: RawSet) -> None:
    for classes in raw.splits.values():
        assert classes, "a split without classes"
        for found in classes.values():
            assert found.images().shape[0] == found.count, "another number of images than said"


def _write_cifar(folder: Path) -> list[Path]:
    for protocol in (2, 4):
        write_cifar(folder / f"{protocol}.tar.gz", protocol=protocol)
    return list(folder.iterdir())


def _damage_member(content: bytes, random: np.random.Generator) -> bytes:
    """Damage one member of a tar, and write the others as they were."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    name = list(members)[random.integers(len(members))]
    members[name] = damaged(members[name], random)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, part in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(part)
            archive.addfile(info, io.BytesIO(part))
    return buffer.getvalue()


def _read_cifar(folder: Path) -> None:
    _use_four_classes()
    for path in folder.iterdir():
        _all_images(cifar.read_cifar_fs(path, ReadOptions()))
        _all_images(cifar.read_fc100(path, ReadOptions()))


def _write_mini(folder: Path) -> list[Path]:
    write_mini_cache(folder)
    return list(folder.iterdir())


def _read_mini(folder: Path) -> None:
    _use_four_classes()
    _all_images(mini_imagenet.read_mini_imagenet(folder, ReadOptions()))


def _write_tiered(folder: Path) -> list[Path]:
    write_tiered(folder)
    return list(folder.iterdir())


def _read_tiered(folder: Path) -> None:
    _use_four_classes()
    _all_images(tiered_imagenet.read_tiered_imagenet(folder, ReadOptions()))


# Archives and pictures

MEMBERS = {"a/one.txt": b"1" * 900, "a/b/two.png": png(random_pixels(0, 9)), "c.csv": b"x,y\n1,2\n" * 30}


def _write_archives(folder: Path) -> list[Path]:
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in MEMBERS.items():
            archive.writestr(name, content)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        with tarfile.open(folder / f"{form}.tar", "w", format=form) as archive:
            for name, content in MEMBERS.items():
                info = tarfile.TarInfo(name * (1 if form == tarfile.USTAR_FORMAT else 20))
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    plain = (folder / f"{tarfile.PAX_FORMAT}.tar").read_bytes()
    for end, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        (folder / f"x.tar.{end}").write_bytes(pack(plain))
    return list(folder.iterdir())


def _damage_archive(content: bytes, random: np.random.Generator) -> bytes:
    if content.startswith(b"\x1f\x8b"):
        return within(lambda plain: gzip.compress(plain, 1), gzip.decompress)(content, random)
    return damaged(content, random)


def _read_archives(folder: Path) -> None:
    for path in folder.iterdir():
        members = open_members(path)
        for name in members.names():
            content = members.read(name)
            if path.suffix == ".zip" and name in MEMBERS:
                assert content == MEMBERS[name], f"{name} has another content"


def _write_pictures(folder: Path) -> list[Path]:
    pixels = Image.fromarray(random_pixels(1, 24))
    modes: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "PNG": [("RGB", {}), ("RGBA", {}), ("P", {"transparency": 3}), ("I;16", {}), ("1", {}), ("LA", {})],
        "JPEG": [("RGB", {}), ("CMYK", {}), ("L", {"progressive": True})],
        "GIF": [("P", {}), ("L", {"save_all": True, "append_images": [pixels.convert("L")]})],
        "WEBP": [("RGB", {}), ("RGBA", {"lossless": True})],
        "TIFF": [("RGB", {"compression": kind}) for kind in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits")]
        + [("F", {}), ("I;16", {}), ("CMYK", {})],
        "BMP": [("RGB", {}), ("P", {}), ("1", {})],
        "PPM": [("RGB", {}), ("L", {}), ("1", {})],
    }
    paths = []
    for kind, variants in modes.items():
        for number, (mode, settings) in enumerate(variants):
            deep = Image.fromarray(np.arange(576, dtype=np.uint16).reshape(24, 24) * 113)
            image = deep if mode == "I;16" else pixels.convert(mode)
            exif = Image.Exif()
            exif[0x0112] = 6
            more = {"exif": exif} if kind in ("PNG", "JPEG", "WEBP", "TIFF") else {}
            paths.append(folder / f"{kind}{number}.pic")
            image.save(paths[-1], kind, **settings, **more)
    return paths


def _write_heic(folder: Path) -> list[Path]:
    image = Image.fromarray(random_pixels(1, 64))
    exif = Image.Exif()
    exif[0x0112] = 6
    paths = [folder / f"{mode}.heic" for mode in ("RGB", "RGBA", "L")]
    for path in paths:
        image.convert(path.stem).save(path, "HEIF", quality=60, exif=exif)
    return paths


def _damage_picture(content: bytes, random: np.random.Generator) -> bytes:
    """Of a PNG the check sums are set right again, so that what they guard is reached too."""
    made = bytearray(damaged(content, random))
    if not made.startswith(b"\x89PNG") or random.random() < 0.2:
        return bytes(made)
    start = 8
    while start + 12 <= len(made):
        (length,) = struct.unpack(">I", made[start : start + 4])
        end = start + 8 + length
        made[end : end + 4] = struct.pack(">I", zlib.crc32(made[start + 4 : end]))
        start = end + 4
    return bytes(made)


def _read_pictures(folder: Path) -> None:
    for path in folder.iterdir():
        for size, channels in ((16, 3), (84, 1)):
            pixels = decode(path.read_bytes(), str(path), size, channels=channels)
            assert (pixels.shape, pixels.dtype) == ((size, size, channels), np.uint8), "another shape"


# Checkpoints, weights, episodes


def _write_checkpoint(folder: Path) -> list[Path]:
    config = make_config(SETTINGS)
    info = {
        "config": config.flat(), "n_classes": 3, "image_size": list(SIZE), "mean": [0.5] * 3, "std": [0.2] * 3,
        "class_names": ["a", "b", "c"], "history": [{"episodes": 1, "accuracy": 0.5}], "done": 3, "best": 0.5,
    }  # fmt: skip
    weights = {f"weights/{name}": t for name, t in build_method(config, SIZE, 3).state_dict().items()}
    write_checkpoint(folder / "model.safetensors", weights, info)
    return [folder / "model.safetensors"]


def _read_checkpoint(folder: Path) -> None:
    trained = load_trained(folder / "model.safetensors")
    with torch.inference_mode():
        images = trained.normalisation(torch.zeros(1, *trained.image_size, dtype=torch.uint8))
        if images.numel() < 10**6:
            assert not trained.method.embed(images).isnan().any(), "features that are no numbers"


def _write_weights(folder: Path) -> list[Path]:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4)}
    torch.save(tensors, folder / "zip.pth")
    torch.save(tensors, folder / "old.pth", _use_new_zipfile_serialization=False)
    return list(folder.iterdir())


def _read_weights(folder: Path) -> None:
    for path in folder.iterdir():
        read_weights(path)


def _episodes(folder: Path) -> tuple[EpisodeSampler, Any]:
    labels = np.repeat(np.arange(6), 10)
    images = ImageSet(
        "toys", "test", np.zeros((60, 2, 2, 1), np.uint8), labels, tuple("abcdef"), "f1" * 32, (0.5,), (1.0,)
    )
    return EpisodeSampler(labels, Protocol(3, 2, 4), seed=3), images


def _write_episodes(folder: Path) -> list[Path]:
    sampler, images = _episodes(folder)
    save_episodes(folder / "x.episodes", sampler.sample(4), sampler.protocol, images, seed=3)
    return [folder / "x.episodes"]


def _read_episodes(folder: Path) -> None:
    sampler, images = _episodes(folder)
    file, drawn = load_episodes(folder / "x.episodes", images), sampler.sample(4)
    for name in ("support", "support_labels", "query", "query_labels", "class_ids"):
        assert torch.equal(getattr(file.episodes, name), getattr(drawn, name)), f"another {name}"


# Tables


def _write_arrays(folder: Path) -> list[Path]:
    np.save(folder / "a.npy", VALUES)
    np.save(folder / "f.npy", np.asfortranarray(VALUES.astype(">f8")))
    np.savez(folder / "a.npz", VALUES)
    np.savez_compressed(folder / "c.npz", VALUES)
    return list(folder.iterdir())


def _read_arrays(folder: Path) -> None:
    labels = folder.parent / "labels.csv"
    labels.write_text("row,label\n0,a\n1,b\n")
    for path in folder.iterdir():
        _, rows = embedding_task(path, labels)
        taken = rows.take([0, len(rows) - 1])
        assert taken.shape == (2, rows.dim), "another shape"
        if path.suffix == ".npz" and len(rows) == len(VALUES):
            np.testing.assert_array_equal(rows.take(range(len(rows))).numpy(), VALUES)


def _write_parquet(folder: Path) -> list[Path]:
    given = ["x", None, "y", "z"] * 5
    table = pyarrow.table({"embedding": list(VALUES), "id": [str(i) for i in range(20)], "label": given})
    columns = pyarrow.table({**{f"f{i}": VALUES[:, i] for i in range(4)}, "label": given})
    for compression in ("none", "snappy", "gzip", "zstd"):
        pyarrow.parquet.write_table(table, folder / f"l-{compression}.parquet", compression=compression)
        pyarrow.parquet.write_table(
            columns, folder / f"c-{compression}.parquet", compression=compression, row_group_size=7
        )
    return list(folder.iterdir())


def _read_parquet(folder: Path) -> None:
    for path in folder.iterdir():
        task, rows = embedding_task(path, None)
        assert len(task.names) == len(rows), "another number of names"
        assert sum(len(chunk) for chunk in rows.chunks()) == len(rows), "another number of rows"
        assert rows.take([len(rows) - 1]).shape == (1, rows.dim), "another shape"


def _write_csv(folder: Path) -> list[Path]:
    with (folder / "y.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["file", "label"], ["a.jpg", "cat"], ["ä \n,;.jpg", 'dog"s'], ["c.jpg", ""], ["d", "=1+1"]])
    (folder / "z.csv").write_bytes(b"\xef\xbb\xbfname;class\r\n1;a\r\n\r\n2;b\r\n")
    return list(folder.iterdir())


def _read_csv(folder: Path) -> None:
    for path in folder.iterdir():
        for row in read_label_table(path, ("row", *ID_COLUMNS)):
            assert row.key, "a row without a key"


def _write_label_studio(folder: Path) -> list[Path]:
    data = {"image": "/data/local-files/?d=pictures/a.jpg"}
    choice = {"value": {"choices": ["cat"]}, "from_name": "label", "to_name": "image", "type": "choices"}
    annotations = [{"id": 1, "was_cancelled": False, "result": [choice]}, {"id": 2, "was_cancelled": True}]
    full = [{"id": 1, "data": data, "annotations": annotations}, {"id": 2, "data": {"image": "b.jpg"}}]
    short = [{"image": "a.jpg", "choice": "cat"}, {"image": "sub/b.jpg", "label": "dog"}]
    for name, tasks in (("full", full), ("short", short)):
        (folder / f"{name}.json").write_text(json.dumps(tasks))
    return list(folder.iterdir())


def _read_label_studio(folder: Path) -> None:
    for path in folder.iterdir():
        for row in read_label_studio(path):
            assert row.key, "a row without a picture"
            assert row.label is None or (isinstance(row.label, str) and row.label), "a label that is no name"


def _write_settings(folder: Path) -> list[Path]:
    (folder / "run.yaml").write_text(make_config({"data": "toy"}).yaml())
    return [folder / "run.yaml"]


def _read_settings(folder: Path) -> None:
    load_config(folder / "run.yaml")


READERS: dict[str, Reader] = {
    "pickles": Reader(_write_pickles, _read_pickles),
    "cifar": Reader(_write_cifar, _read_cifar, _damage_member),
    "mini-imagenet": Reader(_write_mini, _read_mini),
    "tiered-imagenet": Reader(_write_tiered, _read_tiered),
    "archives": Reader(_write_archives, _read_archives, _damage_archive),
    "pictures": Reader(_write_pictures, _read_pictures, _damage_picture),
    "checkpoints": Reader(_write_checkpoint, _read_checkpoint, damaged_safetensors),
    "weights": Reader(_write_weights, _read_weights),
    "episodes": Reader(_write_episodes, _read_episodes, damaged_safetensors),
    "arrays": Reader(_write_arrays, _read_arrays),
    "parquet": Reader(_write_parquet, _read_parquet),
    "csv": Reader(_write_csv, _read_csv),
    "settings": Reader(_write_settings, _read_settings),
    "caches": Reader(write_caches, read_caches),
    "prepared": Reader(write_prepared, read_prepared, damaged_json),
    "labellings": Reader(write_labellings, read_labellings, damaged_safetensors),
    "results": Reader(write_result, read_result, damaged_json),
    "journals": Reader(write_journal, read_journal, damaged_journal),
    "parts": Reader(write_parts, read_parts, damaged_part),
    "label-studio": Reader(_write_label_studio, _read_label_studio, damaged_json),
    "heic": Reader(_write_heic, _read_pictures),
}

# Readers that need a package that is not installed, with the reason.
MISSING: dict[str, str] = {} if reads_heic() else {"heic": HEIC}

__all__ = ["MISSING", "READERS", "Reader"]
