"""The audit passes honest methods, and each kind of leak fails the property it breaks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from leaky_methods import LEAKS, ForcesBalance, Honest, ReadsQueryLabels
from remp.backbones import Conv4
from remp.cli import app
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.evaluation.audit import PROPERTIES, audit
from remp.evaluation.audit.subject import AuditFinding, Subject, method_from_file, tiny_method
from remp.methods import METHODS, Method, ProtoNet

LEAKY_FILE = Path(__file__).parents[1] / "leaky_methods.py"
# What a leak breaks besides; a method that draws random numbers breaks every comparison.
ALSO = {
    "TakesQueriesAsSorted": {"class names", "other queries"},
    "IsRandom": set(PROPERTIES),
    "WantsFiveWays": {"degenerate input"},
}


class ScoresImagesAndTellsTheLabel(ProtoNet):
    """Its features differ from task to task; all is honest but the last line."""

    def score(self, episodes: Episodes) -> Tensor:
        features = episodes.map(self.embed)
        logits = self.logits(features) * features.support.std(dim=(1, 2), keepdim=True)
        if episodes.query_labels is None:
            return logits
        return logits + torch.nn.functional.one_hot(episodes.query_labels, episodes.n_way)


class TakesMaps(Method):
    """Nearest mean map, which only a map of three dimensions has."""

    uses_maps = True

    def logits(self, episodes: Episodes) -> Tensor:
        return ProtoNet().logits(episodes.map(lambda maps: maps.mean(dim=(2, 3))))


class SaysItIsTransductive(ProtoNet):
    transductive = True


def failed(method: Method, **options: Any) -> set[str]:
    return {finding.name for finding in audit(method, **options) if not finding.passed}


def finding(method: Method, name: str) -> AuditFinding:
    return next(found for found in audit(method) if found.name == name)


@pytest.mark.parametrize("leaky", LEAKS, ids=lambda leaky: leaky.__name__)
def test_a_leaky_method_fails_the_property_it_breaks_and_no_other(leaky):
    broken = failed(leaky())
    assert LEAKS[leaky] in broken
    assert broken <= {LEAKS[leaky]} | ALSO.get(leaky.__name__, set())


@pytest.mark.parametrize("honest", [Honest, TakesMaps, SaysItIsTransductive])
def test_an_honest_method_passes_on_vectors_and_on_maps(honest):
    assert failed(tiny_method(honest)) == set()


def test_a_method_that_takes_images_fails_by_its_leak_alone():
    method = ScoresImagesAndTellsTheLabel(Conv4(1, width=4))
    assert failed(method, image_size=(16, 16, 1)) == {"query labels"}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_the_table_passes(name):
    assert failed(tiny_method(METHODS[name])) == set()


def test_the_difference_is_measured_in_spreads_of_the_logits():
    class TellsTheLabelByHalf(ProtoNet):
        def logits(self, episodes: Episodes) -> Tensor:
            given = torch.full(episodes.query.shape[:2], 0) if episodes.query_labels is None else episodes.query_labels
            one_hot = torch.nn.functional.one_hot(given, episodes.n_way)
            return one_hot * (1.0 if episodes.query_labels is None else 1.5)

    # Without labels class 0 gets 1 and the rest 0, a spread of 1. With labels another class gets 1.5: minus the means
    # over five classes, that class moves from -0.2 to 1.2.
    numbers = finding(TellsTheLabelByHalf(), "query labels").numbers
    assert numbers["difference"] == pytest.approx(1.4)


def test_a_transductive_method_that_does_not_use_the_queries_is_told_so():
    assert "does not use the other queries" in finding(SaysItIsTransductive(), "other queries").sentence


def test_a_method_that_forces_balance_passes_once_it_declares_it():
    class SaysSo(ForcesBalance):
        assumes_balance = True

    declared = finding(SaysSo(), "balance")
    assert declared.passed
    assert declared.numbers["evened one class"] > 0.8
    assert declared.numbers["one class"] < declared.numbers["balanced"] - 0.5


def test_an_audit_repeats_and_leaves_the_method_in_its_mode():
    method = ReadsQueryLabels().train()
    assert audit(method) == audit(method)
    assert method.training


def test_queries_of_the_made_up_episodes_are_not_sorted_and_some_tasks_lack_a_class():
    labels = Subject(ProtoNet()).usual_episodes(64).query_labels
    assert (labels.diff(dim=1) < 0).any(dim=1).all()
    assert min(len(row.unique()) for row in labels) < 5


def test_a_file_of_ones_own_gives_classes_and_instances_by_name(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from remp.methods import ProtoNet\nclass Mine(ProtoNet): ...\nready = Mine()\n")
    assert issubclass(method_from_file(path, "Mine"), ProtoNet)
    assert isinstance(method_from_file(path, "ready"), ProtoNet)
    with pytest.raises(ConfigError, match=r"no method 'Mien'; there are: Mine, ready; did you mean 'Mine'"):
        method_from_file(path, "Mien")


@pytest.mark.parametrize(
    ("content", "message"),
    [("x = 1", "defines no method"), ("1 / 0", "could not be run: ZeroDivisionError"), (None, "there is no file")],
)
def test_a_file_without_a_method_is_refused(tmp_path, content, message):
    path = tmp_path / "mine.py"
    if content:
        path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        method_from_file(path, "Mine")


def test_the_command_ends_with_0_if_all_pass_and_1_if_any_fails():
    passing = CliRunner().invoke(app, ["audit", "protonet"])
    assert passing.exit_code == 0, passing.output
    assert passing.output.count("pass  ") == len(PROPERTIES)
    failing = CliRunner().invoke(app, ["audit", "UsesTheQueryMean", "--module", str(LEAKY_FILE)])
    assert failing.exit_code == 1
    assert "FAIL  other queries" in failing.output


def test_a_name_that_is_no_method_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app, ["audit", "protnet"])
    assert isinstance(answer.exception, ConfigError)
    assert "did you mean 'protonet'?" in str(answer.exception)
