"""Programs on a CUDA device."""

from .derivatives import Derivative
from .run import Program


def program_of(tape, function, wanted):
    """The program of a tape; one that is captured, where its array library can.

    wanted: a list for the kinds of backward sweeps of which there is no tape yet.
    """
    program = Program(tape)
    if tape.graph is not None:
        program.derivative = Derivative(tape, function, wanted)
    return program
