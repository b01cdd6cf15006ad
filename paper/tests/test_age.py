"""The age experiment with a tiny network and made images, the network, and files of faces."""

import io
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.harness import PRESETS, run_experiment
from paper import age
from paper.age import (
    AGE,
    ALL_TRAINING,
    CACHE_VARIABLE,
    END_TO_END,
    FIRST,
    HELD_OUT,
    LABEL,
    METHODS,
    SECOND,
    TINY,
    age_features,
)
from paper.faces import FITTED, HELD, POOL, UNKNOWN, halves, load_faces, made, parts_of
from paper.models import LEVELS, pinball
from paper.tables import OVERALL
from registry import optional

pytestmark = pytest.mark.ci
torch = optional("torch")
optional("pooch")

from paper.age_network import ImageNetwork, Training, augment, read_images, train_images  # noqa: E402
from paper.networks import one_thread  # noqa: E402

SMOKE, STANDARD = PRESETS["smoke"], PRESETS["standard"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """Made once, in a cache of these tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        age_features.cache_clear()
        yield age_features(TINY)
    age_features.cache_clear()


def test_parts_are_disjoint_and_the_pool_is_halved_anew():
    parts = parts_of(23_707)
    assert [np.sum(parts == part) for part in (FITTED, HELD)] == [12_090, 2_134]
    first, second = (halves(parts, repeat) for repeat in (0, 1))
    for calibration, test in (first, second):
        both = np.sort(np.concatenate([calibration, test]))
        np.testing.assert_array_equal(both, np.flatnonzero(parts == POOL))
    assert len(np.intersect1d(first[0], second[0])) < 0.6 * len(first[0])


def test_models_have_learned_and_references_are_training_images_only(features):
    images = age.Halved(features, *halves(features.parts, 0))
    # The frozen head is the network's last layer.
    head = images.models.mean.predict(features.embedding)
    np.testing.assert_allclose(head, features.mean, rtol=1e-4)
    assert np.all(np.diff(features.quantiles, axis=1) >= 0)
    pool = features.parts == POOL
    errors = [np.abs(features.age - of)[pool].mean() for of in (features.mean, 40.0)]
    assert errors[0] < 0.6 * errors[1]
    known = {tuple(row) for row in features.embedding[pool]}
    for reference, kept in ((ALL_TRAINING, (FITTED, HELD)), (HELD_OUT, (HELD,))):
        split = images.split("embedding", reference)
        assert len(split.train.y) == np.sum(np.isin(features.parts, kept))
        assert not known & {tuple(row) for row in split.train.X}


def test_features_are_made_once_and_again_from_the_weights(features):
    assert replace(TINY, plan=replace(TINY.plan, seed=2)).folder != TINY.folder
    weights, table = TINY.folder / "checkpoint.pt", TINY.folder / "features.npz"
    with np.load(table) as file:
        # No image: n rows of at most a hidden layer.
        assert max(file[name][0].size for name in file.files if file[name].ndim) == TINY.head[0]
    before = weights.stat().st_mtime_ns, table.stat().st_mtime_ns
    age_features.cache_clear()
    np.testing.assert_array_equal(age_features(TINY).mean, features.mean)
    assert (weights.stat().st_mtime_ns, table.stat().st_mtime_ns) == before
    table.write_bytes(b"spoilt")
    age_features.cache_clear()
    with pytest.raises(ValueError, match=r"features\.npz could not be read .* remove it"):
        age_features(TINY)
    table.unlink()
    again = age_features(TINY)
    np.testing.assert_array_equal(again.embedding, features.embedding)
    np.testing.assert_array_equal(again.quantiles, features.quantiles)
    assert again.facts == features.facts
    assert weights.stat().st_mtime_ns == before[0]


def test_ages_of_the_pool_change_nothing_that_is_learned(tmp_path, monkeypatch):
    """Neither the weights, nor the epoch that is kept, nor the quantile head has seen them."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    setting = replace(TINY, plan=replace(TINY.plan, epochs=2), quantile_epochs=2)
    images = made()
    first = age.make_features(setting, images)
    (setting.folder / "checkpoint.pt").unlink()
    others = np.where(parts_of(len(images.age)) == POOL, 99.0, images.age)
    second = age.make_features(setting, replace(images, age=others))
    for name in ("hidden", "embedding", "mean", "quantiles", "weights"):
        np.testing.assert_array_equal(first[name], second[name])


def test_rows_of_a_task(features):
    rows = AGE.run({"repeat": 0}, SMOKE)
    assert not [row for row in rows if "failed" in row]
    overall = {row["method"]: row for row in rows if row.get("group") == OVERALL}
    assert list(overall) == list(METHODS)
    for method, row in overall.items():
        assert 0.8 <= row["coverage"] <= 1.0, method
        assert row["n_calibration"] + row["n_test"] == np.sum(features.parts == POOL)
        # A score is at least the length; infinite intervals have none.
        assert row["infinite"] > 0 or row["interval_score"] >= row["length"] > 0
        # Groups of each kind hold every test image.
        for kind in ("gender", "ethnicity", age.PREDICTED, LABEL):
            here = [r for r in rows if r.get("method") == method and r.get("kind") == kind]
            n = np.array([r["n"] for r in here])
            assert n.sum() == row["n_test"]
            coverage = np.average([r["coverage"] for r in here], weights=n)
            assert coverage == pytest.approx(row["coverage"])
    variants = [row for row in rows if "ablation" in row]
    assert {row["ablation"]: 0 for row in variants}.keys() == age.ablations().keys()
    # The paper's own setting among them is the method itself.
    for name in ("100 %", "quantile 0.5", ALL_TRAINING, age.STANDARDISED):
        (same,) = [row["length"] for row in variants if row["variant"] == name]
        assert same == pytest.approx(overall["SLCP"]["length"])
    (model,) = [row for row in rows if row.get("kind") == age.MODEL]
    assert 1 <= model["best_epoch"] <= model["epochs"] == TINY.plan.epochs


def test_other_networks_are_trained_apart_and_one_gives_quantiles(features):
    settings = [age.setting_of(SMOKE, name) for name in (FIRST, SECOND, END_TO_END)]
    assert len({setting.folder for setting in settings}) == 3
    second, own = (age_features(setting) for setting in settings[1:])
    assert not np.array_equal(second.mean, features.mean)
    assert np.all(np.diff(own.quantiles, axis=1) >= 0)
    # Nearer to the ages of new images than quantiles that are the same for all.
    pool = own.parts == POOL
    same = np.quantile(own.age[~pool], LEVELS) * np.ones((pool.sum(), 1))
    assert pinball(own.age[pool], own.quantiles[pool]) < 0.8 * pinball(own.age[pool], same)
    rows = AGE.run({"network": END_TO_END, "repeat": 0}, SMOKE)
    assert {row.get("method") for row in rows} == {None, "CQR"}
    (overall,) = [row for row in rows if row.get("group") == OVERALL]
    assert 0.8 <= overall["coverage"] <= 1.0


def test_what_was_not_run_is_said_to_be_so():
    lines = AGE.report([], STANDARD).lines
    others = [line for line in lines if line.of["variant"] in (SECOND, END_TO_END)]
    assert others
    assert {line.reason for line in others} == {age.NOT_RUN}


def test_a_sentence_about_one_network_counts_no_other():
    rows = [
        {"repeat": repeat, "network": network, **fields}
        for repeat in range(2)
        for network, years in ((FIRST, 6.0), (SECOND, 7.0), (END_TO_END, 8.0))
        for fields in (
            {"kind": age.MODEL, "mae": years, "within": 0.25},
            {"group": OVERALL, "method": "CQR", "length": 3.0 * years},
            {"group": OVERALL, "method": "SLCP", "length": 4.0 * years},
        )
    ]
    (said,) = age.why_not_reached(rows)
    assert "Here it is 6.0" in said
    assert re.findall(r"\d+\.\d", age.own_network(rows)) == ["8.0", "6.0", "24.0", "18.0", "24.0"]
    assert "has not been run" in age.own_network([row for row in rows if row["network"] is FIRST])


def test_a_run_is_reported(features, tmp_path):
    output = run_experiment("age", AGE, SMOKE, tmp_path)
    assert any("not within reach" in note for note in output.notes)
    by_group = output.tables["By group, with bands"]
    assert LABEL not in {row["kind"] for row in by_group}
    assert all(row["band from"] <= row["coverage"] <= row["to"] for row in by_group)


# ---- the network ---------------------------------------------------------------------------

PLAN = age.TrainingPlan(epochs=4, batch_size=16, shift=1, seed=3)


def tiny(seed=0, dropout=0.3):
    setting = replace(TINY, width=4, head=(8, 3), dropout=dropout)
    return ImageNetwork(torch.Generator().manual_seed(seed), setting)


def bright(n=120, side=8, seed=0):
    """Images whose brightness is the response, and every fifth held out."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(20, 60, n)
    pixels = np.clip(3 * y[:, None, None, None] + rng.normal(0, 10, (n, side, side, 3)), 0, 255)
    arrays = pixels.astype(np.uint8), y.astype(np.float32), np.arange(n) % 5 == 0
    return tuple(map(torch.from_numpy, arrays))


def same_weights(one, other):
    one, other = one.state_dict(), other.state_dict()
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_trunk_is_resnet_34():
    """As many weights as the reference has without its last layer, and 512 channels of 2 x 2."""
    network = ImageNetwork(torch.Generator().manual_seed(0)).eval()
    weights = sum(weight.numel() for weight in network.trunk.parameters())
    assert weights == 21_797_672 - (512 * 1000 + 1000)
    with torch.no_grad():
        assert network.trunk(torch.zeros(2, 3, 64, 64)).shape == (2, 512, 2, 2)


def test_the_embedding_is_a_named_layer_before_the_last_relu():
    """A forward hook finds it, the mean follows from it, and batches do not matter."""
    network, images = tiny().eval(), bright()[0]
    torch.nn.init.normal_(network.readout.weight, generator=torch.Generator().manual_seed(1))
    found = []
    network.get_submodule("embedding").register_forward_hook(lambda *said: found.append(said[2]))
    reading = read_images(network, images)
    assert torch.equal(found[0], reading.embedding)
    assert (reading.embedding < 0).any()
    relu = torch.relu(reading.embedding) @ network.readout.weight[0] + network.readout.bias
    torch.testing.assert_close(reading.output, network.centre + network.unit * relu)
    torch.testing.assert_close(read_images(network, images, 7).output, reading.output)


def test_images_are_moved_and_mirrored_and_nothing_else():
    """Of a picture that is its column's number, rows stay alike and steps stay at most 1."""
    ramp = torch.arange(12, dtype=torch.uint8).repeat(12, 1)[None, :, :, None].repeat(40, 1, 1, 3)
    out = augment(ramp, 2, torch.Generator().manual_seed(0))
    assert out.shape == (40, 3, 12, 12)
    steps = out[:, 0, 0].int().diff(dim=1)
    assert steps.abs().max() == 1
    rising = (steps >= 0).all(dim=1)
    assert (rising | (steps <= 0).all(dim=1)).all()
    assert 5 < rising.sum() < 35
    moved = (out[rising, 0, 0, 5].int() - 5).abs()
    assert moved.max() <= 2
    assert len(moved.unique()) > 1


def test_training_learns_keeps_the_best_epoch_and_touches_no_global_generator(tmp_path):
    images, y, held = bright()
    network, before = tiny(dropout=0.0), torch.random.get_rng_state()
    plan = replace(PLAN, epochs=10, learning_rate=0.01)
    history = train_images(network, images, y, held, plan, tmp_path / "a.pt")
    assert torch.equal(torch.random.get_rng_state(), before)
    error = read_images(network, images[held]).output - y[held]
    mse = torch.mean(error**2).item()
    assert mse / network.unit.item() ** 2 == pytest.approx(min(row["held_loss"] for row in history))
    assert mse < 0.36 * y[held].var().item()
    assert [row["epoch"] for row in history] == list(range(1, 11))


def test_held_images_do_not_train(tmp_path):
    """Other pixels and ages of held rows change what is chosen, and no weight on the way."""
    images, y, held = bright()
    others, ages = images.clone(), y.clone()
    others[held], ages[held] = 255 - images[held], 80 - y[held]
    plan, (first, second) = replace(PLAN, epochs=1), (tiny(), tiny())
    train_images(first, images, y, held, plan, tmp_path / "first.pt")
    train_images(second, others, ages, held, plan, tmp_path / "second.pt")
    assert same_weights(first, second)


def test_a_training_that_was_stopped_ends_where_an_undisturbed_one_does(tmp_path, monkeypatch):
    rows, path, advance = bright(), tmp_path / "stopped.pt", Training.advance
    undisturbed, resumed, other = tiny(), tiny(), tiny(seed=9)

    def stopped(training):
        if training.step == 9:
            raise KeyboardInterrupt
        advance(training)

    # Sums of several threads come in another order, and may differ in their last bits.
    with one_thread():
        history = train_images(undisturbed, *rows, PLAN, tmp_path / "undisturbed.pt")
        monkeypatch.setattr(Training, "advance", stopped)
        with pytest.raises(KeyboardInterrupt):
            train_images(tiny(), *rows, PLAN, path, save_every=0.0)
        monkeypatch.undo()
        assert torch.load(path, weights_only=True)["step"] == 9
        again = train_images(resumed, *rows, PLAN, path)
    assert same_weights(undisturbed, resumed)
    assert [{**row, "seconds": 0} for row in again] == [{**row, "seconds": 0} for row in history]
    # Those of both runs add up.
    assert np.all(np.diff([row["seconds"] for row in again]) > 0)
    # A finished training is not repeated.
    before = path.stat().st_mtime_ns
    assert train_images(other, *rows, PLAN, path) == again
    assert same_weights(other, resumed)
    assert path.stat().st_mtime_ns == before


def test_what_cannot_be_trained_is_named_with_the_remedy(tmp_path):
    rows, path, plan = bright(), tmp_path / "state.pt", replace(PLAN, epochs=1)

    def refused(words, *rows, plan=plan):
        with pytest.raises(ValueError, match=words):
            train_images(tiny(), *rows, plan, path)

    refused("choose a learning_rate below 0", rows[0], rows[1] * float("inf"), rows[2])
    train_images(tiny(), *rows, plan, path)
    other = r"state\.pt is the checkpoint of a training on other"
    refused(other, *rows, plan=replace(plan, seed=4))
    refused(other, *bright(seed=1))
    for content in (b"no checkpoint", path.read_bytes()[:200]):
        path.write_bytes(content)
        refused(r"state\.pt could not be read .* remove it", *rows)


def test_a_terminal_is_told_which_epoch_has_ended(tmp_path, capsys, monkeypatch):
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda t=terminal: t, raising=False)
        train_images(tiny(), *bright(), replace(PLAN, epochs=1), tmp_path / f"{terminal}.pt")
        assert ("epoch 1 of 1: error" in capsys.readouterr().err) == terminal


def jpeg(shade):
    image, buffer = optional("PIL.Image"), io.BytesIO()
    image.new("RGB", (64, 64), (shade, shade, shade)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def test_images_ages_and_groups_are_read(tmp_path):
    codes = {"age": [1, 40, 116], "gender": [0, 1, 1], "ethnicity": [0, 4, -1]}
    frame = pd.DataFrame({**codes, "jpeg": [jpeg(shade) for shade in (10, 128, 250)]})
    frame.to_parquet(tmp_path / "utkface64.parquet")
    faces = load_faces(tmp_path)
    assert faces.pixels.shape == (3, 64, 64, 3)
    assert faces.pixels.dtype == np.uint8
    np.testing.assert_allclose(faces.pixels[:, 32, 32, 0], [10, 128, 250], atol=2)
    np.testing.assert_array_equal(faces.age, [1.0, 40.0, 116.0])
    assert faces.groups["gender"].tolist() == ["male", "female", "female"]
    assert faces.groups["ethnicity"].tolist() == ["White", "other", UNKNOWN]
    frame.assign(jpeg=b"no picture").to_parquet(tmp_path / "utkface64.parquet")
    with pytest.raises(ValueError, match=r"utkface64\.parquet could not be read as faces"):
        load_faces(tmp_path)
