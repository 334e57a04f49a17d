//! The XDP program that takes our frames out of an interface, assembled by hand (bpf(2)): no
//! compiler, no library, no name in a file system.

use super::mode::Mode;
use crate::error::{OsError, Result};
use crate::packet::Match;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// linux/bpf.h
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const SOCKET_MAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACH: u32 = 37;
/// Flag of a program that accepts packets in fragments; without it, veth gives up GSO.
const HAS_FRAGMENTS: u32 = 1 << 5;
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
const REDIRECT: i32 = 51;
const PASS: i32 = 2;
/// Number of queues that the map has room for; a frame of another passes on.
const QUEUES: u32 = 64;

/// The program attached to its interface. It is detached when this is closed, however the process
/// ends.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
    _map: OwnedFd,
}

/// A program that is not attached yet, and its map.
#[derive(Debug)]
pub(super) struct Loaded {
    program: OwnedFd,
    map: OwnedFd,
}

/// Loads a program that gives `socket` the frames of queue 0 that match everywhere.
pub(super) fn load(accept: &[Match], socket: &OwnedFd) -> Result<Loaded> {
    let map =
        bpf("making a map of XDP sockets", MAP_CREATE, &[pair(SOCKET_MAP, 4), pair(4, QUEUES), 0])?;
    let map = own(map)?;
    let (key, value) = (0_u32, socket.as_raw_fd());
    let [key, value] = [(&raw const key) as u64, (&raw const value) as u64];
    let number = map.as_raw_fd().cast_unsigned();
    bpf("putting an XDP socket into a map", MAP_UPDATE, &[pair(number, 0), key, value, 0])?;
    let code = code(accept, map.as_raw_fd());
    let length = u32::try_from(code.len()).unwrap_or(u32::MAX);
    let license = c"MIT OR Apache-2.0";
    let program = bpf(
        "loading an XDP program",
        PROGRAM_LOAD,
        &[
            pair(XDP_PROGRAM, length),
            code.as_ptr() as u64,
            license.as_ptr() as u64,
            0,
            0,
            pair(0, HAS_FRAGMENTS),
            0,
            0,
            pair(0, XDP_ATTACH),
        ],
    )?;
    Ok(Loaded { program: own(program)?, map })
}

/// Attaches a program to `interface`.
pub(super) fn attach(interface: u32, loaded: Loaded, mode: Mode) -> Result<Attached> {
    let Loaded { program, map } = loaded;
    let flags = if mode == Mode::Native { NATIVE } else { GENERIC };
    let number = program.as_raw_fd().cast_unsigned();
    let link = bpf(
        "attaching an XDP program",
        LINK_CREATE,
        &[pair(number, interface), pair(XDP_ATTACH, flags)],
    )?;
    Ok(Attached { _link: own(link)?, _map: map })
}

/// Packs two words of a request, in memory order.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}

/// Encodes an instruction: code, registers (to, from), jump, constant.
fn instruction(code: u8, to: u8, from: u8, jump: i16, value: i32) -> u64 {
    let (j, v) = (jump.to_ne_bytes(), value.to_ne_bytes());
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    u64::from_ne_bytes([code, registers, j[0], j[1], v[0], v[1], v[2], v[3]])
}

/// Returns the whole program. Registers: 2 the frame, 3 its end, 6 the context.
fn code(accept: &[Match], map: i32) -> Vec<u64> {
    let needed = accept.iter().map(|one| one.at + u32::from(one.width)).max().unwrap_or(0);
    // Instructions from behind the check of the length to the last two: three a match, six to
    // redirect.
    let rest = accept.len() * 3 + 6;
    let past = |done: usize| i16::try_from(rest - done).unwrap_or(0);
    let mut all = vec![
        instruction(0xbf, 6, 1, 0, 0),                    // r6 = r1
        instruction(0x61, 2, 1, 0, 0),                    // r2 = frame
        instruction(0x61, 3, 1, 4, 0),                    // r3 = end
        instruction(0xbf, 4, 2, 0, 0),                    // r4 = r2
        instruction(0x07, 4, 0, 0, needed.cast_signed()), // r4 += needed
        instruction(0x2d, 4, 3, past(0), 0),              // if r4 > r3: pass
    ];
    for (i, one) in accept.iter().enumerate() {
        let (load, bits) = match one.width {
            1 => (0x71, 16),
            2 => (0x69, 16),
            _ => (0x61, 32),
        };
        let at = i16::try_from(one.at).unwrap_or(0);
        all.push(instruction(load, 5, 2, at, 0)); // r5 = what is there
        // One byte has no order: nothing to swap.
        let turn = if one.width == 1 {
            instruction(0xbf, 5, 5, 0, 0)
        } else {
            instruction(0xdc, 5, 0, 0, bits)
        };
        all.push(turn);
        // If it differs: pass.
        all.push(instruction(0x56, 5, 0, past(i * 3 + 3), one.value.cast_signed()));
    }
    all.extend([
        instruction(0x18, 1, 1, 0, map), // r1 = map, in two
        0,
        instruction(0x61, 2, 6, 16, 0),   // r2 = queue
        instruction(0xb7, 3, 0, 0, PASS), // r3 = what to do where the queue has no socket
        instruction(0x85, 0, 0, 0, REDIRECT),
        instruction(0x95, 0, 0, 0, 0),    // exit
        instruction(0xb7, 0, 0, 0, PASS), // pass: r0 = PASS
        instruction(0x95, 0, 0, 0, 0),
    ]);
    all
}

/// Makes one request; returns the kernel's answer.
fn bpf(what: &str, command: libc::c_long, request: &[u64]) -> Result<libc::c_long> {
    // SAFETY: request is live with this size, and so is what it points to (code, license, key,
    // value); the kernel only reads.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, request.as_ptr(), size_of_val(request)) };
    if answer < 0 { Err(OsError::last(what)) } else { Ok(answer) }
}

fn own(number: libc::c_long) -> Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| OsError::last("bpf"))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the target of a jump, if the instruction is one.
    fn target(at: usize, instruction: u64) -> Option<usize> {
        let [code, _, j0, j1, ..] = instruction.to_ne_bytes();
        let jump = usize::try_from(i16::from_ne_bytes([j0, j1])).ok()?;
        matches!(code, 0x2d | 0x56).then_some(at + 1 + jump)
    }

    #[test]
    fn every_check_that_fails_lets_the_frame_pass() {
        let one = |at, width| Match { at, width, value: 7 };
        for accept in [vec![], vec![one(12, 2)], vec![one(12, 2), one(14, 1), one(22, 4)]] {
            let all = code(&accept, 5);
            let jumps: Vec<_> =
                all.iter().enumerate().filter_map(|(at, &one)| target(at, one)).collect();
            assert_eq!(jumps, vec![all.len() - 2; accept.len() + 1]);
        }
    }

    #[test]
    fn the_frame_must_be_as_long_as_the_last_match_reaches() {
        let all =
            code(&[Match { at: 22, width: 4, value: 1 }, Match { at: 12, width: 2, value: 1 }], 5);
        assert_eq!(all[4], instruction(0x07, 4, 0, 0, 26));
    }
}
