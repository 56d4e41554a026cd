# Turns a spinner until the command that is given has ended.
"$@" &
worker=$!
turn=0
while kill -0 "$worker" 2>/dev/null; do
    turn=$(((turn + 1) % 4))
    printf '\r%s working' "$(printf '|/-\\' | cut -c$((turn + 1)))"
    sleep 0.2
done
wait "$worker"
