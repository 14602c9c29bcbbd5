"""A container engine of the tests' own: real podman with a store in a folder, and an image made of busybox."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from apps.worker.containers.policy import ContainerPolicy

IMAGE = "localhost/chronoweb-test:1"
APPLETS = ("sh", "cat", "sleep", "id", "env", "wget", "touch", "tail", "setsid", "nc", "ls")
MISSING = "the tests of containers need {0}: `make test` fetches it as root on Debian; elsewhere install it"
PODMAN_OPTIONS = ("--runtime=runc", "--storage-driver=vfs", "--cgroup-manager=cgroupfs")


@dataclass(frozen=True)
class Podman:
    """Its program with the options of this store."""

    program: tuple[str, ...]
    policy: ContainerPolicy

    def call(self, *arguments: str) -> str:
        done = subprocess.run([*self.program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self) -> list[str]:
        return self.call("ps", "--all", "--format", "{{.Names}}").split()

    def limited_to(self, *networks: str) -> ContainerPolicy:
        """The policy with networks that may be reached although private."""
        return replace(self.policy, allowed_networks=networks)


@contextmanager
def podman() -> Iterator[Podman]:
    """Ready, with the image; nothing of it is left afterwards."""
    path = shutil.which("podman")
    busybox = shutil.which("busybox")
    assert path, MISSING.format("podman")
    assert shutil.which("runc"), MISSING.format("runc")
    assert busybox, MISSING.format("a static busybox")
    folder = Path(tempfile.mkdtemp(prefix="chronoweb-podman-"))
    options = (f"--root={folder}/store", f"--runroot={folder}/run", *PODMAN_OPTIONS)
    policy = ContainerPolicy(
        engine="podman",
        engine_arguments=options,
        # The engine's own defaults are above what some machines allow.
        run_arguments=("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"),
        pull="never",
        worker="7",
    )
    one = Podman((path, *options), policy)
    try:
        _import_image(one, Path(busybox), folder / "image.tar")
        yield one
    finally:
        one.call("rm", "--all", "--force", "--time", "0")
        shutil.rmtree(folder, ignore_errors=True)


def processes_with(mark: str) -> list[int]:
    """Living processes one of whose arguments is `mark`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if mark in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def _import_image(one: Podman, busybox: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        tar.add(busybox, "bin/busybox")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name in ("tmp", "etc"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(directory)
    one.call("import", str(archive), IMAGE)
    os.unlink(archive)
