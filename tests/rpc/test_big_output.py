from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "long" / "big_output.py"


@pytest.mark.promise("F03")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_half_a_gigabyte_of_output_costs_little_and_is_reported_rightly() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "500M"], capture_output=True, check=False)
    assert json.loads(done.stdout)["ok"] == {"memory": True, "disk": True, "result": True, "file": True}
