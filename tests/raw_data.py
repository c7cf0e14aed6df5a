"""Small raw data in the layouts that users download."""

import csv
import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SPLIT_OF = {"train": ["bee", "cat"], "val": ["dog"], "test": ["elk"]}
CLASSES = ["bee", "cat", "dog", "elk"]


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def random_pixels(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


def write_cifar(
    path: Path, *, n_train: int = 3, n_test: int = 1, protocol: int = 2, members: dict | None = None
) -> np.ndarray:
    """A cifar-100-python.tar.gz of four classes; returns its rows in archive order, uint8 (n, 32, 32, 3)."""
    images = {}
    contents = {
        "meta": {b"fine_label_names": [n.encode() for n in CLASSES], b"coarse_label_names": [b"insect", b"mammal"]}
    }
    for part, n in (("train", n_train), ("test", n_test)):
        labels = list(range(4)) * n
        images[part] = np.random.default_rng(n).integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
        rows = images[part].transpose(0, 3, 1, 2).reshape(-1, 3072)
        contents[part] = {b"data": rows, b"fine_labels": labels, b"coarse_labels": [min(label, 1) for label in labels]}
    blobs = {f"cifar-100-python/{name}": pickle.dumps(content, protocol) for name, content in contents.items()}
    write_tar(path, {**blobs, **(members or {})})
    return np.concatenate([images["train"], images["test"]])


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def write_mini_images(folder: Path, *, per_class: int = 2, size: int = 84) -> None:
    (folder / "images").mkdir(parents=True)
    for split, classes in SPLIT_OF.items():
        with (folder / f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["filename", "label"])
            for name in classes:
                for i in range(per_class):
                    writer.writerow([f"{name}{i}.png", name])
                    (folder / "images" / f"{name}{i}.png").write_bytes(png(random_pixels(i, size)))


def write_mini_cache(folder: Path, *, per_class: int = 2, protocol: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, classes in SPLIT_OF.items():
        images = np.stack([random_pixels(i, 84) for _ in classes for i in range(per_class)])
        rows = {name: list(range(k * per_class, (k + 1) * per_class)) for k, name in enumerate(classes)}
        content = {"image_data": images, "class_dict": rows}
        (folder / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content, protocol))


def write_tiered(folder: Path, *, per_class: int = 2, protocol: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, classes in SPLIT_OF.items():
        pictures = [
            np.frombuffer(png(random_pixels(i, 84)), np.uint8)[:, None] for _ in classes for i in range(per_class)
        ]
        labels = np.repeat(np.arange(len(classes), dtype=np.int32), per_class)
        content = {b"label_specific": labels, b"label_specific_str": [name.encode() for name in classes]}
        (folder / f"{split}_images_png.pkl").write_bytes(pickle.dumps(pictures, protocol))
        (folder / f"{split}_labels.pkl").write_bytes(pickle.dumps(content, protocol))


def write_tree(folder: Path, classes: list[str], *, per_class: int = 2, size: int = 12) -> None:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            (folder / name / f"{i}.png").write_bytes(png(random_pixels(i, size)))
