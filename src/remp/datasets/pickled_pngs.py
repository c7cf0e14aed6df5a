"""Finds the PNG pictures inside a pickle of many gigabytes without unpickling it: nothing runs, little is in memory."""

import pickletools
from dataclasses import dataclass
from pathlib import Path

from remp.strangers import border

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# bytes before the content: the opcode itself and the length
_PREFIX_BYTES = {
    "SHORT_BINSTRING": 2,
    "BINSTRING": 5,
    "SHORT_BINBYTES": 2,
    "BINBYTES": 5,
    "BINBYTES8": 9,
    "BYTEARRAY8": 9,
}


@dataclass(frozen=True)
class PickledPng:
    """Where a picture lies in its file."""

    path: Path
    offset: int
    n_bytes: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.n_bytes)


def find_pickled_pngs(path: Path) -> list[PickledPng]:
    """The pictures of a pickled list of PNG-encoded uint8 arrays, in the order of the list."""
    found = []
    with border(f"{path} is not a pickle, or it is truncated", "get it again"), path.open("rb") as file:
        for opcode, argument, position in pickletools.genops(file):
            prefix = _PREFIX_BYTES.get(opcode.name)
            if prefix and argument and position is not None and _is_png(argument):
                found.append(PickledPng(path, position + prefix, len(argument)))
    return found


def _is_png(content: bytes | str) -> bool:
    """pickletools shows strings of Python 2 as str."""
    start = content[: len(_PNG_SIGNATURE)]
    return (start.encode("latin1") if isinstance(start, str) else bytes(start)) == _PNG_SIGNATURE
