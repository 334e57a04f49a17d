//! Receivers of frames: the packet sockets of a network namespace, as the kernel lists them
//! (`/proc/net/packet`).

/// Returns how many packet sockets receive frames of `ethertype`: those of all interfaces, and
/// those of `interface` (`None`: of any). Of all users, in the calling thread's network namespace.
/// Returns `None` where the kernel does not report it.
pub fn count(ethertype: u16, interface: Option<u32>) -> Option<usize> {
    parse(&std::fs::read("/proc/thread-self/net/packet").ok()?, ethertype, interface)
}

/// Parses the kernel's list: a line for each socket, behind one with names; the fourth word is the
/// type, in hexadecimal digits, the fifth the interface, 0 for all. Returns `None` if the format is
/// another.
fn parse(list: &[u8], ethertype: u16, interface: Option<u32>) -> Option<usize> {
    let mut lines = std::str::from_utf8(list).ok()?.lines();
    let names: Vec<&str> = lines.next()?.split_ascii_whitespace().skip(3).take(2).collect();
    if names != ["Proto", "Iface"] {
        return None;
    }
    let mut count = 0;
    for line in lines {
        let mut words = line.split_ascii_whitespace().skip(3);
        let of = u16::from_str_radix(words.next()?, 16).ok()?;
        let at: u32 = words.next()?.parse().ok()?;
        count += usize::from(of == ethertype && (at == 0 || interface.is_none_or(|one| one == at)));
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{self, Match};
    use rustix::io::Errno;

    const LIST: &str = "\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
00000000a1b2c3d4 3      3    88b5   1     1 0      0      71001
00000000a1b2c3d5 3      3    88b5   0     1 4096   1000   71002
0000000000000000 3      3    88b5   12    1 0      0      71003
00000000a1b2c3d6 3      2    0003   0     1 0      0      71004
";

    #[test]
    fn sockets_that_hear_a_type_and_an_interface_are_counted() {
        let count = |ethertype, interface| parse(LIST.as_bytes(), ethertype, interface);
        assert_eq!(count(0x88b5, Some(1)), Some(2));
        assert_eq!(count(0x88b5, Some(12)), Some(2));
        assert_eq!(count(0x88b5, Some(7)), Some(1), "a socket of all protocols");
        assert_eq!(count(0x88b5, None), Some(3));
        assert_eq!(count(0x88b6, None), Some(0));
        let first = LIST.lines().next().unwrap();
        assert_eq!(parse(first.as_bytes(), 0x88b5, None), Some(0));
    }

    #[test]
    fn what_is_no_such_list_is_no_answer() {
        for text in ["", "\n", "sk RefCnt Type Iface Proto", "88b5 88b5 88b5 88b5 1"] {
            assert_eq!(parse(text.as_bytes(), 0x88b5, None), None, "{text}");
        }
        for line in ["x", "a b c 88b5", "a b c 188b5 1", "a b c 88b5 one", "a b c -1 1", ""] {
            let text = format!("{LIST}{line}\nb");
            assert_eq!(parse(text.as_bytes(), 0x88b5, None), None, "{line}");
        }
        assert_eq!(parse(b"\xff\xfe", 0x88b5, None), None);
    }

    #[test]
    fn random_changes_are_read_without_a_panic() {
        let mut sampler = clump_test_tier::Sampler::new(1);
        let mut random = |below: usize| sampler.index(below);
        let (mut counted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut text = LIST.as_bytes().to_vec();
            for _ in 0..=random(3) {
                let (from, to) = (random(text.len() + 1), random(text.len() + 1));
                match random(3) {
                    0 => text.truncate(from),
                    1 if from < to => drop(text.drain(from..to)),
                    _ => text.extend([random(256) as u8, b' ', b'8', random(128) as u8, b'\n']),
                }
            }
            match parse(&text, 0x88b5, Some(1)) {
                Some(n) => counted += usize::from(n <= 8),
                None => refused += 1,
            }
        }
        assert!(counted > 0 && refused > 0 && counted + refused == 20_000, "{counted} {refused}");
    }

    #[test]
    fn a_socket_that_is_opened_is_seen() {
        // A type that nothing else here uses.
        const KIND: u16 = 0x88b7;
        let before = count(KIND, None);
        assert!(before.is_none_or(|count| count == 0));
        match packet::open(KIND, None, &[Match { at: 14, width: 2, value: 1 }]) {
            Ok(_socket) => {
                assert_eq!((count(KIND, None), count(KIND, Some(1))), (Some(1), Some(1)));
            }
            Err(e) if e.errno == Errno::PERM || e.errno == Errno::ACCESS => {
                eprintln!("SKIPPED: packet sockets need CAP_NET_RAW (run as root)");
            }
            Err(e) => panic!("{e}"),
        }
        assert_eq!(count(KIND, None), before);
    }
}
