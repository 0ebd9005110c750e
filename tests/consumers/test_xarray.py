"""xarray's methods on arrays of tensors: NumPy's values, and the gradients of differences."""

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.testing import gradcheck

xr = pytest.importorskip("xarray")

VALUES = np.random.default_rng(0).normal(size=(3, 6)) + 2
TIMES = [0.0, 0.5, 1.5, 3.0, 3.5, 5.0]


def array(values):
    return xr.DataArray(values, dims=("place", "time"), coords={"time": TIMES})


def interpolated(x, at, method="linear"):
    """The recipe of `docs/how_to/scipy.md`: interpolation is linear in the values."""
    ((dim, _),) = at.items()
    unit = xr.DataArray(np.eye(x.sizes[dim]), dims=("row", dim), coords={dim: x[dim]})
    weights = unit.interp(at, method=method)
    return xr.dot(x.rename({dim: "row"}).drop_vars("row"), weights, dim="row")


OPERATIONS = {
    "sum": lambda x: x.sum("time"), "mean": lambda x: x.mean("place"),
    "std": lambda x: x.std("time"), "median": lambda x: x.median("place"),
    "quantile": lambda x: x.quantile(0.3, "time"), "isel": lambda x: x.isel(place=1),
    "sel": lambda x: x.sel(time=1.5), "arithmetic": lambda x: np.exp(x / 4) - x.mean("time"),
    "where": lambda x: x.where(x > 2, 0.0), "groupby": lambda x: x.groupby(x.time // 2).mean(),
    "concat": lambda x: xr.concat([x, 2 * x], "place"),
    "stack": lambda x: x.stack(both=("place", "time")), "dot": lambda x: xr.dot(x, x, dim="time"),
    "cumsum": lambda x: x.cumsum("time"), "coarsen": lambda x: x.coarsen(time=2).mean(),
    "integrate": lambda x: x.integrate("time"),
    "weighted": lambda x: x.weighted(x.time).mean("time"),
    "rolling mean": lambda x: x.rolling(time=2).mean(),
    "rolling sum": lambda x: x.rolling(time=3, center=True, min_periods=1).sum(),
    "rolling max": lambda x: x.rolling(place=2, time=2).max(),
    "rolling construct": lambda x: x.rolling(time=4).construct("window", fill_value=0),
    "polyfit": lambda x: x.polyfit("time", 2, skipna=False).polyfit_coefficients,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_graph_is_kept(name):
    compare(OPERATIONS[name], OPERATIONS[name], rtol=1e-6)


def compare(operation, reference, rtol):
    """Compare an operation on tensors with one on NumPy's arrays, and with its differences."""
    x, expected = gg.tensor(VALUES, requires_grad=True), reference(array(VALUES))
    found = operation(array(x))
    assert found.dims == expected.dims
    assert found.data.requires_grad
    np.testing.assert_allclose(found.data.detach().numpy(), expected.data, rtol=rtol, atol=1e-12)
    finite = np.isfinite(expected.data)  # a window that is not full is nan
    gradcheck(lambda x: operation(array(x)).data[finite], x, rtol=1e-3)


@pytest.mark.parametrize("method", ["linear", "nearest", "cubic"])
def test_interpolation_by_the_recipe(method):
    pytest.importorskip("scipy")
    at = {"time": [0.25, 1.0, 4.75]}
    compare(
        lambda x: interpolated(x, at, method), lambda x: x.interp(at, method=method), rtol=1e-12
    )
