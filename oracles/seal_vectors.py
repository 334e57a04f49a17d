#!/usr/bin/env python3
"""Known answers for crates/clump-net/src/seal.rs, by an implementation that shares no code with it.

Needs the package `cryptography` (OpenSSL); CRC-32C and the AES key schedule are written out here.
    python3 oracles/seal_vectors.py > crates/clump-net/tests/seal_vectors/known.txt
"""
import hashlib
import hmac
import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SALT = b"clump job key, version 1"


def derive(job_key, label, numbers, length):
    info = label + b"".join(struct.pack("<I", n) for n in numbers)
    return HKDF(SHA256(), length, SALT, info).derive(job_key)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sbox():
    """FIPS 197, 5.1.1: the inverse in GF(2^8), then an affine map."""
    def times(a, b):
        product = 0
        while b:
            product ^= a if b & 1 else 0
            a = (a << 1) ^ (0x11B if a & 0x80 else 0)
            b >>= 1
        return product
    table = []
    for x in range(256):
        inverse = next((y for y in range(256) if times(x, y) == 1), 0)
        rotated = [(inverse << k | inverse >> (8 - k)) & 0xFF for k in range(5)]
        table.append(rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63)
    return table


def round_keys(key):
    """FIPS 197, 5.2, for AES-128: eleven keys, any of which gives the others away."""
    box, rcon = sbox(), 1
    words = [key[i:i + 4] for i in range(0, 16, 4)]
    for i in range(4, 44):
        word = words[i - 1]
        if i % 4 == 0:
            word = bytes(box[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ rcon]) + word[1:]
            rcon = (rcon << 1) ^ (0x11B if rcon & 0x80 else 0)
        words.append(bytes(a ^ b for a, b in zip(words[i - 4], word)))
    return [b"".join(words[i:i + 4]) for i in range(0, 44, 4)]


def pattern(length, start):
    return bytes((start + 7 * i) % 256 for i in range(length))


assert crc32c(b"123456789") == 0xE3069283
assert round_keys(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"))[10].hex() == (
    "d014f9a8c9ee2589e13f0cc8b6630ca6")

PAIRS = [(0, 0, 1), (1, 0, 0), (0, 1, 1), (0, 0, 2), (0xFF000001, 7, 0xFF000000)]
PACKETS = [(1, 64, 64), (0, 64, 0), (2**64 - 1, 72, 8), (0x0102030405060708, 128, 1400)]

for number, job_key in enumerate([pattern(32, 200), hashlib.sha256(b"another job").digest()]):
    tag = struct.unpack("<I", derive(job_key, b"clump job tag", [], 4))[0]
    print(f"job {job_key.hex()} tag {tag:08x}")
    print(f"extract {hmac.new(SALT, job_key, hashlib.sha256).hexdigest()}")
    for source, epoch, target in PAIRS[: 5 if number == 0 else 1]:
        key = derive(job_key, b"clump packets", [source, epoch, target], 16)
        print(f"path {source} {epoch} {target} rounds " + " ".join(k.hex() for k in round_keys(key)))
        for counter, head_bytes, body_bytes in PACKETS:
            head, body = pattern(head_bytes, 3), pattern(body_bytes, 5)
            nonce = bytes(4) + struct.pack("<Q", counter)
            sealed = AESGCM(key).encrypt(nonce, body, head)
            crc = struct.pack("<I", crc32c(head + body))
            digest = hashlib.sha256(sealed[:-16]).hexdigest() if body_bytes > 64 else sealed[:-16].hex()
            print(f"packet {counter} {head_bytes} {body_bytes} tag {sealed[-16:].hex()} crc {crc.hex()} "
                  f"{'sha256' if body_bytes > 64 else 'sealed'} {digest or '-'}")
