//! A conversation with an engine: requests are made, answers assembled and checked.

use super::reply::{MAX_BYTES, Reply, WireError};

/// Digits of a message's length in the second version.
const DIGITS: usize = 6;

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// MPICH's default.
    First,
    /// That of Slurm's plugin.
    Second,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineRequest<'a> {
    /// Agreement on the version; always first.
    Hello,
    /// The name of the store, which the first version wants in each later question.
    Space,
    /// The second version's entrance.
    Join {
        /// The engine's name of the job.
        job: &'a str,
        /// This process's number.
        rank: u32,
    },
    /// Publication of a value.
    Put {
        /// Its key.
        key: &'a str,
        /// The value: no space, no end of a line.
        value: &'a str,
    },
    /// All have published.
    Fence,
    /// A value.
    Get {
        /// Its key.
        key: &'a str,
    },
    /// The end of the conversation.
    Leave,
}

/// One side of the conversation: [`Dialogue::request`] gives what to send; every answer goes in by
/// [`Dialogue::handle_bytes`] and comes out of [`Dialogue::poll_reply`]. One question at a time.
#[derive(Debug)]
pub struct Dialogue {
    version: Version,
    /// Name of the store, once the engine has sent it.
    space: String,
    /// Bytes of an answer that has not come to its end.
    heard: Vec<u8>,
    /// The open question, and the command that answers it.
    asked: Option<(&'static str, &'static str)>,
}

impl Dialogue {
    /// Begins a conversation.
    pub fn new(version: Version) -> Self {
        Self { version, space: String::new(), heard: Vec::new(), asked: None }
    }

    /// Returns the bytes of a question.
    ///
    /// # Errors
    /// The protocol cannot carry such a key or value.
    pub fn request(&mut self, request: &EngineRequest<'_>) -> Result<Vec<u8>, WireError> {
        debug_assert!(self.asked.is_none(), "one question at a time");
        let second = self.version == Version::Second;
        if let EngineRequest::Put { key, value } = request {
            check(key)?;
            check(value)?;
        } else if let EngineRequest::Get { key } = request {
            check(key)?;
        }
        let space = ("kvsname", self.space.clone());
        let pair = |name, value: &str| (name, value.to_owned());
        let number = if second { "2" } else { "1" };
        let (asked, answer, fields) = match *request {
            EngineRequest::Hello => {
                let sub = if second { "0" } else { "1" };
                let fields = vec![pair("pmi_version", number), pair("pmi_subversion", sub)];
                ("init", "response_to_init", fields)
            }
            EngineRequest::Space => ("get_my_kvsname", "my_kvsname", Vec::new()),
            EngineRequest::Join { job, rank } => {
                let mut fields = vec![pair("pmijobid", job), pair("pmirank", &rank.to_string())];
                fields.push(pair("threaded", "FALSE"));
                ("fullinit", "fullinit-response", fields)
            }
            EngineRequest::Put { key, value } if second => {
                ("kvs-put", "kvs-put-response", vec![pair("key", key), pair("value", value)])
            }
            EngineRequest::Put { key, value } => {
                ("put", "put_result", vec![space, pair("key", key), pair("value", value)])
            }
            EngineRequest::Fence if second => ("kvs-fence", "kvs-fence-response", Vec::new()),
            EngineRequest::Fence => ("barrier_in", "barrier_out", Vec::new()),
            EngineRequest::Get { key } if second => {
                ("kvs-get", "kvs-get-response", vec![pair("srcid", "-1"), pair("key", key)])
            }
            EngineRequest::Get { key } => ("get", "get_result", vec![space, pair("key", key)]),
            EngineRequest::Leave if second => ("finalize", "finalize-response", Vec::new()),
            EngineRequest::Leave => ("finalize", "finalize_ack", Vec::new()),
        };
        self.asked = Some((asked, answer));
        // The first words of the second version are a line of the first.
        Ok(if second && asked != "init" { message(asked, &fields) } else { line(asked, &fields) })
    }

    /// Takes bytes of the engine.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        debug_assert!(self.heard.len() <= MAX_BYTES + bytes.len(), "nothing is kept beyond");
        // What exceeds any answer is refused by the next poll.
        let room = (MAX_BYTES + DIGITS + 1).saturating_sub(self.heard.len());
        self.heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the answer to the open question, once it has come.
    ///
    /// # Errors
    /// It is none, is that to another question, or a refusal.
    pub fn poll_reply(&mut self) -> Result<Option<Reply>, WireError> {
        let Some((asked, answer)) = self.asked else { return Ok(None) };
        let of_lines = self.version == Version::First || asked == "init";
        let (from, to, end) = match if of_lines { self.line_end() } else { self.message_end()? } {
            Some(found) => found,
            None if self.heard.len() > MAX_BYTES => {
                return Err(WireError::Garbled("an answer without an end".into()));
            }
            None => return Ok(None),
        };
        let body: Vec<u8> = self.heard.drain(..end).take(to).skip(from).collect();
        debug_assert!(body.len() <= MAX_BYTES, "what is heard is bounded");
        let reply = if of_lines { Reply::of_line(&body)? } else { Reply::of_message(&body)? };
        if reply.command() != answer {
            let what = format!("`{}` where `{answer}` was due", short(reply.command()));
            return Err(WireError::Garbled(what));
        }
        self.asked = None;
        let failed = reply.value("rc").filter(|code| !matches!(*code, "0" | "+0"));
        let missing = reply.value("found") == Some("FALSE");
        if missing || failed.is_some() {
            let said = reply.value("msg").or(reply.value("errmsg")).or(failed);
            let why = short(said.unwrap_or("it has no such key"));
            return Err(WireError::Refused { asked, why });
        }
        if asked == "get_my_kvsname" {
            let space = reply.value("kvsname").unwrap_or_default();
            check(space)?;
            space.clone_into(&mut self.space);
        }
        Ok(Some(reply))
    }

    fn line_end(&self) -> Option<(usize, usize, usize)> {
        let at = self.heard.iter().position(|&byte| byte == b'\n')?;
        (at <= MAX_BYTES).then_some((0, at, at + 1))
    }

    fn message_end(&self) -> Result<Option<(usize, usize, usize)>, WireError> {
        let Some(digits) = self.heard.get(..DIGITS) else { return Ok(None) };
        let digits = std::str::from_utf8(digits).ok().and_then(|text| text.trim().parse().ok());
        let bytes: usize = digits.ok_or_else(|| WireError::Garbled("no length".into()))?;
        if bytes > MAX_BYTES {
            return Err(WireError::Garbled(format!("an answer of {bytes} bytes")));
        }
        let end = DIGITS + bytes;
        Ok((self.heard.len() >= end).then_some((DIGITS, end, end)))
    }
}

/// Checks that a key or value survives both versions: visible ASCII.
fn check(text: &str) -> Result<(), WireError> {
    let fits = text.len() <= MAX_BYTES / 4 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits && !text.is_empty() { Ok(()) } else { Err(WireError::Unspeakable(text.len())) }
}

/// Returns a text of others, cut to what an error may quote.
fn short(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(80).collect()
}

fn line(command: &str, fields: &[(&str, String)]) -> Vec<u8> {
    let mut text = format!("cmd={command}");
    for (name, value) in fields {
        text.push_str(&format!(" {name}={value}"));
    }
    text.push('\n');
    text.into_bytes()
}

fn message(command: &str, fields: &[(&str, String)]) -> Vec<u8> {
    let mut text = format!("cmd={command};");
    for (name, value) in fields {
        text.push_str(&format!("{name}={};", value.replace(';', ";;")));
    }
    debug_assert!(text.len() < 1_000_000, "six digits say it");
    format!("{:6}{text}", text.len()).into_bytes()
}

#[cfg(test)]
mod tests;
