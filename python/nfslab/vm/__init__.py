"""A throwaway virtual machine: a stock Linux kernel over the files of this machine.

    kernel (package or path) ─► image, modules ─┐
    command, environment, folders ─► initramfs ─┼─► QEMU ─► output, exit code
    virtiofsd: root (read-only), working folder ┘

The guest sees the root of this machine read-only, below an overlay in its memory. So every program
that is installed here runs there, and whatever it writes vanishes. One folder is shared for
writing: the one in which the command runs. QEMU emulates the processor where the machine's own
virtualisation does not boot a kernel; such a guest's timings say nothing (`machine.emulation`).
"""
