"""Which files of a result folder are still ours: those the manifest names and nobody has changed since."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

_MANIFEST = ".remp-label.json"
_LEFT_BY_SYSTEMS = {".ds_store", "desktop.ini", "thumbs.db"}


def write_manifest(folder: Path) -> None:
    """Note size and time of every file in the folder."""
    files = {name: _mark(folder / name) for name, is_folder in _walk(folder) if not is_folder}
    (folder / _MANIFEST).write_text(json.dumps({"files": files}), encoding="utf-8")


def foreign_file(folder: Path) -> str:
    """What in the folder is not ours, in words; empty if all is."""
    if folder.is_symlink() or not folder.is_dir():
        return "it is no folder"
    files = _read_manifest(folder)
    if files is None:
        return "it is no result of remp label"
    own_folders = {parent.as_posix() for name in files for parent in Path(name).parents}
    for name, is_folder in _walk(folder):
        if is_folder and name not in own_folders:
            return f"the folder {name!r} in it is not of remp"
        if not is_folder and name not in files:
            return f"{name!r} in it is not of remp"
        if not is_folder and _mark(folder / name) != files[name]:
            return f"{name!r} in it was changed"
    return ""


def delete_own(folder: Path) -> None:
    """Delete the files that the manifest names, and the folders that are empty then. Anything else stays."""
    for name in _read_manifest(folder) or {}:
        (folder / name).unlink(missing_ok=True)
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            if name == _MANIFEST or name.casefold() in _LEFT_BY_SYSTEMS:
                Path(place, name).unlink()
        if not os.listdir(place):
            os.rmdir(place)


def _read_manifest(folder: Path) -> dict[str, list[int]] | None:
    try:
        files = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # A manifest that somebody wrote by hand must not lead out of the folder.
    return {name: mark for name, mark in files.items() if not os.path.isabs(name) and ".." not in Path(name).parts}


def _walk(folder: Path) -> Iterator[tuple[str, bool]]:
    """(path below the folder with "/", whether it is a folder) of all but the manifest and what systems leave."""
    for place, folders, names in os.walk(folder):
        inner = [name for name in folders if not os.path.islink(os.path.join(place, name))]
        for name in [*folders, *names]:
            path = Path(place, name).relative_to(folder).as_posix()
            if path != _MANIFEST and name.casefold() not in _LEFT_BY_SYSTEMS:
                yield path, name in inner


def _mark(path: Path) -> list[int]:
    """Size and time of a file, or of the link itself."""
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns]
