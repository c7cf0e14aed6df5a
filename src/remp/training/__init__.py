"""Train a method, or continue a run: settings in, the path of the best checkpoint out."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from remp.config import RunConfig, load_config, make_config, replaced
from remp.datasets import ImageSet, open_data
from remp.errors import ConfigError
from remp.methods import Method, make_known
from remp.system.files import remove_partial
from remp.training.processes import Processes
from remp.training.run_folder import RunFolder
from remp.training.trainer import Trainer

SHARE_FOR_STEPS = 0.9  # of a budget of time; the rest is for validation and checkpoints
_MOST = 1e12  # episodes or seconds
_UNITS = {"h": 3600, "m": 60, "s": 1}  # by their first letter
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(h|hours?|min|m|minutes?|s|sec|seconds?)(?![a-z])\s*")


def train(
    config: RunConfig | Mapping[str, Any] | str | Path,
    *,
    method: type[Method] | None = None,
    out: str | Path | None = None,
    budget: str | int | None = None,
    train_set: ImageSet | None = None,
    validation_set: ImageSet | None = None,
    print_settings: bool = True,
) -> Path:
    """Train a method and keep the weights that are best on validation classes (or the last ones, if `keep` says so).

    Parameters
    ----------
    config : mapping, str, Path or RunConfig
        Settings, as a flat mapping or the path of a YAML file. The error for an unknown name
        suggests the nearest known one.
    method : class, optional
        A subclass of `Method` of your own, in place of the one that the settings name. Arguments of its constructor
        that have a default are settings of the run, too.
    out : str or Path, optional
        Folder of the run. Default: runs/<data>-<method>-<n_shot>shot.
    budget : str or int, optional
        A time ("1h", "30min", "300s") or episodes (20000) instead of the `episodes` of the settings; milestones move in
        proportion.
    train_set, validation_set : ImageSet, optional
        Default: the splits train and val of the data set that the settings name. The test split is never opened.
    print_settings : bool
        Whether to print the resolved settings.

    Returns
    -------
    Path
        The checkpoint with the best weights, for `load`.

    Examples
    --------
    >>> import tempfile
    >>> import remp
    >>> settings = {"data": "glyphs", "width": 8, "n_way": 5, "n_query": 2, "episodes": 4, "validation_episodes": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = remp.train(settings, out=f"{folder}/run", print_settings=False)  # doctest: +ELLIPSIS
    ...     checkpoint.name
          4 episodes ...
    'best.safetensors'
    """
    settings = _as_config(config, method)
    _check_first_share(settings)
    train_set = train_set or open_data(settings.data, "train")
    validation_set = validation_set or open_data(settings.data, "val")
    folder = RunFolder(Path(out or f"runs/{settings.data}-{settings.method}-{settings.n_shot}shot"))
    folder.refuse_if_used()
    processes = Processes(settings.precision)
    settings = processes.share_episodes(settings)
    if budget is not None:
        sets = train_set, validation_set
        settings = with_budget(settings, budget, lambda: _seconds_per_episode(settings, *sets, processes))
    trainer = Trainer(settings, train_set, validation_set, folder, processes)
    if processes.rank == 0:
        folder.start(settings)
        if print_settings:
            print(settings.yaml(), flush=True)
    try:
        return trainer.run()
    except Exception:
        if processes.rank == 0 and trainer.done == 0:
            folder.discard()
        raise


def resume(
    run: str | Path,
    *,
    method: type[Method] | None = None,
    train_set: ImageSet | None = None,
    validation_set: ImageSet | None = None,
) -> Path:
    """Continue an interrupted run to the same weights as if it had never been interrupted.

    A run that was killed before its first checkpoint starts over; one that is complete returns at once.

    Parameters
    ----------
    run : str or Path
        The folder of the run.
    method : class, optional
        The class it is trained with, if that is one of your own.
    train_set, validation_set : ImageSet, optional
        As in `train`.

    Returns
    -------
    Path
        The checkpoint with the best weights.

    Examples
    --------
    >>> import tempfile
    >>> import remp
    >>> settings = {"data": "glyphs", "width": 8, "n_way": 5, "n_query": 2, "episodes": 4, "validation_episodes": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = remp.train(settings, out=f"{folder}/run", print_settings=False)  # doctest: +ELLIPSIS
    ...     remp.resume(f"{folder}/run") == checkpoint  # it was complete
          4 episodes ...
    True
    """
    if method is not None:
        make_known(method)
    folder = RunFolder(Path(run))
    config = folder.read_config()
    train_set = train_set or open_data(config.data, "train")
    validation_set = validation_set or open_data(config.data, "val")
    processes = Processes(config.precision)
    trainer = Trainer(processes.share_episodes(config), train_set, validation_set, folder, processes)
    if folder.last.exists():
        trainer.restore()
    if processes.rank == 0:
        remove_partial(folder.path)
        folder.log({"event": "resumed", "episodes": trainer.done})
    return trainer.run()


def _as_config(config: RunConfig | Mapping[str, Any] | str | Path, method: type[Method] | None) -> RunConfig:
    changes = {} if method is None else {"method": make_known(method)}
    if isinstance(config, str | Path):
        return load_config(Path(config), changes)
    if isinstance(config, RunConfig) and not changes:
        return config
    given = config.flat() if isinstance(config, RunConfig) else config
    return make_config(replaced(given, changes))


def _check_first_share(config: RunConfig) -> None:
    """Not when settings are made: checkpoints may hold such, and can be loaded."""
    names = ("first_way", "first_shot", "first_query", "first_side")
    given = [f"{name}: {getattr(config, name)}" for name in names if getattr(config, name) is not None]
    if given and not config.first_share:
        raise ConfigError(
            f"got {', '.join(given)}, but first_share is 0, so that there are no such first episodes: set first_share, "
            "e.g. to 0.2, or leave the others out"
        )


def with_budget(config: RunConfig, budget: str | int, seconds_per_episode: Callable[[], float]) -> RunConfig:
    """The config with as many episodes as the budget allows, and milestones in proportion.

    budget: "20000" or 20000 episodes, or a time: "1h", "30min", "300s", "1h 30min". A time is turned into episodes
    once, by measuring, and the resolved config holds the number: it repeats the run.
    """
    text = str(budget).strip()
    if episodes := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(episodes?)?", text):
        amount = float(episodes[1])
    else:
        parts = [] if _TIME.sub("", text) else _TIME.findall(text)  # none in what is no time
        amount = sum(float(number) * _UNITS[unit[0]] for number, unit in parts)
    if not 0 < amount < _MOST:
        raise ConfigError(f"budget is {budget!r}; give a time, e.g. 1h, 30min or 300s, or episodes, e.g. 20000")
    if not episodes:
        amount *= SHARE_FOR_STEPS / seconds_per_episode()
    return config.with_episodes(max(1, int(amount)))


def _seconds_per_episode(
    config: RunConfig, train_set: ImageSet, validation_set: ImageSet, processes: Processes
) -> float:
    """How long an episode takes, tried on a network that is thrown away; the same answer in all processes."""
    trial = Trainer(config, train_set, validation_set, RunFolder(Path()), processes)
    trial.measure(4)
    return processes.mean([trial.measure(16)])[0]
