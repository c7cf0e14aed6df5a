"""A file and the settings that are changed in it, in whatever order they were written."""

from typing import Any

from remp.errors import ConfigError


def file_and_settings(first: str | None, rest: list[str]) -> tuple[str | None, dict[str, Any]]:
    """The file, None where there is none, and the settings that flags change.

    first, rest: what the command line left over. Where a flag came before the file, the flag is the first of it.
    """
    from remp.config import parse_overrides

    flags, files = [], []
    arguments = iter([first, *rest] if first is not None else rest)
    for argument in arguments:
        if not argument.startswith("--"):
            files.append(argument)
        elif "=" in argument:
            flags.append(argument)
        else:
            flags += [argument, *(value for value in [next(arguments, None)] if value is not None)]
    if len(files) > 1:
        raise ConfigError(f"got {' and '.join(map(repr, files))}; needed one file, and settings as --name value")
    return files[0] if files else None, parse_overrides(flags)
