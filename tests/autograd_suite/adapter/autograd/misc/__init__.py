"""autograd's helpers, but for `flatten` those of the checkout."""

import os

from .flatten import flatten  # noqa: F401

if "AUTOGRAD_CHECKOUT" in os.environ:
    __path__.append(os.path.join(os.environ["AUTOGRAD_CHECKOUT"], "autograd", "misc"))
