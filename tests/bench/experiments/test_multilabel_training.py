"""Networks, losses and the compiled grid, on a small synthetic set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="training is in JAX: pip install 'gfy-suite[jax]'")
for package in ("optax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'gfy-suite[train,data]'")

from bench.datasets.mulan import Part  # noqa: E402
from bench.datasets.splits import Dataset, Scaler, development_split, normalised  # noqa: E402
from bench.datasets.synthetic import correlated  # noqa: E402
from bench.experiments.common.models import ENERGIES, Model  # noqa: E402
from bench.experiments.common.training import Recipe, Settings, Trainer, batches, grid, one_setting  # noqa: E402
from bench.experiments.multilabel.cells import Cell, Effort  # noqa: E402
from bench.experiments.multilabel.protocol import run_cell, select  # noqa: E402
from bench.experiments.train.saved import Saved, predict, read, save  # noqa: E402
from gfy.errors import GfyValueError  # noqa: E402
from solvers.methods.nearly_linear import NearlyLinear  # noqa: E402

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return correlated(n_train=200, n_test=150, features=12, labels=5, causes=2)


def last(trainer: Trainer, X: np.ndarray, Y: np.ndarray) -> Any:
    *_, (_, carry) = trainer.run(X, Y, block=50)
    return carry


def test_the_grid_is_the_papers() -> None:
    settings = grid()
    assert len(settings) == 50
    np.testing.assert_allclose(np.unique(settings.penalties), np.logspace(-4, 1, 5), rtol=1e-6)
    np.testing.assert_allclose(np.unique(settings.rates), np.logspace(-5, -1, 10), rtol=1e-6)


def test_every_epoch_sees_every_batch_once() -> None:
    order = batches(70, 32, 3, seed=5)
    assert order.shape == (3, 2, 32)
    for epoch in order:
        assert len(np.unique(epoch)) == 64
    assert not np.array_equal(order[0], order[1])
    assert batches(5, 32, 2, seed=0).shape == (2, 1, 5)


@pytest.mark.parametrize("energy", ENERGIES)
def test_every_energy_learns_more_than_the_constant_answer(energy: str, dataset: Dataset) -> None:
    train, _ = normalised(dataset.train, dataset.test)
    model = Model(energy, 12, 5)
    trainer = Trainer(Recipe(model, epochs=30, max_steps=20, tol=1e-4), one_setting(1e-3, 1e-2), (0,))
    accuracy = trainer.accuracy(last(trainer, train.X, train.Y).params, train.X, train.Y)
    constant = ((train.Y.mean(axis=0) > 0.5) == (train.Y > 0.5)).mean()
    assert accuracy.shape == (1, 1)
    assert accuracy[0, 0] > constant + 0.04


@pytest.mark.parametrize(
    ("loss", "gradient"), [("energy", "envelope"), ("cross_entropy", "implicit"), ("perceptron", "envelope")]
)
def test_the_other_losses_train(loss: str, gradient: str, dataset: Dataset) -> None:
    train, test = normalised(dataset.train, dataset.test)
    model = Model("pairwise", 12, 5)
    trainer = Trainer(Recipe(model, loss, gradient, epochs=30, tol=1e-4), one_setting(1e-3, 1e-2), (0,))
    params = last(trainer, train.X, train.Y).params
    P = trainer.predict(params, test.X)
    assert P.shape == (1, 1, len(test), 5)
    assert np.isfinite(P).all()
    assert P.min() >= 0
    assert P.max() <= 1
    if loss != "energy":  # which can only push one way
        before = trainer.accuracy(trainer.init().params, train.X, train.Y)[0, 0]
        assert trainer.accuracy(params, train.X, train.Y)[0, 0] > before + 0.03


@pytest.mark.slow
def test_one_program_for_the_grid_trains_what_single_programs_train(dataset: Dataset) -> None:
    train, _ = normalised(dataset.train, dataset.test)
    recipe = Recipe(Model("pairwise", 12, 5, rank=2), epochs=4, tol=1e-7)
    several = Settings(
        *(np.array(v, np.float32) for v in ([1e-3, 1e-1, 1e-3], [1e-2, 1e-3, 1e-3], [1.0, 1.0, 2.0]))
    )
    together = last(Trainer(recipe, several, (3, 4)), train.X, train.Y).params
    for index in (2,):
        alone = last(Trainer(recipe, several.at(index), (4,)), train.X, train.Y).params
        for name, leaf in alone.items():
            np.testing.assert_allclose(leaf[0, 0], together[name][1, index], rtol=2e-3, atol=2e-4)


def test_envelope_and_implicit_gradients_train_alike(dataset: Dataset) -> None:
    train, _ = normalised(dataset.train, dataset.test)
    model = Model("pairwise", 12, 5)
    found = [
        last(
            Trainer(Recipe(model, "gfy", mode, epochs=3, tol=1e-7), one_setting(1e-3, 1e-3), (0,)),
            train.X,
            train.Y,
        )
        for mode in ("envelope", "implicit")
    ]
    for name, leaf in found[0].params.items():
        np.testing.assert_allclose(leaf, found[1].params[name], rtol=2e-2, atol=2e-3)


def test_the_perceptrons_solver_is_certified(rng: np.random.Generator) -> None:
    import gfy

    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), gfy.Box(0.0, 1.0))
    v = gfy.Pairwise.Input(
        *(jax.numpy.asarray(a) for a in (rng.normal(size=(40, 9)), rng.normal(size=(40, 9, 1))))
    )
    solver = NearlyLinear(1e-3)
    solution = solver.solve(problem, v)
    gap = gfy.certify(problem, v, solution.p).gap
    assert gap.max() <= 1e-3 * 9 / 4
    assert np.median(gap) <= 1e-3 / 2
    assert "already" in str(
        solver.unsupported(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0)))
    )


@pytest.mark.parametrize("size", [1e-5, 1e-2, 1.0, 1e3])
def test_the_perceptrons_solver_is_no_regularizer_at_any_size(size: float, rng: np.random.Generator) -> None:
    """The perceptron's loss shrinks its scores: what is added to solve it must shrink with them."""
    import gfy

    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    u, a = size * rng.normal(size=(60, 9)), np.sqrt(size) * rng.normal(size=(60, 9, 1))
    v = gfy.Pairwise.Input(jax.numpy.asarray(u), jax.numpy.asarray(a))
    y = jax.numpy.asarray((rng.uniform(size=(60, 9)) > 0.5).astype(u.dtype))
    plain = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), gfy.Box(0.0, 1.0))
    solution = NearlyLinear().solve(plain, v, None, gfy.Stop(tol=1e-6, max_steps=100))
    largest = np.abs(u).max(axis=-1)
    assert (gfy.certify(plain, v, solution.p).gap <= 1e-3 * largest * 9 / 4).all()
    fractions = ((solution.p > 1e-3) & (solution.p < 1 - 1e-3)).sum(axis=-1)
    assert fractions.mean() <= 1.1  # a plain maximum has at most one, up to ties within a thousandth
    perceptron = gfy.PerceptronLoss(problem, solver=NearlyLinear(), stop=gfy.Stop(tol=1e-6, max_steps=100))
    loss, _ = perceptron(
        v, y, return_solution=True
    )  # its neighbour is solved to 1e-6, the problem itself to 1e-3
    expected = plain.value(v, solution.p) - plain.value(v, y)
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-5 * size)


def test_both_spens_start_from_one_concave_energy() -> None:
    priors = {
        (energy, start): Model(energy, 30, 12, prior_start=start).init(3)["P2"]
        for energy in ("spen", "concave-spen")
        for start in ("concave", "zero", "signed")
    }
    drawn = priors["concave-spen", "concave"]
    np.testing.assert_allclose(priors["spen", "concave"], np.log1p(np.exp(drawn)), rtol=1e-6)
    assert not priors["spen", "zero"].any()
    for energy, start in (("concave-spen", "zero"), ("spen", "signed")):
        np.testing.assert_array_equal(priors[energy, start], drawn)
    assert Model("spen", 30, 12).init(0)["P1"].shape == (4, 12)
    assert Model("spen", 30, 12, prior_units=7).init(0)["P1"].shape == (7, 12)
    with pytest.raises(GfyValueError, match="there are concave"):
        Model("spen", 30, 12, prior_start="convex")


def test_ties_go_to_the_larger_penalty_and_then_to_the_smaller_rate() -> None:
    settings = grid((1e-2, 1.0, 2), (1e-3, 1e-1, 2))
    assert settings.ranked(np.array([1.0, 1.0, 1.0, 1.0])) == [2, 3, 0, 1]
    assert settings.ranked(np.array([1.0, 3.0, 2.0, 2.0])) == [1, 2, 3, 0]
    assert settings.at(1, 2).as_dict(0) == settings.as_dict(1)


def test_all_seeds_vote_on_the_settings_that_the_first_likes_best(
    monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    """A setting on which one seed fails is not chosen, however well the first seed likes it."""
    likes = {0: [70.0, 90.0, 80.0, 85.0], 4: [99.0, 20.0, 81.0, 80.0], 5: [99.0, 88.0, 81.0, 80.0]}
    asked: list[tuple[int, int]] = []

    class Voting:
        def __init__(self, recipe: Recipe, settings: Settings, seeds: tuple[int, ...]) -> None:
            self.settings, self.seeds = settings, seeds
            asked.append((len(settings), len(seeds)))

        def run(self, X: np.ndarray, Y: np.ndarray, block: int) -> Any:
            carry = type("Carry", (), {"params": None})
            return iter([(block, carry)])

        def accuracy(self, params: Any, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
            places = [int(np.flatnonzero(whole.rates == rate)[0]) for rate in self.settings.rates]
            return np.array([[likes[seed][i] / 100 for i in places] for seed in self.seeds])

    monkeypatch.setattr("bench.experiments.multilabel.protocol.Trainer", Voting)
    effort = Effort(epochs=1, penalties=1, rates=4, seeds=(0, 4, 5), finalists=3)
    whole = effort.settings()
    votes = select(Recipe(Model("pairwise", 12, 5), epochs=1), whole, effort, dataset.train)
    assert asked == [(4, 1), (3, 2)]
    assert list(votes.cast) == [3, 2, 1], "setting 0 is no finalist, setting 1 failed with seed 4"
    assert votes.chosen == 3
    assert votes.mean[3] == pytest.approx(245 / 3)


def test_bad_choices_get_a_sentence() -> None:
    with pytest.raises(GfyValueError, match="there are unary-linear"):
        Model("unarylinear", 3, 2)
    with pytest.raises(GfyValueError, match="needs the derivative"):
        Recipe(Model("pairwise", 3, 2), "cross_entropy", "envelope")
    with pytest.raises(GfyValueError, match="at least 1"):
        Recipe(Model("pairwise", 3, 2), epochs=0)


def test_a_cell_is_filled_by_the_protocol(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    monkeypatch.setattr("bench.experiments.multilabel.protocol.load", lambda name, folder: dataset)
    effort = Effort(epochs=5, penalties=2, rates=2, seeds=(0, 1))
    row = run_cell(Cell("synthetic", "pairwise", effort=effort))
    assert row["status"] == "ok"
    assert row["gap"] < 1e-4
    extra = row["extra"]
    assert row["score"] == pytest.approx(np.mean(extra["accuracy"]))
    votes = {place: np.mean(cast) for place, cast in extra["held_out_votes"].items()}
    assert extra["held_out_accuracy"] == pytest.approx(max(votes.values()), abs=1e-3)
    assert [len(cast) for cast in extra["held_out_votes"].values()] == [2] * 4
    for place, cast in extra["held_out_votes"].items():
        assert cast[0] == pytest.approx(extra["held_out_grid"][int(place)], abs=1e-3)
    assert [100 * one["accuracy"] for one in extra["seeds"]] == pytest.approx(extra["accuracy"])
    assert {"micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming"} < set(extra["seeds"][0])
    right = np.sum(extra["right_decisions"]) / (2 * len(dataset.test) * dataset.labels)
    assert 100 * right == pytest.approx(row["score"])
    assert row["score_paper"] is None


def test_the_setting_is_chosen_without_the_test_part(
    monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    """Whatever the test part says, the same setting is chosen by the same votes."""
    told = []
    for flip in (False, True):
        labels = 1 - dataset.test.Y if flip else dataset.test.Y
        test = Part(
            -dataset.test.X if flip else dataset.test.X, labels, dataset.test.features, dataset.test.labels
        )
        changed = Dataset(dataset.name, dataset.train, test)
        monkeypatch.setattr("bench.experiments.multilabel.protocol.load", lambda name, folder, d=changed: d)
        effort = Effort(epochs=2, penalties=2, rates=2, seeds=(0, 1), finalists=2)
        told.append(run_cell(Cell("synthetic", "unary-linear", effort=effort)))
    assert told[0]["extra"]["held_out_votes"] == told[1]["extra"]["held_out_votes"]
    assert told[0]["extra"]["chosen"] == told[1]["extra"]["chosen"]
    assert told[0]["score"] != told[1]["score"]


def test_a_saved_network_predicts_the_same(tmp_path: Path, dataset: Dataset) -> None:
    fitted, _ = development_split(dataset)
    scaler = Scaler.fit(fitted.X)
    recipe = Recipe(Model("pairwise", 12, 5), epochs=2, tol=1e-5)
    trainer = Trainer(recipe, one_setting(1e-3, 1e-2), (0,))
    carry = last(trainer, scaler(fitted.X), fitted.Y)
    params = {name: np.asarray(leaf)[0, 0] for name, leaf in carry.params.items()}
    training = {"loss": "gfy", "gradient": "envelope", "solver": "auto", "tol": 1e-5, "max_steps": 50}
    save(tmp_path, Saved(recipe.model, params, scaler, fitted.labels, training))
    saved, moments = read(tmp_path)
    assert moments == {}
    assert saved.labels == fitted.labels
    expected = trainer.predict(carry.params, scaler(dataset.test.X))[0, 0]
    np.testing.assert_allclose(predict(saved, dataset.test.X), expected, atol=1e-4)
    with pytest.raises(GfyValueError, match="reads 12 features"):
        predict(saved, np.zeros((2, 3)))
    (tmp_path / "model.npz").write_bytes(b"PK damaged")
    with pytest.raises(GfyValueError, match="damaged"):
        read(tmp_path)
    (tmp_path / "model.npz").unlink()
    with pytest.raises(GfyValueError, match="gfy train"):
        read(tmp_path)
