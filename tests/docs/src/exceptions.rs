//! Printed command lines that are not run at night, each with the reason.

/// Page, beginning of the command line, and why it is not run.
pub const NOT_RUN: &[(&str, &str, &str)] = &[];

/// Returns why a printed command line is not run, if it is not.
pub fn reason(printed: &crate::printed::Printed) -> Option<&'static str> {
    let of = |(page, start, why): &(&str, &str, &'static str)| {
        (printed.page == *page && printed.text.starts_with(start)).then_some(*why)
    };
    NOT_RUN.iter().find_map(of)
}
