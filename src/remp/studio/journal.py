"""Everything that was done: actions as they come from the page, a verb and what it is about, checked and applied; and
the file that they are appended to, so that closing the page or a power cut loses nothing."""

import errno
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from remp.errors import ConfigError, DataError
from remp.studio.state import StudioState

Action = Mapping[str, Any]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"needed a list of pictures, got {type(value).__name__}")
    return value


def _lists(value: Any) -> dict[str, list[Any]]:
    if not isinstance(value, dict):
        raise ConfigError(f"needed pictures for each class, got {type(value).__name__}")
    return {name: _list(items) for name, items in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"needed text, got {type(value).__name__}")
    return value


# The verbs: what each does, and what it needs for that, with a check of each.
VERBS: dict[str, tuple[Callable[..., object], dict[str, Callable[[Any], Any]]]] = {
    "label": (StudioState.label, {"items": _list, "class": _text}),
    "accept": (StudioState.accept, {"classes": _lists}),
    "clear": (StudioState.clear, {"items": _list}),
    "unknown": (StudioState.mark_unknown, {"items": _list}),
    "rename": (StudioState.rename, {"class": _text, "to": _text}),
    "merge": (StudioState.merge, {"class": _text, "into": _text}),
    "delete": (StudioState.delete, {"class": _text}),
    "colour": (StudioState.recolour, {"class": _text, "colour": _text}),
    "dismiss": (StudioState.dismiss, {"finding": _text}),
    "undo": (StudioState.undo, {}),
    "redo": (StudioState.redo, {}),
}


def apply(state: StudioState, action: Action) -> None:
    """Change the state as an action says; items are numbers. Raises ConfigError and leaves the state for a bad one."""
    verb = action.get("do") if isinstance(action, Mapping) else None  # type: ignore[redundant-expr]
    if not isinstance(verb, str) or verb not in VERBS:
        raise ConfigError(f"got the action {str(verb)[:40]!r}; needed one of {', '.join(VERBS)}")
    change, needed = VERBS[verb]
    missing = [name for name in needed if name not in action]
    if missing:
        raise ConfigError(f"the action {verb!r} needs {missing[0]!r}")
    change(state, *(check(action[name]) for name, check in needed.items()))


def as_needed(action: Action) -> dict[str, Any]:
    """The action without what its verb does not look at: nothing of that is kept."""
    return {key: action[key] for key in ("do", "view", *VERBS[action["do"]][1]) if key in action}


def with_names(action: Action, names: Sequence[str]) -> dict[str, Any]:
    """The action with names of items in place of numbers: what a journal holds, since numbers change when pictures are
    added."""
    return _with_items(action, lambda items: [names[item] for item in items])


def named_items(action: Action) -> set[str]:
    """The names of the items of an action in which they got a class."""
    named = action.get("items", ()) if action.get("do") == "label" else ()
    lists = action.get("classes", {}).values() if action.get("do") == "accept" else [named]
    return {name for names in lists for name in names if isinstance(name, str)}


def with_numbers(action: Action, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The action with numbers of items in place of names; names that are gone are left out."""
    return _with_items(action, lambda items: [numbers[name] for name in items if name in numbers])


def _with_items(action: Action, translate: Any) -> dict[str, Any]:
    changed = dict(action)
    if "items" in action:
        changed["items"] = translate(action["items"])
    if "classes" in action:
        changed["classes"] = {name: translate(items) for name, items in action["classes"].items()}
    return changed


_FORMAT = 1
# Pictures whose bytes tell whether a journal belongs to a collection, and the share of them that has to fit.
_WITNESSES, _FITTING = 32, 0.5
_STARTED = re.compile(rb'[0-9a-f]{8} \{"journal"[^\n]*')  # a first line that was cut off: nothing is lost with it


class Journal:
    """Lines of `CHECKSUM JSON`. A line whose sum is wrong was cut off by a crash or a full disk; it is passed over.

    entries: what was there when the journal was opened. n_damaged: lines that were passed over. problem: why the last
    lines are not on the disk; they are kept, and written with the next ones.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        self.n_damaged, self.problem = 0, ""
        self._header: dict[str, Any] | None = None
        self._waiting = bytearray()
        self._read()

    @property
    def made_with(self) -> dict[str, Any]:
        """The backbone and the side that the journal was started with, as far as it says."""
        header = self._header or {}
        return {key: header[key] for key in ("backbone", "side") if header.get(key) is not None}

    def given_labels(self, asked: Path | None) -> Path | None:
        """The file of labels that the journal was started with; for a journal without an action, the one that is asked
        for, if any. Raises DataError if it has changed since, or if another one is asked for."""
        if self._header is None or (asked is not None and self._is_idle):
            return asked
        kept, their_hash = self._header.get("labels"), self._header.get("labels_hash")
        if kept is None and asked is None:
            return None
        path = asked or Path(str(kept))
        if their_hash is None or _hash_of(path) != their_hash:
            started = "without a file of labels" if kept is None else f"with the labels of {kept}"
            what = f"{asked} is another file" if asked else "that file is gone or has changed"
            how = "leave --labels out" if kept is None else "put it back"
            raise DataError(f"{self.path} was started {started}, and {what}: give another --out, or {how}")
        return path

    @property
    def _is_idle(self) -> bool:
        """Whether nothing was done since the journal was started."""
        return not self.entries and not self.n_damaged

    def check(self, folder: Path, names: Sequence[str], made_with: Mapping[str, Any] | None = None) -> None:
        """Raise DataError if this is the journal of another collection; start a new one with what tells that.

        made_with: the backbone, the side and the file of labels, to be kept in a new journal; one without an action is
        started anew.
        """
        if made_with is not None and self._is_idle and self._header and self._header.get("journal") == _FORMAT:
            self.path.unlink(missing_ok=True)
            self._header = None
        if self._header is None:
            spread = names[:: max(1, len(names) // _WITNESSES)][:_WITNESSES]
            witnesses = {name: witness for name in spread if (witness := _witness(folder / name))}
            self._header = {"journal": _FORMAT, "folder": str(folder), **(made_with or {}), "witnesses": witnesses}
            self.append(self._header)
            return
        if self._header.get("journal") != _FORMAT:
            raise DataError(
                f"{self.path} is of another version of remp ({self._header.get('journal')!r}, this one reads "
                f"{_FORMAT}): give another --out, or move it away"
            )
        witnesses = self._header.get("witnesses", {})
        if not isinstance(witnesses, dict):
            raise DataError(f"{self.path} is not a journal of remp studio: give another --out, or move it away")
        fitting = [name for name, witness in witnesses.items() if _witness(folder / name) == witness]
        if witnesses and len(fitting) < _FITTING * len(witnesses):
            raise DataError(
                f"{self.path} is the journal of another collection ({self._header.get('folder')}): {len(fitting)} of "
                f"{len(witnesses)} pictures in it are in {folder}. Give another --out, or move it away"
            )

    def append(self, entry: dict[str, Any]) -> None:
        """Keep an entry. A disk that takes nothing is no error: `problem` says so, and the entry waits."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        self._waiting += b"%08x %b\n" % (zlib.crc32(text), text)
        self.retry()

    def retry(self) -> None:
        """Try again to write what waits, from where the last try ended, and to have it on the disk."""
        if not self._waiting and not self.problem:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
            try:
                while self._waiting:
                    n_bytes = os.write(file, self._waiting)
                    if not n_bytes:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    del self._waiting[:n_bytes]
                os.fsync(file)
            finally:
                os.close(file)
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise DataError(f"the journal {self.path} cannot be read: {error.strerror}. Give another --out") from error
        if content and not content.endswith(b"\n"):
            self._waiting += b"\n"  # ends the line that was cut off
        for line in content.split(b"\n"):
            entry = _parsed(line)
            if entry is None:
                self.n_damaged += bool(line)
            elif self._header is None and "journal" in entry:
                self._header = entry
            else:
                self.entries.append(entry)
        if content and self._header is None and not _STARTED.fullmatch(content):
            raise DataError(f"{self.path} is not a journal of remp studio: give another --out, or move it away")


def _parsed(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def labels_header(path: Path | None) -> dict[str, str]:
    """What a new journal keeps of the file of labels that it is started with."""
    return {"labels": str(path.absolute()), "labels_hash": _hash_of(path)} if path else {}


def _hash_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _witness(path: Path) -> str:
    """A hash of the start of a file; empty for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.blake2b(file.read(1 << 16), digest_size=8).hexdigest()
    except (OSError, ValueError):
        return ""
