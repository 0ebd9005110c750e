"""The processes that run one program together, and collectives of their raw arrays.

`current` is the group of all of them; without a launcher it is this process alone.
"""

from .group import Group, current, install
from .launcher import processes_launched

__all__ = ["Group", "current", "install", "processes_launched"]
