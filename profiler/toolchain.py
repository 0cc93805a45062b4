"""The tools of this machine: where they are, and what they say of themselves.

A tool counts as present when it was executed and answered ``--version``; a name on the PATH is not enough (a wrapper
whose version was uninstalled is common). ``KERNEL_LADDER_TOOLS``, a list of folders like PATH, replaces every other
place that is searched, to pin tools or to do without them.
"""

from __future__ import annotations

import glob
import os
import re
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from profiler import process
from profiler.parse import versions

PINNED = "KERNEL_LADDER_TOOLS"
OLDEST_NCU = 2022
_PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Tool:
    """An executable that answered ``--version``."""

    path: Path
    version: str  #: e.g. ``13.0.88``


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver describes it."""

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    driver: str
    memory_bytes: int

    @property
    def arch(self) -> str:
        """The exact architecture to build for: ``sm_90a`` on Hopper and later, plain ``sm_XY`` before."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@dataclass(frozen=True)
class Toolchain:
    """What was found; a missing tool is None and ``missing`` says why and what to do."""

    nvcc: Tool | None = None
    host_compiler: Tool | None = None
    cuobjdump: Tool | None = None
    nvdisasm: Tool | None = None
    ncu: Tool | None = None
    nsys: Tool | None = None
    sanitizer: Tool | None = None
    missing: tuple[tuple[str, str], ...] = ()

    def why_missing(self, tool: str) -> str:
        """Return why a tool is missing and what to do, or an empty text when it is there."""
        return next((reason for name, reason in self.missing if name == tool), "")


#: What gets a missing tool here, by the name of the ``Toolchain`` field.
REMEDIES: dict[str, str] = {
    "nvcc": "install the CUDA toolkit, or `pip install 'kernel-ladder[toolchain]'`, or set CUDACXX",
    "host_compiler": "install g++, or set NVCC_CCBIN to a C++ compiler that nvcc accepts",
    "cuobjdump": "`pip install 'kernel-ladder[disassemblers]'`, or install the CUDA toolkit",
    "nvdisasm": "`pip install 'kernel-ladder[disassemblers]'`, or install the CUDA toolkit",
    "ncu": "install Nsight Compute 2022 or newer and put ncu on PATH",
    "nsys": "install Nsight Systems and put nsys on PATH",
    "sanitizer": "install the CUDA toolkit's compute-sanitizer and put it on PATH",
}


@dataclass(frozen=True)
class Places:
    """Where tools are looked for besides PATH and the variables of the environment."""

    site_packages: tuple[Path, ...]
    cuda: str = "/usr/local/cuda*/bin"
    nsight_compute: str = "/opt/nvidia/nsight-compute/*"
    nsight_systems: str = "/opt/nvidia/nsight-systems/*"


@dataclass(frozen=True)
class _Answer:
    tool: Tool | None
    output: str = ""
    reason: str = ""


def default_places() -> Places:
    """Return the usual places, with the site-packages of the running interpreter."""
    return Places(tuple({Path(sysconfig.get_path(name)): None for name in ("purelib", "platlib")}))


def find_toolchain(env: Mapping[str, str] | None = None, places: Places | None = None) -> Toolchain:
    """Return the tools that answered, probed at the same time; never raises for a tool that is absent or broken."""
    env = os.environ if env is None else env
    places = places or default_places()
    with ThreadPoolExecutor(max_workers=8) as pool:
        nvcc_job = pool.submit(_first, "nvcc", nvcc_candidates(env, places), env)
        ncu_job = pool.submit(_first, "ncu", _nsight(env, places, "ncu"), env, _ncu_too_old)
        nsys_job = pool.submit(_first, "nsys", _nsight(env, places, "nsys"), env)
        sanitizer_job = pool.submit(_first, "compute-sanitizer", _cuda_tool(env, places, "compute-sanitizer"), env)
        hosts_job = pool.submit(_hosts, env)
        nvcc = nvcc_job.result()
        disassemblers = {
            name: pool.submit(_newest_enough, name, _disassemblers(env, places, name, nvcc.tool), env, nvcc.tool)
            for name in ("cuobjdump", "nvdisasm")
        }
        host = _host_compiler(nvcc.tool, hosts_job.result(), env)
        answers = {
            "nvcc": nvcc,
            "host_compiler": host,
            **{name: job.result() for name, job in disassemblers.items()},
            "ncu": ncu_job.result(),
            "nsys": nsys_job.result(),
            "sanitizer": sanitizer_job.result(),
        }
    missing = tuple(
        (name, f"{answer.reason}; {REMEDIES[name]}") for name, answer in answers.items() if answer.tool is None
    )
    return Toolchain(**{name: answer.tool for name, answer in answers.items()}, missing=missing)


def find_nsys(env: Mapping[str, str] | None = None, places: Places | None = None) -> tuple[Tool | None, str]:
    """Return nsys alone, without a look at the other tools, and why it is missing."""
    env = os.environ if env is None else env
    answer = _first("nsys", _nsight(env, places or default_places(), "nsys"), env)
    return answer.tool, answer.reason


def tool_env(toolchain: Toolchain, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for the compiler and the disassemblers: plain messages, nvdisasm at hand."""
    merged = dict(os.environ if env is None else env)
    merged["LC_ALL"] = "C"
    if toolchain.nvdisasm is not None:
        folder = str(toolchain.nvdisasm.path.parent)
        merged["PATH"] = os.pathsep.join([folder, *filter(None, [merged.get("PATH", "")])])
        merged["NVDISASM_PATH"] = folder
    return merged


def library_folder(nvcc: Path) -> Path | None:
    """Return the folder that nvcc of a PyPI package must be told to link from; None for an installed toolkit."""
    root = nvcc.parent.parent
    if root.parent.name == "nvidia" and (root / "lib").is_dir():
        return root / "lib"
    return None


def nvcc_candidates(env: Mapping[str, str], places: Places) -> list[Path]:
    """Return where nvcc may be, best first: CUDACXX, CUDA_HOME, PATH, the usual folders, PyPI packages."""
    if PINNED in env:
        return _on_path(env, "nvcc")
    named = [Path(env["CUDACXX"])] if env.get("CUDACXX") else []
    return _unique([*named, *_cuda_tool(env, places, "nvcc", home_first=True), *_packages(places, "nvcc")])


def _disassemblers(env: Mapping[str, str], places: Places, name: str, nvcc: Tool | None) -> list[Path]:
    if PINNED in env:
        return _on_path(env, name)
    beside = [nvcc.path.parent / name] if nvcc else []
    bundled = [folder / "triton/backends/nvidia/bin" / name for folder in places.site_packages]
    return _unique([*beside, *_cuda_tool(env, places, name), *_packages(places, name), *bundled])


def _cuda_tool(env: Mapping[str, str], places: Places, name: str, *, home_first: bool = False) -> list[Path]:
    if PINNED in env:
        return _on_path(env, name)
    homes = [Path(env[key]) / "bin" / name for key in ("CUDA_HOME", "CUDA_PATH") if env.get(key)]
    on_path = _on_path(env, name)
    first = [*homes, *on_path] if home_first else [*on_path, *homes]
    return _unique([*first, *_newest_first(f"{places.cuda}/{name}")])


def _packages(places: Places, name: str) -> list[Path]:
    inside = ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin")
    return [folder / part / name for folder in places.site_packages for part in inside]


def _nsight(env: Mapping[str, str], places: Places, name: str) -> list[Path]:
    if PINNED in env:
        return _on_path(env, name)
    if name == "ncu":
        installed = _newest_first(f"{places.nsight_compute}/ncu")
    else:
        installed = [
            *_newest_first(f"{places.nsight_systems}/bin/nsys"),
            *_newest_first(f"{places.nsight_systems}/target-linux-*/nsys"),
            *_newest_first(f"{places.nsight_compute}/host/target-linux-x64/nsys"),
        ]
    return _unique([*_cuda_tool(env, places, name), *installed])


def _on_path(env: Mapping[str, str], name: str) -> list[Path]:
    folders = env[PINNED] if PINNED in env else env.get("PATH", "")
    return [Path(folder) / name for folder in folders.split(os.pathsep) if folder]


def _newest_first(pattern: str) -> list[Path]:
    return [Path(path) for path in sorted(glob.glob(pattern), key=versions.version_key, reverse=True)]


def _unique(paths: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _probe(tool: str, path: Path, env: Mapping[str, str]) -> _Answer:
    """Execute one candidate."""
    try:
        said = process.run([path, "--version"], timeout=_PROBE_TIMEOUT_S, env={**env, "LC_ALL": "C"}, label=tool)
    except process.ToolMissing as error:
        return _Answer(None, reason=str(error))
    if said.timed_out:
        return _Answer(None, reason=f"{path} did not answer --version within {_PROBE_TIMEOUT_S:.0f} s")
    version = versions.tool_version(tool, said.output)
    if said.returncode != 0 or version is None:
        how, last = process.describe_exit(said.returncode), process.tail(said.output, 1).strip() or "nothing"
        return _Answer(None, reason=f"{path} --version ended with {how}: {last[:160]}")
    return _Answer(Tool(path, version), said.output.strip())


def _first(
    tool: str,
    candidates: Sequence[Path],
    env: Mapping[str, str],
    refuse: Callable[[str], str] = lambda version: "",
) -> _Answer:
    """Return the first candidate that answers and is not refused, or why each one that exists does not."""
    reasons = []
    for path in candidates:
        if not path.is_file():
            continue
        answer = _probe(tool, path, env)
        if answer.tool is not None and not (refusal := refuse(answer.tool.version)):
            return answer
        reasons.append(answer.reason or f"{path} is {refusal}")
    return _Answer(None, reason="; ".join(reasons) or f"{tool} was not found")


def _newest_enough(tool: str, candidates: Sequence[Path], env: Mapping[str, str], nvcc: Tool | None) -> _Answer:
    """Return the first candidate not older than the compiler (an older one cannot read its files), else the newest."""
    wanted = versions.version_key(nvcc.version)[:2] if nvcc else ()
    best: _Answer | None = None
    reasons = []
    for path in candidates:
        if not path.is_file():
            continue
        answer = _probe(tool, path, env)
        if answer.tool is None:
            reasons.append(answer.reason)
        elif versions.version_key(answer.tool.version)[:2] >= wanted:
            return answer
        elif best is None or best.tool is None or _older(best.tool, answer.tool):
            best = answer
    return best or _Answer(None, reason="; ".join(reasons) or f"{tool} was not found")


def _older(a: Tool, b: Tool) -> bool:
    return versions.version_key(a.version) < versions.version_key(b.version)


def _ncu_too_old(version: str) -> str:
    return f"version {version}, too old" if versions.version_key(version)[0] < OLDEST_NCU else ""


def _hosts(env: Mapping[str, str]) -> list[_Answer]:
    """Probe the host compilers that nvcc could be given, best first."""
    named = [env[key] for key in ("NVCC_CCBIN", "CXX") if env.get(key)]
    candidates = [*named, "g++", "clang++"]
    found: list[_Answer] = []
    for name in candidates:
        # CXX may hold arguments; NVCC_CCBIN may name a folder
        word = name.split()[0] if not Path(name).exists() else name
        for path in _compiler_paths(word, env):
            if path.is_file():
                found.append(_probe("host compiler", path, env))
                break
    return found


def _compiler_paths(word: str, env: Mapping[str, str]) -> list[Path]:
    if os.sep in word:
        path = Path(word)
        return [path / "g++"] if path.is_dir() else [path]
    return _on_path(env, word)


def _host_compiler(nvcc: Tool | None, hosts: list[_Answer], env: Mapping[str, str]) -> _Answer:
    """Return the first host compiler that nvcc accepts; older ones beside a g++ that is too new are tried, too."""
    if not hosts:
        return _Answer(None, reason="no C++ compiler was found")
    accepted = _accepted(nvcc, env) if nvcc else versions.HostCompilers()
    reasons = []
    for answer in hosts:
        if answer.tool is None:
            reasons.append(answer.reason)
            continue
        family = versions.compiler_family(answer.output)
        if accepted.accepts(family, answer.tool.version):
            return answer
        most = accepted.clang if family == "clang" else accepted.gcc
        reasons.append(f"nvcc {nvcc.version if nvcc else ''} accepts {family} up to {most}, {answer.tool.path} is "
                       f"{answer.tool.version}")  # fmt: skip
    if accepted.gcc is not None:
        for major in range(accepted.gcc, accepted.gcc - 6, -1):
            for path in _on_path(env, f"g++-{major}"):
                if path.is_file() and (older := _probe("host compiler", path, env)).tool is not None:
                    return older
    return _Answer(None, reason="; ".join(dict.fromkeys(reasons)))


def _accepted(nvcc: Tool, env: Mapping[str, str]) -> versions.HostCompilers:
    """Return the host compilers that this nvcc accepts, from its own header."""
    root = nvcc.path.resolve().parent.parent
    header = _host_config(root)
    if header is None:  # nvcc on the PATH may be a script that starts the real one elsewhere
        try:
            said = process.run([nvcc.path, "--dryrun", "-x", "cu", os.devnull], timeout=_PROBE_TIMEOUT_S, env=env)
        except process.ToolMissing:
            return versions.HostCompilers()
        top = re.search(r"^#\$ TOP=(.+)$", said.output, re.M)
        header = _host_config(Path(top[1].strip())) if top else None
    try:
        return versions.accepted_hosts(header.read_text(errors="replace")) if header else versions.HostCompilers()
    except OSError:
        return versions.HostCompilers()


def _host_config(root: Path) -> Path | None:
    found = [root / "include/crt/host_config.h", *root.glob("targets/*/include/crt/host_config.h")]
    return next((path for path in found if path.is_file()), None)
