"""The official OpenAI client for Node, unmodified; the assertions are in node/client.test.mjs."""

import os
import pathlib
import subprocess

from conftest import SMOLLM2


def test_official_node_client(daemon):
    env = dict(os.environ, GEZEL_URL=daemon.url, GEZEL_KEY=daemon.key, GEZEL_MODEL=SMOLLM2)
    folder = pathlib.Path(__file__).parent / "node"
    result = subprocess.run(["node", "--test", "client.test.mjs"], cwd=folder, env=env, text=True, capture_output=True,
                            timeout=180)
    assert result.returncode == 0, result.stdout + result.stderr
