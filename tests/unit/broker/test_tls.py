"""What is wrong with the certificate of the HTTP port is said in one sentence, before the broker starts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder
from famulus.broker.settings import Settings
from famulus.broker.tls import check_http, fingerprint, server_context, with_own_certificate
from famulus.errors import SettingsError

AWAY = Settings(http_host="10.0.0.7")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    make_certificate(folder, ["b1.example"])
    return folder


def with_files(certificate: Path, key: Path) -> Settings:
    return replace(AWAY, http_certificate=str(certificate), http_key=str(key))


def test_tls_is_of_this_decade(folder: Folder) -> None:
    context = server_context(folder.certificate, folder.certificate_key)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_beyond_loopback_there_is_a_certificate_or_a_purpose(folder: Folder) -> None:
    with pytest.raises(SettingsError) as refused:
        check_http(AWAY)
    assert str(refused.value) == (
        "http_host: all that is shown at 10.0.0.7 would be readable for everybody on the way; give it a certificate "
        "(famulus init makes one), or say --plain-on-purpose"
    )
    check_http(replace(AWAY, plain_on_purpose=True))
    check_http(replace(AWAY, http=False))
    check_http(Settings())
    check_http(with_files(folder.certificate, folder.certificate_key))


def test_the_folders_own_certificate_is_for_those_who_come_from_elsewhere(folder: Folder) -> None:
    own = replace(AWAY, folder=str(folder.path))
    found = with_own_certificate(own)
    assert found == replace(own, http_certificate=str(folder.certificate), http_key=str(folder.certificate_key))
    near = replace(own, http_host="127.0.0.1")
    assert with_own_certificate(near) == near
    other = replace(own, http_certificate="other.crt", http_key="other.key")
    assert with_own_certificate(other) == other
    assert with_own_certificate(AWAY) == AWAY
    folder.certificate.unlink()
    with pytest.raises(SettingsError, match=r"tls.crt: cannot be read \(No such file or directory\)"):
        check_http(with_own_certificate(own))
    folder.certificate_key.unlink()
    assert with_own_certificate(own) == own, "made before there were certificates"


@pytest.mark.parametrize("missing", ["http_certificate", "http_key"])
def test_a_certificate_and_its_key_go_together(folder: Folder, missing: str) -> None:
    both = with_files(folder.certificate, folder.certificate_key)
    with pytest.raises(SettingsError, match=f"^{missing}: is missing"):
        check_http(replace(both, **{missing: ""}))


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_that_others_may_read_is_refused(folder: Folder, mode: int) -> None:
    folder.certificate_key.chmod(mode)
    with pytest.raises(SettingsError) as refused:
        check_http(with_files(folder.certificate, folder.certificate_key))
    key = folder.certificate_key
    assert str(refused.value) == f"{key}: others may read this key (mode {mode:03o}); run: chmod 600 {key}"


def test_files_that_are_something_else_are_refused_by_name(folder: Folder, tmp_path: Path) -> None:
    certificate, key = folder.certificate, folder.certificate_key
    other = Folder(tmp_path / "other")
    other.path.mkdir()
    make_certificate(other, [])
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"\xff rubbish")
    rubbish.chmod(0o600)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    for file in (rubbish, empty, key):
        with pytest.raises(SettingsError, match=f"^{file}: is not a certificate in PEM, or is damaged$"):
            check_http(with_files(file, key))
    for file in (rubbish, empty):
        with pytest.raises(SettingsError, match=f"^{file}: is not a private key in PEM, or is damaged$"):
            check_http(with_files(certificate, file))
    with pytest.raises(SettingsError, match=f"^{other.certificate_key}: is not the key of the certificate"):
        check_http(with_files(certificate, other.certificate_key))
    with pytest.raises(SettingsError, match=r"nowhere: cannot be read \(No such file or directory\)$"):
        check_http(with_files(certificate, tmp_path / "nowhere"))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(folder: Folder) -> None:
    path = folder.certificate_key
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    kind = serialization.PrivateFormat.PKCS8
    sealed = serialization.BestAvailableEncryption(b"pw")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, sealed))
    with pytest.raises(SettingsError, match="has a password, which nobody is there to type"):
        check_http(with_files(folder.certificate, path))


def test_a_file_may_hold_a_whole_chain(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    other.path.mkdir()
    make_certificate(other, [])
    alone = fingerprint(folder.certificate)
    folder.certificate.write_bytes(b"leaf\n" + folder.certificate.read_bytes() + other.certificate.read_bytes())
    assert fingerprint(folder.certificate) == alone
    check_http(with_files(folder.certificate, folder.certificate_key))
