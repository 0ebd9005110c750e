"""Programs on a CUDA device."""

from .run import Program


def program_of(tape):
    """The program of a tape; one that is captured, where its array library can."""
    program = Program(tape)
    if tape.graph is not None:
        from .derivatives import Derivative

        program.derivative = Derivative(tape)
    return program
