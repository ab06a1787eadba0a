"""Pictures of the arm, drawn off-screen by MuJoCo."""

import importlib
import os
import sys
import warnings
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mdpnewton.domains.ball_in_cup.model import import_mujoco, load_model


class PicturesUnavailableError(RuntimeError):
    """No OpenGL is available to draw with."""


class Camera:
    """Draws states of the model; `close()` frees the graphics memory.

    Attributes:
        model: Model of `load_model`.
        width: Width of the pictures in pixels, at most 1280.
        height: Height of the pictures in pixels, at most 960.
    """

    def __init__(self, model: Any = None, width: int = 480, height: int = 480):
        mujoco = import_mujoco()
        if not (0 < width <= 1280 and 0 < height <= 960):
            raise ValueError(
                f"`Camera(width=..., height=...)` must be at most 1280 x 960, got "
                f"{width} x {height}."
            )
        self.model = load_model() if model is None else model
        self.width, self.height = width, height
        self._data = mujoco.MjData(self.model)
        self._context = _new_context(width, height)
        self._context.make_current()
        self._drawing = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._drawing)
        self._scene = mujoco.MjvScene(self.model, maxgeom=200)
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._view.fixedcamid = self.model.camera("side").id

    def picture(self, state: np.ndarray) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a state that `BallInCup.play(..., keep=True)` kept."""
        mujoco = import_mujoco()
        self._data.qpos[:] = state[1 : 1 + self.model.nq]
        mujoco.mj_forward(self.model, self._data)
        mujoco.mjv_updateScene(
            self.model,
            self._data,
            mujoco.MjvOption(),
            mujoco.MjvPerturb(),
            self._view,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        self._context.make_current()
        frame = mujoco.MjrRect(0, 0, self.width, self.height)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_render(frame, self._scene, self._drawing)
        mujoco.mjr_readPixels(pixels, None, frame, self._drawing)
        return pixels[::-1].copy()

    def close(self) -> None:
        """Free the graphics memory; the camera cannot draw after that."""
        if self._context is not None:
            self._context.make_current()
            self._drawing.free()
            self._context.free()
            self._context = None


def pictures_available() -> bool:
    """Whether OpenGL can draw off-screen here."""
    try:
        _new_context(8, 8).free()
    except PicturesUnavailableError:
        return False
    return True


def _new_context(width: int, height: int) -> Any:
    """An OpenGL context: that of MUJOCO_GL or of the screen; without either, EGL or OSMesa.

    MuJoCo chooses one when it is imported, and without MUJOCO_GL it chooses the screen. That fails
    on a machine without a screen even if EGL is available.
    """
    import_mujoco()
    screen = sys.platform != "linux" or "DISPLAY" in os.environ or "MUJOCO_GL" in os.environ
    tried = []
    for name in ("mujoco",) if screen else ("mujoco.egl", "mujoco.osmesa"):
        try:
            with warnings.catch_warnings():  # GLFW warns where it fails, and the error says it too
                warnings.simplefilter("ignore")
                context = importlib.import_module(name).GLContext(width, height)
                context.make_current()
                return context
        except Exception as error:  # graphics drivers may raise anything
            tried.append(f"{name}: {error or type(error).__name__}")
    raise PicturesUnavailableError(
        f"pictures of ball-in-a-cup need OpenGL, which does not work here ({'; '.join(tried)}); "
        f"install EGL or OSMesa and set MUJOCO_GL=egl or osmesa, or go without pictures."
    )
