import os

import pytest
from libraries import libraries

# SciPy reads it when it is first imported, by whichever test: it then takes Tensors.
os.environ["SCIPY_ARRAY_API"] = "1"


@pytest.fixture(params=libraries(), ids=repr, scope="session")
def library(request):
    """Every array library that is there, in turn."""
    return request.param
