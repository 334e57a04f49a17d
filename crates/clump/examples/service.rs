//! A service and its clients, as two jobs: a server writes its token to a file, clients of another
//! job connect with it and have words counted.
//!
//! ```text
//! clump run -n 2 --nodes 2 target/debug/examples/service serve TOKEN_FILE [CLIENTS]
//! clump run -n 2 target/debug/examples/service ask TOKEN_FILE some words to be counted
//! ```
//! The server's rank 1 connects within the job, by node and port. The file belongs to its user
//! alone: any process that can read it may connect.

use clump::conn::{Connection, Listener, Order, Port, ServiceToken};
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The port of the service, on node 0.
const SERVICE: Port = Port(7);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let args: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    match args.as_slice() {
        [what, file] if *what == "serve" => serve(file.as_ref(), 1),
        [what, file, clients] if *what == "serve" => {
            serve(file.as_ref(), clients.to_string_lossy().parse()?)
        }
        [what, file, words @ ..] if *what == "ask" => {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
            ask(file.as_ref(), &words)
        }
        _ => Err("say: service serve FILE [CLIENTS], or: service ask FILE WORD...".into()),
    }
}

/// Serves, on rank 0, so many clients of other jobs, and one of each other rank of this job.
fn serve(file: &Path, clients: usize) -> Result<()> {
    let cl = clump::init()?;
    if cl.rank() != 0 {
        cl.barrier()?;
        let connection = Connection::connect(&cl, 0, SERVICE, Order::Ordered)?;
        println!(
            "rank {}: {}",
            cl.rank(),
            count(&connection, &[b"a", b"rank", b"of", b"its", b"own"])?
        );
        return Ok(());
    }
    let listener = Listener::bind(&cl, SERVICE)?;
    let token = listener.invite(&[([127, 0, 0, 1], 0).into()])?;
    hand_out(&token, file)?;
    cl.barrier()?;
    let mut words = 0_u64;
    for _ in 0..clients + cl.nranks() - 1 {
        let client = listener.accept()?;
        while let Some(text) = client.recv()? {
            words += String::from_utf8_lossy(&text).split_whitespace().count() as u64;
            client.send(&words.to_le_bytes())?;
        }
    }
    println!("{words} words were counted");
    Ok(())
}

/// Writes the token to a file: atomically, and readable by its user alone. The file is new: an
/// existing one may belong to another user, who could read it.
fn hand_out(token: &ServiceToken, file: &Path) -> Result<()> {
    let part = file.with_added_extension(format!("{}.part", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut written = options.open(&part).map_err(|e| format!("{}: {e}", part.display()))?;
    let named =
        written.write_all(token.to_string().as_bytes()).and_then(|()| std::fs::rename(&part, file));
    if named.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    Ok(named?)
}

/// Connects by the token and has words counted.
fn ask(file: &Path, words: &[&[u8]]) -> Result<()> {
    let cl = clump::init()?;
    let token: ServiceToken = std::fs::read_to_string(file)?.parse()?;
    if cl.rank() == 0 {
        let connection = Connection::connect_to(&cl, &token, Order::Ordered)?;
        println!("so far {} words", count(&connection, words)?);
    }
    Ok(cl.barrier()?)
}

fn count(connection: &Connection, words: &[&[u8]]) -> Result<u64> {
    connection.send(&words.join(&b' '))?;
    let answer = connection.recv()?.ok_or("the service closed the connection")?;
    Ok(u64::from_le_bytes(answer.as_slice().try_into()?))
}
