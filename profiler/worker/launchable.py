"""Variants as things that can be launched on a stream: CUDA libraries through ctypes, Python and Triton functions.

A launchable is bound to one set of buffers (`bind`), so that descriptors are made once and never inside a timed window.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.header import CTYPES, ctypes_fields
from profiler.problem import In, InOut, Out, Problem, Scalar
from profiler.python_module import load_python

if TYPE_CHECKING:
    import torch


class LaunchError(Exception):
    """A launch, or its preparation, reported an error (the context may still be good)."""


class AbsentSymbol(Exception):
    """The library has no ``launch``, or the file no such function."""


@dataclass
class Bound:
    """A variant with its buffers. ``launch`` enqueues one launch; ``outputs`` are what it fills."""

    launch: Callable[[], None]
    outputs: Callable[[], dict[str, torch.Tensor]]
    close: Callable[[], None] = lambda: None
    keep: list[Any] = field(default_factory=list)  #: objects that must live as long as the launchable


def load(spec: Mapping[str, Any], problem: type[Problem], options: Mapping[str, str]) -> CudaVariant | PythonVariant:
    """Return a variant that can be bound; raises ``AbsentSymbol`` or ``OSError`` when it cannot be loaded."""
    if spec["kind"] == "cuda":
        return CudaVariant(spec, problem, options)
    return PythonVariant(spec, problem, options)


class CudaVariant:
    """A shared library with ``launch`` and perhaps ``prepare``, ``destroy`` and ``workspace_bytes``."""

    def __init__(self, spec: Mapping[str, Any], problem: type[Problem], options: Mapping[str, str]) -> None:
        self._library = ctypes.CDLL(spec["library"], mode=ctypes.RTLD_LOCAL)
        self._fields = ctypes_fields(problem, spec["dtype"], options)
        self._struct = type("Args", (ctypes.Structure,), {"_fields_": [(n, CTYPES[k]) for n, k in self._fields]})
        self._problem = problem
        self._contract = spec["dtype"]
        try:
            self._launch = self._library.launch
        except AttributeError as error:
            raise AbsentSymbol('the library exports no extern "C" launch') from error
        self._launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self._launch.restype = ctypes.c_int

    def bind(
        self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor], dims: Mapping[str, int]
    ) -> Bound:
        """Return the variant bound to buffers, prepared; raises ``LaunchError``."""
        import torch

        args: Any = self._struct()
        scalars = {arg.name: arg for arg in self._problem.args if isinstance(arg, Scalar)}
        tensors = {**inputs, **outputs}
        for name, _ in self._fields:
            if name in tensors:
                setattr(args, name, tensors[name].data_ptr())
            elif name in dims:
                setattr(args, name, dims[name])
            elif name in scalars:
                value = scalars[name].value
                setattr(args, name, value[self._contract] if isinstance(value, Mapping) else value)
        pointer = ctypes.addressof(args)
        workspace = self._workspace(pointer)
        args.workspace = workspace.data_ptr() if workspace is not None else None
        args.workspace_bytes = workspace.numel() if workspace is not None else 0
        plan = ctypes.c_void_p()
        prepare = self._optional("prepare", [ctypes.c_void_p, ctypes.c_void_p])
        if prepare is not None:
            self._check(prepare(pointer, ctypes.addressof(plan)), "prepare")
        stream = torch.cuda.current_stream().cuda_stream
        raw_launch, check = self._launch, self._check

        def launch() -> None:
            code = raw_launch(pointer, plan, stream)
            if code:
                check(code, "launch")

        def close() -> None:
            destroy = self._optional("destroy", [ctypes.c_void_p], restype=None)
            if destroy is not None and plan.value:
                destroy(plan)

        kept = dict(outputs)
        return Bound(launch, lambda: kept, close, [args, plan, workspace, tensors])

    def _workspace(self, pointer: int) -> torch.Tensor | None:
        import torch

        size = self._optional("workspace_bytes", [ctypes.c_void_p], restype=ctypes.c_size_t)
        wanted = int(size(pointer)) if size is not None else 0
        return torch.empty(wanted, dtype=torch.uint8, device="cuda") if wanted else None

    def _optional(self, name: str, argtypes: list[Any], restype: Any = ctypes.c_int) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return None
        function.argtypes, function.restype = argtypes, restype
        return function

    def _check(self, code: int, what: str) -> None:
        if code:
            raise LaunchError(f"{what} returned {error_text(code)}")


class PythonVariant:
    """``fn(*inputs, out=out)``: fills ``out`` and returns None, or returns the result (a tuple of several).

    The inputs are the In and InOut tensors in the order of the problem's ``args``; InOut tensors are changed in place.
    ``out`` is the Out tensor, a tuple of them when there are several, and not passed when there is none. Keyword-only
    parameters named ``size``, ``dtype``, ``options``, like a scalar or like a param are filled in by name. A function
    ``setup`` in the same file, when there is one, is called once per set of buffers with the same arguments.
    """

    def __init__(self, spec: Mapping[str, Any], problem: type[Problem], options: Mapping[str, str]) -> None:
        module = load_python(Path(spec["source"]))
        function = getattr(module, spec["function"], None)
        if not callable(function):
            raise AbsentSymbol(f"{Path(spec['source']).name} has no function {spec['function']!r}")
        self._function = function
        self._setup = getattr(module, "setup", None)
        self._problem = problem
        scalars = {a.name: problem.scalar(a.name, spec["dtype"]) for a in problem.args if isinstance(a, Scalar)}
        self._offered = {**scalars, **spec["params"], "dtype": spec["dtype"], "options": dict(options)}

    def bind(
        self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor], dims: Mapping[str, int]
    ) -> Bound:
        """Return the function bound to buffers."""
        given = {**inputs, **outputs}
        positional = [given[arg.name] for arg in self._problem.tensors() if isinstance(arg, In | InOut)]
        names = [arg.name for arg in self._problem.tensors(Out)]
        outs = tuple(outputs[name] for name in names)
        filled: dict[str, Any] = {"out": outs[0] if len(outs) == 1 else outs} if outs else {}
        keywords = {**filled, **self._keywords(self._function, dims)}
        if callable(self._setup):
            self._setup(*positional, **filled, **self._keywords(self._setup, dims))
        state: dict[str, torch.Tensor] = dict(outputs)
        function = self._function

        def launch() -> None:
            result = function(*positional, **keywords)
            if result is not None:
                results = result if isinstance(result, tuple) else (result,)
                if len(results) != len(names):
                    wanted = ", ".join(names) or "nothing (its outputs are changed in place)"
                    raise LaunchError(f"returns {len(results)} results; expected {wanted}, or None with out= filled")
                state.update(zip(names, results, strict=True))

        return Bound(launch, lambda: state, keep=[inputs, outputs])

    def _keywords(self, function: Any, dims: Mapping[str, int]) -> dict[str, Any]:
        wanted = inspect.signature(function).parameters
        offered = {**self._offered, "size": dict(dims)}
        any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in wanted.values())
        return {
            name: value
            for name, value in offered.items()
            if any_name or (name in wanted and wanted[name].kind is inspect.Parameter.KEYWORD_ONLY)
        }


#: Runtime error codes that kernels run into (driver_types.h of CUDA 13).
_ERRORS: dict[int, str] = {
    1: "cudaErrorInvalidValue: an argument of a call or launch is out of range, such as dynamic shared memory",
    2: "cudaErrorMemoryAllocation: out of memory",
    9: "cudaErrorInvalidConfiguration: the grid or block is larger than the device allows, or zero",
    98: "cudaErrorInvalidDeviceFunction: the kernel is not in this binary for this device",
    209: "cudaErrorNoKernelImageForDevice: the binary holds no code for this device's architecture",
    700: "cudaErrorIllegalAddress",
    701: "cudaErrorLaunchOutOfResources: too many registers or too much shared memory for this block size",
    715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress",
    719: "cudaErrorLaunchFailure",
    720: "cudaErrorCooperativeLaunchTooLarge",
    801: "cudaErrorNotSupported: the device or its driver lacks what the variant needs, such as tensor maps of sm_90",
    900: "cudaErrorStreamCaptureUnsupported: the launch does something that cannot be captured, such as synchronising",
}


def error_text(code: int) -> str:
    """Return a CUDA runtime error code in words."""
    return f"CUDA error {code} ({_ERRORS[code]})" if code in _ERRORS else f"CUDA error {code}"
