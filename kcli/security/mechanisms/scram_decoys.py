"""Credentials for unknown users of SCRAM, which look like the credentials of known users.

The first answer of a server shows the salt and the number of iterations of a user. Tools make salts of different forms:
Java's tools use letters and digits, and other clients use any bytes. An operator can also choose the number of
iterations. So each unknown user gets the form of one of the known users. The form and the salt are derived from the
user name with a secret, so they are always the same.
"""

from __future__ import annotations

import hashlib
import hmac
import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.metadata.image import ScramCredential

DEFAULT_ITERATIONS = 4096
SALT_BITS = 130
"""The random bits of a salt in Kafka's form: a number of 130 bits, in base 36."""

_BASE_36 = string.digits + string.ascii_lowercase
_BYTES = bytes(range(256))
_ALPHABETS = (
    string.digits.encode(),
    b"0123456789abcdef",
    _BASE_36.encode(),
    (string.digits + string.ascii_letters).encode(),
    (string.digits + string.ascii_letters + "-_+/=").encode(),
    _BYTES,
)
_SHARE_BYTES = 8
_JAVA_LENGTHS = range(22, 27)  # almost all numbers of 130 bits have 22 to 26 digits in base 36


@dataclass(frozen=True, slots=True, order=True)
class CredentialForm:
    """The features of a credential that a client sees. `length` is 0 for salts in Kafka's form, because their length
    differs.
    """

    iterations: int = DEFAULT_ITERATIONS
    alphabet: bytes = _BASE_36.encode()
    length: int = 0


@dataclass(frozen=True, slots=True)
class Decoys:
    """Makes the credentials of unknown users. `forms` has the number of known users with each form, in an order that is
    the same on each node.
    """

    secret: bytes = field(repr=False)
    forms: tuple[tuple[CredentialForm, int], ...] = ()

    def credential(self, name: str, mechanism: str, hash_name: str) -> ScramCredential:
        """A credential that no password matches. The same name always gets the same credential."""
        size = hashlib.new(hash_name).digest_size
        form = self._form(self._derived("form", mechanism, name))
        return ScramCredential(
            salt_of(form, self._derived("salt", mechanism, name)),
            self._derived("stored key", mechanism, name)[:size],
            self._derived("server key", mechanism, name)[:size],
            form.iterations,
        )

    def _form(self, digest: bytes) -> CredentialForm:
        if not self.forms:
            return CredentialForm()
        # A share of all users and not a remainder, so that a new user changes the forms of only a few names.
        nth = int.from_bytes(digest[:_SHARE_BYTES], "big") * sum(count for _form, count in self.forms)
        nth >>= 8 * _SHARE_BYTES
        for form, count in self.forms:
            if nth < count:
                return form
            nth -= count
        raise AssertionError("the counts have this sum")

    def _derived(self, label: str, mechanism: str, name: str) -> bytes:
        return hmac.digest(self.secret, f"{label},{mechanism},{name}".encode(), "sha512")


def forms_of(credentials: Iterable[ScramCredential]) -> tuple[tuple[CredentialForm, int], ...]:
    """Counts the forms of the known credentials."""
    return tuple(sorted(Counter(form_of(credential) for credential in credentials).items()))


def form_of(credential: ScramCredential) -> CredentialForm:
    """The form of a credential. The alphabet is the smallest known one that has all characters of the salt."""
    salt = credential.salt
    alphabet = next(characters for characters in _ALPHABETS if not salt.strip(characters))
    if alphabet in _ALPHABETS[:3] and len(salt) in _JAVA_LENGTHS:
        return CredentialForm(credential.iterations)
    return CredentialForm(credential.iterations, alphabet, len(salt))


def salt_of(form: CredentialForm, digest: bytes) -> bytes:
    """A salt of this form, derived from a digest."""
    if not form.length:
        return java_salt(int.from_bytes(digest, "big"))
    stream = hashlib.shake_256(digest).digest(2 * form.length)
    size = len(form.alphabet)
    return bytes(
        form.alphabet[int.from_bytes(stream[at : at + 2], "big") % size] for at in range(0, len(stream), 2)
    )


def java_salt(number: int) -> bytes:
    """A salt in Kafka's form, from the lowest SALT_BITS bits of a number."""
    number %= 1 << SALT_BITS
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_BASE_36))
        digits = _BASE_36[digit] + digits
    return digits.encode()
