"""Define losses between an energy network's input v and a target y in C."""

from __future__ import annotations

from gfy.losses.base import Loss
from gfy.losses.fenchel_young import FenchelYoungLoss
from gfy.losses.others import ArgmaxLoss, EnergyLoss, MarginLoss, PerceptronLoss

__all__ = ["ArgmaxLoss", "EnergyLoss", "FenchelYoungLoss", "Loss", "MarginLoss", "PerceptronLoss"]
