"""What the studio writes when it is asked to: the labels of this moment, in the form that is wanted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from remp.estimator.saved import SavedClassifier, save_classifier
from remp.export import find_format
from remp.export.labelled import ExportOptions, of_labelling
from remp.labelling.output.result_folder import ResultFolder, foreign_file
from remp.labelling.output.tables import write_labels
from remp.propagation.held_out import sample_of
from remp.report.label.report import write_label_report
from remp.studio.collection import Prediction
from remp.studio.session import Session

LINKS = "links"  # class folders, with links in place of copies
_MOST_FREE = 4000  # unlabelled items that a classifier is saved with


def export_session(session: Session, folder: Path, out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Write and say where. asked: "format": one of FORMATS, labels, links or model. Results of ours are replaced, what
    is not ours never."""
    wanted = str(asked.get("format"))
    fill = _filler(session, folder, wanted, session.final())
    place = out if wanted == "labels" else out.with_name(f"{out.name.removesuffix('-labelled')}-{wanted}")
    is_ours = place.is_dir() and any(place.iterdir()) and not foreign_file(place)
    return {"folder": str(ResultFolder(place, overwrite=is_ours, numbered=not is_ours).write(fill))}


def _filler(session: Session, source: Path, wanted: str, prediction: Prediction) -> Callable[[Path], None]:
    labelling = prediction.labelling
    if wanted == "labels":

        def fill(folder: Path) -> None:
            write_labels(labelling, folder)
            write_label_report(folder / "report.html", labelling, title=source.name)

        return fill
    if wanted == "model":
        return lambda folder: save_classifier(folder / "model.safetensors", trained(session, prediction))
    write = find_format("folders" if wanted == LINKS else wanted)
    options = ExportOptions(way="link" if wanted == LINKS else "copy")
    return lambda folder: write(of_labelling(labelling, source), folder, options)


def trained(session: Session, prediction: Prediction) -> SavedClassifier:
    """What a classifier is fitted to that says of the pictures here what the studio says, and of others what they are
    like: all labelled items, and a sample of the unlabelled."""
    features, task, embedder = session.features, prediction.labelling.task, session.embedding.embedder
    assert features is not None
    assert embedder is not None
    free = np.flatnonzero(~task.is_labelled)
    kept = np.sort(np.concatenate([np.flatnonzero(task.is_labelled), sample_of(free, _MOST_FREE)]))
    values = features.values[kept]
    raw = np.sign(values) * values**2  # the root is taken again, and the length, whatever it was, made one
    return SavedClassifier(raw, task.labels[kept], task.class_names, embedder.name, embedder.side, embedder.hash)
