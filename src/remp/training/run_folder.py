"""The folder of a run: resolved settings, log, checkpoints. What exists is never overwritten unasked."""

import json
import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from remp.config import RunConfig, load_config
from remp.errors import TrainingError
from remp.system.files import write_atomically


class RunFolder:
    """runs/NAME: config.yaml, log.jsonl, best.safetensors (to use), last.safetensors (to resume)."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.best = self.path / "best.safetensors"
        self.last = self.path / "last.safetensors"
        self._log = self.path / "log.jsonl"
        self._board: Any = None

    def refuse_if_used(self) -> None:
        # what is hidden was left behind by a write that was killed
        is_free = self.path.is_dir() and all(path.name.startswith(".") for path in self.path.iterdir())
        if self.path.exists() and not is_free:
            raise TrainingError(
                f"{self.path} exists and is not empty; continue it with --resume {shlex.quote(str(self.path))}, "
                "or give another --out"
            )

    def start(self, config: RunConfig) -> None:
        """Make the folder and write the resolved settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.config, config.yaml().encode())
        self.log({"event": "started", "config": config.flat()})

    def discard(self) -> None:
        """Take away what `start` made, if there are no weights yet: the next run may have the same name."""
        if not self.last.exists() and not self.best.exists():
            for path in (self.config, self._log):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # somebody else's file is in it
                self.path.rmdir()

    def read_config(self) -> RunConfig:
        """The settings the run was started with."""
        if not self.config.is_file():
            raise TrainingError(
                f"{self.path} is not the folder of a run: it has no {self.config.name}. "
                "Give the folder that remp train wrote"
            )
        return load_config(self.config)

    def log(self, entry: dict[str, Any]) -> None:
        """Append a line to log.jsonl, and numbers to TensorBoard where it is installed."""
        line = json.dumps({"time": round(time.time(), 1), **entry}) + "\n"
        with self._log.open("a+b") as file:
            file.write((b"\n" if _ends_within_a_line(file) else b"") + line.encode())
        if entry.get("event") == "validation":
            self._to_tensorboard(entry)

    def _to_tensorboard(self, entry: dict[str, Any]) -> None:
        if self._board is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                self._board = False
            else:
                self._board = SummaryWriter(str(self.path / "tensorboard"))
        if self._board:
            for name, value in entry.items():
                if isinstance(value, int | float) and name != "episodes":
                    self._board.add_scalar(name, value, entry["episodes"])
            self._board.flush()


def _ends_within_a_line(file: BinaryIO) -> bool:
    """Whether the last write to the file was cut short, by a kill or a full disk."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"
