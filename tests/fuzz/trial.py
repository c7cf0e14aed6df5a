"""One damaged file at a time: damaged, read, measured."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bounds import MEBIBYTES, SECONDS, measured
from fuzz.readers import READERS


@dataclass(frozen=True)
class Trial:
    """How reading damaged file number `number` ended."""

    reader: str
    number: int
    kind: str
    text: str
    seconds: float
    mebibytes: float

    @property
    def is_finding(self) -> bool:
        """Whether a promise was broken."""
        return self.kind == "foreign" or self.seconds > SECONDS or self.mebibytes > MEBIBYTES or not self._names_it

    @property
    def _names_it(self) -> bool:
        return self.kind == "result" or "remp-fuzz-" in self.text  # the folder of the file


class Fuzzer:
    """Files of one reader in a folder of its own, damaged one by one."""

    def __init__(self, reader: str, seed: int = 0) -> None:
        self.reader, self.seed = reader, seed
        self._root = Path(tempfile.mkdtemp(prefix="remp-fuzz-"))
        os.environ["REMP_HOME"] = str(self._root / "home")
        (self._root / "good" / "x").mkdir(parents=True)
        self._targets = [path.relative_to(self._root / "good") for path in self._write()]
        self._contents = {path: (self._root / "good" / path).read_bytes() for path in self._targets}

    def _write(self) -> list[Path]:
        return sorted(READERS[self.reader].write(self._root / "good" / "x"))

    def input(self, number: int) -> tuple[Path, bytes]:
        """Which file is damaged, and what becomes of it."""
        random = np.random.default_rng([self.seed, list(READERS).index(self.reader), number])
        target = self._targets[random.integers(len(self._targets))]
        return target, READERS[self.reader].damage(self._contents[target], random)

    def run(self, number: int) -> Trial:
        target, content = self.input(number)
        folder = self._root / "bad"
        shutil.rmtree(folder, ignore_errors=True)
        for path in self._targets if self._needs_all else [target]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content if path == target else self._contents[path])
        started = time.process_time()
        kind, text, peak = measured(lambda: READERS[self.reader].read(folder / "x"))
        return Trial(self.reader, number, kind, text, time.process_time() - started, peak)

    @property
    def _needs_all(self) -> bool:
        """Whether the files belong together, rather than each being an example of its own."""
        return self.reader in ("mini-imagenet", "tiered-imagenet", "caches", "prepared", "results", "parts")

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
