"""Pictures become embeddings once: whatever a folder holds, however a run ends, whatever becomes of the cache."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from PIL import Image

from embedding_cases import SIDE, colours, mean_colour_embedder, task_of, write_pictures
from remp.backbones.embedding import BATCH_PIXELS
from remp.labelling.embedding import embed_pictures
from remp.labelling.embedding.cache import KnownFiles, RecordFiles, identity

BATCH = BATCH_PIXELS // SIDE**2
TESTS = Path(__file__).parents[2]


def n_embedded(task, cache, **settings) -> int:
    """How many images the network sees in a run; the embeddings must be right."""
    embedder = mean_colour_embedder()
    check_values(embed_pictures(task, embedder, cache, **settings))
    return embedder.network.count


def check_values(made):
    expected = colours(2000)[[int(Path(name).stem) for name in made.task.names]] / 255
    np.testing.assert_allclose(made.values, expected, atol=1e-5)


def test_every_picture_gets_its_embedding_and_its_hashes(tmp_path):
    task = write_pictures(tmp_path / "photos", 12)
    made = embed_pictures(task, mean_colour_embedder(), tmp_path / "cache")
    check_values(made)
    assert (made.task.names, made.task.paths, made.task.skipped) == (task.names, task.paths, ())
    assert made.values.dtype == np.float32
    assert len(set(made.content_hashes)) == 12
    assert made.picture_hashes.dtype == np.uint64
    assert (made.picture_hashes == 0).all()  # nothing is brighter than its neighbour
    assert {name: stage.images for name, stage in made.stages.items()} == {"hash": 12, "decode": 12, "network": 12}
    assert all(stage.rate > 0 for stage in made.stages.values())


def test_the_cache_lies_in_the_home_of_remp(tmp_path, own_home):
    embed_pictures(write_pictures(tmp_path / "photos", 3), mean_colour_embedder())
    assert any((own_home / "embeddings").rglob("*.rows"))


def test_a_second_run_reads_no_picture_and_asks_no_network(tmp_path, monkeypatch):
    task = write_pictures(tmp_path / "photos", 12)
    first = embed_pictures(task, mean_colour_embedder(), tmp_path / "cache")
    monkeypatch.setattr(Path, "read_bytes", None)
    embedder = mean_colour_embedder()
    again = embed_pictures(task, embedder, tmp_path / "cache")
    assert embedder.network.count == 0
    assert (first.n_cached, again.n_cached) == (0, 12)
    for name in ("values", "content_hashes", "picture_hashes"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


def test_the_cache_is_opened_a_few_times_and_not_for_every_picture(tmp_path, monkeypatch):
    read, opened = RecordFiles.read, []
    monkeypatch.setattr(RecordFiles, "read", lambda *asked: opened.append(asked) or read(*asked))
    numbers = []
    for n in (5, 40):
        task = write_pictures(tmp_path / f"photos-{n}", n)
        assert n_embedded(task, tmp_path / f"cache-{n}") == n
        opened.clear()
        assert n_embedded(task, tmp_path / f"cache-{n}") == 0
        numbers.append(len(opened))
    assert numbers[0] == numbers[1]


def test_another_embedder_has_embeddings_of_its_own(tmp_path):
    task = write_pictures(tmp_path / "photos", 3)
    embed_pictures(task, mean_colour_embedder("one"), tmp_path / "cache")
    other = mean_colour_embedder("other")
    embed_pictures(task, other, tmp_path / "cache")
    assert other.network.count == 3


def test_pictures_that_were_moved_or_renamed_are_not_embedded_again(tmp_path):
    write_pictures(tmp_path / "photos", 12)
    assert n_embedded(task_of(sorted((tmp_path / "photos").iterdir())), tmp_path / "cache") == 12
    (tmp_path / "photos").rename(tmp_path / "moved")
    assert n_embedded(task_of(sorted((tmp_path / "moved").iterdir())), tmp_path / "cache") == 0


def test_a_picture_that_changes_is_embedded_again_even_with_the_same_size_and_time(tmp_path):
    task = write_pictures(tmp_path / "photos", 3)
    n_embedded(task, tmp_path / "cache")
    before = task.paths[0].stat()
    Image.new("RGB", (20, 30), (9, 9, 9)).save(tmp_path / "new.png")
    os.utime(tmp_path / "new.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new.png").replace(task.paths[0])
    made = embed_pictures(task, mean_colour_embedder(), tmp_path / "cache")
    np.testing.assert_allclose(made.values[0], 9 / 255, atol=1e-5)


def test_a_file_that_was_written_just_now_is_read_again_next_time(tmp_path):
    """Its time of change could stay the same at a change in the same moment."""
    task = write_pictures(tmp_path / "photos", 1)
    os.utime(task.paths[0])
    n_embedded(task, tmp_path / "cache")
    status = task.paths[0].stat()
    other = tmp_path / "other.png"
    Image.new("RGB", (20, 30), (9, 9, 9)).save(other)
    content = other.read_bytes()
    task.paths[0].write_bytes(content)
    os.utime(task.paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    made = embed_pictures(task, mean_colour_embedder(), tmp_path / "cache")
    np.testing.assert_allclose(made.values[0], 9 / 255, atol=1e-5)


def test_one_picture_many_times_is_embedded_once(tmp_path):
    task = write_pictures(tmp_path / "photos", 3)
    copies = [shutil.copy2(task.paths[1], tmp_path / f"0001.{i}.png") for i in range(4)]
    both = task_of([*task.paths, *copies])
    embedder = mean_colour_embedder()
    made = embed_pictures(both, embedder, tmp_path / "cache")
    assert embedder.network.count == 3
    np.testing.assert_array_equal(made.values[3:], made.values[[1] * 4])
    assert len(set(made.content_hashes)) == 3


def test_what_cannot_be_read_is_listed_with_its_reason_and_stops_nobody(tmp_path):
    task = write_pictures(tmp_path / "photos", 6)
    task.paths[0].write_bytes(b"")
    task.paths[3].write_text("no picture")
    task.paths[5].unlink()
    for _ in range(2):  # the second time with a cache
        made = embed_pictures(task, mean_colour_embedder(), tmp_path / "cache")
        assert made.task.names == ("0001.png", "0002.png", "0004.png")
        check_values(made)
        reasons = dict(made.task.skipped)
        assert reasons["0000.png"] == "an empty file"
        assert reasons["0003.png"].startswith("not a picture")
        assert reasons["0005.png"] == "not there (any more)"


def test_a_folder_of_nothing_but_rubbish_gives_no_rows(tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    made = embed_pictures(task_of([tmp_path / "a.jpg"]), mean_colour_embedder(), tmp_path / "cache")
    assert made.values.shape == (0, 3)
    assert made.content_hashes.shape == made.picture_hashes.shape == (0,)


def test_damaged_embeddings_are_made_again(tmp_path):
    task, cache = write_pictures(tmp_path / "photos", 12), tmp_path / "cache"
    n_embedded(task, cache)
    rows = next(cache.rglob("*.rows"))
    content = bytearray(rows.read_bytes())
    content[5 * 12 + 2] ^= 1  # one bit of one number of the picture 5
    rows.write_bytes(content)
    assert n_embedded(task, cache) == 1
    assert n_embedded(task, cache) == 0


@pytest.mark.parametrize("kind", ["rows", "keys", "files"])
def test_files_of_the_cache_full_of_rubbish_do_no_harm(tmp_path, kind):
    task, cache = write_pictures(tmp_path / "photos", 12), tmp_path / "cache"
    n_embedded(task, cache)
    random = np.random.default_rng(0)
    for path in cache.rglob(f"*.{kind}"):
        path.write_bytes(random.bytes(path.stat().st_size))
    assert n_embedded(task, cache) == (0 if kind == "files" else 12)
    assert n_embedded(task, cache) == 0


def test_where_nothing_can_be_kept_the_work_goes_on_and_says_so_once(tmp_path, capsys):
    (tmp_path / "cache").write_text("a file where the folder should be")
    task = write_pictures(tmp_path / "photos", 2 * BATCH + 1)
    assert n_embedded(task, tmp_path / "cache") == 2 * BATCH + 1
    assert capsys.readouterr().out.count("Embeddings cannot be kept for the next run") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_cache_that_may_only_be_read_is_read(tmp_path):
    task, cache = write_pictures(tmp_path / "photos", 6), tmp_path / "cache"
    n_embedded(task_of(task.paths[:4]), cache)
    for folder in [cache, *(path for path in cache.rglob("*") if path.is_dir())]:
        folder.chmod(0o500)
    assert n_embedded(task, cache) == 2


def test_a_full_disk_ends_the_cache_and_not_the_work(tmp_path, capsys):
    resource, signal = pytest.importorskip("resource"), pytest.importorskip("signal")
    task = write_pictures(tmp_path / "photos", 2 * BATCH)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BATCH * 12 + 100, hard))  # a batch of rows, and a little
    try:
        assert n_embedded(task, tmp_path / "cache") == 2 * BATCH
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert "cannot be kept" in capsys.readouterr().out


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from embedding_cases import MeanColour, mean_colour_embedder, task_of
from remp.labelling.embedding import embed_pictures

class Stopped(MeanColour):
    def __call__(self, images):
        if self.count:
            os.kill(os.getpid(), getattr(signal, sys.argv[4]))
        return super().__call__(images)

embedder = mean_colour_embedder()
object.__setattr__(embedder, "network", Stopped())
embed_pictures(task_of(sorted(Path(sys.argv[2]).iterdir())), embedder, Path(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGKILL", "SIGINT"])
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, signal):
    task = write_pictures(tmp_path / "photos", 2 * BATCH)
    arguments = [str(TESTS), str(tmp_path / "photos"), str(tmp_path / "cache"), signal]
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], capture_output=True, text=True)
    assert ended.returncode != 0
    assert n_embedded(task, tmp_path / "cache") == BATCH


def test_an_exception_in_the_middle_keeps_what_was_done(tmp_path):
    task, embedder = write_pictures(tmp_path / "photos", 2 * BATCH), mean_colour_embedder()

    def stop(images):
        if stop.calls:
            raise KeyboardInterrupt
        stop.calls += 1
        return images.mean((2, 3))

    stop.calls = 0
    object.__setattr__(embedder, "network", stop)
    with pytest.raises(KeyboardInterrupt):
        embed_pictures(task, embedder, tmp_path / "cache")
    assert n_embedded(task, tmp_path / "cache") == BATCH


class InTurn:
    """Stands in for a Shard: the processes of a test are threads, which wait for each other."""

    def __init__(self, rank: int, world: int, barrier) -> None:
        self.rank, self.world, self._barrier = rank, world, barrier

    def sum(self, tensor):
        self._barrier.wait(timeout=30)
        return tensor


def test_processes_share_the_work_and_all_get_everything(tmp_path):
    task = write_pictures(tmp_path / "photos", 31)
    task.paths[7].write_text("no picture")
    barrier, embedders = Barrier(3), [mean_colour_embedder() for _ in range(3)]

    def run(rank: int):
        return embed_pictures(task, embedders[rank], tmp_path / "cache", shard=InTurn(rank, 3, barrier))

    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(run, range(3)))
    for one in made:
        check_values(one)
        assert [name for name, _ in one.task.skipped] == ["0007.png"]
    assert sorted(embedder.network.count for embedder in embedders) == [9, 10, 11]  # one of 31 cannot be read


def test_processes_without_a_common_disk_do_all_the_work_each(tmp_path):
    task, barrier = write_pictures(tmp_path / "photos", 5), Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        shards = [InTurn(rank, 2, barrier) for rank in range(2)]
        made = list(
            pool.map(lambda s: embed_pictures(task, mean_colour_embedder(), tmp_path / f"{s.rank}", shard=s), shards)
        )
    for one in made:
        check_values(one)


UNDER_TORCHRUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
from embedding_cases import mean_colour_embedder, task_of
from remp.labelling.embedding import embed_pictures
from remp.rows.sharding import current_shard

embedder, shard = mean_colour_embedder(), current_shard()
made = embed_pictures(task_of(sorted(Path(sys.argv[2]).iterdir())), embedder, Path(sys.argv[3]), shard=shard)
np.savez(Path(sys.argv[4]) / f"{shard.rank}.npz", values=made.values, count=embedder.network.count)
"""


@pytest.mark.slow
def test_two_processes_of_torchrun_embed_half_of_the_pictures_each(tmp_path):
    write_pictures(tmp_path / "photos", 30)
    (tmp_path / "script.py").write_text(UNDER_TORCHRUN, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [tmp_path / "script.py", TESTS, tmp_path / "photos", tmp_path / "cache", tmp_path]
    subprocess.run([*launcher, *map(str, arguments)], check=True, capture_output=True, timeout=240)
    for rank in range(2):
        made = np.load(tmp_path / f"{rank}.npz")
        assert made["count"] == 15
        np.testing.assert_allclose(made["values"], colours(30) / 255, atol=1e-5)


def test_a_damaged_record_of_a_known_file_counts_as_not_there(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"x")
    os.utime(path, (0, 0))  # long ago: it has settled
    known = KnownFiles(tmp_path / "cache")
    known.add(identity(path), b"0123456789abcdef")
    known.close()
    assert KnownFiles(tmp_path / "cache").contents([identity(path)]) == [b"0123456789abcdef"]
    (file,) = (tmp_path / "cache" / "files").iterdir()
    content = file.read_bytes()
    for place in range(16, len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert KnownFiles(tmp_path / "cache").contents([identity(path)]) == [None]
