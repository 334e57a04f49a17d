//! Files of bodies, a line or a row of NumPy's format each: mass, place, velocity; and pictures of
//! them.

use crate::barnes::npy;
use anyhow::{Context, Result, bail, ensure};
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

/// Reads a file of bodies: in NumPy's format if its name ends with `.npy`, else text.
///
/// # Errors
/// Fails if it cannot be read, if a line has other than seven numbers, if a mass is not above 0, or
/// if there are fewer than two bodies.
pub fn read(path: &Path) -> Result<Bodies> {
    let rows = if npy::is_named(path) {
        let rows = npy::read::<NUMBERS>(path, MAX_BODIES)?;
        rows.into_iter().zip(1..).map(|(row, number)| (number, Some(row))).collect()
    } else {
        text_rows(path)?
    };
    let (mut placed, mut motions) = (Vec::new(), Vec::new());
    for (number, row) in rows {
        let is_sound = |row: &[f64; NUMBERS]| row[0] > 0.0 && row.iter().all(|it| it.abs() < 1e100);
        let name = path.display();
        let Some([mass, x, y, z, vx, vy, vz]) = row.filter(is_sound) else {
            bail!("{name}, line {number}: give a mass above 0, a place and a velocity")
        };
        placed.push([x, y, z, mass]);
        let mut motion = [0.0; 8];
        motion[..3].copy_from_slice(&[vx, vy, vz]);
        motion[COST] = 1.0;
        motions.push(motion);
    }
    let count = placed.len();
    ensure!((2..=MAX_BODIES).contains(&count), "{} has {count} bodies", path.display());
    Ok((placed, motions))
}

/// Returns the lines of a text that are bodies, with their numbers.
fn text_rows(path: &Path) -> Result<Vec<(u64, Option<[f64; NUMBERS]>)>> {
    let name = || format!("reading {}", path.display());
    let text = text_file::read(path, MAX_BYTES).with_context(name)?;
    let is_body = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_body(line));
    let row = |line: &str| {
        let words: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        words.ok().and_then(|words| <[f64; NUMBERS]>::try_from(words).ok())
    };
    Ok(lines.map(|(number, line)| (number, row(line))).collect())
}

/// Writes a file of bodies, in NumPy's format if its name ends with `.npy`, else as text. What is
/// read again is equal bit by bit.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write(path: &Path, (placed, motions): &Bodies) -> Result<()> {
    debug_assert_eq!(placed.len(), motions.len(), "each body moves");
    let rows = placed.iter().zip(motions).map(|([x, y, z, mass], motion)| {
        let [vx, vy, vz, ..] = motion;
        [*mass, *x, *y, *z, *vx, *vy, *vz]
    });
    if npy::is_named(path) {
        return npy::write(path, placed.len(), rows);
    }
    let mut text = String::from("# mass, place, velocity\n");
    for [mass, x, y, z, vx, vy, vz] in rows {
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
        let mut bodies = shape.model();
        bodies.1.iter_mut().for_each(|motion| motion[3] = 0.0);
        let name = std::env::temp_dir().join(format!("clump-bodies-{}", std::process::id()));
        let (text, array) = (name.with_extension("txt"), name.with_extension("npy"));
        for path in [&text, &array] {
            write(path, &bodies).unwrap();
            assert_eq!(read(path).unwrap(), bodies);
        }
        for bad in ["1 2 3", "1 0 0 0 0 0 0", "1 0 0 0 0 0 0\n-1 1 0 0 0 0 0", "x 1 1 1 1 1 1 1"] {
            std::fs::write(&text, bad).unwrap();
            assert!(read(&text).is_err(), "{bad}");
        }
        let whole = std::fs::read(&array).unwrap();
        assert_eq!((whole.len(), whole[127]), (128 + 20 * 7 * 8, b'\n'), "data are aligned");
        let refused = |bytes: &[u8], why: &str| {
            std::fs::write(&array, bytes).unwrap();
            let error = format!("{:#}", read(&array).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        refused(&whole[..whole.len() - 1], "reading");
        refused(&[&whole[..], b"x"].concat(), "goes on");
        refused(&whole[1..], "no file of NumPy's format");
        refused(b"\x93NUMPY\x01\x00\xff\xff", "65535 bytes");
        for (from, to) in [("<f8", ">f8"), ("False", "True "), ("(20, 7)", "(7, 20)")] {
            let head = String::from_utf8_lossy(&whole[..128]).into_owned();
            assert!(head.contains(from), "{head}");
            let changed = head[12..].replace(from, to);
            let parts = [&whole[..10], changed.as_bytes(), &whole[128..]];
            refused(&parts.concat(), "is needed");
        }
        let mut massless = whole.clone();
        massless[128..136].copy_from_slice(&0.0_f64.to_le_bytes());
        refused(&massless, "line 1: give a mass above 0");
        std::fs::remove_file(&text).unwrap();
        std::fs::remove_file(&array).unwrap();
    }
}
