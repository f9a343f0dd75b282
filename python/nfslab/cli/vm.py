"""`nfslab vm`: a command in a throwaway virtual machine with a stock Linux kernel.

Exit code of `vm run`: the command's own (127: not found there); 1 the virtual machine failed, 2 bad
usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nfslab.cli.arguments import parsed, polite_kill
from nfslab.quantities import parse_size_bytes
from nfslab.vm.packages import STOCK
from nfslab.vm.qemu import CPUS_MAX

EPILOG = """\b
Examples:
  nfslab vm run -- uname -r
  nfslab vm run --kernel 6.12 --memory 4G -- ./nfslab run experiments/mine.toml
  nfslab vm run --kernel ~/linux/arch/x86/boot/bzImage --modules ~/mods -- mount -t nfs ...
  nfslab vm fetch --kernel 6.12

\b
docs/vm.md says what the guest sees, and what is written back.
"""


@click.group("vm", epilog=EPILOG)
def command() -> None:
    """Run a command under a stock Linux kernel, in a virtual machine made for it."""


@command.command("run", epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@click.option(
    "--kernel", default=STOCK, show_default="this Debian's own", metavar="VERSION|PATH",
    help="6.12, 6.1, ...: fetched with apt, once. Or a vmlinuz, vmlinux or .deb file.",
)  # fmt: skip
@click.option(
    "--modules", type=click.Path(path_type=Path), metavar="DIR",
    help="Modules in place of the kernel's own: a folder with modules.dep.",
)  # fmt: skip
@click.option(
    "--memory", default="2G", show_default=True, callback=parsed(parse_size_bytes),
    help="Of the guest. What it writes outside the working folder is kept in it.",
)  # fmt: skip
@click.option("--cpus", default=2, show_default=True, type=click.IntRange(1, CPUS_MAX))
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def run_command(
    ctx: click.Context,
    kernel: str,
    modules: Path | None,
    memory: int,
    cpus: int,
    words: tuple[str, ...],
) -> None:
    """Run COMMAND in a virtual machine; its output, its exit code.

    The guest sees all files of this machine. It may change those of the working folder; what it
    writes elsewhere vanishes with it. It has no network but its own loopback.
    """
    from nfslab.machine.resources import recover
    from nfslab.vm.qemu import Size
    from nfslab.vm.run import Request, run

    for sentence in recover():
        _say(sentence)
    request = Request(words, kernel, modules, Size(memory, cpus))
    with polite_kill():
        ctx.exit(run(request, sys.stdout.buffer, sys.stderr.buffer, _say))


@command.command("fetch")
@click.option("--kernel", default=STOCK, show_default="this Debian's own", metavar="VERSION")
def fetch_command(kernel: str) -> None:
    """Fetch a kernel into the cache, so that `vm run` needs no network.

    \b
    Example:
      nfslab vm fetch --kernel 6.12
    """
    from nfslab.vm.kernel import find

    found = find(kernel, None, _say)
    click.echo(f"{found.release} {found.vmlinux}")


def _say(sentence: str) -> None:
    print(f"nfslab: {sentence}", file=sys.stderr, flush=True)
