"""The certificate of a broker's HTTP port: for the right names, and good enough for strict clients."""

from __future__ import annotations

import hashlib
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from famulus.broker.certificate import days_left, make_certificate
from famulus.broker.folder import Folder
from famulus.broker.tls import server_context


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def read(folder: Folder) -> x509.Certificate:
    return x509.load_pem_x509_certificate(folder.certificate.read_bytes())


def names_in(folder: Folder) -> list[str]:
    found = read(folder).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in found]


def test_it_is_for_the_names_that_others_use_and_for_this_machine(folder: Folder) -> None:
    make_certificate(folder, ["b1.example", "10.0.0.7"])
    mine = [socket.gethostname(), "localhost", "127.0.0.1", "::1"]
    assert names_in(folder) == ["b1.example", "10.0.0.7", *mine]


def test_a_name_is_in_it_once_and_what_is_no_name_is_left_out(folder: Folder) -> None:
    make_certificate(folder, ["localhost", "0.0.0.0", "::", "no..name", "bücher.example"])
    assert sorted(names_in(folder)) == sorted(
        ["localhost", "xn--bcher-kva.example", socket.gethostname(), "127.0.0.1", "::1"]
    )


def test_it_is_valid_now_but_not_for_ever_and_is_no_authority(folder: Folder) -> None:
    make_certificate(folder, [])
    made, now = read(folder), datetime.now(UTC)
    assert made.not_valid_before_utc < now - timedelta(hours=1), "clocks differ"
    assert now + timedelta(days=800) < made.not_valid_after_utc
    assert made.not_valid_after_utc - made.not_valid_before_utc <= timedelta(days=825)
    assert isinstance(key := made.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert days_left(folder.certificate) == 823
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_what_cannot_be_read_has_no_end(folder: Folder) -> None:
    folder.certificate.write_text("rubbish")
    assert days_left(folder.certificate) is None


def test_only_its_owner_may_read_the_key(folder: Folder) -> None:
    make_certificate(folder, [])
    assert folder.certificate_key.stat().st_mode & 0o777 == 0o600


def test_its_fingerprint_is_as_people_compare_it(folder: Folder) -> None:
    told = make_certificate(folder, [])
    der = ssl.PEM_cert_to_DER_cert(folder.certificate.read_text())
    assert told.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert [len(each) for each in told.split(":")] == [2] * 32
    assert told == told.upper()


def test_each_is_another_one(folder: Folder) -> None:
    assert make_certificate(folder, []) != make_certificate(folder, [])


@pytest.mark.parametrize("name", ["b1.example", "127.0.0.1"])
def test_who_trusts_it_can_talk_to_the_broker_by_any_of_its_names(folder: Folder, name: str) -> None:
    make_certificate(folder, ["b1.example"])
    shake_hands(folder, name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'b2\.example'"):
        shake_hands(folder, "b2.example")


def shake_hands(folder: Folder, name: str) -> None:
    """Both ends of a handshake, with nothing between them; the client is as strict as OpenSSL can be."""
    client = ssl.create_default_context(cafile=folder.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = server_context(folder.certificate, folder.certificate_key)
    here, there = (ssl.MemoryBIO() for _ in range(2))
    ends = [
        client.wrap_bio(here, there, server_hostname=name),
        server.wrap_bio(there, here, server_side=True),
    ]
    for turn in range(6):
        try:
            ends[turn % 2].do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ends[0].version() == ends[1].version() == "TLSv1.3"
    assert ends[0].getpeercert()
