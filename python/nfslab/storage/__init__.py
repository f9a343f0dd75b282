"""What storage is and does: options and durability of mounts, devices, stripes, the page cache."""
