//! Measures the cost of protecting a packet: ns to seal, open and check one, by size of its body.
//!
//! `cargo run --release -p clump-net --example seal_cost`; about two seconds. The head is a header
//! with one word of selective acks. Medians of interleaved slices.

use clump_net::seal::{JobKey, KeyError};
use clump_os::clock::now_ns;
use clump_wire::{HEADER_BYTES, Security};
use std::hint::black_box;

const SIZES: [usize; 4] = [64, 256, 1400, 61440];
const SLICES: usize = 41;
const UNIT_FRAGMENT_BYTES: usize = 4 << 20;

fn main() -> Result<(), KeyError> {
    let job = JobKey::new(&mut [1; 32])?;
    let aead = job.sealer(Security::Aead, 0, 0, 1)?;
    let opener = job.opener(Security::Aead, 0, 0, 1)?;
    let crc = job.sealer(Security::Crc, 0, 0, 1)?;
    let checker = job.opener(Security::Crc, 0, 0, 1)?;
    let head = [3; HEADER_BYTES + 8];
    println!("body bytes   seal   open   checksum   check   (ns)");
    for bytes in SIZES {
        let rounds = (UNIT_FRAGMENT_BYTES / (bytes + 2000)).max(1);
        let mut packet = vec![5; bytes + 16];
        let mut number = 0;
        let mut unit_fragments = [const { Vec::new() }; 4];
        for _ in 0..SLICES {
            let mut take = |slot: usize, work: &mut dyn FnMut()| {
                let start = now_ns();
                (0..rounds).for_each(|_| work());
                let each = (now_ns() - start) as f64 / rounds as f64;
                if let Some(unit_fragment) = unit_fragments.get_mut(slot) {
                    unit_fragment.push(each);
                }
            };
            let mut seal = |packet: &mut [u8]| {
                number += 1;
                let (body, tag) = packet.split_at_mut(bytes);
                aead.seal(number, black_box(&head), body, tag);
                number
            };
            take(0, &mut || {
                let _ = black_box(seal(&mut packet));
            });
            take(1, &mut || {
                let number = seal(&mut packet);
                assert!(opener.open(number, black_box(&head), &mut packet).is_some());
            });
            let (body, check) = packet.split_at_mut(bytes);
            take(2, &mut || crc.checksum(black_box(&head), body, &mut check[..4]));
            take(3, &mut || {
                assert!(checker.open(0, black_box(&head), &mut packet[..bytes + 4]).is_some());
            });
        }
        let [seal, both, checksum, check] = unit_fragments.map(|mut unit_fragment| {
            unit_fragment.sort_by(f64::total_cmp);
            unit_fragment.get(SLICES / 2).copied().unwrap_or(f64::NAN)
        });
        println!("{bytes:10} {seal:6.0} {:6.0} {checksum:10.0} {check:7.0}", both - seal);
    }
    Ok(())
}
