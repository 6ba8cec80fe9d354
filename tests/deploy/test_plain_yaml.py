"""The small reader of YAML reads what it should, and nothing that could mean something else."""

from __future__ import annotations

import pytest
from tests.deploy.plain_yaml import read_all


def test_maps_lists_and_texts() -> None:
    text = """
# A comment.
kind: Pod
spec:
  names: ["a", "b"]
  ports:
    - name: clients
      port: 7100
    - name: "7101"
  command:
    - --broker=b1:7100
  nothing: {}
  on: true
---
script: |
  set -eu
    # not a comment of ours
  exit
"""
    assert read_all(text) == [
        {
            "kind": "Pod",
            "spec": {
                "names": ["a", "b"],
                "ports": [{"name": "clients", "port": 7100}, {"name": "7101"}],
                "command": ["--broker=b1:7100"],
                "nothing": {},
                "on": True,
            },
        },
        {"script": "set -eu\n  # not a comment of ours\nexit\n"},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a: yes",
        "a: *b",
        "a: 'b'",
        "a: b # c",
        "a: b: c",
        "a: 1\na: 2",
        "a:\n    b: 1",
        "a:\nb: 1",
        "a: 1\n  b: 2",
        "a:\n- 1",
        "a: {b: 1}",
        "a:\t1",
        "just a text",
    ],
)
def test_what_a_person_might_misread_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(line \d|at the end)"):
        read_all(text)
