"""Repositories: what was backed up is listed and read, and what is wrong has an exception."""

import io
import os
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta

import inputs
import onefold
import pytest

PASSWORD = "correct horse"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "big").write_bytes(inputs.splitmix64(1, 3_000_000))
    (folder / "sub" / "text").write_text("one\ntwo\nthree\n")
    (folder / "empty").touch()
    (folder / "link").symlink_to("sub/text")
    (folder / os.fsdecode(b"n\xffme")).write_bytes(b"odd")
    with open(folder / "sparse", "wb") as file:
        file.truncate(5_000_000)
        file.seek(4_000_000)
        file.write(b"end")
    return folder


@pytest.fixture
def plain(tmp_path):
    return onefold.Repository.init(tmp_path / "repository", encrypt=False)


def test_what_was_backed_up_is_listed_and_read(plain, source):
    before = datetime.now(UTC) - timedelta(seconds=1)
    made = plain.backup(source, tags=["weekly"], host="atlas")
    assert before <= made.time <= datetime.now(UTC) + timedelta(seconds=1)
    assert (made.host, made.tags, made.paths) == ("atlas", ["weekly"], [str(source)])
    assert (made.files, made.unreadable, made.issues) == (5, 0, [])
    assert [one.id for one in plain.snapshots()] == [made.id]
    assert plain.snapshot(made.id[:8]).id == plain.snapshot().id == made.id

    names = [entry.name for entry in plain.ls()]
    assert names == sorted(os.listdir(source), key=os.fsencode)
    assert [entry.path for entry in plain.ls("latest:sub")] == ["sub/text"]
    for entry in plain.ls(f"{made.id}:/"):
        status = os.lstat(source / entry.name)
        assert entry.mtime_ns == status.st_mtime_ns
        assert entry.mode == status.st_mode & 0o7777
        if entry.is_file:
            assert entry.size == status.st_size
            assert plain.read(f"latest:{entry.name}").read() == (source / entry.name).read_bytes()
    assert plain.stat("latest:link").target == "sub/text"
    assert plain.stat("latest").is_directory


def test_a_file_seeks_as_any_file_does(plain, source):
    plain.backup(source)
    content = (source / "big").read_bytes()
    with plain.read("latest:big") as file:
        assert file.readable() and file.seekable() and not file.writable()
        assert file.seek(-1000, io.SEEK_END) == len(content) - 1000
        assert file.read() == content[-1000:]
        assert file.read(5) == b""
        file.seek(1_234_567)
        assert file.read(70_000) == content[1_234_567 : 1_234_567 + 70_000]
        assert file.tell() == 1_234_567 + 70_000
        with pytest.raises(ValueError):
            file.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        file.read()
    raw = plain.read("latest:big", buffering=0)
    assert isinstance(raw, io.RawIOBase) and raw.size == len(content)
    into = bytearray(100)
    assert raw.readinto(into) == 100 and into == content[:100]
    lines = io.TextIOWrapper(plain.read("latest:sub/text")).readlines()
    assert lines == ["one\n", "two\n", "three\n"]


def test_threads_read_different_files_of_one_repository(plain, source):
    plain.backup(source)
    found = {}

    def read(name):
        found[name] = plain.read(f"latest:{name}").read()

    threads = [threading.Thread(target=read, args=(name,)) for name in ("big", "sparse", "empty")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: (source / name).read_bytes() for name in found}


def test_a_second_backup_reads_what_changed_and_both_can_be_read(plain, source):
    first = plain.backup(source)
    assert plain.read("latest:sub/text").read() == b"one\ntwo\nthree\n"
    (source / "sub" / "text").write_text("four\n")
    second = plain.backup(source)
    assert second.parent == first.id and second.new_bytes < 100_000
    assert plain.read(f"{second.id}:sub/text").read() == b"four\n"
    assert plain.read(f"{first.id}:sub/text").read() == b"one\ntwo\nthree\n"
    other = onefold.Repository.open(plain.location)
    assert other.id == plain.id
    assert [one.id for one in other.snapshots()] == [first.id, second.id]


def test_an_encrypted_repository_takes_its_password(tmp_path, source):
    place = tmp_path / "repository"
    made = onefold.Repository.init(place, PASSWORD)
    assert made.is_encrypted
    made.backup([source / "sub"])
    assert onefold.Repository.open(place, PASSWORD.encode()).read("latest:text").read()
    with pytest.raises(PermissionError, match="wrong password"):
        onefold.Repository.open(place, "another")
    with pytest.raises(PermissionError, match="takes a password"):
        onefold.Repository.open(place)
    for arguments in ({}, {"password": PASSWORD, "encrypt": False}):
        with pytest.raises(PermissionError, match="password"):
            onefold.Repository.init(tmp_path / "second", **arguments)
    assert not (tmp_path / "second").exists()


def test_a_password_for_a_repository_without_one_is_an_error(plain):
    with pytest.raises(PermissionError, match="not encrypted"):
        onefold.Repository.open(plain.location, PASSWORD)


def test_what_is_missing_has_the_exception_of_its_kind(plain, source, tmp_path):
    with pytest.raises(FileNotFoundError, match="no snapshot|none yet"):
        plain.ls()
    plain.backup(source)
    for path in ("latest:nothing", "latest:big/below", "abcdef:big"):
        with pytest.raises((FileNotFoundError, onefold.RepositoryError)):
            plain.stat(path)
    with pytest.raises(FileNotFoundError):
        plain.read("latest:nothing")
    with pytest.raises(IsADirectoryError):
        plain.read("latest:sub")
    with pytest.raises(OSError, match="symlink, expected a file"):
        plain.read("latest:link")
    with pytest.raises(NotADirectoryError):
        plain.ls("latest:big")
    with pytest.raises(FileNotFoundError):
        onefold.Repository.open(tmp_path / "nowhere")
    (tmp_path / "bare").mkdir()
    with pytest.raises(FileNotFoundError, match="no repository"):
        onefold.Repository.open(tmp_path / "bare")
    with pytest.raises(ValueError, match="scheme before its colon is not known"):
        onefold.Repository.open("ftp://host/path")
    with pytest.raises(FileExistsError):
        onefold.Repository.init(plain.location, encrypt=False)


def test_another_repository_at_a_known_place_is_refused(tmp_path, plain):
    place = plain.location
    os.rename(place, tmp_path / "moved")
    # Made by another client, whose memory this one does not share.
    other = onefold.Repository.init(place, encrypt=False, state_dir=tmp_path / "other")
    with pytest.raises(onefold.RepositoryError, match="another repository is in"):
        onefold.Repository.open(place)
    accepted = onefold.Repository.open(place, accept_repository=other.id)
    assert accepted.id == other.id


def test_a_damaged_object_is_an_error_that_names_it(plain, source):
    plain.backup(source)
    damaged = 0
    for folder, _, names in os.walk(os.path.join(plain.location, "containers")):
        for name in names:
            path = os.path.join(folder, name)
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:
                content = bytearray(file.read())
                for at in range(100, len(content), 1000):
                    content[at] ^= 1
                file.seek(0)
                file.write(content)
                damaged += 1
    assert damaged > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onefold.RepositoryWarning)
        again = onefold.Repository.open(plain.location, use_cache=False)
        with pytest.raises(onefold.RepositoryError, match="container"):
            again.read("latest:big").read()


def test_what_cannot_be_read_is_left_out_and_warned_of(plain, source):
    missing = source / "missing"
    with pytest.warns(onefold.RepositoryWarning, match="missing"):
        made = plain.backup([source / "sub", missing])
    assert made.unreadable == 1 and "missing" in made.issues[0]


def test_an_interrupt_ends_a_backup_without_a_snapshot(tmp_path):
    """In a process of its own, whose only thread gets the signal."""
    folder = tmp_path / "source"
    folder.mkdir()
    block = inputs.splitmix64(9, 1 << 20)
    for number in range(400):
        (folder / str(number)).write_bytes(number.to_bytes(4, "little") + block)
    program = """if True:
        import sys, onefold
        repository = onefold.Repository.init(sys.argv[1], encrypt=False, padding=False)
        print("ready", flush=True)
        try:
            repository.backup(sys.argv[2], threads=1)
        except KeyboardInterrupt:
            print("interrupted", len(repository.snapshots()))
        else:
            print("finished")
    """
    place = tmp_path / "repository"
    command = [sys.executable, "-c", program, place, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.05)
        child.send_signal(2)
        told = child.communicate(timeout=120)[0]
    # A machine that stored 400 MiB before the signal came proves nothing, and fails nothing.
    assert told in ("interrupted 0\n", "finished\n")
    assert child.returncode == 0


def test_the_chunker_of_a_repository_is_chosen_once(tmp_path, source):
    chunker = onefold.Chunker("fastcdc", avg=4096)
    made = onefold.Repository.init(tmp_path / "repository", encrypt=False, chunker=chunker)
    made.backup(source)
    assert made.read("latest:big").read() == (source / "big").read_bytes()
    with pytest.raises(onefold.RepositoryError, match="presets"):
        onefold.Repository.init(
            tmp_path / "second", encrypt=False, chunker=onefold.Chunker("restic")
        )
