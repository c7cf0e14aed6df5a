"""The errors remp raises for what a user can mend: each says what was got, what was needed and what to do."""


class RempError(Exception):
    """Base of all errors that remp raises on purpose; the command line prints its message without a traceback.

    Examples
    --------
    >>> import remp
    >>> try:
    ...     remp.load("no-such-model")
    ... except remp.RempError as error:
    ...     print(type(error).__name__)
    CheckpointError
    """


class DataError(RempError):
    """A data set, archive or image that is missing, broken or not what it claims to be."""


class EpisodeError(RempError, ValueError):
    """Episodes that cannot be drawn: too few classes, images or shots."""


class ConfigError(RempError, ValueError):
    """A setting that is unknown, of the wrong type, or contradicts another."""


class CheckpointError(RempError):
    """A checkpoint that is missing, damaged or does not fit."""


class OutputError(RempError):
    """A folder for results that cannot be written."""


class TrainingError(RempError):
    """A training run that had to stop."""


class Interrupted(TrainingError):
    """A training run that was asked to stop and has saved its state."""
