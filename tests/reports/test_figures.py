"""Every figure is drawn, says in words what it shows, keeps its data, and can be told apart by everyone."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from reports.answers.verdict import verdicts
from reports.data.load import tidy
from reports.figures import agreement, base, compiling, devices, draw_all, geometry, growth, slopes, training
from reports.figures.palette import KNOWN, Palette

NAMES = {
    "gap-time", "gap-steps", "growth", "profile-solve", "profile-loss-gradient", "pareto",
    "gradient-agreement", "argmax-agreement", "gradient-slopes", "compile", "memory", "geometry", "loss-curves",
    "multilabel", "imitation",
}  # fmt: skip


def test_every_figure_is_written_in_three_forms(built: Path):
    for name in NAMES:
        assert (built / "figures" / f"{name}.svg").stat().st_size > 3000
        assert (built / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert len(pd.read_csv(built / "figures" / f"{name}.csv")) > 0


def test_latex_includes_figures_as_pdf(built: Path):
    included = set(re.findall(r"\{figures/([^}]*)\}", (built / "report.tex").read_text("utf-8")))
    assert {f"{name}.pdf" for name in NAMES} <= included
    for name in included:
        assert (built / "figures" / name).read_bytes()[:5] == b"%PDF-"


def test_pictures_are_not_blank(built: Path):
    from matplotlib.image import imread

    for path in (built / "figures").glob("*.png"):
        pixels = imread(path)[..., :3]
        assert (pixels.min(axis=2) < 0.7).mean() > 0.005, path.name


def test_svg_is_wellformed_and_its_ids_are_its_own(built: Path):
    for path in (built / "figures").glob("*.svg"):
        ElementTree.parse(path)
        text = base.inline(path.read_text("utf-8"), path.stem)
        ElementTree.fromstring(text)
        ids = set(re.findall(r'\bid="([^"]+)"', text))
        assert all(i.startswith(path.stem + "-") for i in ids)
        used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'xlink:href="#([^"]+)"', text))
        assert used <= ids
        assert base.INK not in text


def test_the_same_rows_give_the_same_bytes(rows):
    palette = Palette(rows.compared["solver"])
    with base.style():
        first, second = (base.svg_text(compiling.draw(rows.compared, palette)) for _ in range(2))
    assert first == second


def test_alt_texts_and_captions_say_something(rows):
    found = draw_all.measured(rows.compared, verdicts(rows.compared), Palette(rows.compared["solver"]), 1e-6)
    for drawn in found + draw_all.explained():
        assert len(drawn.alt) > 40, drawn.name
        assert any(c.isdigit() for c in drawn.alt) or drawn.name == "loss-curves"
        assert drawn.caption.endswith(".")


def test_growth_exponents_are_those_of_the_generator(rows, synthetic):
    data = growth.exponents(rows.compared, 1e-6)
    for solver, (_, exponent, _) in synthetic.SOLVERS.items():
        found = data[data["solver"] == solver]["exponent"]
        assert found.to_numpy() == pytest.approx(exponent, abs=0.1)


def test_slopes_are_those_of_the_generator(rows):
    data = slopes.points(rows.compared)
    for mode, slope in (("envelope", 1.0), ("unrolled", 2.0)):
        assert slopes.fitted(data[data["gradient"] == mode]) == pytest.approx(slope, abs=0.05)


def test_a_row_beyond_its_bound_is_counted(synthetic):
    rows = [synthetic.row(gradient="envelope", grad_error=1e-3, grad_bound=1e-4)]
    rows += [synthetic.row(gradient="envelope", grad_error=1e-5, grad_bound=1e-4, seed=1)]
    frame = tidy(pd.DataFrame(rows)).compared
    assert agreement.errors(frame)["beyond_bound"].tolist() == [1]
    assert "1 row lies beyond" in agreement.draw(frame).caption


def test_the_derivatives_of_p_are_drawn_with_the_uncertainty_of_their_reference(synthetic):
    rows = [
        synthetic.row(gradient=mode, grad_error=0.0, argmax_grad_error=error, argmax_grad_uncertainty=3e-7)
        for mode, error in (("implicit", 1e-8), ("unrolled", 2.0))
    ]
    frame = tidy(pd.DataFrame(rows)).compared
    data = agreement.errors(frame, agreement.ARGMAX).set_index("gradient")
    assert data["median"].to_dict() == {"implicit": 1e-8, "unrolled": 2.0}
    drawn = agreement.draw(frame, agreement.ARGMAX)
    assert drawn.name == "argmax-agreement"
    assert "itself sure to 3e-07" in drawn.caption
    assert "the uncertainty of the reference itself (|)" in drawn.caption


def test_devices_are_drawn_only_where_there_are_two(rows, synthetic):
    palette = Palette(rows.compared["solver"])
    assert devices.draw(verdicts(rows.compared), palette) is None
    both = tidy(synthetic.make(sizes=(64,), devices=("cpu", "cuda"), dtypes=("float64",))).compared
    with base.style():
        drawn = devices.draw(verdicts(both), palette)
    assert set(drawn.data["device"]) == {"cpu", "cuda"}


def test_the_geometric_picture():
    p = np.linspace(-2, 2, 4001)
    data = geometric = geometry.geometric(p)
    gap = geometric["omega"] - geometric["bound"]
    assert gap.min() == pytest.approx(0.0, abs=1e-12)
    assert p[gap.argmin()] == pytest.approx(0.5)  # b / (gamma - a)
    tangent = data["omega"] - data["line"]
    assert p[tangent.argmin()] == pytest.approx(0.6)
    assert tangent.min() == pytest.approx(0.0, abs=1e-12)


def test_losses_are_never_negative_zero_at_the_target_and_have_their_gradient():
    data = geometry.regularized(np.linspace(-6, 6, 4801))
    for name, part in data.groupby("regularizer"):
        assert part["loss"].min() >= -1e-12, name
        slope = np.gradient(part["loss"].to_numpy(), part["score"].to_numpy())
        smooth = np.abs(part["score"].to_numpy()) > 0.01 if name.startswith("none") else slice(None)
        expected = part["argmax"].to_numpy() - 1.0
        inner = np.s_[2:-2]
        assert slope[smooth][inner] == pytest.approx(expected[smooth][inner], abs=5e-3), name
    gini = data[(data["regularizer"] == "binary Gini") & (data["score"] >= 1.0)]
    assert gini["loss"].to_numpy() == pytest.approx(0.0, abs=1e-12)


def test_training_curves_are_drawn_from_rows(synthetic):
    def row(solver: str, gradient: str, extra: str, **given: object) -> dict[str, object]:
        about = {"kind": "multilabel", "problem": "yeast", "family": "multilabel-time", "energy": "pairwise"}
        return synthetic.row(**about, solver=solver, gradient=gradient, extra=extra, **given)

    curve = '{"curve": {"seconds": [0.0, 1, 2], "score": [70.5, 79.7, 80.1]}, "target": 79.5}'
    slow = '{"curve": {"seconds": [9, 20, 30], "score": [69.0, 77.0, 79.9]}, "target": 79.5}'
    rows = [
        row("DualNewton", "envelope", curve),
        row("ProjectedGradient", "unrolled", slow),
        row("DualNewton", "implicit", "[1]"),  # no curve, and not even an object
        row("DualNewton", "implicit", '{"curve": {"seconds": [1], "score": null}}', seed=3),
    ]
    frame = tidy(pd.DataFrame(rows)).frame
    assert training.training(frame)["score"].tolist() == [70.5, 79.7, 80.1, 69.0, 77.0, 79.9]
    with base.style():
        drawn = training.draw(frame)
    (ax,) = (a for a in drawn.figure.axes if a.get_visible())
    assert ax.get_xscale() == "log"  # one run takes fifteen times as long as the other
    assert ax.get_ylabel() == "held-out accuracy (%)"
    assert "80.1, by DualNewton with envelope on yeast" in drawn.alt
    assert "dotted" in drawn.caption
    colours = {line.get_color() for line in ax.lines if len(line.get_xdata()) > 1}
    assert {KNOWN["dualnewton"][0], KNOWN["projectedgradient"][0]} <= colours
    assert training.draw(frame[frame["gradient"] == "implicit"]) is None


def test_solvers_of_trainings_are_no_variants_of_those_compared(synthetic):
    about = {"solver": "ProjectedGradient"}
    rows = [
        synthetic.row(**about, solver_params='{"step_rule": "accelerated"}'),
        synthetic.row(**about, kind="multilabel"),
        synthetic.row(**about, kind="multilabel", solver_params='{"tol": 1}', seed=2),
    ]
    frame = tidy(pd.DataFrame(rows)).frame
    assert sorted(frame["solver"]) == ["ProjectedGradient", "ProjectedGradient", "ProjectedGradient(tol=1)"]


def test_legends_fit_their_figures(rows, synthetic):
    long = "FrankWolfe(variant=blended, restarts=4)"
    frame = pd.concat([rows.compared, rows.compared.assign(solver=long)], ignore_index=True)
    with base.style():
        for drawn in draw_all.measured(frame, [], Palette(frame["solver"]), 1e-6):
            drawn.figure.draw_without_rendering()
            width = drawn.figure.bbox.width
            for legend in drawn.figure.legends:
                box = legend.get_window_extent()
                assert box.x0 >= -1, drawn.name
                assert box.x1 <= width + 1, drawn.name
