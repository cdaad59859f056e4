#!/usr/bin/env python3
"""Validates JSON documents by the schemas of a folder, for schema_test.cpp.

  validate.py FOLDER

Says "ready", then answers each line {"schema": NAME, "document": ...} with one line: what is wrong
with the document by FOLDER/NAME.schema.json, nothing where the schema accepts it. Exit 77 without
python3-jsonschema.
"""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

validators = {}


def validator(folder, name):
    if name not in validators:
        with open(f"{folder}/{name}.schema.json", encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft7Validator.check_schema(schema)
        validators[name] = jsonschema.Draft7Validator(schema)
    return validators[name]


print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    errors = validator(sys.argv[1], asked["schema"]).iter_errors(asked["document"])
    print("; ".join(f"{e.json_path}: {e.message}" for e in errors).replace("\n", " "), flush=True)
