"""What the machine did: CPU, memory, devices, network, pressure, from /proc."""
