"""How many changed copies of pictures are found as near duplicates, and which different ones are taken for such.

    python benchmarks/near_duplicates.py mini-imagenet [--split val] [--n 500] [--seed 7] [--backbone NAME]

Takes n different pictures of a prepared data set, and of 30 of them a copy that was changed: 3, 5 or 8 % of each side
cut off, 12 % of the left side and 6 % of the upper and the lower one, encoded again (JPEG, quality 60), scaled to 70 %.
Prints for each kind of copy how many are found with their original, and which other pictures are put into a group: look
at these before you call them false.
"""

import argparse
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from remp.datasets import open_data
from remp.labelling.embedding.pictures import read_picture
from remp.labelling.quality.duplicates import find_duplicates
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.rectification.transform import FeatureTransform

COPIES = 30


def cut(left: float, top: float, right: float, bottom: float) -> Callable[[Image.Image], Image.Image]:
    return lambda image: image.crop(
        (
            round(left * image.width),
            round(top * image.height),
            image.width - round(right * image.width),
            image.height - round(bottom * image.height),
        )
    )


def encode_again(image: Image.Image) -> Image.Image:
    content = io.BytesIO()
    image.save(content, "JPEG", quality=60)
    return Image.open(content)


def scale(image: Image.Image) -> Image.Image:
    return image.resize((round(0.7 * image.width), round(0.7 * image.height)), Image.Resampling.LANCZOS)


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    **{f"{share:.0%} of each side cut off": cut(share, share, share, share) for share in (0.03, 0.05, 0.08)},
    "left 12 %, top and bottom 6 % cut off": cut(0.12, 0.06, 0.0, 0.06),
    "encoded again": encode_again,
    "scaled to 70 %": scale,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--split", default="val")
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--backbone", default=DEFAULT_EMBEDDER)
    arguments = parser.parse_args()
    images = open_data(arguments.data, arguments.split).images
    chosen = np.random.default_rng(arguments.seed).permutation(len(images))[: arguments.n]
    with tempfile.TemporaryDirectory() as folder:
        measure(
            [Image.fromarray(np.squeeze(images[number])).convert("RGB") for number in chosen], Path(folder), arguments
        )


def measure(pictures: list[Image.Image], folder: Path, arguments: argparse.Namespace) -> None:
    paths, kinds = [], [""] * len(pictures)
    kinds += [kind for kind in CHANGES for _ in range(COPIES)]
    pictures = pictures + [change(picture) for change in CHANGES.values() for picture in pictures[:COPIES]]
    for number, picture in enumerate(pictures):
        paths.append(folder / f"{number}.png")
        picture.save(paths[-1])
    embedder, power = find_embedder(arguments.backbone), FeatureTransform.parse("power")
    read = [read_picture(path, embedder.side) for path in paths]
    rows = np.concatenate(
        [embedder.embed(np.stack([one.pixels for one in read[i : i + 16]])) for i in range(0, len(read), 16)]
    )
    rows, hashes = power.features(torch.from_numpy(rows)), np.array([one.picture for one in read], np.uint64)
    for kind in ("", *CHANGES):
        used = np.flatnonzero([one in ("", kind) for one in kinds])
        files = [paths[i] for i in used]
        near = find_duplicates(len(used), None, hashes[used], lambda items, used=used: rows[used[items]], files).near
        groups = [set(group.tolist()) for group in near]
        found = sum(any({i, arguments.n + i} <= group for group in groups) for i in range(COPIES)) if kind else 0
        others = [
            [files[i].name for i in sorted(group)] for group in groups if len({i % arguments.n for i in group}) > 1
        ]
        print(
            f"{kind or 'no copies'}: {found} of {COPIES if kind else 0} found; groups of others: {others}", flush=True
        )


if __name__ == "__main__":
    main()
