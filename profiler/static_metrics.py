"""The metrics that are computed from the binary, without running it."""

from __future__ import annotations

from profiler.metric_sets import Metric
from profiler.parse.sass import ACCESSES, CLASSES

#: What the problem says in advance of a counter: this, and the counter's name.
PREDICTION = "model.prediction."

_PTXAS = "nvcc -Xptxas -v"
_SASS = "cuobjdump -sass"


def _one(name: str, unit: str, group: str, meaning: str, source: str, origin: str) -> Metric:
    return Metric(name, unit, group, meaning, (source,), origin)


#: Every name that the static stage writes. ``<...>`` stands for an opcode, a class, or an opcode and a width in bits.
STATIC_METRICS: tuple[Metric, ...] = (
    _one("ptxas.registers", "1", "resources", "Registers of a thread.", _PTXAS, "ptxas"),
    _one("ptxas.barriers", "1", "resources", "Named barriers of a block.", _PTXAS, "ptxas"),
    _one(
        "ptxas.stack_bytes", "byte", "resources",
        "Stack frame of a thread: spills, or a local array indexed at run time (then without spills).", _PTXAS, "ptxas",
    ),
    _one("ptxas.spill_store_bytes", "byte", "resources", "Bytes of registers spilled by stores.", _PTXAS, "ptxas"),
    _one("ptxas.spill_load_bytes", "byte", "resources", "Bytes of spilled registers loaded back.", _PTXAS, "ptxas"),
    _one("ptxas.shared_bytes", "byte", "resources", "Static shared memory of a block.", _PTXAS, "ptxas"),
    _one(
        "ptxas.wgmma_serialised", "1", "resources",
        "Compiler warnings that asynchronous warpgroup products were made to wait for one another.", _PTXAS, "ptxas",
    ),
    _one(
        "sass.max_threads", "1", "resources",
        "Most threads of a block, as its launch bounds state.", "cuobjdump -elf", "sass",
    ),
    _one("sass.instructions", "inst", "code", "Machine instructions of the kernel, padding aside.", _SASS, "sass"),
    _one("sass.local_accesses", "inst", "code", "Instructions that read or write local memory.", _SASS, "sass"),
    _one(
        "sass.class.<class>", "inst", "code",
        f"Instructions of a class: {', '.join(CLASSES)}.", _SASS, "sass",
    ),
    _one("sass.opcode.<opcode>", "inst", "code", "Instructions of an opcode, modifiers aside.", _SASS, "sass"),
    _one(
        "sass.width.<opcode>.<bits>", "inst", "code",
        f"Memory instructions by bits a thread moves ({', '.join(ACCESSES)}): 128 is the widest before Blackwell. "
        "Those that no predicate lets through (@!PT) move nothing and are left out.",
        _SASS, "sass",
    ),
    _one(
        "model.occupancy.blocks", "1", "occupancy",
        "Blocks that fit on an SM at the size of the launch bounds, by registers, static shared memory and barriers.",
        "ptxas.registers ptxas.shared_bytes ptxas.barriers sass.max_threads", "model",
    ),
    _one(
        "model.occupancy.warps", "1", "occupancy",
        "Warps that fit on an SM at the size of the launch bounds.", "model.occupancy.blocks", "model",
    ),
    _one(
        "model.occupancy.percent", "%", "occupancy",
        "Warps that fit on an SM over the most it can hold.", "model.occupancy.warps", "model",
    ),
    _one(
        "model.occupancy.limiter", "text", "occupancy",
        "The resources that let no further block onto an SM.", "model.occupancy.blocks", "model",
    ),
    _one(
        f"{PREDICTION}<metric>", "1", "prediction",
        "What the problem says in advance of a counter, from the variant's parameters.", "Problem.predictions", "model",
    ),
)  # fmt: skip


def described(name: str) -> Metric | None:
    """Return the entry that a written name belongs to: ``sass.opcode.FFMA`` has that of ``sass.opcode.<opcode>``."""
    for one in STATIC_METRICS:
        stem, pattern, _ = one.name.partition("<")
        if name == one.name or (pattern and name.startswith(stem)):
            return one
    return None
