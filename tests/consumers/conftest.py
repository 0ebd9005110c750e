def pytest_terminal_summary(terminalreporter):
    """Print how many of SciPy's functions work on Tensors."""

    def functions(outcome, *, differentiable):
        return {
            name
            for report in terminalreporter.getreports(outcome)
            for key, (name, why) in report.user_properties
            if key == "scipy" and differentiable == (why is None)
        }

    failed = functions("failed", differentiable=True)
    passed = functions("passed", differentiable=True) - failed
    if passed or failed:
        others = functions("passed", differentiable=False) - passed
        terminalreporter.write_line(
            f"SciPy on Tensors: {len(passed)} of {len(passed | failed)} differentiable functions "
            f"give NumPy's values and the right gradients; {len(others)} others have no gradient"
        )
