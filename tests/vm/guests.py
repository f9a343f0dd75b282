"""Whether a guest can be booted here, and a kernel for it: fetched beforehand, never by a test."""

from __future__ import annotations

import os
import re
from functools import cache

from nfslab.errors import NfslabError
from nfslab.vm import packages
from nfslab.vm.kernel import cache_folder
from nfslab.vm.qemu import find_qemu
from nfslab.vm.shares import find_virtiofsd


@cache
def cached_kernels() -> list[str]:
    """Releases in the user's cache, the newest first."""
    try:
        kept = (cache_folder() / "kernels").glob("[!.]*-cloud-*")
        return sorted((path.name for path in kept), key=packages.order, reverse=True)
    except NfslabError:
        return []


@cache
def cached_versions() -> list[str]:
    """Their versions, as an experiment names them (6.12): the newest first, each once."""
    found = (re.match(r"\d+\.\d+", name) for name in cached_kernels())
    return list(dict.fromkeys(match[0] for match in found if match))


@cache
def refused() -> str:
    """Why no guest can be booted; empty where one can."""
    if os.geteuid() != 0:
        return "a guest needs root"
    try:
        find_qemu()
        find_virtiofsd()
    except NfslabError as error:
        return error.in_a_line()
    if not cached_kernels():
        return "no kernel is in the cache: nfslab vm fetch --kernel 6.12"
    return ""


@cache
def refused_two() -> str:
    """Why guests of two kernels cannot be booted; empty where they can."""
    if not (why := refused()) and len(cached_versions()) < 2:
        return "two kernels are needed: nfslab vm fetch --kernel 6.1"
    return why
