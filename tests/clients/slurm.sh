#!/usr/bin/env bash
# Has Slurm preempt an agent run in the middle, requeue it and end it: slurm.sh BINARY. Its daemons
# run on this machine, below a scratch directory. Two tasks of an array do the same work; one of them
# is preempted by a job of a higher partition, and must come to the same result.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
cd "$(dirname "$0")/../.." || exit 1
repo=$PWD
binary=$1
scripts/need slurmctld slurmd sbatch munged jq uuidgen || exit 1
if [ "$(id -u)" != 0 ]; then
    echo "slurm.sh: slurmd starts jobs as their users: run it as root" >&2
    exit 1
fi

scratch=$(mktemp -d)
# Processes of other users, as munged by default, look into it.
chmod 755 "$scratch"
for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SQUEUE|ZSH_TOOL|ONESHOT|AUTONOMOUS)'); do unset "$name"; done
export HOME=$scratch/home SLURM_CONF=$scratch/slurm.conf ZSH_TOOL_STATE_DIR=$scratch/shared
mkdir "$HOME" "$scratch/bin" "$scratch/state" "$scratch/spool"
cd "$HOME" || exit 1
# shellcheck source=/dev/null
. "$tests/check.sh"
# Waits for what no file or process can be waited for: another program's state.
eventually() { # eventually COMMAND...
    local deadline=$((SECONDS + 90))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > deadline)); then
            echo "not within 90 s: $*"
            squeue --long
            tail -n 5 "$scratch"/*.log
            return 1
        fi
        sleep 0.1
    done
}
is() { # is EXPECTED COMMAND...
    local given
    given=$("${@:2}")
    [ "$given" = "$1" ] || { printf 'expected: %s\n   found: %s\n' "$1" "$given"; return 1; }
}
state() { # state JOB: its state as Slurm names it.
    scontrol --oneliner show job "$1" | sed -n 's/.* JobState=\([A-Z]*\).*/\1/p'
}
has_state() { [ "$(state "$1")" = "$2" ]; }
restarts() { scontrol --oneliner show job "$1" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }

daemons=()
start() { # start NAME COMMAND...: a daemon in the foreground.
    "${@:2}" >"$scratch/$1.log" 2>&1 </dev/null &
    daemons+=($!)
}
end() {
    [ "${#daemons[@]}" -lt 3 ] || scancel --quiet --full --signal=KILL --user=root
    # Jobs end before the daemon that starts them.
    for ((last = ${#daemons[@]} - 1; last >= 0; last--)); do
        kill "${daemons[last]}" 2>/dev/null
        wait "${daemons[last]}" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap end EXIT
trap 'exit 1' INT TERM

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
node=$(hostname -s)
cat >"$SLURM_CONF" <<CONF
ClusterName=scratch
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=10
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=$node PriorityTier=1 Default=YES State=UP
PartitionName=high Nodes=$node PriorityTier=9 State=UP
CONF
# Jobs are tracked by their processes here. Versions before 23.02 load a plugin all the same.
case $(slurmd -V | grep -oE '[0-9]+' | head -n 1) in
    1? | 20 | 21 | 22) echo CgroupPlugin=cgroup/v1 ;;
    *) echo CgroupPlugin=disabled ;;
esac >"$scratch/cgroup.conf"
head -c 1024 /dev/urandom >"$scratch/munge.key"
chmod 400 "$scratch/munge.key"
start munged munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" \
    --pid-file="$scratch/munge.pid" --seed-file="$scratch/munge.seed" --log-file="$scratch/munge.file.log"
eventually test -S "$scratch/munge.socket"
start slurmctld slurmctld -D
start slurmd slurmd -D
idle() { sinfo --noheader --format=%T | grep -q '^idle$'; }
check "Slurm runs on this machine" eventually idle

# The agent: the first iteration does one half, the second waits for a file and does the other.
ln -s "$repo/tests/fixtures/agents/fake-agent" "$scratch/bin/claude"
export PATH=$scratch/bin:$PATH
echo "write both halves" >"$scratch/prompt"
agent() { # agent TASK: the script for it.
    local work=$scratch/work-$1
    mkdir -p "$work/notes"
    jq -n --arg work "$work" '{
        worker: [
            [{init: 1}, {append: {path: ($work + "/result"), text: "one\n"}}, {result: "one half"}],
            [{init: 1}, {text: "working"}, {touch: ($work + "/begun")}, {wait: ($work + "/go")},
             {append: {path: ($work + "/result"), text: "two\n"}}, {touch: ($work + "/complete")}, {result: "both halves"}]
        ],
        auditor: [[{init: 1}, {verdict_if: ($work + "/complete")}]]
    }' >"$work/script.json"
}
# As `zsh-tool help runs` shows it.
cat >"$scratch/job" <<JOB
#!/bin/sh
#SBATCH --array=1-2 --requeue --open-mode=append --output=$scratch/%a.out --error=$scratch/%a.err
export FAKE_AGENT=$scratch/work-\$SLURM_ARRAY_TASK_ID/script.json
export FAKE_AGENT_NOTES=$scratch/work-\$SLURM_ARRAY_TASK_ID/notes
id=\$(uuidgen --sha1 --namespace @oid --name "\$SLURM_ARRAY_JOB_ID.\$SLURM_ARRAY_TASK_ID")
exec $binary oneshot --id "\$id" - <"$scratch/prompt"
JOB
agent 1 && agent 2
touch "$scratch/work-1/go"
job=$(sbatch --parsable "$scratch/job")
check "a task of the array does its work" eventually has_state "${job}_1" COMPLETED
check "the other one is in the middle" eventually test -e "$scratch/work-2/begun"
urgent=$(sbatch --parsable --partition=high --exclusive --output=/dev/null --wrap='true')
check "a job of the higher partition takes its place" eventually has_state "$urgent" COMPLETED
check "the task was preempted and requeued" is 1 restarts "${job}_2"
check "its run was paused by the signal" grep -q "is paused; resume it with" "$scratch/2.err"
paused() { "$binary" oneshot list --json | jq -c 'select(.state == "INTERRUPTED")'; }
check "the overview lists it" test "$(paused | wc -l)" = 1
check "its second half is not done" is one cat "$scratch/work-2/result"
touch "$scratch/work-2/go"
# Slurm waits two minutes by itself.
check "it is let go at once" scontrol update "jobid=${job}_2" starttime=now
check "it ends" eventually has_state "${job}_2" COMPLETED
check "with the same result" is "both halves" cat "$scratch/2.out"
check "as the one that nothing has disturbed" cmp "$scratch/1.out" "$scratch/2.out"
check "the same work" cmp "$scratch/work-1/result" "$scratch/work-2/result"
check "no half of it twice" is $'one\ntwo' cat "$scratch/work-2/result"
runs() { "$binary" oneshot list --json | jq -r '.state' | sort | uniq -c | tr -s ' '; }
check "each task is one run" is " 2 COMPLETED" runs
check "nothing is left on the node" eventually idle

conclude
