"""The symbols that a 64-bit little-endian ELF library exports, read from its bytes."""

from __future__ import annotations

import struct

_SHT_DYNSYM = 11
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_GLOBAL, _WEAK = 1, 2
_UNDEFINED = 0
_HIDDEN = {1, 2}  # STV_INTERNAL, STV_HIDDEN


class NotElf(ValueError):
    """The bytes are not a complete 64-bit little-endian ELF file."""


def exported_symbols(data: bytes) -> frozenset[str]:
    """Return what a library defines for others; ``NotElf`` when the bytes are not one."""
    try:
        return _read(data)
    except (struct.error, IndexError, OverflowError) as error:
        raise NotElf("truncated or damaged ELF file") from error


def _read(data: bytes) -> frozenset[str]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElf("not a 64-bit little-endian ELF file")
    header = _HEADER.unpack_from(data, 0)
    offset, entry_size, count = header[6], header[11], header[12]
    if entry_size != _SECTION.size:
        raise NotElf("no section table")
    sections = [_SECTION.unpack_from(data, offset + index * entry_size) for index in range(count)]
    defined: set[str] = set()
    for section in sections:
        _, kind, _, _, start, size, link, _, _, step = section
        if kind != _SHT_DYNSYM or step != _SYMBOL.size:
            continue
        if link >= len(sections) or start + size > len(data):
            raise NotElf("truncated or damaged ELF file")
        _, _, _, _, names_start, names_size, *_ = sections[link]
        names = data[names_start : names_start + names_size]
        for position in range(start + step, start + size, step):
            name_at, info, other, where, _, _ = _SYMBOL.unpack_from(data, position)
            name = names[name_at:].partition(b"\0")[0].decode("utf-8", "replace")
            if where != _UNDEFINED and info >> 4 in {_GLOBAL, _WEAK} and other & 3 not in _HIDDEN:
                defined.add(name)
    return frozenset(defined - {""})
