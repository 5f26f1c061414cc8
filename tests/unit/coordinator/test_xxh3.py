"""XXH3 of the `xxhash` package against values of the reference implementation: group epoch records hold the hash."""

from __future__ import annotations

import pytest
from xxhash import xxh3_64_intdigest

EXPECTED = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    2: 0x9093381C8763D62E,
    3: 0xC3489259E968AD9E,
    4: 0xD3D60C1519014E89,
    8: 0xB88DEE77F6BF6980,
    9: 0x03688DCAD730D826,
    16: 0x9DA23836ADF2BE1E,
    17: 0xF34C3C9CF5A112D1,
    32: 0x99CB9AD0F1A11FBE,
    33: 0xC077B45492D29CDE,
    64: 0x6EFB76FF16F37561,
    65: 0x2640848E9137156B,
    96: 0x764D2D5DB92942DF,
    97: 0x077ACB7E5F4FD940,
    128: 0x65F3C2C00FA93185,
    129: 0x28065C6EC25F5B25,
    160: 0xCC592DA68FEA2254,
    240: 0x4917A75C0EF8EED7,
    241: 0x541B19226F0052E8,
    256: 0xF2331523B74CF0A4,
    1023: 0x4E4C866306F8B848,
    1024: 0xBA464919C6BB3CCD,
    1025: 0x2AA0034E7827EE42,
    1088: 0x6120D50233C9C660,
    2048: 0x956F98BEA3210C05,
    4096: 0x5A73A95C9A8B3549,
    10000: 0x6A0B1490F4D390D4,
}


def sample(length: int) -> bytes:
    return bytes((7 * index + index // 251) & 0xFF for index in range(length))


@pytest.mark.parametrize("length", EXPECTED)
def test_the_package_hashes_as_the_reference_does(length: int) -> None:
    assert xxh3_64_intdigest(sample(length)) == EXPECTED[length]
