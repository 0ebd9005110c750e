"""scikit-learn's estimators and metrics on Tensors, with ``array_api_dispatch``."""

import numpy as np
import pytest
from oracle import check
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

import gpugrad

RNG = np.random.default_rng(0)
X, Y, y = (RNG.uniform(0.1, 2, shape) for shape in ((8, 3), (5, 3), 8))


@pytest.fixture(autouse=True)
def dispatch():
    with config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("transformer", [
    StandardScaler(), StandardScaler(with_std=False),
    MinMaxScaler(feature_range=(-1, 2)), MinMaxScaler(clip=True), MaxAbsScaler(),
    Normalizer(), Normalizer("l1"), Normalizer("max"),
    PCA(2, svd_solver="full"), PCA(2, svd_solver="full", whiten=True),
    PCA(2, svd_solver="covariance_eigh"),
], ids=repr)  # fmt: skip
def test_transformers(transformer):
    check(transformer.fit_transform, X)


@pytest.mark.parametrize("kind", [StandardScaler, MinMaxScaler, MaxAbsScaler])
def test_transformers_fitted_on_other_data_and_undone(kind):
    def function(x, other):
        scaler = kind().fit(x)
        return scaler.transform(other), scaler.inverse_transform(other)

    check(function, X, Y)


def pca_undone(x):
    pca = PCA(2, svd_solver="full").fit(x)
    return pca.inverse_transform(pca.transform(x)), pca.explained_variance_


def ridge(x, y):
    model = Ridge(alpha=0.5, solver="svd").fit(x, y)
    return model.coef_, model.predict(x)


@pytest.mark.parametrize("function, given", [(pca_undone, [X]), (ridge, [X, y])])
def test_fitted_models(function, given):
    check(function, *given)


PAIRWISE = """
    additive_chi2_kernel chi2_kernel cosine_distances cosine_similarity euclidean_distances
    laplacian_kernel linear_kernel manhattan_distances polynomial_kernel rbf_kernel sigmoid_kernel
    paired_cosine_distances paired_euclidean_distances paired_manhattan_distances
""".split()


@pytest.mark.parametrize("name", PAIRWISE)
def test_pairwise(name):
    check(getattr(pairwise, name), X[:4], Y[1:])


def test_distance_of_a_point_to_itself_has_a_finite_gradient():
    x = gpugrad.tensor(X, requires_grad=True)
    pairwise.euclidean_distances(x).sum().backward()
    assert gpugrad.all(gpugrad.isfinite(x.grad))
