"""remp: few-shot image classification by rectified metric propagation.

path = remp.train({"data": "glyphs"}, budget="2min")
result = remp.evaluate(remp.load(path), remp.open_data("glyphs", "test"), remp.Protocol(n_way=5, n_shot=1))
print(result.card())
"""

from typing import TYPE_CHECKING, Any

from remp.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    EpisodeError,
    Interrupted,
    OutputError,
    RempError,
    TrainingError,
)
from remp.version import __version__

if TYPE_CHECKING:
    from remp.backbones import BACKBONES as BACKBONES
    from remp.backbones import Embedder as Embedder
    from remp.datasets import DATASETS as DATASETS
    from remp.datasets import ImageSet as ImageSet
    from remp.datasets import ReadOptions as ReadOptions
    from remp.datasets import open_data as open_data
    from remp.datasets import prepare as prepare
    from remp.engine.embed import embed as embed
    from remp.engine.ray import RayEngine as RayEngine
    from remp.episodes import Episodes as Episodes
    from remp.episodes import EpisodeSampler as EpisodeSampler
    from remp.episodes import Protocol as Protocol
    from remp.episodes.files import load_episodes as load_episodes
    from remp.episodes.files import save_episodes as save_episodes
    from remp.estimator import ReMPClassifier as ReMPClassifier
    from remp.evaluation.audit import AuditFinding as AuditFinding
    from remp.evaluation.audit import audit as audit
    from remp.evaluation.compare import Comparison as Comparison
    from remp.evaluation.compare import compare as compare
    from remp.evaluation.evaluate import evaluate as evaluate
    from remp.evaluation.evaluate import score_episodes as score_episodes
    from remp.evaluation.result import Result as Result
    from remp.evaluation.statistics import Estimate as Estimate
    from remp.evaluation.statistics import mean_interval as mean_interval
    from remp.evaluation.statistics import paired_difference as paired_difference
    from remp.label_files import label as label
    from remp.labelling.outcome import AccuracyEstimate as AccuracyEstimate
    from remp.labelling.outcome import Advice as Advice
    from remp.labelling.outcome import Finding as Finding
    from remp.labelling.outcome import Labelling as Labelling
    from remp.labelling.pipeline import LabelOptions as LabelOptions
    from remp.labelling.tasks import Items as Items
    from remp.methods import METHODS as METHODS
    from remp.methods import Method as Method
    from remp.models import find_embedder as find_embedder
    from remp.models import load as load
    from remp.models import load_labelling as load_labelling
    from remp.propagation.adaptive import Adaptive as Adaptive
    from remp.rectification import Rectification as Rectification
    from remp.rectification.propagate import Propagated as Propagated
    from remp.rectification.propagate import Propagation as Propagation
    from remp.rectification.propagate import propagate as propagate
    from remp.rectification.rectify import Rectified as Rectified
    from remp.rectification.rectify import rectify as rectify
    from remp.rows import ArrayRows as ArrayRows
    from remp.rows import Shard as Shard
    from remp.rows import current_shard as current_shard
    from remp.rows.dataset import parquet_dataset as parquet_dataset
    from remp.rows.parquet import ParquetRows as ParquetRows
    from remp.trained import Prediction as Prediction
    from remp.trained import Trained as Trained
    from remp.training import resume as resume
    from remp.training import train as train

# Where each name lives; it is imported when it is first used, so that `import remp` stays quick. Not by lazy_loader,
# which would save ten lines here for a dependency and a stub file. Types that only remp itself makes and takes (the
# settings of a run, Normalisation, Backbone, Block, Rows) are left out: users read their attributes, no more.
_NAMES = {
    "remp.backbones": ["BACKBONES", "Embedder"],
    "remp.datasets": ["DATASETS", "ImageSet", "ReadOptions", "open_data", "prepare"],
    "remp.engine.embed": ["embed"],
    "remp.engine.ray": ["RayEngine"],
    "remp.episodes": ["EpisodeSampler", "Episodes", "Protocol"],
    "remp.episodes.files": ["load_episodes", "save_episodes"],
    "remp.estimator": ["ReMPClassifier"],
    "remp.evaluation.audit": ["AuditFinding", "audit"],
    "remp.evaluation.compare": ["Comparison", "compare"],
    "remp.evaluation.evaluate": ["evaluate", "score_episodes"],
    "remp.evaluation.result": ["Result"],
    "remp.evaluation.statistics": ["Estimate", "mean_interval", "paired_difference"],
    "remp.label_files": ["label"],
    "remp.labelling.outcome": ["AccuracyEstimate", "Advice", "Finding", "Labelling"],
    "remp.labelling.pipeline": ["LabelOptions"],
    "remp.labelling.tasks": ["Items"],
    "remp.methods": ["METHODS", "Method"],
    "remp.models": ["find_embedder", "load", "load_labelling"],
    "remp.propagation.adaptive": ["Adaptive"],
    "remp.rectification": ["Rectification"],
    "remp.rectification.propagate": ["Propagated", "Propagation", "propagate"],
    "remp.rectification.rectify": ["Rectified", "rectify"],
    "remp.rows": ["ArrayRows", "Shard", "current_shard"],
    "remp.rows.dataset": ["parquet_dataset"],
    "remp.rows.parquet": ["ParquetRows"],
    "remp.trained": ["Prediction", "Trained"],
    "remp.training": ["resume", "train"],
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "EpisodeError",
    "Interrupted",
    "OutputError",
    "RempError",
    "TrainingError",
    "__version__",
    # A class of scikit-learn: `from remp import *` would load it for nothing. `from remp import ReMPClassifier` works.
    *(name for name in _HOMES if name != "ReMPClassifier"),
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'remp' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "ReMPClassifier"])
