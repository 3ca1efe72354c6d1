# A container that uses a device: ends with the exit code that is written to /tmp/exit, or on SIGTERM with 143.
# `wait` is what a signal interrupts in every shell; a `read` is not.
trap 'exit 143' TERM
mkfifo /tmp/exit 2> /dev/null
while :; do
  cat /tmp/exit > /tmp/told &
  wait $!
  read -r code < /tmp/told
  [ -n "$code" ] && exit "$code"
  [ -p /tmp/exit ] || sleep 0.05 # a plain file was there first
done
