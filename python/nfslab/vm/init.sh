#!/bin/busybox sh
# The guest's first program, in the initramfs: makes the root that the command sees, and goes there.
# /config is written by nfslab: MODULES, MODULES_FOLDER, WORK, BACK (folders to bring back), ADDRESS
# (of its network device; empty: it has none), STDIN (the port; empty: none).
set -u
. /config
PATH=/bin
/bin/busybox mount -t proc proc /proc
# Debian's busybox runs its programs under their own names only.
/bin/busybox --install -s /bin

die() { # what: the console's end is what nfslab shows
  echo "nfslab-guest: $*" >&2
  sync
  echo o >/proc/sysrq-trigger
  while :; do sleep 1; done
}
must() { "$@" || die "failed: $*"; }

must mount -t sysfs sysfs /sys
must mount -t devtmpfs devtmpfs /dev
for module in $MODULES; do
  must insmod "/modules/$module.ko"
done

must mount -t virtiofs -o ro root /lower
must mount -t tmpfs -o mode=0755 tmpfs /over
mkdir /over/upper /over/work
must mount -t overlay -o lowerdir=/lower,upperdir=/over/upper,workdir=/over/work overlay /new

# What belongs to a running system, not to a disk: the guest has its own.
for one in proc sys dev; do must mount --move "/$one" "/new/$one"; done
must mount -t tmpfs -o mode=0755 tmpfs /new/run
# The kernel makes devices, not these names (udev does elsewhere).
ln -s /proc/self/fd /new/dev/fd
ln -s /proc/self/fd/0 /new/dev/stdin
ln -s /proc/self/fd/1 /new/dev/stdout
ln -s /proc/self/fd/2 /new/dev/stderr
mkdir -p /new/dev/pts /new/dev/shm /new/run/lock
mount -t devpts -o gid=5,mode=0620,ptmxmode=0666 devpts /new/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t debugfs debugfs /new/sys/kernel/debug
mount -t tracefs tracefs /new/sys/kernel/tracing

eval "set -- $BACK"
for folder; do
  must mkdir -p "/new$folder"
  must mount --bind "/lower$folder" "/new$folder"
done
release=$(uname -r)
mkdir -p "/new/lib/modules/$release"
must mount --bind "/lower$MODULES_FOLDER" "/new/lib/modules/$release"
must mkdir -p "/new$WORK"
must mount -t virtiofs work "/new$WORK"

hostname nfslab-guest
ip link set lo up
if [ -n "$ADDRESS" ]; then
  must ip address add "$ADDRESS" dev eth0
  must ip link set eth0 up
fi
must mkdir -p -m 0700 /new/run/nfslab /new/run/nfslab/state /new/run/nfslab/bin
cp /bin/busybox /session.sh /command.sh /config /new/run/nfslab/ || die "no room in memory"
exec switch_root /new /run/nfslab/busybox sh /run/nfslab/session.sh
