"""Output lengths: one law, many ways to give it (quantiles, histogram, trace, lognormal, a published reference).

    law         what planners may ask of a law          histogram, trace, lognormal   ways to build one
    quantile    the law that all of them build          given                         how scenarios write it
    reference   published laws by name                  drift, sampling               lengths that grow; lengths drawn

Only `sampling` needs numpy, so reading and checking a plan does not.
"""

from rollplan.models.lengths.law import LengthLaw
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.lengths.reference import REFERENCE_LENGTHS

__all__ = ["REFERENCE_LENGTHS", "LengthLaw", "QuantileLaw"]
