"""The texts of distinguished names. Java 17 printed the texts of this table (X500Principal.getName)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.tls.distinguished_name import name_text, subject_text
from rigs.certificates import Certificates

BY_JAVA = [
    (
        "300c310a300806035504030c0161",
        "CN=a",
    ),
    (
        "3010310e300c06035504030c05613d622363",
        "CN=a\\=b\\#c",
    ),
    (
        "300d310b300906035504030c022378",
        "CN=\\#x",
    ),
    (
        "30123110300e06035504030c07202074776f2020",
        "CN=\\ \\ two\\ \\ ",
    ),
    (
        "301a3118301606035504030c0f612c622b633b643c653e6622675c68",
        'CN=a\\,b\\+c\\;d\\<e\\>f\\"g\\\\h',
    ),
    (
        "301b3119301706035504030c105a6fc3ab20e697a5e69cac20f09f9880",
        "CN=Zo\xeb \u65e5\u672c \U0001f600",
    ),
    (
        "300c310a300806035504030c0120",
        "CN=\\ ",
    ),
    (
        "300e310c300a06035504030c03780179",
        "CN=x\x01y",
    ),
    (
        "3011310f300d06035504030c0674616209696e",
        "CN=tab\tin",
    ),
    (
        "300f310d300b06035504030c0409746162",
        "CN=\ttab",
    ),
    (
        "300f310d300b06035504030c04610a620a",
        "CN=a\nb\n",
    ),
    (
        "3010310e300c06035504030c050d2078200d",
        "CN=\\\r\\ x\\ \\\r",
    ),
    (
        "300e310c300a06035504030c03c3a920",
        "CN=\xe9\\ ",
    ),
    (
        "300e310c300a06035504030c03610062",
        "CN=a\\00b",
    ),
    (
        "301d311b301906035504030c127e7b7d7c5e605b5d40212425262a5f272829",
        "CN=~{}|^`[]@!$%&*_'()",
    ),
    (
        "3010310e300c06035504030c0561e280a862",
        "CN=a\u2028b",
    ),
    (
        "3010310e300c06035504030c05c2a078c2a0",
        "CN=\xa0x\xa0",
    ),
    (
        "3010310e300c06035504031305706c61696e",
        "CN=plain",
    ),
    (
        "3010310e300c060355040316056961354078",
        "CN=ia5@x",
    ),
    (
        "30153113301106035504031e0a0062006d0070002000f6",
        "CN=\\00b\\00m\\00p\\00 \\00\ufffd",
    ),
    (
        "30233121301f06035504031c18000000750000006e000000690000007600000020000000f6",
        "CN=#1c18000000750000006e000000690000007600000020000000f6",
    ),
    (
        "300e310c300a06035504031403743631",
        "CN=t61",
    ),
    (
        "3010310e300c060355040312053132333435",
        "CN=#12053132333435",
    ),
    (
        "300e310c300a06035504031a03766973",
        "CN=#1a03766973",
    ),
    (
        (
            "308194310b3009060355040613024445310b300906035504080c024245310f300d06035504070c064265726c69"
            "6e3115301306035504090c0c416c6c656520312c20486f66310a3008060355040a0c0178310c300a060355040b"
            "0c036465763111300f060a0992268993f22c6401010c017531133011060a0992268993f22c64011916036f7267"
            "310e300c06035504030c05616c696365"
        ),
        "CN=alice,DC=org,UID=u,OU=dev,O=x,STREET=Allee 1\\, Hof,L=Berlin,ST=BE,C=DE",
    ),
    (
        "302e310a3008060355040a0c0179310a300806035504030c01783114301206092a864886f70d01090116056140622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,CN=x,O=y",
    ),
    (
        (
            "3067310b3009060355040513023132310a3008060355040c0c0174310a3008060355042a0c0167310a30080603"
            "5504040c0173310a300806035504030c0178310a3008060355042e130171310e300c06062a030483b2030c027a"
            "7a310c300a060355040f0c0362c3a9"
        ),
        "2.5.4.15=#0c0362c3a9,1.2.3.4.55555=#0c027a7a,2.5.4.46=#130171,CN=x,2.5.4.4=#0c0173,2.5.4.42=#0c0167,2.5.4.12=#0c0174,2.5.4.5=#13023132",
    ),
    (
        (
            "3033310a3008060355040a0c01633125300806035504030c01623008060355040b0c0161300f060a0992268993"
            "f22c6401010c017a"
        ),
        "CN=b+OU=a+UID=z,O=c",
    ),
    (
        "3000",
        "",
    ),
    (
        "302a310a3008060355040a0c0163311c300806035504030c0161301006092a864886f70d0109011603624063",
        "CN=a+1.2.840.113549.1.9.1=#1603624063,O=c",
    ),
]


@pytest.mark.parametrize(("name", "text"), BY_JAVA, ids=range(len(BY_JAVA)))
def test_a_name_has_the_text_of_java(name: str, text: str) -> None:
    assert name_text(bytes.fromhex(name)) == text


def test_the_subject_of_a_certificate(certificates: Certificates) -> None:
    alice = certificates.alice.certificate.public_bytes(Encoding.DER)
    assert subject_text(alice) == "CN=alice,OU=dev,O=x,C=DE"
    authority = certificates.authority.certificate.public_bytes(Encoding.DER)
    assert subject_text(authority) == "CN=ca,O=kcli tests"


@given(st.binary(max_size=200), st.integers(0, 150), st.data())
def test_damaged_bytes_are_an_error_and_nothing_else(noise: bytes, cut: int, data: st.DataObject) -> None:
    whole = bytes.fromhex(data.draw(st.sampled_from(BY_JAVA))[0])
    for content in (noise, whole[:cut], whole[:cut] + noise):
        for read in (name_text, subject_text):
            try:
                read(content)
            except ValueError:
                continue
