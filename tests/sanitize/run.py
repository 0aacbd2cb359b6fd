"""``make sanitize``: the compiled parts built with ASan and UBSan, run under their tests and under a bounded fuzz.

1. Build the package into ``build/sanitize``, beside the usual build, with both sanitizers.
2. Build ``broken.c`` likewise, and require a report of each of its three faults. A run without one proves nothing.
3. Run the tests of the compiled parts.
4. Run ``fuzz.py`` and require that no leak is reported from the project's C code.

Needs gcc or clang with its sanitizer libraries. Exits with 1, and the report, at the first fault.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "sanitize"
LIBRARY = BUILD / "lib"
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
TESTS = (
    "tests/arrow/flat/test_hostile_pages.py",
    "tests/arrow/test_parquet_footer.py",
    "tests/avro/test_decoding.py",
    "tests/avro/test_hostile_avro.py",
    "tests/avro/test_shred_twins.py",
    "tests/avro/test_whole_blocks.py",
    "tests/iceberg/test_split_document.py",
    "tests/otlp/test_otlp_decode.py",
    "tests/otlp/test_otlp_twins.py",
    "tests/otlp/test_otlp_variants.py",
)
SOURCES = re.compile(r"/(_parquet|_shred|_split|_walk|_variants)\w*\.[ch]:")
# Each fault, and what its report must say.
FAULTS = {
    "broken.read_past(b'x' * 100, 5)": "heap-buffer-overflow",
    "broken.shift_by(40)": "shift exponent 40 is too large",
    "broken.leak()": "in leak",
}


def run(command: list[str], more: dict[str, str], *, seconds: int = 900) -> subprocess.CompletedProcess[str]:
    """The command in the project's folder; its output is kept."""
    environment = {**os.environ, **more}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def demand(done: subprocess.CompletedProcess[str], what: str) -> None:
    """End the program, with the end of the output, unless the command succeeded and no sanitizer reported a fault."""
    if done.returncode or "ERROR: AddressSanitizer" in done.stderr or "runtime error:" in done.stderr:
        sys.exit(f"{done.stdout[-8000:]}\n{done.stderr[-12000:]}\nmake sanitize: {what} failed")


def build() -> None:
    """The package with its compiled parts, and the broken part, in ``build/sanitize/lib``."""
    shutil.rmtree(BUILD, ignore_errors=True)
    flags = {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(BUILD), "--build-lib", str(LIBRARY)]
    demand(run(command, flags), "the build with sanitizers")
    for name in ("arrow/flat/_parquet", "avro/_shred", "iceberg/metadata/_split", "otlp/_walk", "otlp/_variants"):
        if not list(LIBRARY.glob(f"esker/{name}.*.so")):
            sys.exit(f"make sanitize: esker/{name} was not built; is there a C compiler with its sanitizer libraries?")
    include = f"-I{sysconfig.get_path('include')}"
    output = str(LIBRARY / "broken.so")
    command = [compiler(), *FLAGS.split(), "-shared", "-fPIC", include, "tests/sanitize/broken.c", "-o", output]
    demand(run(command, {}), "the build of the broken part")


def compiler() -> str:
    """The compiler that Python's own build names, or ``$CC``."""
    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]


def sanitized(*, leaks: bool) -> dict[str, str]:
    """The environment of a run under the sanitizers. Python's allocator is switched off, so each object has its own
    guarded memory."""
    found = run([compiler(), "-print-file-name=libasan.so"], {}).stdout.strip()
    return {
        "LD_PRELOAD": found,
        "ASAN_OPTIONS": f"detect_leaks={int(leaks)}:allocator_may_return_null=1",
        "LSAN_OPTIONS": "exitcode=0",  # of every report, so a run is judged by what it printed
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join((str(LIBRARY), "tests/support", "tests/contracts")),
        "HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "glance"),
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def prove_that_faults_are_found() -> None:
    """Each fault of ``broken.c`` must be reported."""
    for fault, words in FAULTS.items():
        done = run([sys.executable, "-c", f"import broken; {fault}"], sanitized(leaks="leak" in fault), seconds=120)
        if words not in done.stderr:
            sys.exit(f"{done.stderr[-4000:]}\nmake sanitize: {fault} was not reported; the sanitizers do not work here")


def leaks_of_the_project(report: str) -> list[str]:
    """The leaks in a report of LSan whose stack goes through the project's C code. Python itself leaks at its end."""
    leaks = re.split(r"\n\n", report)
    return [leak for leak in leaks if "leak of" in leak and SOURCES.search(leak)]


def main() -> None:
    build()
    prove_that_faults_are_found()
    print("make sanitize: each fault of tests/sanitize/broken.c is reported")
    started = f"import esker, sys; sys.exit(not esker.__file__.startswith({str(LIBRARY)!r}))"
    demand(run([sys.executable, "-c", started], sanitized(leaks=False)), "the import of the build with sanitizers")
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
    done = run(tests, sanitized(leaks=False), seconds=1800)
    demand(done, "a test under the sanitizers")
    print("make sanitize:", done.stdout.strip().splitlines()[-1])
    rounds = os.environ.get("FUZZ_ROUNDS", "300")
    fuzz = [sys.executable, "tests/sanitize/fuzz.py", "--rounds", rounds, "--seed", os.environ.get("FUZZ_SEED", "7")]
    done = run(fuzz, sanitized(leaks=True), seconds=60 + int(rounds) * 2)
    demand(done, "the fuzz under the sanitizers")
    if leaks := leaks_of_the_project(done.stderr):
        sys.exit("\n\n".join(leaks[:5]) + f"\nmake sanitize: {len(leaks)} leaks in the project's C code")
    print("make sanitize:", done.stdout.strip())


if __name__ == "__main__":
    main()
