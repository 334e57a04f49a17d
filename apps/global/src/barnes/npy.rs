//! Bodies in NumPy's file format: one array of 64-bit floats, a row a body, with the numbers of a
//! line of text.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

/// First bytes of a file; its version follows.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Data begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;
/// Bytes of a header, at most.
const MAX_HEADER: usize = 4096;

/// Returns true if the name of a file is one of this format.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|it| it.eq_ignore_ascii_case("npy"))
}

/// Writes rows of `N` numbers.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write<const N: usize>(
    path: &Path,
    count: usize,
    rows: impl Iterator<Item = [f64; N]>,
) -> Result<()> {
    let head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({count}, {N}), }}");
    let before = MAGIC.len() + 4;
    let length = (before + head.len() + 1).next_multiple_of(ALIGNMENT) - before;
    let head = format!("{head:<0$}\n", length - 1);
    debug_assert_eq!(head.len(), length, "the header is filled up");
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes())?;
        file.write_all(head.as_bytes())?;
        for number in rows.flatten() {
            file.write_all(&number.to_le_bytes())?;
        }
        file.flush()
    });
    written.with_context(|| format!("writing {}", path.display()))
}

/// Reads at most `most` rows of `N` numbers.
///
/// # Errors
/// Fails if the file cannot be read, or if it has another type, order or shape.
pub fn read<const N: usize>(path: &Path, most: usize) -> Result<Vec<[f64; N]>> {
    let name = || format!("reading {}", path.display());
    let file = File::open(path).with_context(name)?;
    let mut file = BufReader::new(file);
    let mut first = [0; 8];
    file.read_exact(&mut first).with_context(name)?;
    ensure!(first.starts_with(MAGIC), "{} is no file of NumPy's format", path.display());
    // From version 2 on the length has four bytes.
    let mut length = [0; 4];
    let bytes = if first[6] == 1 { 2 } else { 4 };
    file.read_exact(&mut length[..bytes]).with_context(name)?;
    let length = u32::from_le_bytes(length) as usize;
    ensure!(length <= MAX_HEADER, "{}: its header has {length} bytes", path.display());
    let mut head = vec![0; length];
    file.read_exact(&mut head).with_context(name)?;
    let head: String =
        head.iter().map(|byte| char::from(*byte)).filter(|it| !it.is_whitespace()).collect();
    let count = head.split_once("'shape':(").and_then(|(_, rest)| rest.split_once(','));
    let count = count.and_then(|(count, rest)| Some((count.parse::<usize>().ok()?, rest)));
    let is_table = count.is_some_and(|(_, rest)| rest.starts_with(&format!("{N})")));
    let is_suited = head.contains("'descr':'<f8'") && head.contains("'fortran_order':False");
    ensure!(
        is_suited && is_table,
        "{} has {head}: an array of float64 in the shape (bodies, {N}), in C order, is needed",
        path.display()
    );
    let count = count.map_or(0, |(count, _)| count);
    ensure!(count <= most, "{} has {count} rows, and {most} are the most", path.display());
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut row = [0.0; N];
        for number in &mut row {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes).with_context(name)?;
            *number = f64::from_le_bytes(bytes);
        }
        rows.push(row);
    }
    let rest = file.read(&mut [0]).with_context(name)?;
    ensure!(rest == 0, "{} goes on behind its array", path.display());
    Ok(rows)
}
