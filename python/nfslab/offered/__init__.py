"""Offered load against an NFS server: mixes, ladders of loads, plans for the generator, search.

    mix file ──> Mix ──┐
    ladder "800..3200:800" ──> loads ──> plan (JSON) ──> the core's generator ──> report of a point
                                   └── or the search for the highest load under a limit

The generator itself is in Rust (crates/load); what points mean together is in
`nfslab.statistics.load_curve`. The command `nfslab sfs` and the workload `sfs` both come here.
"""
