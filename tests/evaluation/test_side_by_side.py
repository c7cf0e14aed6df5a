"""Tables of results: the numbers are numpy's, and only results on the same episodes are compared."""

import numpy as np
import pytest
from scipy import stats

from remp.episodes import Protocol
from remp.errors import EpisodeError
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import comparison_table, side_by_side
from stand_ins import made_up_result


@pytest.fixture
def pair() -> list[Result]:
    return [made_up_result("remp", randomness=1, transductive=True), made_up_result("protonet", randomness=2)]


def test_the_paired_difference_is_the_mean_of_the_differences_with_its_t_interval(pair):
    differences = pair[1].accuracies - pair[0].accuracies
    half_width = stats.t.ppf(0.975, 39) * differences.std(ddof=1) / np.sqrt(40)
    assert side_by_side(pair)[1].lead == f"{100 * differences.mean():+.2f} ± {100 * half_width:.2f}".replace("-", "−")


def test_the_first_row_has_no_difference(pair):
    assert side_by_side(pair)[0].lead == ""


def test_the_text_table_names_methods_accuracies_and_the_protocol(pair):
    table = comparison_table(pair)
    for result, name, kind in zip(pair, ("ReMP", "ProtoNet"), ("transductive", "inductive"), strict=True):
        (line,) = (line for line in table.splitlines() if line.startswith(f"{name} "))
        assert f"{100 * result.accuracies.mean():.2f} ±" in line
        assert kind in line
        assert result.checkpoint_hash[:12] in line
    for fact in ("n = 40", "3-way", "1-shot", "4 queries", "seed 7", pair[0].episode_hash[:16]):
        assert fact in table


def test_rows_of_one_method_are_told_apart_by_the_settings_that_differ():
    results = [made_up_result("remp", settings={"layers": n, "alpha": 1.0}) for n in (10, 0)]
    assert [row.name for row in side_by_side(results)] == ["ReMP, layers 10", "ReMP, layers 0"]


def test_a_method_that_is_not_ours_keeps_its_name():
    assert side_by_side([made_up_result("somebody's")])[0].name == "somebody's"


def test_results_on_other_episodes_are_refused(pair):
    with pytest.raises(EpisodeError, match=r"protonet on ffff.*--episodes FILE"):
        side_by_side([pair[0], made_up_result("protonet", episode_hash="f" * 64)])


def test_episodes_from_a_file_are_said_to_be():
    assert "from a file" in comparison_table([made_up_result("remp", seed=None, protocol=Protocol())])
