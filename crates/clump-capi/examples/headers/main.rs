//! Writes the C headers; the test `headers` compares them with the sources.

mod generate;

fn main() -> std::io::Result<()> {
    for header in generate::HEADERS {
        let (path, text) = (header.path(), header.text());
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        std::fs::write(&path, text)?;
        println!("wrote {}", header.name);
    }
    Ok(())
}
