"""The numerical tests as other processors would run them: `nox -s tests_portable`, one table at the end.

    python tests/portable.py                       every setting
    python tests/portable.py oldest MKL_CBWR=AVX2  some of them
    python tests/portable.py --short               the two that differ most, on few files (as .ci/run does)
    python tests/portable.py --covering            three that hold every value of every variable, on the numerical files
    python tests/portable.py -- -k newton          what follows -- is given to pytest

The libraries choose their loops by the processor they find. These variables let them choose as on another one, so that
no tolerance rests on the rounding of one processor. A setting that the processor at hand does not know is passed over
by the library itself.

Each of these variables speaks to another library: MKL (the matrices of torch), ATen (its other loops), OpenBLAS (those
of NumPy), XLA and Numba. So `--covering` needs three runs: each value of each variable, and each number of threads, is
in one of them. Where one fails, the single settings that it is made of say which library is at fault.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("tests/gfy", "tests/solvers", "tests/walk")
FEW = (
    "tests/gfy/test_regularizers.py",
    "tests/gfy/test_conjugates.py",
    "tests/solvers/test_dual_newton.py",
    "tests/solvers/test_low_rank_kernel.py",
    "tests/solvers/test_chunks.py",
)
# Files that hold sentences, refusals and imports, which no processor's rounding changes.
WORDS = (
    "tests/gfy/test_bad_input.py",
    "tests/gfy/test_explain.py",
    "tests/gfy/test_long_use.py",
    "tests/gfy/test_told.py",
    "tests/gfy/test_wrong_arguments.py",
    "tests/solvers/test_cuda_lowering.py",
)
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
Environment = dict[str, str]


def threads(count: int) -> Environment:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(count))


def settings() -> dict[str, Environment]:
    """The environment of each setting, by name."""
    single = {
        "MKL_CBWR": ("COMPATIBLE", "AVX2", "AVX512"),
        "ATEN_CPU_CAPABILITY": ("default", "avx2"),
        "OPENBLAS_CORETYPE": ("Nehalem", "Haswell"),
    }
    found = {f"{name}={value}": {name: value} for name, values in single.items() for value in values}
    found |= {
        f"xla_cpu_max_isa={isa}": {"XLA_FLAGS": f"--xla_cpu_max_isa={isa}"} for isa in ("SSE4_2", "AVX2")
    }
    found["NUMBA_CPU_NAME=generic"] = dict(GENERIC)
    found |= {f"threads={count}": threads(count) for count in (1, 2, 4)}
    found["oldest"] = {
        "MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2", **GENERIC, **threads(1),
    }  # fmt: skip
    found["avx2"] = {
        "MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", **threads(2),
    }  # fmt: skip
    found["avx512"] = {"MKL_CBWR": "AVX512", **threads(4)}  # and what else the processor at hand has
    return found


SHORT = ("oldest", "avx2")
COVERING = ("oldest", "avx2", "avx512")  # tests/test_structure.py holds that no value is missing


def repeat(name: str, environment: Environment, pytest: list[str]) -> tuple[str, bool]:
    """Run pytest in the environment: a row of the table, and whether all passed."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        # compiled loops are kept on disk for the processor they were made for: a place of their own
        env = os.environ | {"NUMBA_CACHE_DIR": place} | threads(1) | environment
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", f"--junitxml={report}", *pytest]
        begin = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        seconds = time.monotonic() - begin
        if not report.exists():
            return f"{name:<32} pytest ended with code {code} and no report", False
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        failed = []
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for key in counts:
                counts[key] += int(suite.get(key, 0))
            for case in suite.iter("testcase"):
                if case.find("failure") is not None or case.find("error") is not None:
                    failed.append(f"    {case.get('classname')}::{case.get('name')}")
    wrong = counts["failures"] + counts["errors"]
    passed = counts["tests"] - wrong - counts["skipped"]
    row = f"{name:<32} {passed:>6} passed {wrong:>4} failed {counts['skipped']:>5} skipped {seconds:>6.0f} s"
    return "\n".join([row, *failed]), code == 0 and wrong == 0


def main(given: list[str]) -> int:
    mine, further = (
        (given, []) if "--" not in given else (given[: given.index("--")], given[given.index("--") + 1 :])
    )
    known = settings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(known))
    parser.add_argument(
        "--short", action="store_true", help=f"Run {' and '.join(SHORT)} on {len(FEW)} files."
    )
    parser.add_argument(
        "--covering", action="store_true", help=f"Run {', '.join(COVERING)} on the numerical files."
    )
    chosen = parser.parse_args(mine)
    few = SHORT if chosen.short else COVERING if chosen.covering else tuple(known)
    names = chosen.settings or list(few)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown settings {', '.join(unknown)}; known are {', '.join(known)}")
    named = any((ROOT / word.partition("::")[0]).exists() for word in further)
    numerical = ("tests/gfy", "tests/solvers", *(f"--ignore={name}" for name in WORDS))
    places = () if named else FEW if chosen.short else numerical if chosen.covering else PLACES
    pytest = ["-n", "2", "-m", "not slow", *places, *further]
    rows = []
    for name in names:
        print(f"\n--- {name}", flush=True)
        rows.append(repeat(name, known[name], pytest))
    print("\nsetting")
    print("\n".join(row for row, _ in rows))
    return 0 if all(fine for _, fine in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
