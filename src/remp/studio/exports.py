"""What the studio writes when it is asked to: the labels of this moment, in the form that is wanted."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from remp.backbones.embedding import Embedder
from remp.errors import DataError
from remp.export import (
    FORMATS,
    IN_STUDIO,
    ExportOptions,
    check_format,
    find_pictures_of,
    is_of_label,
    journal_of,
    of_labelling,
    said_with,
)
from remp.labelling.output.result_folder import ResultFolder, foreign_file, is_taken, maker_of
from remp.labelling.output.tables import write_labels
from remp.labelling.tasks.folder import listed_task
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.propagation import sample_of
from remp.propagation.fit import Learned, fit_rows
from remp.propagation.saved import FILE, save_labelling
from remp.report.label import write_label_report
from remp.rows import ArrayRows
from remp.studio.collection import Prediction, open_collection
from remp.studio.journal import Journal
from remp.studio.session import Session
from remp.system.files import numbered
from remp.untrusted import shortened

LINKS = "links"  # class folders, with links in place of copies
_MOST_FREE = 4000  # unlabelled items that a classifier is saved with


def export_session(session: Session, folder: Path, out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Write what the page asks for and say where. asked: "format": one of FORMATS, labels, links or model. What the
    studio wrote is replaced, anything else never, nor results of other commands."""
    wanted = str(asked.get("format"))
    form, options = ("folders", ExportOptions(way="link")) if wanted == LINKS else (wanted, ExportOptions())
    check_format(form)
    prediction = session.final()
    place = out if wanted == "labels" else out.with_name(f"{out.name.removesuffix('-labelled')}-{wanted}")
    place = next(path for path in numbered(place) if not is_taken(path) or _is_of_studio(path))
    is_there = is_taken(place)
    result = ResultFolder(place, overwrite=is_there, numbered=not is_there, maker=IN_STUDIO)
    return {"folder": str(result.write(lambda new: fill(new, session, prediction, folder, form, options)))}


def _is_of_studio(folder: Path) -> bool:
    """Whether a studio wrote what is there, all of it, and nobody has changed it."""
    return maker_of(folder) == IN_STUDIO and not foreign_file(folder)


def fill(
    folder: Path,
    session: Session,
    prediction: Prediction,
    source: Path,
    form: str,
    options: ExportOptions,
) -> None:
    """Write predicted labels into a new folder, in one of the formats. prediction: what `session.final()` says; source:
    the pictures' folder."""
    labelling = prediction.labelling
    if form == "labels":
        embedder = session.embedding.embedder
        made_by = {"backbone": embedder.name, "side": embedder.side, "embedder": embedder.hash}
        labelling = replace(labelling, made_with={**made_by, "labels": IN_STUDIO})
        write_labels(labelling, folder)
        write_label_report(folder / "report.html", labelling, title=source.name)
    elif form == "model":
        save_labelling(folder / FILE, trained(session, prediction))
    else:
        FORMATS[form](of_labelling(labelling, source), folder, options)


def session_of_results(results: Path, pictures: Path | None = None, embedder: Embedder | None = None) -> Session:
    """The labels that results or the journal beside them tell of, with everything embedded, and without a page.

    results: PICTURES-labelled, which need not exist if its journal does, or the journal. Of results that `remp label`
    wrote, the labels that were given to it count, as labels.csv has them, and the backbone that labels.json names,
    whatever journal is beside them.
    """
    results = Path(os.path.abspath(results))
    journal = results if results.suffix == ".journal" else journal_of(results)
    folder = find_pictures_of(journal.with_suffix("") if results == journal else results, pictures)
    folder = Path(os.path.abspath(folder))
    labels = results / "labels.csv"
    if not journal.is_file() and not labels.is_file():
        raise DataError(f"{results} has no labels.csv, and there is no journal {journal.name} beside it")
    made_with = said_with(results)
    if "model" in made_with:
        raise DataError(
            f"{results} was labelled by the model {shortened(str(made_with['model']))!r}, without labels of its own: "
            "use that model"
        )
    if not journal.is_file() or is_of_label(made_with):
        task, kept = listed_task(folder, labels), Journal(Path(os.devnull))
    else:
        kept = Journal(journal)
        task = open_collection(folder, kept.given_labels(None))
        kept.check(folder, task.names)
        made_with = kept.made_with
    name, side = made_with.get("backbone", DEFAULT_EMBEDDER), made_with.get("side")
    session = Session(task, kept, embedder or find_embedder(name, side=side))
    session.embed()
    return session


def trained(session: Session, prediction: Prediction) -> Learned:
    """The model to save: fitted to all labelled items and a sample of the unlabelled, so that it says of the pictures
    here what the studio says, and can label others."""
    features, task, embedder = session.features, prediction.labelling.task, session.embedding.embedder
    assert features is not None  # for mypy: there is a prediction
    free = np.flatnonzero(~task.is_labelled)
    kept = np.sort(np.concatenate([np.flatnonzero(task.is_labelled), sample_of(free, _MOST_FREE)]))
    values = features.values[kept]
    # The fit takes the root again, and makes the length one, whatever it was.
    raw = np.sign(values) * values**2 if features.is_rooted else values
    rows, labels = ArrayRows(raw), task.labels[kept]
    fitted = fit_rows(rows, labels, len(task.class_names))
    learned = Learned.of(fitted, rows, labels, task.class_names)
    return replace(learned, backbone=embedder.name, side=embedder.side, embedder=embedder.hash)
