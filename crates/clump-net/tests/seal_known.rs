//! Known answers: `seal_vectors/known.txt`, made by `oracles/seal_vectors.py` with another
//! implementation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_net::seal::JobKey;
use clump_wire::Security;
use ring::digest::{SHA256, digest};

use crate::seal_vectors as vectors;

/// Returns the bytes with which the oracle fills heads (from 3) and bodies (from 5).
fn pattern(bytes: usize, start: usize) -> Vec<u8> {
    (0..bytes).map(|i| (start + 7 * i) as u8).collect()
}

#[test]
fn another_implementation_gives_the_same_bytes() {
    let mut packets = 0;
    for known in vectors::jobs() {
        let mut key = [0; 32];
        vectors::unhex(known.key, &mut key);
        let job = JobKey::new(&mut key).unwrap();
        assert_eq!(format!("{:08x}", job.job_tag()), known.tag);
        for path in &known.paths {
            let (from, epoch, to) = path.ends;
            let sealer = job.sealer(Security::Aead, from, epoch, to).unwrap();
            let opener = job.opener(Security::Aead, from, epoch, to).unwrap();
            let checker = job.sealer(Security::Crc, from, epoch, to).unwrap();
            for packet in &path.packets {
                let head = pattern(packet.head_bytes, 3);
                let plain = pattern(packet.body_bytes, 5);
                let (mut body, mut tag) = (plain.clone(), [0; 16]);
                sealer.seal(packet.number, &head, &mut body, &mut tag);
                let shown = match packet.sealed {
                    vectors::Sealed::Bytes(_) => vectors::hex(&body),
                    vectors::Sealed::Sha256(_) => vectors::hex(digest(&SHA256, &body).as_ref()),
                };
                let (vectors::Sealed::Bytes(expected) | vectors::Sealed::Sha256(expected)) =
                    packet.sealed;
                assert_eq!((shown.as_str(), vectors::hex(&tag).as_str()), (expected, packet.tag));
                let mut sealed = [&body[..], &tag].concat();
                assert_eq!(opener.open(packet.number, &head, &mut sealed).unwrap(), plain);
                let mut check = [0; 4];
                checker.checksum(&head, &plain, &mut check);
                assert_eq!(vectors::hex(&check), packet.crc);
                packets += 1;
            }
        }
    }
    assert_eq!(packets, 24);
}
