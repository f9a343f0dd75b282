"""What a section of an experiment file says of a virtual machine: kernel, modules, memory, cpus.

`[machine]` has these keys (the whole run is in a guest), and so has `[client]` with host = "vm"
(its client hosts are guests).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from nfslab.quantities import Size
from nfslab.vm import qemu
from nfslab.vm.packages import STOCK, VERSION
from nfslab.vm.qemu import CPUS_MAX, MEMORY_MAX_BYTES, MEMORY_MIN_BYTES

if TYPE_CHECKING:
    AskedKernel = tuple[str, Path | None]
    """As it was asked for, and the folder of its modules where it is another than its own."""

VM: Final = "vm"
"""Of client hosts: virtual machines on this one."""


def _kernel(value: str) -> str:
    """A version or "stock", as `nfslab vm run` takes it, else a whole path."""
    if value == STOCK or VERSION.fullmatch(value):
        return value
    path = Path(value).expanduser()
    if not path.is_absolute():
        raise ValueError(
            f'{value!r} is neither a version ("6.12", "{STOCK}") nor the whole path of a vmlinuz, '
            "vmlinux or .deb file"
        )
    return str(path)


class GuestKeys(BaseModel):
    """The keys, for sections to inherit; which of them may stand where is theirs to say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: Annotated[str, AfterValidator(_kernel)] | None = None
    modules: Path | None = None
    """In place of the kernel's own: a folder with modules.dep."""
    memory: Size = Field(default=2 << 30, ge=MEMORY_MIN_BYTES, le=MEMORY_MAX_BYTES)
    """Of the guest: kernel, programs, and what is written to its targets."""
    cpus: int = Field(default=2, ge=1, le=CPUS_MAX)

    @property
    def asked_kernel(self) -> AskedKernel | None:
        """The kernel of its guests; None: there are none."""
        return None if self.kernel is None else (self.kernel, self.modules)

    @property
    def size(self) -> qemu.Size:
        """Of each guest."""
        return qemu.Size(self.memory, self.cpus)

    def given_of_a_guest(self) -> list[str]:
        """Those of the keys that were given, but for the kernel."""
        return sorted(self.model_fields_set & (GUEST_KEYS - {"kernel"}))


GUEST_KEYS: Final = frozenset(GuestKeys.model_fields)
