//! Files of bodies, a line each: mass, place, velocity; and pictures of them.

use anyhow::{Context, Result, ensure};
use clump_app_frame::barnes::body::COST;
use clump_app_frame::barnes::shape::Bodies;
use clump_app_frame::picture::{Channels, write_picture};
use clump_os::text_file;
use std::fmt::Write as _;
use std::path::Path;

/// Numbers of a line.
const NUMBERS: usize = 7;
/// Most bodies of a file.
const MAX_BODIES: usize = 1 << 24;
/// Bytes of such a file, at most.
const MAX_BYTES: u64 = 1 << 30;
/// Pixels of a side of a picture, and the side that it shows.
const PICTURE: (usize, f64) = (512, 6.0);

/// Reads a file of bodies.
///
/// # Errors
/// Fails if it cannot be read, if a line has other than seven numbers, if a mass is not above 0, or
/// if there are fewer than two bodies.
pub fn read(path: &Path) -> Result<Bodies> {
    let name = || path.display();
    let text = text_file::read(path, MAX_BYTES).with_context(|| format!("reading {}", name()))?;
    let (mut placed, mut motions) = (Vec::new(), Vec::new());
    let is_body = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_body(line)) {
        let words: Vec<f64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let is_whole = words.len() == NUMBERS && line.split_whitespace().count() == NUMBERS;
        let is_sound = is_whole && words[0] > 0.0 && words.iter().all(|it| it.abs() < 1e100);
        ensure!(is_sound, "{}, line {number}: give a mass above 0, a place and a velocity", name());
        placed.push([words[1], words[2], words[3], words[0]]);
        let mut motion = [0.0; 8];
        motion[..3].copy_from_slice(&words[4..]);
        motion[COST] = 1.0;
        motions.push(motion);
    }
    let count = placed.len();
    ensure!((2..=MAX_BODIES).contains(&count), "{} has {count} bodies", name());
    Ok((placed, motions))
}

/// Writes a file of bodies. What is read again is equal bit by bit.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write(path: &Path, (placed, motions): &Bodies) -> Result<()> {
    debug_assert_eq!(placed.len(), motions.len(), "each body moves");
    let mut text = String::from("# mass, place, velocity\n");
    for ([x, y, z, mass], motion) in placed.iter().zip(motions) {
        let [vx, vy, vz, ..] = motion;
        writeln!(text, "{mass:e} {x:e} {y:e} {z:e} {vx:e} {vy:e} {vz:e}")?;
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Draws bodies as they are seen along the third direction: the more of them, the brighter.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn draw(path: &Path, (placed, _): &Bodies) -> Result<()> {
    let (side, shown) = PICTURE;
    let mut counts = vec![0_u32; side * side];
    for at in placed {
        let pixel = |part: f64| ((part / shown + 0.5) * side as f64).floor();
        let (column, row) = (pixel(at[0]), pixel(-at[1]));
        let is_seen = [column, row].iter().all(|it| (0.0..side as f64).contains(it));
        if is_seen {
            counts[row as usize * side + column as usize] += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bright = |count: &u32| {
        if *count == 0 {
            0
        } else {
            55 + (200.0 * f64::from(*count).ln_1p() / f64::from(most).ln_1p()) as u8
        }
    };
    let pixels: Vec<u8> = counts.iter().map(bright).collect();
    write_picture(path, (side, side), Channels::Grey, &pixels)
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use clump_app_frame::barnes::shape::GalaxyShape;

    #[test]
    fn what_was_written_is_read_again_and_nonsense_is_refused() {
        let shape = GalaxyShape { bodies: 20, seed: 3, angle: 0.7, time: 0.025, steps: 1 };
        let folder = std::env::temp_dir().join(format!("clump-bodies-{}", std::process::id()));
        let mut bodies = shape.model();
        bodies.1.iter_mut().for_each(|motion| motion[3] = 0.0);
        write(&folder, &bodies).unwrap();
        assert_eq!(read(&folder).unwrap(), bodies);
        for bad in ["1 2 3", "1 0 0 0 0 0 0", "1 0 0 0 0 0 0\n-1 1 0 0 0 0 0", "x 1 1 1 1 1 1 1"] {
            std::fs::write(&folder, bad).unwrap();
            assert!(read(&folder).is_err(), "{bad}");
        }
        std::fs::remove_file(&folder).unwrap();
    }
}
