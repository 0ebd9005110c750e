import pytest
from libraries import libraries


@pytest.fixture(params=libraries(), ids=repr, scope="session")
def library(request):
    """Every array library that is there, in turn."""
    return request.param
