"""Pictures, datasets and labels in an object store: an S3 server of PyPI (moto), bound to the loopback address."""

import os
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
from remp.labelling.options import LabelOptions
from remp.rows.dataset import parquet_dataset
from remp.system.places import Place

fs = pytest.importorskip("pyarrow.fs")
ROOT = Path(__file__).parents[2]


def server_command() -> str | None:
    """moto_server lives in an environment of its own (make s3-server): it needs older packages than remp."""
    beside = ROOT / ".venv-s3" / "bin" / "moto_server"
    return os.environ.get("REMP_S3_SERVER") or (str(beside) if beside.exists() else None)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Of addresses in a store that has the bucket `photos`."""
    command = server_command()
    if command is None:
        pytest.skip("no S3 server is installed: make s3-server, or name moto_server in REMP_S3_SERVER")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("s3") / "log").open("w")
    server = subprocess.Popen([command, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    names = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        _wait_for(f"http://127.0.0.1:{port}/moto-api/", server)
        endpoint = f"127.0.0.1:{port}"
        store = fs.S3FileSystem(
            endpoint_override=endpoint, scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        store.create_dir("photos")
        yield f"endpoint_override={endpoint}&scheme=http&region=us-east-1"
    finally:
        server.terminate()
        server.wait(30)
        log.close()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _wait_for(address, server):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, "the S3 server has ended"
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the S3 server does not answer")


def uploaded(folder, options, to):
    """The files of a folder, in the store."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (Place(f"s3://photos/{to}?{options}") / path.relative_to(folder).as_posix()).write(path.read_bytes())
    return f"s3://photos/{to}?{options}"


def test_pictures_in_a_store_become_a_dataset_in_it(options, tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    (tmp_path / "photos" / "0007.png").write_bytes(b"no picture")
    source, out = uploaded(tmp_path / "photos", options, "plain"), f"s3://photos/out?{options}"
    first = embed(source, out, backbone=mean_colour_embedder(), block=10)
    assert (first.n, first.skipped[0][0]) == (24, "0007.png")
    assert sorted(Place(out).files())[-3:] == [f"part-{number:07d}.parquet" for number in range(3)]
    rows = parquet_dataset(out)
    expected = np.delete(colours(25), 7, axis=0) / 255
    np.testing.assert_allclose(np.concatenate([chunk.numpy() for chunk in rows.chunks()]), expected, atol=1e-5)
    embedder = mean_colour_embedder()
    again = embed(source, out, backbone=embedder, block=10)
    assert (again.n, again.n_before, again.skipped, embedder.network.count) == (24, 24, first.skipped, 0)


def test_a_dataset_in_a_store_is_labelled_as_one_on_the_disk(options, tmp_path, own_home, monkeypatch):
    for number, name in enumerate(["a", "b", "unlabelled"]):
        write_pictures(tmp_path / "photos" / name, 3 + 9 * number)
    source = uploaded(tmp_path / "photos", options, "classes")
    there, here = f"s3://photos/classes-out?{options}", tmp_path / "here"
    embed(source, there, backbone=mean_colour_embedder(), block=8)
    embed(tmp_path / "photos", here, backbone=mean_colour_embedder(), block=8)
    monkeypatch.chdir(tmp_path)
    remote, local = label(there, LabelOptions(unknown=False)), label(here, LabelOptions(unknown=False), out="local")
    assert remote.folder == tmp_path / "classes-out-labelled"
    assert remote.task.class_names == ("a", "b")
    np.testing.assert_array_equal(remote.labels, local.labels)
    np.testing.assert_array_equal(remote.probability, local.probability)


def test_what_is_not_in_the_store_is_said(options, tmp_path, own_home):
    with pytest.raises(DataError, match="s3://photos/nothing is not there"):
        embed(f"s3://photos/nothing?{options}", tmp_path / "out", backbone=mean_colour_embedder())
    with pytest.raises(DataError, match="s3://photos/nothing holds no Parquet files"):
        parquet_dataset(f"s3://photos/nothing?{options}")
