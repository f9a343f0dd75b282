"""Commands by name: module (with a click command named `command`) and one line of help.

`nfslab --help` prints this table without importing any of the modules.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "quickstart": ("nfslab.cli.quickstart", "Run the first comparison, open its report."),
    "try": ("nfslab.cli.trial", "Compare storages that you name, without a file."),
    "new": ("nfslab.cli.new", "Write an experiment file to begin with."),
    "run": ("nfslab.cli.run", "Run an experiment file (or what is missing of it)."),
    "explain": ("nfslab.cli.explain", "Where the time goes, and what makes it longer."),
    "confirm": ("nfslab.cli.confirm", "Test a finding by an intervention."),
    "report": ("nfslab.cli.report", "Write the report of an experiment's results."),
    "compare": ("nfslab.cli.compare", "Compare two experiments or selections."),
    "list": ("nfslab.cli.list", "List experiments and their runs."),
    "show": ("nfslab.cli.show", "Show one experiment, configuration or run."),
    "query": ("nfslab.cli.query", "Ask SQL of the results (DuckDB)."),
    "check": ("nfslab.cli.check", "Is everything in a results folder what was sealed?"),
    "files": ("nfslab.cli.files", "Measure file access in a directory, as Bonnie did."),
    "trace": ("nfslab.cli.trace", "Read packet captures: every NFS call, what is slow, why."),
    "syscalls": ("nfslab.cli.syscalls", "System calls by class of files, every fsync timed."),
    "sfs": ("nfslab.cli.sfs", "Offer NFS load to a server, as SPEC SFS did: what does it achieve?"),
    "top": ("nfslab.cli.top", "Watch NFS mounts and servers live."),
    "serve": ("nfslab.cli.serve", "Serve a folder or memory over NFSv3, as slow as you want."),
    "mount": ("nfslab.cli.mount", "Mount an NFS export without the kernel's NFS (FUSE)."),
    "umount": ("nfslab.cli.umount", "Take such a mount away, or what a dead one left."),
    "cluster": ("nfslab.cli.cluster", "Measure from several machines: check, start, stop."),
    "vm": ("nfslab.cli.vm", "Run a command under a stock kernel, in a virtual machine."),
    "doctor": ("nfslab.cli.doctor", "What this machine can do, and what is missing."),
}
READERS = frozenset(("explain", "report", "compare", "list", "show", "query", "check", "trace"))
"""They read what was measured, and start no program of a person's."""
