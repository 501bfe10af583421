"""The tensorclasses that the suite writes. Defined at module level, so that pickles and dumps can name them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from tensordict import tensorclass

__all__ = ["SOURCES", "TENSORCLASSES", "Point"]


@tensorclass
class Step:
    obs: torch.Tensor
    reward: torch.Tensor


@tensorclass
class Twin:
    """Has the fields of `Step`, and is another class."""

    obs: torch.Tensor
    reward: torch.Tensor


@tensorclass
class LongStep(Step):
    done: torch.Tensor


@tensorclass
class Transition:
    step: Step
    value: torch.Tensor


@tensorclass
class Masked:
    obs: torch.Tensor
    mask: Optional[torch.Tensor] = None  # noqa: UP045  tensorclass evaluates the annotation


@tensorclass
class Captioned:
    obs: torch.Tensor
    caption: str


class Point(NamedTuple):
    x: Any
    y: Any


TENSORCLASSES: dict[str, Any] = {c.__name__: c for c in (Step, Twin, LongStep, Transition, Masked, Captioned)}

_STEP = "@tensorclass\nclass Step:\n    obs: torch.Tensor\n    reward: torch.Tensor\n"
SOURCES = {
    "Step": _STEP,
    "Twin": _STEP.replace("Step", "Twin"),
    "LongStep": _STEP + "\n@tensorclass\nclass LongStep(Step):\n    done: torch.Tensor\n",
    "Transition": _STEP + "\n@tensorclass\nclass Transition:\n    step: Step\n    value: torch.Tensor\n",
    "Masked": "@tensorclass\nclass Masked:\n    obs: torch.Tensor\n    mask: Optional[torch.Tensor] = None\n",
    "Captioned": "@tensorclass\nclass Captioned:\n    obs: torch.Tensor\n    caption: str\n",
    "Point": "class Point(NamedTuple):\n    x: object\n    y: object\n",
}
"""Source text of each, for stand-alone scripts."""
