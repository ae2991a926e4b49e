"""The colours of the figures: told apart by everyone, on white and on a dark page."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import reports
from reports.figures.modes import LOOK
from reports.figures.palette import COLOURS, KNOWN, MARKERS, Palette

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SEEN = {
    "normal": np.eye(3),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
OURS = (
    "dualnewton",
    "coordinateascent",
    "projectedgradient",
    "frankwolfe",
    "mirrorascent",
    "projectednewton",
    "closedform",
)
# Markers that print alike when small: one of them turned, or rounder.
ALIKE = ({"^", "v", "<", ">"}, {"o", "h", "p"}, {"D", "d", "s"}, {"P", "X", "*"})


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    light, dark = sorted((float(TO_XYZ[1] @ linear(c)) for c in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(colour: str, seen: str = "normal") -> np.ndarray:
    """CIELAB of a colour as the named eye sees it."""
    x = TO_XYZ @ np.clip(SEEN[seen] @ linear(colour), 0, 1) / WHITE
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(one: np.ndarray, two: np.ndarray) -> float:
    """The distance of two colours in CIELAB, in units of about one just noticeable difference."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    seventh = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1.5 - 0.5 * np.sqrt(seventh / (seventh + 25.0**7))
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180
    level, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2
    cos = lambda degrees: np.cos(np.radians(degrees))  # noqa: E731
    t = 1 - 0.17 * cos(hue - 30) + 0.24 * cos(2 * hue) + 0.32 * cos(3 * hue + 6) - 0.2 * cos(4 * hue - 63)
    light = (l2 - l1) / (1 + 0.015 * (level - 50) ** 2 / np.sqrt(20 + (level - 50) ** 2))
    strength = (c2 - c1) / (1 + 0.045 * chroma)
    angle = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    seventh = chroma**7
    bend = (
        -2
        * np.sqrt(seventh / (seventh + 25.0**7))
        * np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2))))
    )
    return float(np.sqrt(light**2 + strength**2 + angle**2 + bend * strength * angle))


def test_the_distance_is_that_of_its_published_examples():
    # Sharma, Wu and Dalal (2005), table 1.
    for one, two, expected in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.3802, -84.2814), (50.0, 0.0, -82.7485), 1.0000),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ):
        assert ciede2000(np.array(one), np.array(two)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("paper", ["#ffffff", "#12171e"])
def test_colours_stand_out_on_both_pages(paper: str):
    assert min(contrast(c, paper) for c in COLOURS) >= 3.0


@pytest.mark.parametrize(
    ("seen", "all_apart", "ours_apart"), [("normal", 13, 19), ("deutan", 9.5, 13), ("protan", 9.4, 13)]
)
def test_any_two_colours_are_apart_for_every_reader(seen: str, all_apart: float, ours_apart: float):
    for group, least in ((COLOURS, all_apart), ([KNOWN[n][0] for n in OURS], ours_apart)):
        for a, b in itertools.combinations(group, 2):
            assert ciede2000(lab(a, seen), lab(b, seen)) >= least, (a, b)


@pytest.mark.parametrize("seen", list(SEEN))
def test_solvers_of_near_colours_have_markers_of_another_shape(seen: str):
    for (n, a), (m, b) in itertools.combinations(KNOWN.items(), 2):
        if ciede2000(lab(a[0], seen), lab(b[0], seen)) < 12:
            assert not any({a[1], b[1]} <= shape for shape in ALIKE), (n, m)


def test_page_text_has_contrast():
    style = (Path(reports.__file__).parent / "templates" / "style.css").read_text("utf-8")
    for block in re.findall(r":root\{([^}]*)\}", style):
        names = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block))
        for name in ("ink", "muted", "accent", "good", "warn"):
            for paper in ("paper", "soft"):
                assert contrast(names[name], names[paper]) >= 4.5, (name, paper)


def test_gradient_modes_are_told_apart_too():
    for a, b in itertools.combinations(LOOK.values(), 2):
        assert a[1] != b[1]
        assert min(ciede2000(lab(a[0], s), lab(b[0], s)) for s in ("normal", "deutan", "protan")) >= 9.4


def test_every_known_solver_has_a_colour_and_a_marker_of_its_own():
    colours, markers = zip(*KNOWN.values(), strict=True)
    assert len(set(colours)) == len(set(markers)) == len(KNOWN)
    assert set(colours) <= set(COLOURS)
    assert set().union(*ALIKE) == set(MARKERS)


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
    assert palette.colour("FrankWolfe(variant=away)") == KNOWN["frankwolfe"][0]


def test_solvers_that_are_not_known_take_colours_that_are_free():
    names = ["DualNewton", "ProjectedGradient", "FrankWolfe", *(f"Own{i}" for i in range(10))]
    palette = Palette(names)
    assert len({palette.colour(n) for n in names}) == len(names)
