//! Text files of bounded size: settings, lists of machines, results of instruments.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Reads a text file of at most `most` bytes. A device, a pipe or a growing file takes no more
/// memory than that.
///
/// # Errors
/// The file cannot be read, is no text, or is longer.
pub fn read(path: &Path, most: u64) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let why = format!("it has more than {most} bytes, too many for such a file");
        return Err(Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    #[test]
    fn a_file_is_read_up_to_its_most_bytes() {
        let here = Path::new(file!()).file_name().unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(here);
        let length = std::fs::metadata(&here).unwrap().len();
        assert_eq!(read(&here, length).unwrap().len() as u64, length);
        assert!(read(&here, length - 1).unwrap_err().to_string().contains("more than"));
        // Of a device without an end no more is read.
        assert!(read(Path::new("/dev/zero"), 1 << 16).is_err());
    }
}
