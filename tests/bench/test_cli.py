"""The command line: instant help, sentences for mistakes, names that complete, and a run from end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile import NAMES
from typer.testing import CliRunner

from bench.cli import VERBS, app, main, sentence
from bench.store import RecordsError, load

HERE = Path(__file__).parent
TOYS = str(HERE / "toy_solvers.py")
ENV = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "COLUMNS": "200"}
SMALL = ["--problem", "pairwise-gini(k=6, batch=3)", "--solver", f"{TOYS}:Ascent", "--backend", "torch",
         "--gradient", "envelope", "--tol", "1e-9", "--repeat", "2", "--dtype", "float64", "--seed", "0"]  # fmt: skip


def gfy(*args: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.cli", *args]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=timeout, check=False)


def test_help_wakes_nothing_heavy_up() -> None:
    script = (
        "import sys\nfrom bench.cli import app\n"
        "try:\n    app(['--help'], prog_name='gfy')\nexcept SystemExit:\n    pass\n"
        "heavy = ('jax', 'torch', 'pandas', 'numpy', 'gfy', 'solvers', 'reports')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", script], env=ENV, capture_output=True, text=True, check=True
        )
        best = min(best, time.perf_counter() - begin)
    assert done.stdout.strip().endswith("[]")
    assert "compare" in done.stdout
    # Half a second on an idle machine; a loaded one is given what its load costs.
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert best < 0.5 * max(1.0, 2 * crowd)


def test_every_verb_shows_help_with_an_example() -> None:
    runner = CliRunner()
    for verb in VERBS:
        done = runner.invoke(app, [verb, "--help"])
        if done.exit_code != 0:
            assert "There is no verb" in done.output, verb
            continue
        assert "Usage" in done.output, verb


PUBLISHED = Path(__file__).parents[2] / "docs" / "results"


def test_mistakes_get_a_sentence_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for args, words in (
        (["comapre"], "Did you mean compare"),
        (["compare", "--solver", "DualNewtn", "--dry-run"], "Did you mean DualNewton"),
        (["compare", "--problem", "pairwise-gni", "--dry-run"], "Did you mean pairwise-gini"),
        (["compare", "--suite", "smok", "--dry-run"], "Did you mean smoke"),
        (["records", "verify", "nowhere.sqlite"], "no result file"),
        (["compare", "--device", "tpu", "--dry-run"], "There is no device called 'tpu'. Did you mean cpu?"),
        (["check", "mine.py"], "'mine.py' is a file and names no solver in it: write mine.py:Name."),
        (["reproduce", "multilable"], "`gfy reproduce` has no 'multilable'. Did you mean multilabel?"),
        (["train", "--rate", "-1"], "--rate"),
        (["archive", "list", "--since", "soon"], "--since must be a day such as 2026-11-01"),
        (["records", "show", str(PUBLISHED / "theory.sqlite"), "zz"], "No row of"),
        (["records", "show", str(PUBLISHED / "theory.sqlite"), ""], "give more of it"),
        (
            ["report", "--results", str(PUBLISHED)],
            "is a folder; name a result file in it: it holds bars.sqlite",
        ),
        (["recommend", "--energy", "Pairwise", "--k", "5", "--backend", "pytorch"], "one of jax, torch"),
    ):
        monkeypatch.setattr(sys, "argv", ["gfy", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2, said
        assert words in " ".join(said.split())


NASTY = [name for name in NAMES if "\x1b" in name or "half" in name or "/b" in name or len(name) > 1000]


@pytest.mark.parametrize(
    "words",
    [
        "archive fetch {} --index {}", "archive add {}", "archive verify {}", "check {}",
        "compare --dry-run --problem {}", "compare --dry-run --solver {}", "compare --dry-run --suite {}",
        "data fetch {}", "data show {}", "explain {}", "export benchopt --suite {} --out {}", "export otava {}",
        "predict {}", "records show {} {}", "records verify {}", "report --results {}", "report --with {} --index {}",
        "submit check {}", "submit pack {}", "train --dataset {}",
    ],
)  # fmt: skip
def test_hostile_names_get_a_sentence_of_plain_characters(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NASTY:
        given = os.fsdecode(name.encode("utf-8", "surrogatepass"))  # as a shell would hand it over
        monkeypatch.setattr(sys, "argv", ["gfy", *(part.format(given) for part in words.split())])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code in (1, 2), (name, said)
        assert not {"\x1b", "\x07", "\r"} & {*said.out, *said.err}, name


def test_jobs_are_for_accuracy_only() -> None:
    done = CliRunner().invoke(app, ["compare", *SMALL, "--jobs", "2"])
    assert done.exit_code == 2
    assert "--accuracy-only" in done.output


def test_errors_of_ours_are_not_hidden() -> None:
    assert sentence(RecordsError("a sentence")) == "a sentence"
    assert sentence(ValueError("a bug")) is None
    assert "torch" in str(sentence(ModuleNotFoundError("x", name="torch.nn")))
    assert sentence(ModuleNotFoundError("x", name="bench.nothing")) is None


def test_names_complete_in_the_shell() -> None:
    env = {
        **ENV,
        "_GFY_COMPLETE": "complete_bash",
        "COMP_WORDS": "gfy compare --problem pairw",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.cli"], env=env, capture_output=True, text=True, check=False
    )
    assert {"pairwise-gini", "pairwise-shannon"} <= set(done.stdout.split())


def test_dry_run_shows_the_matrix_and_the_reasons(tmp_path: Path) -> None:
    args = [
        "--problem",
        "metric-norm",
        "--problem",
        "pairwise-gini",
        *SMALL[2:],
        "--out",
        str(tmp_path / "out"),
    ]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["compare", *args, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "it needs a smooth energy" in done.output
    assert "Ascent" in done.output
    assert "Measuring them takes about" in done.output
    assert not (tmp_path / "out").exists()


def test_a_run_from_end_to_end_then_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = gfy("compare", *SMALL, "--out", str(out), "--no-report")
    assert done.returncode == 0, done.stderr
    assert "pairwise-gini-k6-b3-r1" in done.stdout
    assert str(out / "compare.sqlite") in done.stdout.replace("\n", "")
    first = load(out / "compare.sqlite")
    assert first.status.tolist() == ["ok"]
    done = gfy("compare", *SMALL, "--out", str(out), "--no-report")
    assert "0 cells to measure (1 known already" in done.stderr
    assert load(out / "compare.sqlite").created.tolist() == first.created.tolist()
    done = gfy(
        "compare", *SMALL, "--out", str(out), "--no-report", "--fresh", "--accuracy-only", "--jobs", "2"
    )
    assert done.returncode == 0, done.stderr
    again = load(out / "compare.sqlite")
    assert again.created.tolist() > first.created.tolist()
    assert gfy("records", "verify", str(out / "compare.sqlite")).returncode == 0


@pytest.mark.slow
def test_hostile_names_of_solvers_pass_through_a_whole_run_and_its_report(tmp_path: Path) -> None:
    names = ["[/b]", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "half \ud83d"]
    text = f"import sys\nfrom dataclasses import dataclass\nsys.path.insert(0, {str(HERE)!r})\nimport toy_solvers\n"
    for number, name in enumerate(names):
        text += f"@dataclass(frozen=True)\nclass Hostile{number}(toy_solvers.Ascent):\n    name: str = {ascii(name)}\n"
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    asked = [word for number in range(len(names)) for word in ("--solver", f"{file}:Hostile{number}")]
    done = gfy("compare", *SMALL, *asked, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert not [part for part in ("\x1b]", "\x07", "\x1b[2J") if part in done.stdout + done.stderr]
    assert "Traceback" not in done.stderr
    rows = load(tmp_path / "out" / "compare.sqlite")
    assert len(rows) == 1 + len(names)
    assert set(rows.status) == {"ok"}
    assert "[/b]" in set(rows.solver)
    assert "<script>alert(1)" not in (tmp_path / "out" / "report" / "report.html").read_text("utf-8")


def test_a_report_that_fails_leaves_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.commands import summary

    said: list[str] = []
    monkeypatch.setattr(summary.typer, "echo", lambda text, err=False: said.append(text))
    summary.write_report(tmp_path / "absent.sqlite", tmp_path / "report")
    assert "the rows are safe" in said[0]
    assert "gfy report --results" in said[0]


def test_an_out_folder_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    done = gfy("compare", *SMALL, "--out", str(file), "--no-report")
    assert done.returncode == 2
    assert "--out" in done.stderr
    assert file.read_text() == "kept"


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    args = [
        "compare",
        *SMALL,
        "--solver",
        f"{TOYS}:Forever",
        "--timeout",
        "8",
        "--out",
        str(tmp_path),
        "--no-report",
    ]
    run = subprocess.Popen([sys.executable, "-m", "bench.cli", *args], env=ENV, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    time.sleep(12)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 130, err
    assert "To go on: gfy compare" in err
    again = gfy(*args)
    assert again.returncode == 0, again.stderr
    assert sorted(load(tmp_path / "compare.sqlite").status) == ["ok", "timeout"]


def test_doctor_and_lists() -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["doctor"])
    assert done.exit_code == 0
    assert "cores" in done.output
    for kind, name in (("problems", "pairwise-gini"), ("gradients", "implicit"), ("suites", "smoke"),
                       ("backends", "jax"), ("datasets", "yeast"), ("solvers", "DualNewton")):  # fmt: skip
        done = runner.invoke(app, ["list", kind])
        assert name in done.output, done.output


def test_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.commands import doctor

    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "river" else object())
    assert [(name, "'.[data]'" in command) for name, _, command in doctor.missing()] == [("river", True)]
