"""Where tools are looked for, what they say of themselves, and which GPUs and counters a process may use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler import gpu, toolchain
from profiler.parse import versions
from profiler.toolchain import Gpu, Places, Tool, Toolchain, find_toolchain, library_folder, nvcc_candidates, tool_env

FAKES = Path(__file__).resolve().parent.parent / "fakes"
NOWHERE = Places((), cuda="/nowhere/*", nsight_compute="/nowhere/*", nsight_systems="/nowhere/*")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("tool", "output", "version"),
    [
        ("nvcc", "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.1_0", "13.0.88"),
        ("cuobjdump", "Cuda compilation tools, release 13.5, V13.5.37", "13.5.37"),
        ("ncu", "NVIDIA (R) Nsight Compute\nVersion 2025.3.1.0 (build 36398880) (public-release)", "2025.3.1.0"),
        ("nsys", "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0", "2025.3.2.474"),
        ("compute-sanitizer", "NVIDIA (R) Compute Sanitizer\nVersion 2025.3.1.0 (build 1)", "2025.3.1.0"),
        ("host compiler", "g++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright", "12.2.0"),
        ("host compiler", "g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-26)", "8.5.0"),
        ("host compiler", "Ubuntu clang version 18.1.3 (1ubuntu1)\nTarget: x86_64", "18.1.3"),
        ("ncu", "directory is not found", None),
        ("nvcc", "", None),
        ("host compiler", "", None),
    ],
)
def test_versions(tool: str, output: str, version: str | None) -> None:
    assert versions.tool_version(tool, output) == version


def test_host_compilers_that_a_release_accepts() -> None:
    text = "#if __GNUC__ > 15\n#error\n#endif\n#if (__clang_major__ >= 21) || (__clang_major__ < 3)\n"
    accepted = versions.accepted_hosts(text)
    assert (accepted.gcc, accepted.clang) == (15, 20)
    assert accepted.accepts("gcc", "15.2.0")
    assert not accepted.accepts("gcc", "16.1.0")
    assert accepted.accepts("clang", "20.1")
    assert not accepted.accepts("clang", "21.0")
    assert versions.accepted_hosts("").accepts("gcc", "99.0")
    assert versions.compiler_family("Ubuntu clang version 18.1.3") == "clang"
    assert versions.compiler_family("g++ (Debian) 12.2.0\nnot clang") == "gcc"


def test_search_order_of_nvcc(tmp_path: Path) -> None:
    for folder in ("cuda-12.4", "cuda-13.0"):
        script(tmp_path / folder / "bin/nvcc", "")
    site = tmp_path / "site"
    env = {"CUDACXX": "/named/nvcc", "CUDA_HOME": "/home/cuda", "PATH": "/p1:/p2"}
    found = nvcc_candidates(env, Places((site,), cuda=f"{tmp_path}/cuda*/bin"))
    assert [str(path) for path in found] == [
        "/named/nvcc", "/home/cuda/bin/nvcc", "/p1/nvcc", "/p2/nvcc",
        f"{tmp_path}/cuda-13.0/bin/nvcc", f"{tmp_path}/cuda-12.4/bin/nvcc",
        f"{site}/nvidia/cu13/bin/nvcc", f"{site}/nvidia/cuda_nvcc/bin/nvcc",
    ]  # fmt: skip
    assert [str(path) for path in nvcc_candidates({**env, toolchain.PINNED: "/pin"}, NOWHERE)] == ["/pin/nvcc"]


def test_everything_is_found_and_executed() -> None:
    started = time.monotonic()
    tools = find_toolchain({toolchain.PINNED: str(FAKES), "PATH": os.environ["PATH"]}, NOWHERE)
    assert time.monotonic() - started < 5
    assert tools.nvcc == Tool(FAKES / "nvcc", "13.0.88")
    assert tools.host_compiler == Tool(FAKES / "g++", "12.2.0")
    assert tools.cuobjdump == Tool(FAKES / "cuobjdump", "13.5.37")
    assert tools.nvdisasm == Tool(FAKES / "nvdisasm", "13.5.37")
    assert tools.ncu is not None
    assert [name for name, _ in tools.missing] == ["sanitizer"]
    assert tools.nsys == Tool(FAKES / "nsys", "2025.3.2.0")


def test_a_name_on_the_path_is_not_enough(tmp_path: Path) -> None:
    script(tmp_path / "ncu", "echo directory is not found; exit 1")
    script(tmp_path / "nvcc", "exit 0")
    (tmp_path / "cuobjdump").write_text("not executable")
    tools = find_toolchain({"PATH": f"{tmp_path}:/usr/bin:/bin", toolchain.PINNED: str(tmp_path)}, NOWHERE)
    assert tools.ncu is None
    assert tools.nvcc is None
    assert "ncu --version ended with exit code 1: directory is not found" in tools.why_missing("ncu")
    assert "install Nsight Compute" in tools.why_missing("ncu")
    assert "exit code 0: nothing" in tools.why_missing("nvcc")
    assert "Permission denied" in tools.why_missing("cuobjdump")
    assert tools.why_missing("nvdisasm").startswith("nvdisasm was not found; ")
    assert tools.why_missing("host_compiler").startswith("no C++ compiler was found; ")


def test_a_broken_tool_does_not_hide_a_working_one(tmp_path: Path) -> None:
    script(tmp_path / "a/ncu", "exit 1")
    script(tmp_path / "b/ncu", "echo 'Version 2025.3.1.0 (build 1)'")
    script(tmp_path / "old/ncu", "echo 'Version 2021.2.2.0 (build 1)'")
    pinned = f"{tmp_path}/a:{tmp_path}/old:{tmp_path}/b"
    assert find_toolchain({"PATH": "/bin", toolchain.PINNED: pinned}, NOWHERE).ncu == Tool(
        tmp_path / "b/ncu", "2025.3.1.0"
    )
    only_old = find_toolchain({"PATH": "/bin", toolchain.PINNED: f"{tmp_path}/old"}, NOWHERE)
    assert "old/ncu is version 2021.2.2.0, too old" in only_old.why_missing("ncu")


def test_a_disassembler_older_than_the_compiler_gives_way(tmp_path: Path) -> None:
    script(tmp_path / "old/cuobjdump", "echo 'release 12.0, V12.0.1'")
    script(tmp_path / "new/cuobjdump", "echo 'release 13.5, V13.5.37'")
    script(tmp_path / "new/nvcc", "echo 'release 13.0, V13.0.88'")
    env = {"PATH": "/bin", toolchain.PINNED: f"{tmp_path}/old:{tmp_path}/new"}
    assert find_toolchain(env, NOWHERE).cuobjdump == Tool(tmp_path / "new/cuobjdump", "13.5.37")
    env[toolchain.PINNED] = f"{tmp_path}/old"
    assert find_toolchain(env, NOWHERE).cuobjdump == Tool(tmp_path / "old/cuobjdump", "12.0.1")


def test_a_host_compiler_that_nvcc_refuses_is_replaced_or_explained(tmp_path: Path) -> None:
    script(tmp_path / "bin/nvcc", "echo 'release 12.0, V12.0.140'")
    header = tmp_path / "include/crt/host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text("#if __GNUC__ > 12\n")
    script(tmp_path / "bin/g++", "echo 'g++ (Debian 14.2.0-1) 14.2.0'")
    env = {"PATH": "/bin", toolchain.PINNED: str(tmp_path / "bin")}
    refused = find_toolchain(env, NOWHERE)
    assert refused.host_compiler is None
    assert "nvcc 12.0.140 accepts gcc up to 12" in refused.why_missing("host_compiler")
    assert "NVCC_CCBIN" in refused.why_missing("host_compiler")
    script(tmp_path / "bin/g++-11", "echo 'g++-11 (Debian 11.3.0-1) 11.3.0'")
    assert find_toolchain(env, NOWHERE).host_compiler == Tool(tmp_path / "bin/g++-11", "11.3.0")
    named = script(tmp_path / "elsewhere/mine", "echo 'g++ (own) 10.2.0'")
    assert find_toolchain({**env, "NVCC_CCBIN": str(named)}, NOWHERE).host_compiler == Tool(named, "10.2.0")


def test_cuobjdump_finds_nvdisasm() -> None:
    tools = Toolchain(nvdisasm=Tool(Path("/opt/x y/nvdisasm"), "13.5.37"))
    env = tool_env(tools, {"PATH": "/bin", "LC_ALL": "de_DE"})
    assert env == {"PATH": "/opt/x y:/bin", "LC_ALL": "C", "NVDISASM_PATH": "/opt/x y"}


def test_a_packaged_compiler_needs_its_library_folder(tmp_path: Path) -> None:
    packaged = tmp_path / "nvidia/cu13/bin/nvcc"
    (tmp_path / "nvidia/cu13/lib").mkdir(parents=True)
    assert library_folder(packaged) == tmp_path / "nvidia/cu13/lib"
    assert library_folder(Path("/usr/local/cuda-13.0/bin/nvcc")) is None


def test_architecture_of_a_gpu() -> None:
    assert [make_gpu(cc=cc).arch for cc in ((7, 5), (8, 9), (9, 0), (12, 0))] == ["sm_75", "sm_89", "sm_90a", "sm_120a"]


def make_gpu(index: int = 0, uuid: str = "GPU-aaaa1111", cc: tuple[int, int] = (9, 0)) -> Gpu:
    return Gpu(index, "NVIDIA H200", uuid, cc, "580.1", 1)


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (None, ["GPU-aaaa1111", "GPU-bbbb2222"]),
        ("1", ["GPU-bbbb2222"]),
        ("1,0", ["GPU-bbbb2222", "GPU-aaaa1111"]),
        ("GPU-bbbb", ["GPU-bbbb2222"]),
        ("", []),
        ("-1", []),
        ("0,7,1", ["GPU-aaaa1111"]),
        ("0,0", ["GPU-aaaa1111"]),
        ("NoDevFiles", []),
        ("0,\u00b2", ["GPU-aaaa1111"]),
    ],
)
def test_visible_devices(selection: str | None, chosen: list[str]) -> None:
    gpus = [make_gpu(0, "GPU-aaaa1111"), make_gpu(1, "GPU-bbbb2222")]
    visible = gpu.visible(gpus, selection)
    assert [one.uuid for one in visible] == chosen
    assert [one.index for one in visible] == list(range(len(chosen)))


class FakeNvml:
    """As much of pynvml as is asked for."""

    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"error {value}")
            self.value = value

    def __init__(self, *, init: int = 0, count: int = 1, broken: tuple[int, ...] = ()) -> None:
        self.init, self.count, self.broken = init, count, broken

    def nvmlInit(self) -> None:
        if self.init:
            raise self.NVMLError(self.init)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index in self.broken:
            raise self.NVMLError(15)
        return index

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:
        return 9, 0

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=150_000_000_000)


def test_gpus_as_the_driver_describes_them() -> None:
    gpus, problem = gpu.find_gpus({}, FakeNvml(count=2))
    assert problem is None
    assert [(one.index, one.name, one.uuid, one.arch, one.driver) for one in gpus] == [
        (0, "NVIDIA H200", "GPU-0", "sm_90a", "580.95.05"),
        (1, "NVIDIA H200", "GPU-1", "sm_90a", "580.95.05"),
    ]


def test_no_driver_is_no_gpu_and_no_problem() -> None:
    assert gpu.find_gpus({}, FakeNvml(init=FakeNvml.NVML_ERROR_LIBRARY_NOT_FOUND)) == ([], None)


def test_a_broken_driver_is_a_problem() -> None:
    gpus, problem = gpu.find_gpus({}, FakeNvml(init=18))
    assert gpus == []
    assert problem is not None
    assert "does not work: error 18" in problem


@pytest.mark.parametrize("present", [True, False])
def test_a_driver_that_is_not_loaded_matters_only_beside_a_device(
    present: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_device_present", lambda: present)
    gpus, problem = gpu.find_gpus({}, FakeNvml(init=FakeNvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert gpus == []
    assert (problem is not None) == present


def test_a_lost_gpu_beside_a_good_one_is_left_out() -> None:
    gpus, problem = gpu.find_gpus({}, FakeNvml(count=2, broken=(0,)))
    assert [one.uuid for one in gpus] == ["GPU-1"]
    assert problem is None
    gpus, problem = gpu.find_gpus({}, FakeNvml(count=1, broken=(0,)))
    assert gpus == []
    assert problem == "GPU 0 does not answer: error 15"


@pytest.mark.parametrize(
    ("params", "capabilities", "euid", "permission"),
    [
        ("RmProfilingAdminOnly: 0\n", "0000000000000000", 1000, "allowed"),
        ("ResmanDebugLevel: 1\nRmProfilingAdminOnly: 1\n", "0000000000000000", 1000, "refused"),
        ("RmProfilingAdminOnly: 1\n", "000001ffffffffff", 0, "allowed"),
        ("RmProfilingAdminOnly: 1\n", "00000000a80425fb", 0, "refused"),  # root of a container without SYS_ADMIN
        ("RmProfilingAdminOnly: 1\n", None, 0, "allowed"),
        ("RmProfilingAdminOnly: 1\n", None, 1000, "refused"),
        ("ResmanDebugLevel: 1\n", "000001ffffffffff", 0, "unknown"),
        (None, "000001ffffffffff", 0, "unknown"),
    ],
)
def test_counter_permission(params: str | None, capabilities: str | None, euid: int, permission: str) -> None:
    status = None if capabilities is None else f"Name:\tx\nCapEff:\t{capabilities}\n"
    assert gpu.permission_from(params, status, euid) == permission
