"""Two runs side by side: a slowed solver is found, an unchanged one is not reported, machines are scaled."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from bench.store import RecordsError
from reports.answers.compare import change_table, compare
from reports.pages.compare_page import build_comparison

TIMES = ["steady_s", "steady_median_s", "steady_spread_s", "backward_s", "backward_median_s"]


@pytest.fixture
def base(synthetic: ModuleType) -> pd.DataFrame:
    one = {"pairwise-gini": synthetic.FAMILIES["pairwise-gini"]}
    return synthetic.make(sizes=(64,), families=one, dtypes=("float64",), tols=(1e-6, 1e-9))


def test_an_unchanged_run_reports_nothing(synthetic, base, tmp_path: Path):
    again = base.copy()
    again[TIMES] *= 1.02
    a, b = synthetic.store(tmp_path / "a.sqlite", base), synthetic.store(tmp_path / "b.sqlite", again)
    found = compare(a, b)
    assert found.changes.empty
    assert "nothing changed beyond noise" in found.headline
    assert found.same_machine


def test_changes_are_found_and_nothing_else(synthetic, base, tmp_path: Path):
    after = base.copy()
    after.loc[after["solver"] == "DualNewton", TIMES] *= 1.5
    after.loc[after["solver"] == "ProjectedNewton", TIMES] /= 2.0
    after.loc[after["solver"] == "ScipyLBFGSB", "status"] = "crashed"
    after.loc[after["solver"] == "CvxpyReference", "gap_rel"] = 1e-3
    after = after[after["solver"] != "FrankWolfe"]
    a, b = synthetic.store(tmp_path / "a.sqlite", base), synthetic.store(tmp_path / "b.sqlite", after)
    found = compare(a, b)
    by = found.changes.groupby("verdict")["solver"].unique().map(list).to_dict()
    assert by == {
        "slower": ["DualNewton"],
        "faster": ["ProjectedNewton"],
        "broken": ["ScipyLBFGSB"],
        "less accurate": ["CvxpyReference"],
    }
    slower = found.changes[found.changes["verdict"] == "slower"]["ratio"].astype(float)
    assert slower.to_numpy() == pytest.approx(1.5)
    assert found.only == ((base["solver"] == "FrankWolfe").sum(), 0)
    assert change_table(found).cells[0][0].text == "broken"


def test_changed_code_on_one_machine_is_not_scaled(synthetic, base, tmp_path: Path):
    def coded(code: str) -> pd.DataFrame:
        versions = [f'{{"jax":"0.10","gfy":"{code}","solver":"{code}{name}"}}' for name in base["solver"]]
        return base.assign(versions=versions)

    before, after = coded("c1"), coded("c2")
    after[TIMES] *= 1.5
    after = after[after["solver"] != "FrankWolfe"]
    found = compare(
        synthetic.store(tmp_path / "a.sqlite", before), synthetic.store(tmp_path / "b.sqlite", after)
    )
    assert found.same_machine
    assert set(found.changes["solver"]) == set(after["solver"])
    assert "different machines" not in found.headline
    updated = after.assign(versions=[text.replace("0.10", "0.11") for text in after["versions"]])
    assert not compare(tmp_path / "a.sqlite", synthetic.store(tmp_path / "c.sqlite", updated)).same_machine


def test_another_machine_is_scaled_once(synthetic, base, tmp_path: Path):
    other = base.assign(machine="m2", key=[k[::-1] for k in base["key"]])
    other[TIMES] *= 3.0
    other.loc[other["solver"] == "DualNewton", TIMES] *= 2.0
    a, b = synthetic.store(tmp_path / "a.sqlite", base), synthetic.store(tmp_path / "b.sqlite", other)
    found = compare(a, b)
    assert not found.same_machine
    assert found.factor["forward"] == pytest.approx(3.0, rel=1e-6)
    assert set(found.changes["solver"]) == {"DualNewton"}
    assert "different machines" in found.headline


def test_nothing_in_common_is_a_sentence(synthetic, base, tmp_path: Path):
    a = synthetic.store(tmp_path / "a.sqlite", base[base["solver"] == "DualNewton"])
    b = synthetic.store(tmp_path / "b.sqlite", base[base["solver"] == "FrankWolfe"])
    with pytest.raises(RecordsError, match="nothing can be compared"):
        compare(a, b)


def test_the_page_holds_both_runs(synthetic, base, tmp_path: Path):
    after = base.copy()
    after.loc[after["solver"] == "DualNewton", TIMES] *= 1.5
    a, b = synthetic.store(tmp_path / "a.sqlite", base), synthetic.store(tmp_path / "b.sqlite", after)
    page = build_comparison(a, b, tmp_path / "out", ["html", "md", "latex"])
    text = page.read_text("utf-8")
    assert "slower" in text
    assert "A (a.sqlite), m1" in text
    assert f"All {2 * len(base):,} rows are in this page" in text
    assert (tmp_path / "out" / "pairs.csv").is_file()
    with pytest.raises(RecordsError, match="format is pdf"):
        build_comparison(a, b, tmp_path / "out", ["pdf"])
