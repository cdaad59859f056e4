#!/usr/bin/env python3
"""kubernetes_test.py RINGFENCE: docs/examples/kubernetes.yaml is a Job as the schema has it, and the
schema would notice if it were not; its command is one that ringfence takes. 77 without PyYAML or
jsonschema."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"not run: {missing}")
    sys.exit(77)

here = pathlib.Path(__file__).resolve().parent
job = yaml.safe_load((here.parent.parent / "docs/examples/kubernetes.yaml").read_text())
schema = json.loads((here / "kubernetes-job.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.validate(job, schema)

# What is misspelt or of another type is refused, at every depth.
for path, value in [
    (("spec", "complections"), 16),
    (("spec", "completions"), "sixteen"),
    (("spec", "completionMode"), 1),
    (("spec", "podFailurePolicy", "rules", 0, "onExitCods"), {}),
    (("spec", "podFailurePolicy", "rules", 0, "onExitCodes", "values"), ["one"]),
    (("spec", "template", "spec", "containers", 0, "comand"), []),
    (("spec", "template", "spec", "containers", 0, "resources", "limit"), {}),
    (("spec", "template", "spec", "volumes", 0, "persistentVolumeClaim", "claim"), "x"),
]:
    wrong = copy.deepcopy(job)
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    try:
        jsonschema.validate(wrong, schema)
    except jsonschema.ValidationError:
        continue
    sys.exit(f"the schema takes {path} = {value!r}")

# The index's own shard, with the container's command and environment but fewer units.
spec = job["spec"]
container = spec["template"]["spec"]["containers"][0]
shards = int(next(e["value"] for e in container["env"] if e["name"] == "TEST_TOTAL_SHARDS"))
assert spec["completions"] == shards, "an index for each shard"
assert container["volumeMounts"][0]["mountPath"] == container["command"][3]
with tempfile.TemporaryDirectory() as folder:
    command = [sys.argv[1], *container["command"][1:]]
    command[3] = folder
    command[command.index("--units") + 1] = str(shards)
    command[command.index("--schedules") + 1] = "2"
    environment = dict(os.environ, TEST_TOTAL_SHARDS=str(shards), JOB_COMPLETION_INDEX="5")
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "shard 6 of 16" in run.stdout, run.stdout
    assert os.listdir(folder) == ["shard-6-of-16.results.jsonl"], os.listdir(folder)
print("ok")
