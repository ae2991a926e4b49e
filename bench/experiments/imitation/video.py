"""Film one episode of a policy, as mp4 where ffmpeg is installed, as gif otherwise.

MuJoCo renders off screen through EGL or OSMesa. Only a trial shows which of them works, and a failed trial may end the
process; so the first frame is drawn in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from bench.experiments.imitation.evaluation import FIRST_SEED, Policy
from bench.experiments.imitation.simulation import make_environment
from bench.experiments.imitation.tasks import Task

TRIAL = (
    "import gymnasium; e = gymnasium.make('Hopper-v5', render_mode='rgb_array'); e.reset(seed=0); e.render()"
)


def rendering() -> str | None:
    """Return the rendering library that works here ("egl", "osmesa" or "glfw"), or None."""
    chosen = os.environ.get("MUJOCO_GL")
    for name in [chosen] if chosen else ["egl", "osmesa", "glfw"]:
        trial = subprocess.run(
            [sys.executable, "-c", TRIAL],
            env=os.environ | {"MUJOCO_GL": name},
            capture_output=True,
            timeout=120,
            check=False,
        )
        if trial.returncode == 0:
            return name
    return None


def film(
    task: Task, policy: Policy, stem: Path, steps: int = 300, width: int = 320
) -> tuple[Path | None, str]:
    """Film the first `steps` steps of an episode; return the file and a sentence, or None and the reason."""
    library = rendering()
    if library is None:
        return None, (
            "No video was written: MuJoCo could not draw a frame with egl, osmesa or glfw here; install "
            "one (Debian: libegl1 or libosmesa6) or set MUJOCO_GL to the one you have."
        )
    os.environ["MUJOCO_GL"] = library  # gymnasium reads it when it first draws
    frames, total, rate = _frames(task, policy, steps, width)
    path = _write(frames, stem, rate)
    return path, f"{path}: {len(frames)} steps of {task.env_id}, return so far {total:.0f}."


def _frames(task: Task, policy: Policy, steps: int, width: int) -> tuple[list[np.ndarray], float, int]:
    env = make_environment(task, render_mode="rgb_array", width=width, height=width * 3 // 4)
    seen, _ = env.reset(seed=FIRST_SEED)
    frames, total = [], 0.0
    for _ in range(steps):
        frames.append(np.asarray(env.render()))
        seen, reward, fallen, cut, _ = env.step(policy(seen[None, None])[0, 0])
        total += float(reward)
        if fallen or cut:
            break
    rate = int(env.metadata["render_fps"])
    env.close()
    return frames, total, rate


def _write(frames: list[np.ndarray], stem: Path, rate: int) -> Path:
    import imageio.v2 as imageio

    stem.parent.mkdir(parents=True, exist_ok=True)
    try:
        import imageio_ffmpeg  # noqa: F401

        path = stem.with_suffix(".mp4")
        imageio.mimwrite(path, frames, fps=rate, macro_block_size=None)
    except (ImportError, RuntimeError):  # without ffmpeg a gif is written, which needs only pillow
        path = stem.with_suffix(".gif")
        imageio.mimwrite(path, frames, duration=1000 / rate)
    return path
