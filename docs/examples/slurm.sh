#!/bin/sh
# A campaign as a Slurm job array: sbatch docs/examples/slurm.sh
# Each task takes its shard from SLURM_ARRAY_TASK_ID and works for up to 20 minutes, so that an
# allocation is worth its cost. Submitted again, the array goes on where it stopped. The folder is on
# a file system that all nodes share; each task appends to a file of its own.
#SBATCH --job-name=ringfence
#SBATCH --array=0-15
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --time=00:30:00
#SBATCH --output=ringfence-%A-%a.log
# Afterwards: ringfence merge campaign
srun "${RINGFENCE:-ringfence}" fuzz --campaign "${FOLDER:-campaign}" --swarm --canary --executor inline \
  --jobs "${SLURM_CPUS_PER_TASK:-1}" --units 16000 --schedules 500 --time 1200
