"""This machine as both hosts of a run."""

from __future__ import annotations

from nfslab.hosts.base import Hosts
from nfslab.hosts.local import LocalHost

HERE = Hosts(files=LocalHost(), servers=LocalHost())
