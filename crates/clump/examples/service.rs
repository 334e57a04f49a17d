//! A service and its clients, as two jobs: a server writes its token to a file, clients of another job connect
//! with it and have words counted.
//!
//! ```text
//! clump run -n 2 --nodes 2 target/debug/examples/service serve TOKEN_FILE [CLIENTS]
//! clump run -n 2 target/debug/examples/service ask TOKEN_FILE some words to be counted
//! ```
//! The server's rank 1 connects within the job, by node and port. The file is its user's alone: who reads it may
//! connect.

use clump::conn::{Connection, Listener, Order, Port, Token};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// Where the service is, on node 0.
const SERVICE: Port = Port(7);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).skip(1).collect();
    match args.as_slice() {
        ["serve", file] => serve(file, 1),
        ["serve", file, clients] => serve(file, clients.parse()?),
        ["ask", file, words @ ..] => ask(file, words),
        _ => Err("say: service serve FILE [CLIENTS], or: service ask FILE WORD...".into()),
    }
}

/// Rank 0 answers so many clients of other jobs, and one of each other rank of this.
fn serve(file: &str, clients: usize) -> Result<()> {
    let cl = clump::init()?;
    if cl.rank() != 0 {
        cl.barrier()?;
        let connection = Connection::connect(&cl, 0, SERVICE, Order::Kept)?;
        println!("rank {}: {}", cl.rank(), count(&connection, &["a", "rank", "of", "its", "own"])?);
        return Ok(());
    }
    let listener = Listener::bind(&cl, SERVICE)?;
    let token = listener.invite(&[([127, 0, 0, 1], 0).into()])?;
    // Whole at once, and nobody else's.
    let (part, mut options) = (format!("{file}.part"), std::fs::OpenOptions::new());
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&part)?.write_all(token.to_string().as_bytes())?;
    std::fs::rename(&part, file)?;
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

/// Connects by the token and has words counted.
fn ask(file: &str, words: &[&str]) -> Result<()> {
    let cl = clump::init()?;
    let token: Token = std::fs::read_to_string(file)?.parse()?;
    if cl.rank() == 0 {
        let connection = Connection::connect_to(&cl, &token, Order::Kept)?;
        println!("so far {} words", count(&connection, words)?);
    }
    Ok(cl.barrier()?)
}

fn count(connection: &Connection, words: &[&str]) -> Result<u64> {
    connection.send(words.join(" ").as_bytes())?;
    let answer = connection.recv()?.ok_or("the service closed the connection")?;
    Ok(u64::from_le_bytes(answer.as_slice().try_into()?))
}
