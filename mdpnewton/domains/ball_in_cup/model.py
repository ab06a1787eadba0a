"""The arm with cup, ball and string as a MuJoCo model, built from the published constants.

Every joint has one motor with the force P (u - q) - D qd. MuJoCo adds the force that compensates
gravity and clips the sum at the joint's torque limit. A control u = q* + (D qd* + torque) / P is
therefore a PD controller about (q*, qd*) with a feed-forward torque. The ball has three
coordinates and does not spin; it touches the cup and the arm, which never touch each other.
"""

from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from mdpnewton.checks import required
from mdpnewton.domains.ball_in_cup import wam

GRAVITY = 9.81
STEP = 0.002  # s
# Kober & Peters (2008) for the string; Muratore et al. (SimuRLacra) for cup and ball.
STRING = 0.40  # m, from under the cup to the ball's centre
BALL_RADIUS, BALL_MASS = 0.02, 0.024
CUP_BEYOND = 0.1165  # m from the tool plate to the cup's axis
CUP_RADIUS, CUP_HEIGHT, CUP_MASS = 0.04, 0.085, 0.132  # inside; outside; kg
CUP_WALL, CUP_SIDES = 0.004, 12
STIFF = "0.004 1"  # s, damping ratio: how fast string and contacts correct an error
SENSORS = {"rim": 3, "ball": 3, "in_cup": 3, "speed_in_cup": 3, "string": 1, "torque": wam.JOINTS}


def import_mujoco() -> Any:
    """MuJoCo, or an error that says how to install it."""
    return required("mujoco", "ball-in-a-cup")


def load_model(dt: float = STEP) -> Any:
    """The compiled model, a `mujoco.MjModel`; `dt` in seconds."""
    return import_mujoco().MjModel.from_xml_string(model_xml(dt))


def load_arm(gravity: float = 0.0, dt: float = STEP) -> Any:
    """The arm with the cup alone, without motors, limits and ball; weightless by default.

    It is weightless because `mj_inverse` computes the feed-forward torque from it, and the motors
    already compensate gravity.
    """
    return import_mujoco().MjModel.from_xml_string(arm_xml(gravity, dt))


def model_xml(dt: float = STEP) -> str:
    """The whole model as MJCF text."""
    if not 0 < dt <= 0.01:
        raise ValueError(f"`model_xml(dt=...)` must be within (0, 0.01] seconds, got {dt}.")
    root = _root("ball_in_cup", GRAVITY, dt)
    sky = {"builtin": "gradient", "rgb1": "0.97 0.98 1", "rgb2": "0.8 0.86 0.93"}
    _add(_add(root, "asset"), "texture", type="skybox", width="64", height="384", **sky)
    world = _add(root, "worldbody")
    _add_scenery(world)
    _add_arm(world, driven=True)
    _add_ball(world)
    string = _add(_add(root, "tendon"), "spatial", name="string", limited="true")
    string.attrib.update(range=_text(0, STRING), solreflimit=STIFF, solimplimit="0.95 0.99 0.001")
    string.attrib.update(width="0.002", rgba="0.9 0.9 0.9 1")
    for site in ("anchor", "ball"):
        _add(string, "site", site=site)
    _add_motors(root)
    _add_sensors(root)
    return tostring(root, encoding="unicode")


def arm_xml(gravity: float = 0.0, dt: float = STEP) -> str:
    """The arm with the cup alone as MJCF text."""
    root = _root("arm", gravity, dt)
    _add_arm(_add(root, "worldbody"), driven=False)
    return tostring(root, encoding="unicode")


def ball_start(q: np.ndarray = wam.START) -> np.ndarray:
    """Where the ball hangs at rest with the arm at q: under the cup by the length of the string."""
    return cup_point(q, -CUP_HEIGHT / 2) - np.array([0.0, 0.0, STRING])


def cup_point(q: np.ndarray, along: float = CUP_HEIGHT / 2) -> np.ndarray:
    """A point on the cup's axis with the arm at q, shape (..., 7): the rim's centre by default."""
    tool = wam.frames(q)[..., -1, :3, :]
    return tool[..., 3] + CUP_BEYOND * tool[..., 2] - along * tool[..., 1]


def _root(name: str, gravity: float, dt: float) -> Element:
    root = Element("mujoco", model=name)
    _add(root, "compiler", angle="radian", autolimits="false")
    _add(
        root, "option", timestep=repr(dt), gravity=_text(0, 0, -gravity), integrator="implicitfast"
    )
    visual = _add(root, "visual")
    _add(visual, "global", offwidth="1280", offheight="960")
    _add(visual, "quality", shadowsize="1024")  # 4096 is slow without a graphics card
    _add(visual, "headlight", ambient="0.45 0.45 0.45", diffuse="0.5 0.5 0.5")
    default = _add(root, "default")
    # Only the ball asks for contacts, so every contact is one with the ball.
    _add(default, "geom", contype="0", conaffinity="1", solref=STIFF, rgba="0.75 0.77 0.8 1")
    _add(default, "site", size="0.003", rgba="0 0 0 0")
    return root


def _add_scenery(world: Element) -> None:
    _add(world, "light", pos="1 -1.5 2.5", dir="-0.3 0.6 -1", diffuse="0.6 0.6 0.6")
    _add(world, "camera", name="side", pos="0.47 -1.75 0.72", xyaxes="1 0 0 0 0.06 1", fovy="42")
    floor = {"type": "plane", "size": "2 2 0.1", "rgba": "0.93 0.94 0.95 1", "conaffinity": "0"}
    _add(world, "geom", name="floor", **floor)


def _add_arm(world: Element, driven: bool) -> None:
    """Body i sits in frame i - 1, so that its hinge turns about the local z axis at the origin."""
    ends = _text(0, 0, 0, 0, 0, wam.SHOULDER - 0.16)
    _add(world, "geom", name="base", type="capsule", size="0.1", fromto=ends)
    parent, position, angle = world, (0.0, 0.0, wam.SHOULDER), 0.0
    for index in range(wam.JOINTS):
        body = _add(parent, "body", name=f"link{index + 1}", pos=_text(*position))
        body.set("quat", _text(np.cos(angle / 2), np.sin(angle / 2), 0, 0))
        joint = _add(body, "joint", name=f"joint{index + 1}", type="hinge", axis="0 0 1")
        if driven:
            body.set("gravcomp", "1")
            joint.attrib.update(limited="true", actuatorfrclimited="true", actuatorgravcomp="true")
            joint.set("range", _text(wam.LOWER[index], wam.UPPER[index]))
            joint.set("actuatorfrcrange", _text(-wam.TORQUE[index], wam.TORQUE[index]))
        centre, inertia = wam.mounted(index)
        inertial = _add(body, "inertial", pos=_text(*centre))
        inertial.set("mass", repr(wam.LINKS[index].mass))
        inertial.set("fullinertia", _text(*inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]))
        for name, shape in SHAPES.get(index, {}).items():
            _add(body, "geom", name=name, mass="0", **shape)
        position, angle = (wam.A[index], 0.0, wam.D[index]), wam.ALPHA[index]
        parent = body
    _add_cup(parent, driven)


# What the ball can hit, by link: capsules along the arm's outline, about as thick as the arm.
SHAPES: dict[int, dict[str, dict[str, str]]] = {
    1: {"shoulder": {"type": "sphere", "size": "0.11"}},
    2: {"upper_arm": {"type": "capsule", "size": "0.065", "fromto": "0 0 0 0.02 0 0.5"}},
    3: {"elbow": {"type": "capsule", "size": "0.06", "fromto": "0 0 -0.03 0 0 0.03"}},
    4: {"forearm": {"type": "capsule", "size": "0.05", "fromto": "0 0 0.02 0 0 0.28"}},
    5: {"wrist": {"type": "sphere", "size": "0.05"}},
    6: {"palm": {"type": "cylinder", "size": "0.045", "fromto": "0 0 0.03 0 0 0.0609"}},
}


def _add_cup(tool: Element, driven: bool) -> None:
    """Twelve boards around a base; the cup's z axis is minus the tool's y axis."""
    beyond = wam.D[-1] + CUP_BEYOND
    cup = _add(tool, "body", name="cup", pos=_text(0, 0, beyond))
    cup.set("xyaxes", "1 0 0 0 0 1")
    if driven:
        cup.set("gravcomp", "1")
    color = "0.85 0.25 0.2 0.3"
    middle = CUP_RADIUS + CUP_WALL / 2
    half_width = (CUP_RADIUS + CUP_WALL) * np.tan(np.pi / CUP_SIDES)
    wall, base = CUP_SIDES * 2 * half_width * CUP_HEIGHT, np.pi * (CUP_RADIUS + CUP_WALL) ** 2
    density = CUP_MASS / (wall + base)  # kg/m^2: all sheets are equally thick
    for side in range(CUP_SIDES):
        angle = 2 * np.pi * side / CUP_SIDES
        board = _add(cup, "geom", name=f"side{side + 1}", type="box", rgba=color)
        board.set("size", _text(CUP_WALL / 2, half_width, CUP_HEIGHT / 2))
        board.set("pos", _text(middle * np.cos(angle), middle * np.sin(angle), 0))
        board.set("euler", _text(0, 0, angle))
        board.set("mass", repr(float(density * wall / CUP_SIDES)))
    bottom = _add(cup, "geom", name="bottom", type="cylinder", rgba=color)
    bottom.set("size", _text(CUP_RADIUS + CUP_WALL, CUP_WALL / 2))
    bottom.set("pos", _text(0, 0, -CUP_HEIGHT / 2 + CUP_WALL / 2))
    bottom.set("mass", repr(float(density * base)))
    ends = _text(0, -CUP_RADIUS, 0, 0, -CUP_BEYOND, 0)
    _add(cup, "geom", name="stem", type="capsule", size="0.008", mass="0", fromto=ends)
    _add(cup, "site", name="anchor", pos=_text(0, 0, -CUP_HEIGHT / 2))
    _add(cup, "site", name="rim", pos=_text(0, 0, CUP_HEIGHT / 2))


def _add_ball(world: Element) -> None:
    body = _add(world, "body", name="ball", pos="0 0 0")
    for name, axis in (("x", "1 0 0"), ("y", "0 1 0"), ("z", "0 0 1")):
        _add(body, "joint", name=f"ball_{name}", type="slide", axis=axis)
    geom = _add(body, "geom", name="ball", type="sphere", rgba="0.1 0.35 0.75 1")
    geom.attrib.update(size=repr(BALL_RADIUS), mass=repr(BALL_MASS), contype="1", conaffinity="0")
    _add(body, "site", name="ball")


def _add_motors(root: Element) -> None:
    motors = _add(root, "actuator")
    for index, (P, D) in enumerate(zip(wam.STIFFNESS, wam.DAMPING, strict=True)):
        motor = _add(motors, "general", name=f"motor{index + 1}", joint=f"joint{index + 1}")
        motor.attrib.update(gaintype="fixed", biastype="affine")
        motor.attrib.update(gainprm=_text(P), biasprm=_text(0, -P, -D))


def _add_sensors(root: Element) -> None:
    sensors = _add(root, "sensor")
    ball = {"objtype": "site", "objname": "ball"}
    cup = {"reftype": "site", "refname": "rim"}
    _add(sensors, "framepos", objtype="site", objname="rim")
    _add(sensors, "framepos", **ball)
    _add(sensors, "framepos", **ball, **cup)
    _add(sensors, "framelinvel", **ball, **cup)
    _add(sensors, "tendonpos", tendon="string")
    for index in range(wam.JOINTS):
        _add(sensors, "jointactuatorfrc", joint=f"joint{index + 1}")


def _add(parent: Element, tag: str, **attributes: str) -> Element:
    return SubElement(parent, tag, attributes)


def _text(*numbers: float) -> str:
    return " ".join(repr(float(number)) for number in numbers)
