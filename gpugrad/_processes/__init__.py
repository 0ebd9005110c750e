"""The processes that run one program together, and collectives of their raw arrays.

`current` is the group of all of them; without a launcher it is this process alone.
"""

from .group import Group, current, install
from .joining import join
from .launcher import meeting_point, processes_launched

__all__ = ["Group", "current", "install", "join", "meeting_point", "processes_launched"]
