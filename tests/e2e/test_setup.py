"""Set-up without the right to install packages: what is missing is named with the exact command."""

import shutil
import subprocess

import pytest

from conftest import ROOT

INSTALL = "apt-get install -y --no-install-recommends"


@pytest.fixture
def machine(tmp_path):
    """A machine of which the scripts see only what is put on it: a user, installed packages, programs."""
    return Machine(tmp_path)


class Machine:
    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in ("bash", "dirname", "basename", "awk", "mkdir", "tail"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.apt_log = folder / "apt-get.log"
        self.program("apt-get", f'echo "$*" >>"{self.apt_log}"')
        self.program("cargo", "echo 'cargo 1.99.0'")
        self.be(1000)
        self.lack()

    def program(self, name, text):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)

    def be(self, user):
        self.program("id", f"echo {user}")

    def lack(self, *packages, state=""):
        """Every package is installed but these, of which dpkg says `state`, or that it knows none of that name."""
        unknown = f"echo {state}" if state else "exit 1"
        cases = f"{'|'.join(packages)}) {unknown} ;;" if packages else ""
        self.program("dpkg-query", f'case "${{@: -1}}" in {cases} *) echo installed ;; esac')

    def packages(self, *arguments):
        env = {"PATH": str(self.bin), "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return subprocess.run([str(ROOT / "scripts/packages.sh"), *arguments], env=env, text=True, capture_output=True,
                              timeout=60)


def test_with_everything_there_nothing_is_said(machine):
    result = machine.packages()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not machine.apt_log.exists()


@pytest.mark.parametrize("sudo", [True, False])
def test_what_is_missing_is_named_with_the_exact_command(machine, sudo):
    machine.lack("ninja-build", "libfmt-dev")
    if sudo:
        machine.program("sudo", "exit 1")
    result = machine.packages()
    assert result.returncode == 1
    prefix = "sudo " if sudo else ""
    assert "missing: ninja-build libfmt-dev\n" in result.stderr
    assert f"\n  {prefix}apt-get update && {prefix}{INSTALL} ninja-build libfmt-dev\n" in result.stderr
    assert ("as root" in result.stderr) == (not sudo)
    assert "Rust" not in result.stderr
    assert not machine.apt_log.exists()


def test_a_package_that_was_removed_is_missing(machine):
    machine.lack("cmake", state="config-files")
    result = machine.packages()
    assert result.returncode == 1 and f"{INSTALL} cmake\n" in result.stderr


@pytest.mark.parametrize("version", ["1.63.0", None])
def test_without_a_rust_that_is_new_enough_both_ways_to_one_are_named(machine, version):
    machine.lack("rustc-web", "cargo-web")
    if version:
        machine.program("cargo", f"echo 'cargo {version}'")
    else:
        (machine.bin / "cargo").unlink()
    result = machine.packages()
    assert result.returncode == 1
    assert f"{INSTALL} rustc-web cargo-web\n" in result.stderr and "rustup" in result.stderr
    # One in the user's own folder is found before it is on the PATH.
    own = machine.folder / ".cargo/bin/cargo"
    own.parent.mkdir(parents=True)
    own.write_text(f"#!{shutil.which('bash')}\necho 'cargo 1.99.0'\n")
    own.chmod(0o755)
    assert machine.packages().returncode == 0


def test_root_gets_exactly_what_is_missing(machine):
    machine.be(0)
    machine.lack("npm", "libxxhash-dev")
    machine.program("node", "")
    result = machine.packages("test")
    assert result.returncode == 0, result.stderr
    assert machine.apt_log.read_text().splitlines() == ["update", INSTALL.removeprefix("apt-get ") + " libxxhash-dev npm"]


def test_elsewhere_than_on_debian_the_packages_are_named(machine):
    machine.lack("cmake")
    (machine.bin / "apt-get").unlink()
    result = machine.packages()
    assert result.returncode == 1 and result.stderr.endswith("install the equivalents of: cmake\n")
