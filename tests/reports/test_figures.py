"""Every figure is drawn, says in words what it shows, keeps its data, and can be told apart by everyone."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from reports.figures import agreement, base, compiling, devices, draw_all, geometry, growth, slopes
from reports.figures.experiments import draw_training, training
from reports.figures.palette import COLOURS, KNOWN, Palette
from reports.load import tidy
from reports.verdict import verdicts

NAMES = {
    "gap-time", "gap-steps", "growth", "profile-solve", "profile-loss-gradient", "pareto",
    "gradient-agreement", "gradient-slopes", "compile", "memory", "geometry", "loss-curves",
    "multilabel", "imitation",
}  # fmt: skip


def test_every_figure_is_written_in_three_forms(built: Path):
    for name in NAMES:
        assert (built / "figures" / f"{name}.svg").stat().st_size > 3000
        assert (built / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert len(pd.read_csv(built / "figures" / f"{name}.csv")) > 0


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


def luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("paper", ["#ffffff", "#12171e"])
def test_colours_stand_out_on_both_pages(paper: str):
    assert min(contrast(c, paper) for c in COLOURS) >= 3.0


def test_page_text_has_contrast():
    style = (Path(draw_all.__file__).parent.parent / "templates" / "style.css").read_text("utf-8")
    for block in re.findall(r":root\{([^}]*)\}", style):
        names = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block))
        for name in ("ink", "muted", "accent", "good", "warn"):
            for paper in ("paper", "soft"):
                assert contrast(names[name], names[paper]) >= 4.5, (name, paper)


def as_seen(colour: str, kind: str) -> np.ndarray:
    """A colour as a dichromat sees it (Viénot 1999, linear RGB)."""
    matrices = {
        "deutan": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
        "protan": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    }
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]) ** 2.2
    return np.clip(np.array(matrices[kind]) @ channels, 0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("kind", ["deutan", "protan"])
def test_solvers_that_look_alike_to_the_colour_blind_have_other_markers(kind: str):
    for a, b in itertools.combinations(KNOWN.values(), 2):
        apart = np.abs(as_seen(a[0], kind) - as_seen(b[0], kind)).max()
        assert apart > 0.12 or a[1] != b[1]


def test_every_known_solver_has_a_colour_and_a_marker_of_its_own():
    colours, markers = zip(*KNOWN.values(), strict=True)
    assert len(set(colours)) == len(set(markers)) == len(KNOWN)
    assert set(colours) <= set(COLOURS)


def test_every_solver_looks_like_no_other():
    names = [
        *("DualNewton", "FrankWolfe(variant=away)", "FrankWolfe(variant=classic)"),
        *(f"Own{i}" for i in range(40)),
    ]
    palette = Palette(names)
    looks = {(palette.colour(n), palette.marker(n)) for n in names}
    assert len(looks) == len(names)
    again = Palette(["DualNewton"])
    assert (again.colour("DualNewton"), again.marker("DualNewton")) == KNOWN["dualnewton"]


def test_training_curves_are_read_from_rows(synthetic):
    curve = '{"curve": {"seconds": [1, 2, 3], "score": [0.5, 0.7, 0.8]}}'
    rows = [
        synthetic.row(kind="multilabel", extra=curve),
        synthetic.row(kind="multilabel", extra="[1]", seed=2),
    ]
    frame = tidy(pd.DataFrame(rows)).frame
    assert training(frame)["score"].tolist() == [0.5, 0.7, 0.8]
    with base.style():
        assert draw_training(frame) is not None
    assert draw_training(frame.iloc[1:]) is None
