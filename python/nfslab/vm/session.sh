# The guest's first program from then on: runs the command, tells nfslab how it goes, ends the guest.
# Control port, guest to nfslab, one line each: ready, alive, exit CODE.
# An output goes through a FIFO: a port can be opened once only, and programs reopen /dev/stdout.
set -u
cd /run/nfslab
. ./config
PATH=/run/nfslab/bin
/run/nfslab/busybox --install -s "$PATH"
ALIVE_S=2
DRAIN_S=10

off() {
  echo o >/proc/sysrq-trigger
  while :; do sleep 1; done
}
port() { # name: its device
  for entry in /sys/class/virtio-ports/*; do
    if [ "$(cat "$entry/name")" = "$1" ]; then
      echo "/dev/${entry##*/}"
      return
    fi
  done
}
for name in control stdout stderr; do
  device=$(port "$name")
  [ -c "$device" ] || { echo "nfslab-guest: no port $name" >/dev/console; off; }
  mkfifo "$name"
  cat "$name" >"$device" &
  eval "$name=$!"
done
input=/dev/null
feeder=
if [ -n "$STDIN" ]; then
  device=$(port "$STDIN")
  [ -c "$device" ] || { echo "nfslab-guest: no port $STDIN" >/dev/console; off; }
  input=$STDIN
  mkfifo "$input"
  # Ends, and with it what is read here, when nfslab closes the port or is gone.
  cat "$device" >"$input" &
  feeder=$!
fi
exec 3>control
echo ready >&3
(while :; do sleep "$ALIVE_S" 3>&-; echo alive; done) >&3 &
beat=$!

# The kernel ends what takes the memory, not what reports it.
for one in $$ "$control" "$stdout" "$stderr" "$beat" $feeder; do echo -1000 >"/proc/$one/oom_score_adj"; done
(
  echo 0 >/proc/self/oom_score_adj
  exec 3>&-
  exec /bin/sh /run/nfslab/command.sh
) <"$input" >stdout 2>stderr &
wait $!
code=$?

# What the command left behind would keep its outputs open.
for entry in /proc/[0-9]*; do
  pid=${entry##*/}
  case " 1 $control $stdout $stderr $beat " in *" $pid "*) continue ;; esac
  [ -z "$(tr -d '\0' <"$entry/cmdline" 2>/dev/null)" ] || kill -9 "$pid" 2>/dev/null
done
# A process that waits for a dead server cannot be ended, nor can its files be written.
(sleep "$DRAIN_S"; kill -9 "$stdout" "$stderr") 2>/dev/null 3>&- &
wait "$stdout" "$stderr"
kill -9 "$beat"
echo "exit $code" >&3
exec 3>&-
wait "$control"
# What a program wrote through a mapping of memory; nfslab waits for a time only.
sync -f "$WORK"
off
