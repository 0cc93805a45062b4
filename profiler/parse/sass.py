"""The listing of ``cuobjdump -sass`` as instructions, and what they are: mix by opcode and class, access widths.

The listing gives addresses, predicates, opcodes and operands; the encodings beside them (which hold the control codes)
are dropped. Nothing here raises: a line that is not an instruction is passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

#: Opcodes whose access width is counted.
ACCESSES: tuple[str, ...] = ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDL", "STL", "LD", "ST")

_CLASSES: dict[str, str] = {
    "fp32": "FADD FADD32I FCHK FFMA FFMA2 FFMA32I FADD2 FMUL2 FMNMX FMNMX3 FMUL FMUL32I FSEL FSET FSETP FSWZADD",
    "fp64": "DADD DFMA DMNMX DMUL DSET DSETP",
    "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 FHADD FHFMA",
    "tensor": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA",
    "special": "MUFU",
    "integer": (
        "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMNMX IMUL IMUL32I ISCADD ISCADD32I ISETP LEA LOP "
        "LOP3 LOP32I POPC SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX"
    ),
    "convert": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "move": "CS2R MOV MOV32I MOVM P2R PLOP3 PRMT PSETP R2P R2UR S2R S2UR SEL SGXT",
    "global": "LDG STG LD ST",
    "shared": "LDS STS LDSM STSM ATOMS STAS REDAS",
    "local": "LDL STL",
    "constant": "LDC LDCU ULDC",
    "async_copy": (
        "LDGSTS LDGDEPBAR UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH ARRIVES"
    ),
    "atomic": "ATOM ATOMG RED REDG UREDGR",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SURED SUST",
    "barrier": "BAR CCTL CCTLL DEPBAR ERRBAR FENCE MEMBAR SYNCS UCGABAR_ARV UCGABAR_WAIT WARPSYNC WARPGROUP B2R R2B",
    "shuffle": "SHFL VOTE VOTEU MATCH REDUX CREDUX",
    "branch": (
        "BRA BRX BRXU BREAK BSSY BSYNC BPT BMOV CALL EXIT JMP JMX JMXU KILL NANOSLEEP RET RPCMOV RTT WARPGROUPSET "
        "YIELD ELECT ACQBULK"
    ),
    "other": "NOP LEPC GETLMEMBASE SETLMEMBASE PMTRIG SETCTAID PREEXIT USETMAXREG",
}
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes.split()}

#: The classes, in the order in which they are shown.
CLASSES: tuple[str, ...] = (*(name for name in _CLASSES if name != "other"), "uniform", "other")

_FUNCTION = re.compile(r"^\s*Function\s*:\s*(\S+)")
_ARCH = re.compile(r"^\s*(?:arch = |code for )(sm_\w+)")
_INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-fA-F]{4,})\*/\s+(?:\{\s*)?(@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*[A-Za-z0-9_.]*)\s*([^;]*?)\s*;"
)
_WIDTH = re.compile(r"\.(?:[US])?(8|16|32|64|128|256)(?=\.|$)")
# What the compiler derives from a file: <hash>_<length of the file's name>_<the name>_<hash>
_UNNAMED_NAMESPACE = re.compile(r"(\d+)_GLOBAL__N__[0-9a-f]{8}_(\d+)_")
_HASH_LENGTH = len("_01234567")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction. ``pc`` in bytes from the start of its function."""

    pc: int
    predicate: str  #: ``@P0``, ``@!UP1``, or empty
    opcode: str  #: with modifiers: ``LDG.E.128.CONSTANT``
    operands: str

    @property
    def base(self) -> str:
        """The opcode without modifiers: ``LDG``."""
        return self.opcode.partition(".")[0]

    @property
    def kind(self) -> str:
        """The class of the opcode, one of ``CLASSES``. Arithmetic that only moves a value counts as a move."""
        if self.opcode.startswith("IMAD.MOV") or (self.base == "HFMA2" and ", -RZ, RZ, " in self.operands):
            return "move"
        known = _CLASS_OF.get(self.base)
        if known is not None:
            return known
        return "uniform" if self.base.startswith("U") else "other"

    @property
    def moves_nothing(self) -> bool:
        """Whether its predicate is never true: ``@!PT LDS RZ, [RZ]``, which ptxas puts before copies and barriers."""
        return self.predicate in ("@!PT", "@!UPT")

    @property
    def width_bits(self) -> int:
        """Bits that one thread reads or writes (32 when the opcode names no other width)."""
        widths = _WIDTH.findall(self.opcode)
        return int(widths[-1]) if widths else 32

    @property
    def text(self) -> str:
        """The instruction without its address."""
        return " ".join(part for part in (self.predicate, self.opcode, self.operands) if part)


@dataclass(frozen=True)
class SassKernel:
    """The machine code of one function, without the padding behind its end."""

    name: str  #: mangled
    arch: str
    instructions: tuple[Instruction, ...]

    def opcode_mix(self) -> dict[str, int]:
        """Return how often each base opcode occurs, most frequent first."""
        return dict(Counter(instruction.base for instruction in self.instructions).most_common())

    def class_mix(self) -> dict[str, int]:
        """Return how many instructions each class has, classes without any left out."""
        counts = Counter(instruction.kind for instruction in self.instructions)
        return {name: counts[name] for name in CLASSES if counts[name]}

    def widths(self) -> dict[tuple[str, int], int]:
        """Return how often each memory opcode occurs at each width in bits: ``{("LDG", 128): 4}``.

        An access that no predicate lets through is none.
        """
        counts = Counter(
            (i.base, i.width_bits) for i in self.instructions if i.base in ACCESSES and not i.moves_nothing
        )
        return dict(sorted(counts.items()))

    @property
    def uses_shared_memory(self) -> bool:
        """Whether the kernel touches shared memory."""
        return any(i.kind == "shared" or i.base in {"LDGSTS", "UBLKCP", "UTMALDG"} for i in self.instructions)


def parse(text: str) -> tuple[SassKernel, ...]:
    """Return the functions of a listing, in its order; never raises."""
    kernels: list[SassKernel] = []
    arch = ""
    name: str | None = None
    rows: list[Instruction] = []

    def close() -> None:
        if name is not None:
            kernels.append(SassKernel(name, arch, _without_padding(rows)))

    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            pc, predicate, opcode, operands = match.groups()
            rows.append(Instruction(int(pc, 16), (predicate or "").strip(), opcode, " ".join(operands.split())))
        elif match := _FUNCTION.match(line):
            close()
            name, rows = match[1], []
        elif match := _ARCH.match(line):
            close()
            name, rows, arch = None, [], match[1]
    close()
    return tuple(kernels)


def normalised(kernels: Iterable[SassKernel]) -> str:
    """Return the code as text that two builds of one source share: no addresses, encodings, or file-derived names."""
    parts = []
    for kernel in sorted(kernels, key=lambda k: (k.arch, stable_name(k.name))):
        parts.append(f"{kernel.arch} {stable_name(kernel.name)}")
        parts.extend(stable_name(instruction.text) for instruction in kernel.instructions)
    return "\n".join(parts) + "\n"


def stable_name(name: str) -> str:
    """Return a mangled name without what the compiler derives from a file's path (names in unnamed namespaces)."""
    position = 0
    while match := _UNNAMED_NAMESPACE.search(name, position):
        prefix = match.end() - match.end(1)
        least = prefix + int(match[2][:4]) + _HASH_LENGTH
        # the digits before may hold the end of another name: its length is the reading that fits
        readings = [(int(match[1][-count:]), count) for count in range(1, len(match[1]) + 1)]
        length, count = next(((n, c) for n, c in readings if least <= n <= least + 12), (least, len(match[1])))
        kept = name[: match.end(1) - count] + "_GLOBAL__N_"
        name = kept + name[match.end(1) + length :]
        position = len(kept)
    return name


def _without_padding(rows: list[Instruction]) -> tuple[Instruction, ...]:
    end = len(rows)
    while end and rows[end - 1].base == "NOP":
        end -= 1
    if end and _branches_to_itself(rows[end - 1]):  # it guards the end
        end -= 1
    return tuple(rows[:end])


def _branches_to_itself(last: Instruction) -> bool:
    return last.base == "BRA" and not last.predicate and _target(last) == last.pc


def _target(branch: Instruction) -> int | None:
    try:
        return int(branch.operands, 16)
    except ValueError:
        return None
