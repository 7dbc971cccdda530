"""Snapshots as a file system, and what reads data through it."""

import fsspec
import inputs
import numpy as np
import onefold
import pandas
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "source"
    (folder / "year").mkdir(parents=True)
    (folder / "raw").write_bytes(inputs.splitmix64(2, 1_000_000))
    for month in (1, 2):
        table = pandas.DataFrame({"month": month, "value": np.arange(20_000) * month})
        table.to_parquet(folder / "year" / f"{month}.parquet", index=False)
        table.to_csv(folder / "year" / f"{month}.csv", index=False)
    made = onefold.Repository.init(tmp_path / "repository", "secret")
    made.backup(folder)
    return made


@pytest.fixture
def options(repository):
    return {"repository": repository.location, "password": "secret"}


def test_a_snapshot_lists_as_a_file_system(repository, options):
    files = fsspec.filesystem("onefold", **options)
    snapshot = repository.snapshot().id
    assert [one["name"] for one in files.ls("")] == [snapshot]
    assert files.ls(f"onefold://{snapshot}", detail=False) == [
        f"{snapshot}/raw",
        f"{snapshot}/year",
    ]
    assert files.isdir("latest/year") and files.isfile("latest/raw")
    assert files.exists("latest") and not files.exists("latest/nothing")
    assert files.info("latest/raw")["size"] == files.size("latest/raw") == 1_000_000
    assert sorted(files.glob("latest/year/*.csv")) == ["latest/year/1.csv", "latest/year/2.csv"]
    assert len(files.find("latest")) == 5
    assert files.created("latest/raw") == repository.snapshot().time
    with pytest.raises(FileNotFoundError):
        files.ls("latest/nothing")
    with pytest.raises(OSError, match="never written"):
        files.open("latest/raw", "wb")


def test_ranges_are_read_in_place(options):
    files = fsspec.filesystem("onefold", **options)
    data = inputs.splitmix64(2, 1_000_000)
    assert files.cat("latest/raw") == data
    assert files.cat_file("latest/raw", 10, 20) == data[10:20]
    assert files.cat_file("latest/raw", -10) == data[-10:]
    assert files.cat_file("latest/raw", start=999_990, end=2_000_000) == data[-10:]
    assert files.head("latest/raw", 5) == data[:5]
    with fsspec.open("onefold://latest/raw", **options) as file:
        file.seek(500_000)
        assert file.read(100) == data[500_000:500_100]


def test_the_repository_comes_from_the_environment(options, monkeypatch):
    monkeypatch.setenv("ONEFOLD_REPOSITORY", options["repository"])
    monkeypatch.setenv("ONEFOLD_PASSWORD", options["password"])
    with fsspec.open("onefold://latest/raw") as file:
        assert len(file.read()) == 1_000_000
    monkeypatch.delenv("ONEFOLD_REPOSITORY")
    with pytest.raises(ValueError, match="ONEFOLD_REPOSITORY"):
        fsspec.filesystem("onefold", skip_instance_cache=True)


def test_pandas_reads_out_of_a_snapshot(options):
    table = pandas.read_csv("onefold://latest/year/2.csv", storage_options=options)
    assert table["value"].sum() == 2 * sum(range(20_000))
    table = pandas.read_parquet("onefold://latest/year/1.parquet", storage_options=options)
    assert list(table.columns) == ["month", "value"] and len(table) == 20_000


def test_pyarrow_reads_out_of_a_snapshot(options):
    files = pyarrow.fs.PyFileSystem(
        pyarrow.fs.FSSpecHandler(fsspec.filesystem("onefold", **options))
    )
    data = pyarrow.dataset.dataset(
        ["latest/year/1.parquet", "latest/year/2.parquet"], filesystem=files
    )
    assert data.count_rows() == 40_000
    table = pyarrow.parquet.read_table("latest/year/2.parquet", filesystem=files)
    assert table.num_rows == 20_000


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_dask_reads_out_of_a_snapshot(options):
    dataframe = pytest.importorskip("dask.dataframe")
    table = dataframe.read_csv("onefold://latest/year/*.csv", storage_options=options)
    assert int(table["value"].sum().compute(scheduler="threads")) == 3 * sum(range(20_000))
