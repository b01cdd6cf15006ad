"""The image network: its layers, its training, and what a kill leaves of it."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from paper import age_network  # noqa: E402
from paper.age_network import (  # noqa: E402
    ImageNetwork,
    TrainingPlan,
    augment,
    read_checkpoint,
    read_images,
    train_images,
    write_checkpoint,
)

PLAN = TrainingPlan(epochs=4, batch_size=16, shift=1, seed=3)


def tiny(seed=0, dropout=0.3):
    return ImageNetwork(torch.Generator().manual_seed(seed), (1, 1), 4, (8, 3), dropout)


def made(n=120, side=8, seed=0):
    """Images whose brightness is the response."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(20, 60, n)
    pixels = np.clip(3 * y[:, None, None, None] + rng.normal(0, 10, (n, side, side, 3)), 0, 255)
    held = torch.from_numpy(np.arange(n) % 5 == 0)
    return (
        torch.from_numpy(pixels.astype(np.uint8)),
        torch.from_numpy(y.astype(np.float32)),
        held,
    )


def same_weights(one, other):
    return all(torch.equal(one[name], other[name]) for name in one) and one.keys() == other.keys()


# ---- the network ---------------------------------------------------------------------------


def test_the_trunk_is_resnet_34():
    """As many weights as the reference has without its last layer, and 512 channels of 2 x 2."""
    network = ImageNetwork(torch.Generator().manual_seed(0)).eval()
    weights = sum(weight.numel() for weight in network.trunk.parameters())
    assert weights == 21_797_672 - (512 * 1000 + 1000)
    with torch.no_grad():
        images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
        assert network.trunk(images.float()).shape == (2, 512, 2, 2)
        hidden, embedding, mean = network.read(images)
    assert (hidden.shape, embedding.shape, mean.shape) == ((2, 512), (2, 16), (2,))


def test_the_embedding_is_a_named_layer_before_the_last_relu():
    """A forward hook finds it, and the mean follows from it."""
    network = tiny().eval()
    torch.nn.init.normal_(network.readout.weight, generator=torch.Generator().manual_seed(1))
    found = []
    network.get_submodule("embedding").register_forward_hook(lambda *said: found.append(said[2]))
    reading = read_images(network, made()[0])
    assert torch.equal(found[0], reading.embedding)
    assert (reading.embedding < 0).any()
    relu = torch.relu(reading.embedding) @ network.readout.weight[0] + network.readout.bias
    torch.testing.assert_close(reading.mean, network.centre + network.unit * relu)


def test_batches_do_not_matter_beyond_rounding():
    images, network = made()[0], tiny()
    one, many = read_images(network, images, 1), read_images(network, images, 50)
    for first, second in zip(one, many, strict=True):
        torch.testing.assert_close(first, second)


def test_bytes_and_floats_are_the_same_pixels():
    network, images = tiny().eval(), made()[0].permute(0, 3, 1, 2)
    assert torch.equal(network(images), network(images.float()))


def test_neither_weights_nor_training_touch_the_global_generator(tmp_path):
    before = torch.random.get_rng_state()
    train_images(tiny(), *made(), replace(PLAN, epochs=1), tmp_path / "state.pt")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert same_weights(tiny(1).state_dict(), tiny(1).state_dict())
    assert not same_weights(tiny(1).state_dict(), tiny(2).state_dict())


# ---- augmentation --------------------------------------------------------------------------


def test_images_are_moved_and_mirrored_and_nothing_else():
    """Of a picture that is its column's number, rows stay alike and steps stay at most 1."""
    ramp = torch.arange(12, dtype=torch.uint8).repeat(12, 1)[None, :, :, None].repeat(40, 1, 1, 3)
    out = augment(ramp, 2, torch.Generator().manual_seed(0))
    assert out.shape == (40, 3, 12, 12)
    assert out.dtype == torch.uint8
    assert out.is_contiguous(memory_format=torch.channels_last)
    steps = out[:, 0, 0].int().diff(dim=1)
    assert steps.abs().max() == 1
    rising = (steps >= 0).all(dim=1)
    assert (rising | (steps <= 0).all(dim=1)).all()
    assert 5 < rising.sum() < 35
    moved = (out[rising, 0, 0, 5].int() - 5).abs()
    assert moved.max() <= 2
    assert len(moved.unique()) > 1


def test_without_shift_an_image_or_its_mirror_comes_out():
    images = made(30)[0]
    out = augment(images, 0, torch.Generator().manual_seed(0)).permute(0, 2, 3, 1)
    for image, found in zip(images, out, strict=True):
        assert torch.equal(found, image) or torch.equal(found, image.flip(1))


# ---- training ------------------------------------------------------------------------------


def test_training_learns_and_keeps_the_best_epoch(tmp_path):
    images, y, held = made()
    network = tiny(dropout=0.0)
    history = train_images(
        network, images, y, held, replace(PLAN, epochs=10, learning_rate=0.01), tmp_path / "a.pt"
    )
    error = read_images(network, images[held]).mean - y[held]
    rmse = torch.sqrt(torch.mean(error**2)).item()
    assert rmse == pytest.approx(min(row["held_rmse"] for row in history))
    assert rmse < 0.6 * y[held].std().item()
    assert [row["epoch"] for row in history] == list(range(1, 11))


def test_held_images_do_not_train(tmp_path):
    """Other pixels and ages of held rows change what is chosen, and no weight on the way."""
    images, y, held = made()
    others, ages = images.clone(), y.clone()
    others[held], ages[held] = 255 - images[held], 80 - y[held]
    plan = replace(PLAN, epochs=1)
    first, second = tiny(), tiny()
    train_images(first, images, y, held, plan, tmp_path / "first.pt")
    train_images(second, others, ages, held, plan, tmp_path / "second.pt")
    assert same_weights(first.state_dict(), second.state_dict())


def test_training_is_deterministic_and_a_finished_one_is_not_repeated(tmp_path):
    first, second, third = tiny(), tiny(), tiny(seed=9)
    rows = made()
    train_images(first, *rows, PLAN, tmp_path / "first.pt")
    history = train_images(second, *rows, PLAN, tmp_path / "second.pt")
    assert same_weights(first.state_dict(), second.state_dict())
    before = (tmp_path / "second.pt").stat().st_mtime_ns
    assert train_images(third, *rows, PLAN, tmp_path / "second.pt") == history
    assert same_weights(third.state_dict(), second.state_dict())
    assert (tmp_path / "second.pt").stat().st_mtime_ns == before


TRAIN = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import torch
torch.set_num_threads(1)
from test_age_network import PLAN, made, tiny
from paper.age_network import Training, train_images

advance = Training.advance
def slowly(training):
    advance(training)
    print(training.step, flush=True)
    time.sleep(0.1)

Training.advance = slowly
train_images(tiny(), *made(), PLAN, Path(sys.argv[1]), save_every=0.0)
"""


def kill_after(path, steps):
    """Train in another process, and kill it after so many steps."""
    arguments = [sys.executable, "-c", TRAIN, str(path), os.path.dirname(__file__)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(steps):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def without_time(history):
    return [{name: row[name] for name in row if name != "seconds"} for row in history]


@pytest.mark.ci
def test_a_training_that_was_killed_ends_where_an_undisturbed_one_does(tmp_path):
    rows, threads = made(), torch.get_num_threads()
    undisturbed, resumed = tiny(), tiny()
    # Sums of several threads come in another order, and may differ in their last bits.
    torch.set_num_threads(1)
    try:
        history = train_images(undisturbed, *rows, PLAN, tmp_path / "undisturbed.pt")
        kill_after(tmp_path / "killed.pt", 9)
        assert 8 <= torch.load(tmp_path / "killed.pt", weights_only=True)["step"] <= 10
        again = train_images(resumed, *rows, PLAN, tmp_path / "killed.pt")
    finally:
        torch.set_num_threads(threads)
    assert same_weights(undisturbed.state_dict(), resumed.state_dict())
    assert without_time(again) == without_time(history)


def test_seconds_add_up_over_runs(tmp_path):
    rows, plan = made(), replace(PLAN, epochs=2)
    path = tmp_path / "state.pt"
    training = age_network.Training(tiny(), *rows, plan)
    training.advance()
    training.begin -= 1000.0
    write_checkpoint(path, training.about, training.state())
    history = train_images(tiny(), *rows, plan, path)
    assert 1000.0 < history[-1]["seconds"] < 1100.0


@pytest.mark.parametrize(("save_every", "saved"), [(0.0, 7), (1000.0, 6)])
def test_a_checkpoint_within_an_epoch_waits_for_its_time(tmp_path, monkeypatch, save_every, saved):
    """A training that is interrupted in its second epoch leaves the last one before that."""
    advance, path = age_network.Training.advance, tmp_path / "state.pt"

    def interrupted(training):
        if training.step == 7:
            raise KeyboardInterrupt
        advance(training)

    monkeypatch.setattr(age_network.Training, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_images(tiny(), *made(), PLAN, path, save_every)
    assert torch.load(path, weights_only=True)["step"] == saved


@pytest.mark.parametrize("change", [{"seed": 4}, {"epochs": 5}])
def test_a_checkpoint_of_another_training_is_refused(tmp_path, change):
    rows, path = made(), tmp_path / "state.pt"
    train_images(tiny(), *rows, replace(PLAN, epochs=1), path)
    with pytest.raises(ValueError, match=r"state\.pt is the checkpoint of a training on other"):
        train_images(tiny(), *rows, replace(PLAN, **{"epochs": 1, **change}), path)
    with pytest.raises(ValueError, match="on other rows"):
        train_images(tiny(), *made(seed=1), replace(PLAN, epochs=1), path)


def test_a_spoilt_checkpoint_is_named_with_the_remedy(tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"state\.pt could not be read .* remove it"):
        train_images(tiny(), *made(), PLAN, path)
    write_checkpoint(path, {"a": 1}, {"step": 2})
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="remove it"):
        read_checkpoint(path, {"a": 1})


def test_a_loss_that_is_not_finite_ends_the_training_with_advice(tmp_path):
    images, y, held = made()
    with pytest.raises(ValueError, match="choose a learning_rate below 0"):
        train_images(tiny(), images, y * float("inf"), held, PLAN, tmp_path / "state.pt")


def test_nothing_is_said_where_there_is_no_terminal(tmp_path, capsys):
    train_images(tiny(), *made(), replace(PLAN, epochs=1), tmp_path / "state.pt")
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_the_time_left(monkeypatch):
    """A real pseudo-terminal: the line is there, and gone at the end."""
    leader, follower = pytest.importorskip("pty").openpty()
    with open(leader, "rb", buffering=0) as read, open(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(age_network, "SHOW_EVERY", 0.0)
        with age_network.time_left(total=10, done=2) as tell:
            tell(4, "epoch 1/2")
        said = read.read(4096)
    assert b"40 % epoch 1/2, 0:00:00 left" in said
    assert said.endswith(b"\r\x1b[K")
