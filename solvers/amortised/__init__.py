"""Combine a learned start, a few Newton steps, and a certificate that decides whether the full solver is needed."""

from gfy.calling.guard import guard_all
from solvers.amortised.proposal import Proposal, ProposalLearner

__all__ = ["Proposal", "ProposalLearner"]

guard_all(__all__, globals())
