"""A kernel that cannot lock workers down serves all the same, and says what is missing."""

import json
import pathlib
import subprocess
import sys

from conftest import BIN, SMOLLM2

OLDER_KERNEL = str(pathlib.Path(__file__).with_name("older_kernel.py"))


def doctor(daemon, *flags):
    """`gezel doctor` on the same kernel."""
    return subprocess.run([*daemon.wrapper, str(BIN / "gezel"), "doctor", *flags], env=daemon.environment(), text=True,
                          capture_output=True, timeout=120)


def test_a_kernel_without_the_sandbox_serves_and_says_so(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--threads", "1", "--slots", "1", "--ctx", "512"), start=False)
    for missing in (["landlock"], ["seccomp"], ["landlock", "seccomp"]):
        daemon.wrapper = [sys.executable, OLDER_KERNEL, ",".join(missing)]
        daemon.start()
        status, reply = daemon.chat(max_tokens=4, timeout=300)
        assert status == 200, reply
        assert reply["choices"][0]["message"]["content"]
        logged = [line for line in (daemon.home / "daemon.log").read_text().splitlines() if "not fully locked down" in line]

        result = doctor(daemon, "--json")
        report = json.loads(result.stdout)
        assert result.returncode == 0, result.stdout  # a gap is a warning: nothing is broken
        assert (report["machine"]["kernel"]["landlock_abi"] == 0) == ("landlock" in missing)
        assert report["machine"]["kernel"]["seccomp"] == ("seccomp" not in missing)
        (finding,) = [finding for finding in report["findings"] if finding["area"] == "sandbox"]
        assert finding["verdict"] == "warning"
        for name, gap, remedy in (("landlock", "every file of this user", "lsm=landlock"),
                                  ("seccomp", "use the network and start programs", "CONFIG_SECCOMP_FILTER=y")):
            assert (gap in finding["detail"]) == (gap in logged[-1]) == (name in missing), (finding, logged)
            assert (remedy in finding["remedy"]) == (name in missing), finding
        plain = " ".join(doctor(daemon).stdout.split())
        assert finding["detail"] in plain and finding["remedy"] in plain
        daemon.stop()
