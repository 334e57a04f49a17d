//! Files of pictures: PNG, or PGM and PPM.

use anyhow::{Context, Result};
use std::path::Path;

/// Bytes of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// One: how bright it is.
    Grey,
    /// Three: red, green, blue.
    Colour,
}

/// Most bytes of a stored block of a compressed stream (RFC 1951, 3.2.4).
const MAX_BLOCK: usize = 65_535;

/// Writes a picture of so many columns and rows: as PNG if the file's name ends in `.png`, else as
/// PGM or PPM.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_picture(
    path: &Path,
    size: (usize, usize),
    channels: Channels,
    pixels: &[u8],
) -> Result<()> {
    let is_png = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("png"));
    let file = if is_png { png(size, channels, pixels) } else { plain(size, channels, pixels) };
    std::fs::write(path, file).with_context(|| format!("writing {}", path.display()))
}

impl Channels {
    fn bytes(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Colour => 3,
        }
    }
}

fn plain((columns, rows): (usize, usize), channels: Channels, pixels: &[u8]) -> Vec<u8> {
    debug_assert_eq!(pixels.len(), columns * rows * channels.bytes(), "all pixels");
    let format = if channels == Channels::Grey { 5 } else { 6 };
    let mut file = format!("P{format}\n{columns} {rows}\n255\n").into_bytes();
    file.extend(pixels);
    file
}

/// Returns a PNG whose data are stored, not compressed.
fn png((columns, rows): (usize, usize), channels: Channels, pixels: &[u8]) -> Vec<u8> {
    debug_assert_eq!(pixels.len(), columns * rows * channels.bytes(), "all pixels");
    let colour_type = if channels == Channels::Grey { 0 } else { 2 };
    let [width, height] = [columns, rows].map(|side| (side as u32).to_be_bytes());
    let header = [&width[..], &height, &[8, colour_type, 0, 0, 0]].concat();
    // Each row begins with the number of its filter: none.
    let rows: Vec<u8> = pixels
        .chunks_exact(columns * channels.bytes())
        .flat_map(|row| std::iter::once(0).chain(row.iter().copied()))
        .collect();
    let mut stream = vec![0x78, 0x01];
    let blocks = rows.len().div_ceil(MAX_BLOCK);
    for (number, block) in rows.chunks(MAX_BLOCK).enumerate() {
        let len = block.len() as u16;
        stream.push(u8::from(number + 1 == blocks));
        stream.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
        stream.extend(block);
    }
    stream.extend(adler32(&rows).to_be_bytes());
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &stream), chunk(b"IEND", &[])].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks].concat()
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [&kind[..], data].concat();
    let sum = crc32fast::hash(&named);
    [&(data.len() as u32).to_be_bytes()[..], &named, &sum.to_be_bytes()].concat()
}

/// Sum at the end of a zlib stream (RFC 1950, 8.2).
fn adler32(data: &[u8]) -> u32 {
    let (a, b) = data.iter().fold((1, 0), |(a, b): (u32, u32), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::{Channels, adler32, plain, png};

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn pictures_have_the_pixels() {
        assert_eq!(plain((1, 1), Channels::Colour, &[7, 8, 9]), b"P6\n1 1\n255\n\x07\x08\x09");
        assert_eq!(plain((1, 1), Channels::Grey, &[7]), b"P5\n1 1\n255\n\x07");
        let side = 300;
        let pixels: Vec<u8> = (0..side * side).map(|at| (at % 251) as u8).collect();
        let file = png((side, side), Channels::Grey, &pixels);
        assert_eq!(file[..24], *b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\x2c\0\0\x01\x2c");
        // Two stored blocks, of which the second is the last.
        let data = &file[33 + 8..];
        assert_eq!(data[..7], [0x78, 0x01, 0, 0xff, 0xff, 0, 0]);
        let rest = (side * (side + 1) - 65_535) as u16;
        let second = 7 + 65_535;
        assert_eq!(data[second], 1);
        assert_eq!(data[second + 1..second + 3], rest.to_le_bytes());
        assert_eq!(data[7..11], [0, 0, 1, 2]);
    }
}
