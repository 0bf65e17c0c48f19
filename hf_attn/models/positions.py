"""Every position encoding: POSITION_TYPES names them as `config.position_type` does.

A new one is a class in a `position_*` file and a row here: the command line, the app's lists, the experiments
and what the tests demand of all then have it.
"""

from .position_absolute import (
    ComplexPositions,
    IndexPositions,
    LearnedInterpolatedPositions,
    LearnedPositions,
    ODEPositions,
    SinusoidalPositions,
)
from .position_base import Positions
from .position_contextual import (
    DepthwiseConvolutionPositions,
    DynamicPositions,
    MultiscaleConvolutionPositions,
    RecurrentPositions,
)
from .position_relative import ALiBiPositions, ClippedBias, CompositePositions, RelativePositions, T5Bias
from .position_rotary import RotaryInterpolatedPositions, RotaryNTKPositions, RotaryPositions
from .position_runs import AbacusPositions, BothEndsBias, CoupledPositions, SignificanceBias

POSITION_TYPES: dict[str, type[Positions]] = {
    "none": Positions,
    "index": IndexPositions,
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "learned_interpolated": LearnedInterpolatedPositions,
    "rotary": RotaryPositions,
    "rotary_interpolated": RotaryInterpolatedPositions,
    "rotary_ntk": RotaryNTKPositions,
    "relative": RelativePositions,
    "t5": T5Bias,
    "t5_clipped": ClippedBias,
    "alibi": ALiBiPositions,
    "depthwise_convolution": DepthwiseConvolutionPositions,
    "multiscale_convolution": MultiscaleConvolutionPositions,
    "recurrent": RecurrentPositions,
    "ode": ODEPositions,
    "complex": ComplexPositions,
    "composite": CompositePositions,
    "dynamic": DynamicPositions,
    "significance": SignificanceBias,
    "both_ends": BothEndsBias,
    "coupled": CoupledPositions,
    "abacus": AbacusPositions,
}
