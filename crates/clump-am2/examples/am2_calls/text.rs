//! Generates `clump/am2_calls.h`: the requests and replies for each number of arguments.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum number of arguments of a message.
const MAX_COUNT: usize = 16;

/// One family: its name in C, its parameters before the arguments, and the call that implements it.
struct Family {
    name: &'static str,
    takes: &'static str,
    calls: &'static str,
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "AM_Request",
        takes: "ep_t endpoint, int index, handler_t handler",
        calls: "clump_am_request(endpoint, index, handler",
    },
    Family {
        name: "AM_RequestI",
        takes: "ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes",
        calls: "clump_am_request_medium(endpoint, index, handler, source, bytes",
    },
    Family {
        name: "AM_RequestXfer",
        takes: "ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, \
                size_t bytes",
        calls: "clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1",
    },
    Family {
        name: "AM_RequestXferAsync",
        takes: "ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, \
                size_t bytes",
        calls: "clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0",
    },
    Family {
        name: "AM_Reply",
        takes: "void *token, handler_t handler",
        calls: "clump_am_reply(token, handler",
    },
    Family {
        name: "AM_ReplyI",
        takes: "void *token, handler_t handler, const void *source, size_t bytes",
        calls: "clump_am_reply_medium(token, handler, source, bytes",
    },
    Family {
        name: "AM_ReplyXfer",
        takes: "void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes",
        calls: "clump_am_reply_long(token, offset, handler, source, bytes",
    },
];

const HEAD: &str = "/* AM_Request0 to AM_Request16 and the like: functions with exactly so many arguments of 32 bits.
 * Part of <clump/am2.h>, which says what they do.
 *
 * Made by `cargo run -p clump-am2 --example am2_calls`.
 */
#ifndef CLUMP_AM2_CALLS_H
#define CLUMP_AM2_CALLS_H
";

/// Returns the path of the header in the tree.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clump-capi/include/clump/am2_calls.h")
}

/// Returns the text that the header must have.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for Family { name, takes, calls } in FAMILIES {
        for count in 0..=MAX_COUNT {
            let takes_arguments: String = (0..count).map(|at| format!(", int a{at}")).collect();
            let names: Vec<String> = (0..count).map(|at| format!("a{at}")).collect();
            let _ = writeln!(
                text,
                "\nstatic __inline__ int {name}{count}({takes}{takes_arguments}) {{"
            );
            if count == 0 {
                let _ = writeln!(text, "  return {calls}, 0, NULL);\n}}");
            } else {
                let set = |(at, name): (usize, &String)| format!("  arguments[{at}] = {name};\n");
                let sets: String = names.iter().enumerate().map(set).collect();
                let _ = writeln!(text, "  int32_t arguments[{count}];");
                text.push_str(&sets);
                let _ = writeln!(text, "  return {calls}, {count}, arguments);\n}}");
            }
        }
    }
    text.push_str("\n#endif /* CLUMP_AM2_CALLS_H */\n");
    text
}
