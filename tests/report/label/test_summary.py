"""A labelling in a few lines for a terminal."""

from dataclasses import replace

import numpy as np

from made_up_labelling import every_finding, made_up_labelling
from remp.labelling.embedding import Stage
from remp.labelling.outcome import STATUSES, Advice
from remp.report.label.summary import stages_line, summary


def test_the_lines_say_what_the_labelling_says():
    skipped = (("a.jpg", "damaged"), ("b\n.jpg", "damaged"), ("c.heic", "not read"))
    labelling = made_up_labelling(("cat", "dog"), 50, findings=every_finding(), label_next=(Advice(7, "far off"),))
    lines = summary(replace(labelling, task=replace(labelling.task, skipped=skipped))).splitlines()
    assert lines[0] == "        4  examples with a label (2 classes)"
    assert "        3  resemble no class" in lines
    assert "        3  skipped:" in lines
    assert "           a.jpg and 1 more: damaged" in lines
    assert (
        "Estimated right: 87.3% of the unlabelled, if each had its likeliest class, 95% interval 82.2% to 91.4% "
        "(the probabilities of the 40 unlabelled items.)" in lines
    )
    assert "  single example: wolf has one labelled example." in lines
    assert lines[lines.index("Label this one next:") + 1] == "  7  (far off)"
    assert lines[-1] == "Time for 50 items: read 1.2 s, embed 20.5 s"


def test_new_items_of_a_model_are_not_said_to_be_without_examples():
    labelling = made_up_labelling(("cat", "dog"), 50, n_given=0, made_with={"model": "m", "together": False})
    lines = summary(labelling).splitlines()
    assert lines[0] == "       50  without a label, for the 2 classes of the model"
    assert "  How: label them among the rows that the model was made from, and save it again." in lines
    assert not any("examples with a label" in line for line in lines)


def test_labels_that_were_given_are_told_from_likeliest_classes():
    some = made_up_labelling(("cat", "dog"), 50)
    labelled = some.status == STATUSES.index("labelled")
    right = f"{some.probability[labelled].mean():.0%}"
    assert f"Right among the {labelled.sum()} new labels: {right}, by their probabilities" in summary(some).splitlines()
    everything = replace(some, status=np.where(some.task.is_labelled, 0, STATUSES.index("labelled")))
    assert "Estimated right: 87.3% of the unlabelled, 95% interval" in summary(everything)
    assert "new labels" not in summary(everything)


def test_one_class_is_one():
    assert summary(made_up_labelling(("cat",), 9)).startswith("        2  examples with a label (1 class)\n")


def test_one_item_is_told_of_as_one():
    made_up = made_up_labelling(("cat", "dog"), 12, n_given=1)
    status = np.array([STATUSES.index("given"), STATUSES.index("unknown"), *[STATUSES.index("labelled")] * 10])
    lines = summary(replace(made_up, status=status)).splitlines()
    assert lines[0] == "        1  example with a label (2 classes)"
    assert "        1  resembles no class" in lines


def test_one_class_has_no_table_of_thresholds():
    assert "threshold" not in summary(made_up_labelling(["all"], 12, estimate=None, reject=0.9))


def test_of_many_findings_the_first_are_shown():
    lines = summary(made_up_labelling(("cat", "dog"), 50, findings=every_finding() * 3)).splitlines()
    assert "  … and 5 more in the report" in lines


def test_without_an_estimate_that_is_said():
    assert "cannot be estimated" in summary(made_up_labelling(("cat", "dog"), 50, estimate=None))


def test_nothing_in_a_name_reaches_the_terminal_as_a_command():
    labelling = made_up_labelling(("cat", "dog"), 50)
    names = ("\x1b[31m\n\udce9.jpg",) * 50
    text = summary(replace(labelling, task=replace(labelling.task, names=names)))
    assert "\\x1b[31m\\n\\udce9.jpg" in text
    assert text.encode()


def test_speed_is_that_of_the_images_that_were_done():
    stages = {"hash": Stage(200, 0.1), "network": Stage(100, 4.0), "decode": Stage()}
    assert stages_line(stages) == "Images per second: hash 2,000, network 25"
    assert stages_line({"network": Stage()}) == "All embeddings were made before."
