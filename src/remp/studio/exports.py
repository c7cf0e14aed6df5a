"""What the studio writes when it is asked to: the labels of this moment, in the form that is wanted."""

from pathlib import Path
from typing import Any

from remp.labelling.output.result_folder import ResultFolder
from remp.labelling.output.tables import write_labels
from remp.report.label.report import write_label_report
from remp.studio.session import Session


def export_session(session: Session, out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    labelling = session.final().labelling

    def fill(folder: Path) -> None:
        write_labels(labelling, folder)
        write_label_report(folder / "report.html", labelling, title=out.name)

    folder = ResultFolder(out, numbered=True).write(fill)
    return {"folder": str(folder)}
