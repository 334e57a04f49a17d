//! Titles of elements of a drawing, which browsers show where the pointer is.

/// Gives elements their titles: the first element of that name gets the first title.
pub(crate) fn with_titles(svg: &str, element: &str, titles: &[String]) -> String {
    let mut parts = svg.split(element);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        out += element;
        match (part.split_once("/>"), titles.get(at)) {
            (Some((attributes, rest)), Some(title)) => {
                let name = element.trim_start_matches('<').trim_end();
                out += &format!("{attributes}><title>{}</title></{name}>{rest}", escaped(title));
            }
            _ => out += part,
        }
    }
    out
}

/// Returns text as it may stand in a drawing.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_go_to_their_elements_in_order() {
        let svg = "<svg><circle cx=\"1\"/>\n<rect/><circle cx=\"2\"/></svg>";
        let titles = ["a < b".to_owned(), "c".to_owned()];
        assert_eq!(
            with_titles(svg, "<circle ", &titles),
            "<svg><circle cx=\"1\"><title>a &lt; b</title></circle>\n<rect/>\
             <circle cx=\"2\"><title>c</title></circle></svg>"
        );
    }
}
