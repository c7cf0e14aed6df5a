"""Pictures, datasets and labels in object stores: servers of S3 and of GCS from PyPI, bound to the loopback address."""

import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from embedding_cases import colours, mean_colour_embedder, write_pictures
from remp.engine.embed import embed
from remp.errors import DataError
from remp.label_files import label
from remp.labelling.pipeline import LabelOptions
from remp.rows.dataset import parquet_dataset
from remp.system.files import Place

fs = pytest.importorskip("pyarrow.fs")
ROOT = Path(__file__).parents[2]


def server(name: str) -> str:
    """Servers live in an environment of their own (make s3-server): moto needs older packages than remp."""
    beside = ROOT / ".venv-s3" / "bin" / name
    if not beside.exists():
        pytest.skip(f"{name} is not installed: make s3-server")
    return str(beside)


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request, tmp_path_factory):
    """What makes an address of a name, in a store that has the bucket `photos`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if request.param == "s3":
        command = [server("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
        ready, bucket = f"http://127.0.0.1:{port}/moto-api/", "s3://photos"
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    else:
        at = ["--host", "127.0.0.1", "--port", str(port)]
        command = [server("gcp-storage-emulator"), "start", *at, "--in-memory", "--default-bucket", "photos"]
        ready, bucket = f"http://127.0.0.1:{port}/storage/v1/b", "gs://anonymous@photos"
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&retry_limit_seconds=10"
    names = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    with (tmp_path_factory.mktemp("store") / "log").open("w") as log, pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(ready, process)
            if request.param == "s3":
                there = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": "us-east-1"}
                fs.S3FileSystem(**there, allow_bucket_creation=True).create_dir("photos")
            yield lambda to: f"{bucket}/{to}?{options}"
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(address, server):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the server does not answer")


def uploaded(folder, address):
    """The files of a folder, in the store."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (Place(address) / path.relative_to(folder).as_posix()).write(path.read_bytes())
    return address


def test_pictures_in_a_store_become_a_dataset_in_it(store, tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    (tmp_path / "photos" / "0007.png").write_bytes(b"no picture")
    source, out = uploaded(tmp_path / "photos", store("plain")), store("out")
    first = embed(source, out, backbone=mean_colour_embedder(), block=10)
    assert (first.n, first.skipped[0][0]) == (24, "0007.png")
    assert sorted(Place(out).files())[-3:] == [f"part-{number:07d}.parquet" for number in range(3)]
    rows = parquet_dataset(out)
    expected = np.delete(colours(25), 7, axis=0) / 255
    np.testing.assert_allclose(np.concatenate([chunk.numpy() for chunk in rows.chunks()]), expected, atol=1e-5)
    embedder = mean_colour_embedder()
    again = embed(source, out, backbone=embedder, block=10)
    assert (again.n, again.n_before, again.skipped, embedder.network.count) == (24, 24, first.skipped, 0)


def test_a_dataset_in_a_store_is_labelled_as_one_on_the_disk(store, tmp_path, own_home, monkeypatch):
    for number, name in enumerate(["a", "b", "unlabelled"]):
        write_pictures(tmp_path / "photos" / name, 3 + 9 * number)
    source, there, here = uploaded(tmp_path / "photos", store("classes")), store("classes-out"), tmp_path / "here"
    embed(source, there, backbone=mean_colour_embedder(), block=8)
    embed(tmp_path / "photos", here, backbone=mean_colour_embedder(), block=8)
    monkeypatch.chdir(tmp_path)
    remote, local = label(there, LabelOptions(unknown=False)), label(here, LabelOptions(unknown=False), out="local")
    assert remote.folder == tmp_path / "classes-out-labelled"
    assert remote.task.class_names == ("a", "b")
    np.testing.assert_array_equal(remote.labels, local.labels)
    np.testing.assert_array_equal(remote.probability, local.probability)


def test_what_is_not_in_the_store_is_said(store, tmp_path, own_home):
    with pytest.raises(DataError, match="photos/nothing is not there"):
        embed(store("nothing"), tmp_path / "out", backbone=mean_colour_embedder())
    with pytest.raises(DataError, match="photos/nothing holds no Parquet files"):
        parquet_dataset(store("nothing"))
