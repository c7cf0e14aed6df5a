"""What an evaluation found: the accuracy of each episode, and all that is needed to repeat and to compare it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from remp.episodes import Protocol
from remp.evaluation.statistics import Estimate, mean_interval
from remp.system.files import write_atomically


@dataclass(frozen=True)
class Result:
    """What an evaluation found, and everything that the number depends on.

    Parameters
    ----------
    accuracies : array
        (E,) share of the queries of each episode that were answered correctly.
    protocol : Protocol
        What the episodes look like.
    seed : int or None
        What they were drawn from; None if they came from elsewhere.
    episode_hash : str
        The same for two results only if they were made on the same episodes; then they can be compared pair by pair.
    data, split, fingerprint : str
        Which images.
    method, backbone, settings
        What was evaluated.
    transform : str
        What was done to the features.
    transductive, assumes_balance : bool
        Whether answers depend on other queries, and whether all classes are taken to be equally frequent.
    checkpoint, checkpoint_hash : str
        Which weights.
    seen_classes : int
        How many classes of the split have the name of a class that these weights were trained on.
    changed_settings : dict
        Settings of the method that are others than those it was trained with.

    Examples
    --------
    >>> import remp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> result = remp.compare(X, y, methods=["protonet"], n_shot=1, n_episodes=50)["protonet", 1]
    >>> result.accuracies.shape
    (50,)
    >>> round(result.estimate.mean, 1), result.estimate.n
    (0.7, 50)
    """

    accuracies: np.ndarray
    protocol: Protocol
    seed: int | None
    episode_hash: str
    data: str
    split: str
    fingerprint: str
    method: str
    backbone: str
    transform: str
    transductive: bool
    assumes_balance: bool
    checkpoint: str
    checkpoint_hash: str
    settings: dict[str, Any] = field(default_factory=dict)
    seen_classes: int = 0
    changed_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def warning(self) -> str:
        """What is to be known before the number is used: classes that were trained on. Mostly empty."""
        if not self.seen_classes:
            return ""
        return (
            f"NOT A FEW-SHOT ACCURACY: {self.seen_classes} classes of {self.data} / {self.split} have names of classes "
            "that the network was trained on. Take another split or checkpoint"
        )

    @property
    def estimate(self) -> Estimate:
        """Mean of the accuracies with its 95 % interval: `mean`, `half_width`, `n`."""
        return mean_interval(self.accuracies)

    def card(self) -> str:
        """The number with all that it depends on, as text.

        Returns
        -------
        str
            Four lines: mean and interval; protocol and kind of method; data, method and checkpoint; episodes. A fifth
            warns of classes that were trained on.

        Examples
        --------
        >>> import remp
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> result = remp.compare(X, y, methods=["protonet"], n_shot=1, n_episodes=50)["protonet", 1]
        >>> print(result.card().splitlines()[1].strip())
        5-way, 1-shot, 15 queries per class (balanced); inductive; transform: none
        """
        protocol, kind = self.protocol, "transductive" if self.transductive else "inductive"
        balance = ", assumes balanced queries" if self.assumes_balance else ""
        drawn = f"seed {self.seed}" if self.seed is not None else "from a file"
        changes = ", ".join(f"{name}: {value}" for name, value in self.changed_settings.items())
        method = f"{self.method} ({changes})" if changes else self.method
        return (
            f"{self.estimate.percent()}   (mean and 95 % interval over n = {self.estimate.n} episodes)\n"
            f"  {protocol.n_way}-way, {protocol.n_shot}-shot, {protocol.n_query} queries per class "
            f"({protocol.distribution}); {kind}{balance}; transform: {self.transform}\n"
            f"  {self.data} / {self.split} ({self.fingerprint[:12]}), {method} on {self.backbone}, "
            f"checkpoint {self.checkpoint} ({self.checkpoint_hash[:12]})\n"
            f"  episodes {drawn}, hash {self.episode_hash[:16]}" + (f"\n  {self.warning}" if self.warning else "")
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain types, with mean and interval: what `save` writes.

        Returns
        -------
        dict
            `mean`, `half_width_95`, `n_episodes`, the protocol, the attributes, and `accuracies` as a list.

        Examples
        --------
        >>> import remp
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> result = remp.compare(X, y, methods=["protonet"], n_shot=1, n_episodes=50)["protonet", 1]
        >>> result.as_dict()["n_episodes"], result.as_dict()["n_way"]
        (50, 5)
        """
        rest = {k: v for k, v in asdict(self).items() if k not in ("accuracies", "protocol")}
        estimate = self.estimate
        return {
            "mean": round(estimate.mean, 6),
            "half_width_95": round(estimate.half_width, 6) if estimate.n > 1 else None,
            "n_episodes": estimate.n,
            **self.protocol.as_dict(),
            **rest,
            "accuracies": [round(float(a), 6) for a in self.accuracies],
        }

    def save(self, path: str | Path) -> Path:
        """Write it as JSON.

        Parameters
        ----------
        path : str or Path
            The file. If it exists already, a number is added to the name of the new one.

        Returns
        -------
        Path
            The file that was written.

        Examples
        --------
        >>> import remp
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> result = remp.compare(X, y, methods=["protonet"], n_shot=1, n_episodes=50)["protonet", 1]
        >>> result.save("result.json").name, result.save("result.json").name
        ('result.json', 'result-2.json')
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self.as_dict()) + "\n"  # in ASCII: a name need not be Unicode
        free, number = path, 1
        while free.exists():
            number += 1
            free = path.with_stem(f"{path.stem}-{number}")
        write_atomically(free, content.encode())
        return free
