#!/usr/bin/env python3
"""Validates JSON documents by the schemas of a folder, for schema_test.cpp.

  validate.py FOLDER

Says "ready", then answers each line {"schema": NAME, "document": ...} with one line: what is wrong
with the document by FOLDER/NAME.schema.json, nothing where the schema accepts it. Exit 77 without
python3-jsonschema.
"""
import json
import pathlib
import sys
import warnings

try:
    import jsonschema
except ImportError:
    sys.exit(77)
# Debian 12 has 4.10, which knows no other resolver.
warnings.filterwarnings("ignore", category=DeprecationWarning)

folder = pathlib.Path(sys.argv[1]).resolve()
schemas = {}  # by the URI of the file: they refer to each other by name
for path in folder.glob("*.schema.json"):
    schemas[path.as_uri()] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schemas[path.as_uri()])
validators = {}


def validator(name):
    if name not in validators:
        uri = (folder / f"{name}.schema.json").as_uri()
        resolver = jsonschema.RefResolver(uri, schemas[uri], store=schemas)
        validators[name] = jsonschema.Draft7Validator(schemas[uri], resolver=resolver)
    return validators[name]


print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    errors = validator(asked["schema"]).iter_errors(asked["document"])
    print("; ".join(f"{e.json_path}: {e.message}" for e in errors).replace("\n", " "), flush=True)
