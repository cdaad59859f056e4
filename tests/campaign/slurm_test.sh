#!/bin/sh
# slurm_test.sh RINGFENCE: docs/examples/slurm.sh as a job array of four tasks under a Slurm of its
# own (controller, node and munge in a folder, as one user on this machine): the tasks share the units
# out, the array submitted again resumes, and merge adds all up. 77 without slurmctld, slurmd,
# sbatch, munged (Debian: slurmctld slurmd slurm-client munge) or root.
set -eu
ringfence=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd sbatch munged mungekey; do
  command -v $tool >/dev/null || { echo "not run: no $tool"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "not run: a node of Slurm wants root"; exit 77; }

dir=$(mktemp -d /tmp/ringfence-slurm-XXXXXX)
munged=; slurmctld=; slurmd=
finish() {
  for pid in $slurmd $slurmctld $munged; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
fail() {
  echo "slurm_test: $*" >&2
  tail -n 20 "$dir"/*.log >&2 || true
  exit 1
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
host=$(hostname -s)
mkdir "$dir/state" "$dir/spool" "$dir/munge"
chmod 755 "$dir" "$dir/munge"
chmod 700 "$dir/state"
mungekey -c -k "$dir/munge.key"
# Its folder belongs to root and is nobody else's business; munged wants to hear that.
munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge/socket" \
  --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/munged.log" \
  >/dev/null 2>&1 &
munged=$!
cat > "$dir/slurm.conf" <<CONF
ClusterName=ringfence
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
SLURM_CONF=$dir/slurm.conf
export SLURM_CONF
waited=0
while [ ! -S "$dir/munge/socket" ]; do
  waited=$((waited + 1))
  [ $waited -lt 100 ] || fail "munged gives no socket"
  sleep 0.1
done
slurmctld -D >/dev/null 2>&1 &
slurmctld=$!
slurmd -D -N "$host" >/dev/null 2>&1 &
slurmd=$!
waited=0
until sinfo -h -o %t 2>/dev/null | grep -q '^idle'; do
  waited=$((waited + 1))
  [ $waited -lt 300 ] || fail "the node does not come up: $(sinfo 2>&1)"
  sleep 0.2
done

# The example, for fewer units: the array and the memory are the job's, the rest the environment's.
RINGFENCE=$ringfence FOLDER=$dir/campaign
export RINGFENCE FOLDER
sed 's/--units 16000 --schedules 500/--units 12 --schedules 5/' "$source/docs/examples/slurm.sh" \
  > "$dir/slurm.sh"
grep -q -- '--units 12 --schedules 5' "$dir/slurm.sh" || fail "the example has other options than this test replaces"
submit() {
  sbatch --wait --array=0-3 --cpus-per-task=1 --mem-per-cpu=200M --chdir="$dir" "$dir/slurm.sh" \
    > "$dir/sbatch.log" 2>&1 || fail "the array failed: $(cat "$dir"/ringfence-*.log)"
}
submit
for shard in 1 2 3 4; do
  [ -s "$dir/campaign/shard-$shard-of-4.results.jsonl" ] || fail "shard $shard wrote nothing"
done
"$ringfence" merge "$dir/campaign" > "$dir/merged.log" || fail "merge"
grep -q '12 of 12 units' "$dir/merged.log" || fail "$(cat "$dir/merged.log")"

# One shard loses its last line in a crash; the array submitted again runs that unit and no other.
file=$dir/campaign/shard-2-of-4.results.jsonl
size=$(wc -c < "$file")
truncate -s $((size - 20)) "$file"
"$ringfence" merge "$dir/campaign" > "$dir/merged.log" && fail "a unit is missing, and merge says nothing"
rm -f "$dir"/ringfence-*.log
submit
[ "$(cat "$dir"/ringfence-*.log | grep -c '^0 units ran, 3 were done before')" -eq 3 ] ||
  fail "not three shards had all their units: $(cat "$dir"/ringfence-*.log)"
grep -q '^1 units ran, 2 were done before' "$dir"/ringfence-*.log || fail "the lost unit was not run"
"$ringfence" merge "$dir/campaign" > "$dir/merged.log" || fail "merge after the second array"
grep -q '12 of 12 units' "$dir/merged.log" || fail "$(cat "$dir/merged.log")"
echo ok
