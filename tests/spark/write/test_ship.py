"""What is sent to workers is complete, small, and shuts out any other Esker."""

from __future__ import annotations

import ast
import inspect
import marshal
import pickle
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import esker
from esker.spark.workers import ship
from esker.storage.local import LocalStorage
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage
from esker.storage.relocated import RelocatedStorage

WORKER = "esker.spark.workers.arrow_write_worker"

# In a process that cannot import Esker: load what was sent, and say which modules it brought.
_RECEIVER = """
import sys, pickle
sys.path[:] = [entry for entry in sys.path if not entry.endswith("src")]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
{before}
from pyspark import cloudpickle
task = cloudpickle.loads(bytes.fromhex(sys.stdin.read()))
try:
    list(task([]))
except AssertionError:
    pass  # there is no Spark task here
worker = sys.modules["esker.spark.workers.arrow_write_worker"]
print(worker.__spec__.origin, "esker.wiring" in sys.modules, "mmh3" in sys.modules)
try:
    import esker.wiring
except ModuleNotFoundError as error:
    print(error)
"""


def received(before: str = "") -> list[str]:
    """What a worker says after it was sent the code."""
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle

    sent = cloudpickle.dumps(ship.shipped(WORKER, pickle.dumps(None)))
    done = subprocess.run(
        [sys.executable, "-c", _RECEIVER.format(before=before)],
        input=sent.hex(),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_process_without_esker_can_run_what_it_was_sent() -> None:
    loaded, missing = received()
    assert loaded.startswith("sent with the job False")
    assert missing == "esker.wiring was not sent with the job"


def test_what_was_sent_takes_the_place_of_another_esker(tmp_path: Path) -> None:
    (tmp_path / "esker").mkdir()
    (tmp_path / "esker" / "__init__.py").write_text("other = True")
    loaded, missing = received(f"sys.path.insert(0, {str(tmp_path)!r}); import esker; assert esker.other")
    assert loaded.startswith("sent with the job False")
    assert missing == "esker.wiring was not sent with the job"


def test_a_worker_needs_no_library_but_pyarrow_and_numpy() -> None:
    lacking = "; ".join(f"sys.modules[{name!r}] = None" for name in ("mmh3", "msgspec", "fastavro", "sqlglot"))
    loaded, _ = received(lacking)
    assert loaded.startswith("sent with the job")


def test_a_parcel_is_small() -> None:
    parcel, digest, unpack = ship._packed(WORKER)
    assert len(parcel) < 300_000
    assert len(unpack) < 10_000
    assert len(digest) == 64


def test_a_parcel_for_an_object_store_is_small_too() -> None:
    parcel, _, _ = ship._packed(WORKER, frozenset({"esker.storage.choose"}))
    assert len(parcel) < 310_000


def test_what_an_order_holds_is_sent_with_it() -> None:
    objects = ObjectStorage(ObjectConfiguration.of(), roots=["s3://bucket/t"])
    named = ship._named_in(pickle.dumps({"storage": objects}), WORKER)
    assert "esker.storage.objects.object_storage" in named
    assert {"esker.storage.objects.object_storage", "esker.storage.objects.make_store"} <= sent_with(named)
    assert ship._named_in(pickle.dumps(LocalStorage()), WORKER) == {"esker.storage.local"}
    assert "esker.storage.objects.object_storage" not in sent_with(frozenset({"esker.storage.local"}))


_USES_COMPILED = """
import sys, pickle, marshal
parcel, digest, unpack = pickle.load(sys.stdin.buffer)
names = {"__name__": "esker_unpack"}
exec(marshal.loads(unpack), names)
names["unpack"](parcel, digest)
from esker.arrow.flat import _parquet, flat_scan
print(flat_scan.__spec__.origin, _parquet.__file__)
"""


def test_a_worker_with_the_same_esker_reads_by_compiled_code() -> None:
    compiled = pytest.importorskip("esker.arrow.flat._parquet", reason="the compiled part was not built")
    given = pickle.dumps(ship._packed("esker.spark.workers.arrow_read_worker"))
    done = subprocess.run([sys.executable, "-c", _USES_COMPILED], input=given, capture_output=True, check=False)
    assert done.stdout.decode().strip() == f"sent with the job {compiled.__file__}", done.stderr.decode()


def test_objects_that_are_pickled_inside_an_order_are_found_too() -> None:
    inner = pickle.dumps(RelocatedStorage)
    assert ship._named_in(pickle.dumps([inner]), WORKER) == {"esker.storage.relocated"}


def test_a_text_that_looks_like_a_module_does_no_harm() -> None:
    assert ship._named_in(pickle.dumps(["esker.nothing.of.that.name", "/esker.errors.x", "esker."]), WORKER) == set()


def sent_with(named: frozenset[str]) -> set[str]:
    """The names of the modules in a parcel."""
    return set(marshal.loads(zlib.decompress(ship._packed(WORKER, named)[0])))


def test_what_is_sent_has_no_docstrings_and_no_types_of_functions() -> None:
    modules = marshal.loads(zlib.decompress(ship._packed(WORKER)[0]))
    names: dict[str, Any] = {"__name__": "esker.model.file_paths"}
    exec(modules["esker.model.file_paths"][1], names)
    made = [value for value in names.values() if inspect.isfunction(value) and value.__module__ == names["__name__"]]
    assert made
    assert not any(function.__doc__ or function.__annotations__ for function in made)


def test_modules_are_sent_with_the_packages_above_them_and_without_the_rest() -> None:
    sent = ship.modules_of(WORKER)
    assert sent["esker"][0]
    assert sent["esker.storage"][0]
    assert not sent[WORKER][0]
    assert "esker.cli" not in sent


def test_a_package_without_a_file_of_its_own_is_sent_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loose" / "inner").mkdir(parents=True)
    (tmp_path / "loose" / "inner" / "leaf.py").write_text("from esker.errors import InvalidInput")
    monkeypatch.syspath_prepend(str(tmp_path))
    sent = ship.modules_of("loose.inner.leaf")
    assert sent["loose.inner"] == (True, "")
    assert "esker.errors" in sent


SOURCE = Path(esker.__file__).parent
WORKERS = sorted(
    "esker." + path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
    for path in SOURCE.rglob("*_worker.py")
)


@pytest.mark.parametrize("entry", WORKERS)
def test_nothing_that_is_sent_loads_a_library_that_executors_lack(entry: str) -> None:
    """Of what is imported when a module is loaded; a late import is for what workers do not do."""
    there = {"esker", "numpy", "pyarrow", "pyspark", *sys.stdlib_module_names}
    for name, (_, text) in ship.modules_of(entry).items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert {one.partition(".")[0] for one in names} <= there, name
