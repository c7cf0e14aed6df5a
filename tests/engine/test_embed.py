"""Pictures become a Parquet dataset of embeddings, in parts: wherever they lie, however a run ends."""

import contextlib
import csv
import errno
import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedding_cases import colours, mean_colour_embedder, write_pictures
from remp.engine.embed import EmbedBlock, _SharedCache, embed
from remp.engine.parts import EmbeddingParts
from remp.engine.picture_blocks import FolderBlock
from remp.errors import ConfigError, DataError, OutputError
from remp.system.files import place

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from damaged_parquet import with_more_rows  # noqa: E402

TESTS = Path(__file__).parents[1]


def read(folder):
    """The whole dataset as any reader of Parquet sees it."""
    return parquet.read_table(str(folder)).to_pydict()


def check(folder, numbers):
    """Each picture is there once, in order, with its mean colour."""
    table = read(folder)
    assert [int(Path(name).stem) for name in table["name"]] == list(numbers)
    np.testing.assert_allclose(table["embedding"], colours(2000)[list(numbers)] / 255, atol=1e-5)
    assert len(set(table["content"])) == len(table["name"])


def embedded(source, out, **settings):
    """How many images the network saw, and what came of it."""
    embedder = mean_colour_embedder()
    done = embed(source, out, backbone=embedder, **{"block": 10, **settings})
    return embedder.network.count, done


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).glob("part-*.parquet")}


COMMAND = """
import sys, time
from pathlib import Path
import remp.engine.embed
from embedding_cases import mean_colour_embedder
from remp.cli import main

class Waiting:
    "Waits before the next batch when so many parts are there, until it is told to go on. Blocks may be embedded faster"
    "than parts are written: after twice as many batches it waits as well."
    def __init__(self, folder, stop_after):
        self.folder, self.stop_after, self.n_calls = folder, stop_after, 0

    def __call__(self, images):
        parts, go_on = Path(self.folder, "out"), Path(self.folder, "go on")
        self.n_calls += 1
        is_much = self.n_calls > 2 * self.stop_after
        while (is_much or len(list(parts.glob("part-*.parquet"))) >= self.stop_after) and not go_on.exists():
            time.sleep(0.02)
        return images.mean((2, 3))

folder, engine, stop_after = sys.argv[1:]
embedder = mean_colour_embedder()
object.__setattr__(embedder, "network", Waiting(folder, int(stop_after)))
remp.engine.embed.find_embedder = lambda *names, **settings: embedder
sys.argv = ["remp", "embed", f"{folder}/photos", "--out", f"{folder}/out", "--block", "10", "--engine", engine]
main()
"""


def embed_command(tmp_path, engine, *, stop_after=1000, **settings):
    """`remp embed photos --out out` as a process of its own, with an embedder for tests."""
    (tmp_path / "command.py").write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(tmp_path / "command.py"), str(tmp_path), engine, str(stop_after)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **settings)


def test_a_folder_becomes_parts_that_any_reader_takes_for_a_dataset(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    _, done = embedded(tmp_path / "photos", tmp_path / "out")
    check(tmp_path / "out", range(25))
    assert (done.n, done.n_before, done.skipped) == (25, 0, ())
    assert sorted(contents(tmp_path / "out")) == [f"part-{number:07d}.parquet" for number in range(3)]


def test_a_second_run_embeds_nothing_and_a_damaged_or_lost_part_alone(tmp_path, own_home, monkeypatch):
    write_pictures(tmp_path / "photos", 25)
    embedded(tmp_path / "photos", tmp_path / "out")
    before = contents(tmp_path / "out")
    assert embedded(tmp_path / "photos", tmp_path / "out")[1].n_before == 25
    (tmp_path / "out" / "part-0000001.parquet").write_bytes(before["part-0000001.parquet"][:-30])
    (tmp_path / "out" / "part-0000002.parquet").unlink()
    monkeypatch.setenv("REMP_HOME", str(tmp_path / "other home"))
    count, done = embedded(tmp_path / "photos", tmp_path / "out")
    assert (count, done.n, done.n_before) == (15, 25, 10)
    assert contents(tmp_path / "out") == before


def test_pictures_that_came_later_are_added_in_parts_of_their_own(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    embedded(tmp_path / "photos", tmp_path / "out")
    before = contents(tmp_path / "out")
    Image.new("RGB", (9, 9)).save(tmp_path / "photos" / "0000a.png")
    count, done = embedded(tmp_path / "photos", tmp_path / "out")
    assert (count, done.n, done.n_before) == (1, 26, 25)
    after = contents(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert read(tmp_path / "out")["name"][-1] == "0000a.png"


def test_what_the_cache_of_remp_label_knows_is_not_embedded_again(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    assert embedded(tmp_path / "photos", tmp_path / "one")[0] == 25
    assert embedded(tmp_path / "photos", tmp_path / "two")[0] == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_damaged_cache_is_noticed(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    embedded(tmp_path / "photos", tmp_path / "one")
    for path in (own_home / "embeddings").rglob("*.rows"):
        path.write_bytes(bytes(len(path.read_bytes())))
    assert embedded(tmp_path / "photos", tmp_path / "two")[0] == 25
    check(tmp_path / "two", range(25))


def test_pictures_that_cannot_be_read_are_named_and_do_not_stop_the_rest(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 25)
    (tmp_path / "photos" / "0007.png").write_bytes(b"no picture")
    (tmp_path / "photos" / "0012.png").write_bytes(b"")
    _, done = embedded(tmp_path / "photos", tmp_path / "out")
    check(tmp_path / "out", [number for number in range(25) if number not in (7, 12)])
    assert [name for name, _ in done.skipped] == ["0007.png", "0012.png"]
    assert "empty file" in done.skipped[1][1]
    again = embedded(tmp_path / "photos", tmp_path / "out")[1]  # of which the parts are finished
    assert (again.n, again.skipped) == (23, done.skipped)
    with (tmp_path / "out" / "_skipped.csv").open() as file:
        assert [tuple(row) for row in csv.reader(file)][1:] == list(done.skipped)


@pytest.mark.parametrize("kind", ["bytes", "structs", "paths"])
def test_parquet_with_pictures_or_paths_is_embedded(tmp_path, own_home, kind):
    tables = tmp_path / "which tables?"
    write_pictures(tables / "photos", 25)
    paths = sorted((tables / "photos").iterdir())
    cells = {
        "bytes": [path.read_bytes() for path in paths],
        "structs": [{"bytes": path.read_bytes(), "path": path.name} for path in paths],
        "paths": [f"photos/{path.name}" for path in paths],
    }[kind]
    column = "path" if kind == "paths" else "image"
    for number, span in enumerate((range(15), range(15, 25))):
        content = {column: [cells[i] for i in span], "label": [str(i % 3) if i < 5 else None for i in span]}
        if kind == "bytes":
            content["id"] = [f"{i:04d}" for i in span]
        parquet.write_table(pyarrow.table(content), tables / f"{number}.parquet", row_group_size=4)
    embedded(tables, tmp_path / "out")
    check(tmp_path / "out", range(25))
    assert read(tmp_path / "out")["label"] == ["0", "1", "2", "0", "1", *[None] * 20]


def test_a_damaged_parquet_file_is_named_and_does_not_stop_the_rest(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 20)
    cells = [path.read_bytes() for path in sorted((tmp_path / "photos").iterdir())]
    (tmp_path / "tables").mkdir()
    for number in range(4):
        table = pyarrow.table({"id": [f"{i:04d}" for i in range(5 * number, 5 * number + 5)], "image": cells[:5]})
        parquet.write_table(table, tmp_path / "tables" / f"{number}.parquet", compression="none")
    whole = (tmp_path / "tables" / "1.parquet").read_bytes()
    (tmp_path / "tables" / "1.parquet").write_bytes(whole[:-10])  # no end
    (tmp_path / "tables" / "2.parquet").write_bytes(b"PAR1" + bytes(200) + whole[204:])  # no pages
    _, done = embedded(tmp_path / "tables", tmp_path / "out")
    assert read(tmp_path / "out")["name"] == [f"{i:04d}" for i in [*range(5), *range(15, 20)]]
    assert [name for name, _ in done.skipped] == ["1.parquet"]
    assert "2.parquet cannot be read as Parquet" in done.problems[0]
    (tmp_path / "tables" / "2.parquet").write_bytes(whole)  # mended: it is tried again
    assert embedded(tmp_path / "tables", tmp_path / "out")[1].n == 15


def pictures_table(n, **columns):
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG")
    return pyarrow.table({"image": [buffer.getvalue()] * n, **columns})


def test_rows_that_a_parquet_file_has_got_since_are_embedded(tmp_path, own_home):
    parquet.write_table(pictures_table(13), tmp_path / "x.parquet")
    embedded(tmp_path / "x.parquet", tmp_path / "out")
    parquet.write_table(pictures_table(27), tmp_path / "x.parquet")
    done = embedded(tmp_path / "x.parquet", tmp_path / "out")[1]
    assert (done.n, done.n_before) == (27, 13)
    assert read(tmp_path / "out")["name"] == [f"x.parquet#{number}" for number in range(27)]


def test_pictures_that_a_parquet_file_only_claims_are_told(tmp_path, own_home):
    parquet.write_table(pictures_table(50), tmp_path / "x.parquet", compression="none")
    with_more_rows(tmp_path / "x.parquet")
    done = embedded(tmp_path / "x.parquet", tmp_path / "out")[1]
    assert done.n == 50
    (problem,) = done.problems
    assert "x.parquet says it has 60 rows, but ends after 50" in problem


def test_a_parquet_file_with_other_columns_than_before_is_named(tmp_path, own_home):
    parquet.write_table(pictures_table(3, label=["a", "b", "c"]), tmp_path / "x.parquet")
    embedded(tmp_path / "x.parquet", tmp_path / "out")
    next((tmp_path / "out").glob("part-*")).unlink()
    parquet.write_table(pictures_table(3), tmp_path / "x.parquet")
    problems = embedded(tmp_path / "x.parquet", tmp_path / "out")[1].problems
    assert problems == (f"{tmp_path}/x.parquet has other columns than before: give another --out",)


def test_names_in_parquet_that_are_not_utf8_are_told(tmp_path, own_home):
    names = pyarrow.Array.from_buffers(pyarrow.string(), 3, pyarrow.array([b"\xff"] * 3, pyarrow.binary()).buffers())
    parquet.write_table(pictures_table(3, name=names), tmp_path / "x.parquet")
    problems = embedded(tmp_path / "x.parquet", tmp_path / "out")[1].problems
    assert "x.parquet cannot be read as Parquet (UnicodeDecodeError" in problems[0]


@pytest.mark.parametrize("cell", [{"bytes": 3, "path": "x"}, {"bytes": "text"}], ids=str)
def test_structs_without_bytes_are_no_pictures(tmp_path, own_home, cell):
    parquet.write_table(pyarrow.table({"image": [cell]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="needed one of pictures"):
        embedded(tmp_path / "x.parquet", tmp_path / "out")


def test_a_struct_whose_path_is_no_text_is_named_by_its_row(tmp_path, own_home):
    picture = pictures_table(1)["image"][0].as_py()
    parquet.write_table(pyarrow.table({"image": [{"bytes": picture, "path": 7}]}), tmp_path / "x.parquet")
    embedded(tmp_path / "x.parquet", tmp_path / "out")
    assert read(tmp_path / "out")["name"] == ["x.parquet#0"]


def test_other_pictures_or_another_embedder_need_another_folder(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 3)
    write_pictures(tmp_path / "others", 3)
    embedded(tmp_path / "photos", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"of the pictures .*photos, not .*others: give another --out"):
        embedded(tmp_path / "others", tmp_path / "out")
    with pytest.raises(ConfigError, match="embedder mean colour at 128 pixels, not other at 128"):
        embed(tmp_path / "photos", tmp_path / "out", backbone=mean_colour_embedder("other"))
    with pytest.raises(OutputError, match="files in it that are not of remp embed"):
        embedded(tmp_path / "photos", tmp_path / "others")


PLAN = {"folder": "photos", "names": ["a.png"]}
TABLE = {"file": "a", "first": 0, "stop": 1, "image": "i", "path": None, "name": None, "label": None}


@pytest.mark.parametrize(
    "line",
    [3, [PLAN], {}, {**PLAN, "names": [[]]}, {**PLAN, "names": 3}, {**PLAN, "folder": 1}, {"names": ["a"]},
     {**PLAN, "more": 1}, {**TABLE, "first": "0"}, {**TABLE, "image": 1}, {**TABLE, "first": 2},
     {**TABLE, "stop": 10**30}, {**TABLE, "first": -1}, {**TABLE, "image": None}],
    ids=str,
)  # fmt: skip
def test_a_plan_that_is_damaged_is_named(tmp_path, own_home, line):
    write_pictures(tmp_path / "photos", 3)
    embedded(tmp_path / "photos", tmp_path / "out")
    plan = tmp_path / "out" / "_blocks-00000.jsonl.gz"
    plan.write_bytes(gzip.compress(f"{json.dumps(PLAN)}\n{json.dumps(line)}\n".encode()))
    with pytest.raises(DataError, match=r"_blocks-00000\.jsonl\.gz is damaged \(line 2\): give another --out"):
        embedded(tmp_path / "photos", tmp_path / "out")


def test_a_plan_that_cannot_be_unpacked_is_named(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 3)
    embedded(tmp_path / "photos", tmp_path / "out")
    plan = tmp_path / "out" / "_blocks-00000.jsonl.gz"
    good = plan.read_bytes()
    flipped = good[:14] + bytes([good[14] ^ 0xFF]) + good[15:]
    for content in (good[:-9], flipped, b"", gzip.compress(bytes(2**25)), gzip.compress(b"[" * 100_000)):
        plan.write_bytes(content)
        with pytest.raises(DataError, match=r"_blocks-00000\.jsonl\.gz is damaged"):
            EmbeddingParts(place(tmp_path / "out"))._plan(plan.name)


@pytest.mark.parametrize(
    "about",
    [
        *("", "[]", "3", "[" * 100_000, '{"source": 3, "kind": "folder"}', '{"kind": "folder"}'),
        *('{"source": "a", "kind": "folder", "side": "large"}', '{"source": "a", "kind": "folder", "embedder": 3}'),
    ],
)
def test_a_description_that_is_damaged_is_named(tmp_path, own_home, about):
    write_pictures(tmp_path / "photos", 3)
    embedded(tmp_path / "photos", tmp_path / "out")
    (tmp_path / "out" / "_embedding.json").write_text(about)
    with pytest.raises(DataError, match=r"_embedding\.json (is damaged|cannot be read)"):
        embedded(tmp_path / "photos", tmp_path / "out")


def test_what_holds_no_pictures_is_refused(tmp_path, own_home):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no picture"):
        embedded(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(DataError, match="is not there"):
        embedded(tmp_path / "absent", tmp_path / "out")
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="has the columns x; needed one of pictures"):
        embedded(tmp_path / "x.parquet", tmp_path / "out")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_loses_no_finished_part(tmp_path, how):
    stop_in_the_middle_and_go_on(tmp_path, how, "local")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_on_ray_that_is_stopped_loses_no_finished_part(tmp_path, how):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]' pyarrow")
    stop_in_the_middle_and_go_on(tmp_path, how, "ray")


def stop_in_the_middle_and_go_on(tmp_path, how, engine):
    """`remp embed` is stopped after three parts, as a terminal does it: the signal goes to all its processes."""
    write_pictures(tmp_path / "photos", 200)
    run = embed_command(tmp_path, engine, stop_after=3, start_new_session=True)
    until = time.monotonic() + 300
    while len(contents(tmp_path / "out")) < 3 and run.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(run.pid, how)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(2)  # the signal is to be seen before the pictures that it waits for are released
    (tmp_path / "go on").touch()
    _, said = run.communicate(timeout=300)
    assert run.returncode == (130 if how == signal.SIGINT else -how), said
    if how == signal.SIGINT:
        assert "remp: stopped. The parts that are finished are kept; the same command goes on from there" in said
        assert "Traceback" not in said
    there = contents(tmp_path / "out")
    assert 3 <= len(there) < 20
    assert embed_command(tmp_path, engine).wait(300) == 0
    check(tmp_path / "out", range(200))
    assert {name: contents(tmp_path / "out")[name] for name in there} == there
    embedded(tmp_path / "photos", tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not list((tmp_path / "out").glob(".*"))


def test_what_a_block_has_embedded_before_it_was_stopped_is_in_the_cache(tmp_path, own_home):
    """Two batches of a block of three: those are not embedded again."""
    embedder = mean_colour_embedder()
    n = 3 * embedder.batch
    write_pictures(tmp_path / "photos", n)
    work = EmbedBlock(embedder, _SharedCache(embedder))
    network, seen = embedder.network, []

    def stopped_in_the_second_batch(images):
        seen.append(len(images))
        if len(seen) == 2:
            work.stop()
        return network(images)

    object.__setattr__(embedder, "network", stopped_in_the_second_batch)
    work(FolderBlock(str(tmp_path / "photos"), tuple(f"{number:04d}.png" for number in range(n))))
    work.cache.close()
    assert sum(seen) == 2 * embedder.batch
    assert embedded(tmp_path / "photos", tmp_path / "out", block=n)[0] == embedder.batch


def test_a_full_disk_stops_with_a_sentence_and_keeps_what_is_finished(tmp_path, own_home, monkeypatch):
    """The disk is full after two parts; where a file may have no more than some bytes, the system says so itself."""
    write_pictures(tmp_path / "photos", 40)
    real, n_written = Path.open, []

    def no_room(self, mode="r", *more, **named):
        if self.name.startswith(".part-"):
            n_written.append(self)
            if len(n_written) > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, mode, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", no_room)
        with pytest.raises(OutputError, match=r"no room is left\. What is finished is kept"):
            embedded(tmp_path / "photos", tmp_path / "out")
    assert len(contents(tmp_path / "out")) == 2
    assert embedded(tmp_path / "photos", tmp_path / "out")[1].n_before == 20
    check(tmp_path / "out", range(40))


def test_a_limit_of_the_system_leaves_no_half_part(tmp_path):
    write_pictures(tmp_path / "photos", 20)
    limit = (1500, 1500)
    run = embed_command(tmp_path, "local", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    said = run.communicate(timeout=300)[1]
    assert run.returncode == 1
    assert "What is finished is kept: fix that, and the same command goes on from there" in said
    assert not list((tmp_path / "out").glob("*part-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8_are_embedded(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 3)
    os.rename(tmp_path / "photos" / "0001.png", os.fsencode(tmp_path / "photos") + b"/caf\xe9.png")
    assert embedded(tmp_path / "photos", tmp_path / "out")[1].n == 3


def test_a_folder_of_pictures_may_hold_a_table_of_something_else(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 3)
    parquet.write_table(pyarrow.table({"score": [1.0, 2.0]}), tmp_path / "photos" / "results.parquet")
    done = embedded(tmp_path / "photos", tmp_path / "out")[1]
    assert done.n == 3


def test_nothing_is_written_among_the_pictures(tmp_path, own_home):
    write_pictures(tmp_path / "photos", 3)
    with pytest.raises(ConfigError, match="which is only read"):
        embedded(tmp_path / "photos", tmp_path / "photos" / "out")
    assert not (tmp_path / "photos" / "out").exists()
