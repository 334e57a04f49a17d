//! Writes `clump/am2_calls.h` anew; the test `am2_header` compares it with this.

mod text;

fn main() -> std::io::Result<()> {
    std::fs::write(text::path(), text::text())
}
