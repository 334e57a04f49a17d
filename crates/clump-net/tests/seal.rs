//! Sealing and opening as a peer and an attacker see them: sealed packets open, all others do not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_net::seal::{JobKey, Opener, Sealer};
use clump_wire::{HEADER_BYTES, Security};
use proptest::prelude::*;

const BOTH: [Security; 2] = [Security::Aead, Security::Crc];

fn job(byte: u8) -> JobKey {
    JobKey::new(&mut [byte; 32]).unwrap()
}

fn path(security: Security, from: u32, epoch: u32, to: u32) -> (Sealer, Opener) {
    let job = job(1);
    (job.sealer(security, from, epoch, to).unwrap(), job.opener(security, from, epoch, to).unwrap())
}

/// Seals a body; returns body and tag as they lie in a datagram.
fn seal(sealer: &Sealer, number: u64, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut sealed = [body, &vec![0; sealer.tag_bytes()]].concat();
    let (body, tag) = sealed.split_at_mut(body.len());
    sealer.seal(number, head, body, tag);
    sealed
}

fn securities() -> impl Strategy<Value = Security> {
    prop::sample::select(BOTH.to_vec())
}

/// Generates heads with 0 to 4 words of selective acks, and bodies of all lengths about the
/// cipher's blocks.
fn packets() -> impl Strategy<Value = (u64, Vec<u8>, Vec<u8>)> {
    let head = (0..5_usize)
        .prop_flat_map(|words| prop::collection::vec(any::<u8>(), HEADER_BYTES + 8 * words));
    (any::<u64>(), head, prop::collection::vec(any::<u8>(), 0..400))
}

proptest! {
    #[test]
    fn what_was_sealed_opens(security in securities(), (number, head, body) in packets()) {
        let (sealer, opener) = path(security, 3, 4, 5);
        let mut sealed = seal(&sealer, number, &head, &body);
        prop_assert_eq!(sealed.len(), body.len() + security.trailer_bytes());
        prop_assert_eq!(opener.tag_bytes(), security.trailer_bytes());
        prop_assert_eq!(opener.open(number, &head, &mut sealed).unwrap(), &body[..]);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused(
        security in securities(),
        (number, mut head, body) in packets(),
        at in any::<prop::sample::Index>(),
    ) {
        let (sealer, opener) = path(security, 3, 4, 5);
        let mut sealed = seal(&sealer, number, &head, &body);
        let bit = at.index(8 * (head.len() + sealed.len()));
        match head.get_mut(bit / 8) {
            Some(byte) => *byte ^= 1 << (bit % 8),
            None => sealed[bit / 8 - head.len()] ^= 1 << (bit % 8),
        }
        prop_assert!(opener.open(number, &head, &mut sealed).is_none());
    }

    #[test]
    fn another_number_is_refused((number, head, body) in packets(), bit in 0..64) {
        let (sealer, opener) = path(Security::Aead, 3, 4, 5);
        let mut sealed = seal(&sealer, number, &head, &body);
        prop_assert!(opener.open(number ^ (1_u64 << bit), &head, &mut sealed).is_none());
    }

    #[test]
    fn a_shortened_packet_is_refused(
        security in securities(),
        (number, head, body) in packets(),
        at in any::<prop::sample::Index>(),
    ) {
        let (sealer, opener) = path(security, 3, 4, 5);
        let mut sealed = seal(&sealer, number, &head, &body);
        let cut = at.index(sealed.len());
        // One in 2^32 shortened packets has its own checksum by chance; only noise is likely to.
        prop_assert!(opener.open(number, &head, &mut sealed[..cut]).is_none());
    }

    #[test]
    fn noise_is_refused(number in any::<u64>(), mut noise in prop::collection::vec(any::<u8>(), 0..600)) {
        let (_, opener) = path(Security::Aead, 3, 4, 5);
        let head_bytes = noise.len().min(HEADER_BYTES);
        let (head, sealed) = noise.split_at_mut(head_bytes);
        prop_assert!(opener.open(number, head, sealed).is_none());
    }
}

#[test]
fn every_bit_of_one_packet_counts() {
    for security in BOTH {
        let (sealer, opener) = path(security, 0, 0, 1);
        let (head, body) = ([9; HEADER_BYTES], [7; 37]);
        let packet = [&head[..], &seal(&sealer, 6, &head, &body)].concat();
        for bit in 0..8 * packet.len() {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (head, sealed) = changed.split_at_mut(HEADER_BYTES);
            assert!(opener.open(6, head, sealed).is_none(), "{security}: bit {bit}");
        }
    }
}

#[test]
fn a_packet_opens_on_its_own_path_only() {
    let (sealer, opener) = path(Security::Aead, 10, 20, 30);
    let sealed = seal(&sealer, 1, b"head", b"body");
    let others = [(30, 20, 10), (10, 21, 30), (11, 20, 30), (10, 20, 31), (20, 10, 30), (0, 0, 0)];
    for (from, epoch, to) in others {
        let (_, other) = path(Security::Aead, from, epoch, to);
        assert!(other.open(1, b"head", &mut sealed.clone()).is_none(), "{from} {epoch} {to}");
    }
    let foreign = job(2).opener(Security::Aead, 10, 20, 30).unwrap();
    assert!(foreign.open(1, b"head", &mut sealed.clone()).is_none());
    assert!(opener.open(1, b"head", &mut sealed.clone()).is_some());
    // A packet with a mere checksum is refused where packets are encrypted, and the other way
    // round.
    let (checked, checker) = path(Security::Crc, 10, 20, 30);
    let mut unsealed = seal(&checked, 1, b"head", &[1; 100]);
    assert!(opener.open(1, b"head", &mut unsealed).is_none());
    assert!(checker.open(1, b"head", &mut sealed.clone()).is_none());
}

#[test]
fn encryption_hides_the_body_and_never_repeats() {
    let (sealer, _) = path(Security::Aead, 0, 0, 1);
    let one = seal(&sealer, 1, b"head", &[0; 64]);
    let two = seal(&sealer, 2, b"head", &[0; 64]);
    let same_blocks = one.chunks(16).filter(|block| two.chunks(16).any(|other| other == *block));
    assert_eq!(same_blocks.count(), 0);
    assert!(one.chunks(16).all(|block| block != [0; 16]));
}

#[test]
fn a_checked_body_stays_where_it_is() {
    let (sealer, opener) = path(Security::Crc, 0, 0, 1);
    assert!(!sealer.in_place() && sealer.tag_bytes() == 4);
    let (body, mut tag) = (*b"in place", [0; 4]);
    sealer.checksum(b"head", &body, &mut tag);
    let sealed = seal(&sealer, 9, b"head", &body);
    assert_eq!(sealed, [&body[..], &tag].concat(), "seal does the same");
    let mut sealed = sealed;
    assert_eq!(opener.open(9, b"head", &mut sealed).unwrap(), b"in place");
    assert!(path(Security::Aead, 0, 0, 1).0.in_place());
}

#[test]
fn the_key_is_taken_and_not_shown() {
    let mut bytes = [0xab; 32];
    let job = JobKey::new(&mut bytes).unwrap();
    assert_eq!(bytes, [0; 32]);
    let (sealer, opener) = (
        job.sealer(Security::Aead, 0, 0, 1).unwrap(),
        job.opener(Security::Aead, 0, 0, 1).unwrap(),
    );
    let shown = format!("{sealer:?} {opener:?}");
    assert_eq!(shown, "Sealer(Some(Secret(..))) Opener(Some(Secret(..)))");
    let shown = format!("{job:?}");
    assert_eq!(shown, format!("JobKey {{ extracted: Secret(..), tag: {} }}", job.job_tag()));
}

/// A long contiguous packet is checksummed in one pass: the result is the same.
#[test]
fn a_packet_in_one_piece_has_the_same_checksum() {
    let job = job(1);
    let sealer = job.sealer(Security::Crc, 0, 1, 5).unwrap();
    let opener = job.opener(Security::Crc, 0, 1, 5).unwrap();
    let head = [3; 64];
    for bytes in [0, 8, 191, 192, 193, 200, 1400, 60_000] {
        let body: Vec<u8> = (0..bytes as u32).map(|i| (i % 253) as u8).collect();
        let mut tag = [0; 4];
        sealer.checksum(&head, &body, &mut tag);
        let mut packet = [&head[..], &body, &[0; 4]].concat();
        sealer.seal_whole(9, &mut packet, head.len());
        assert_eq!(packet[head.len() + bytes..], tag, "{bytes} bytes");
        assert_eq!(opener.open_whole(9, &mut packet, head.len()), Some(head.len() + bytes));
        for at in [0, head.len() - 1, head.len() + bytes / 2, head.len() + bytes + 3] {
            packet[at] ^= 16;
            assert_eq!(opener.open_whole(9, &mut packet, head.len()), None, "{bytes}, {at}");
            packet[at] ^= 16;
        }
    }
    assert_eq!(opener.open_whole(9, &mut [0; 3], 0), None);
    assert_eq!(opener.open_whole(9, &mut [0; 300], 301), None);
}
