//! A program of connections for tests: `conn WHAT FOLDER`; servers leave a token in the folder.

use clump::conn::{Between, Connection, Listener, Order, Port, ServiceToken};
use clump_os::{process, signal};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PORT: Port = Port(7);
/// Time after which a server counts as gone: an answer takes microseconds.
const SOON: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let (what, folder) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let cl = clump::init()?;
    match what.as_str() {
        "serve" => serve(&cl, Path::new(&folder)),
        "wait" | "flood" | "stop" => visit(&cl, Path::new(&folder), &what),
        "widow" => widow(&cl),
        other => Err(format!("`{other}` is nothing to do").into()),
    }
}

/// Serves one client after the other, until one sends stop.
fn serve(cl: &clump::Clump, folder: &Path) -> Result<()> {
    let listener = Listener::bind(cl, PORT)?;
    let token = listener.invite(&[([127, 0, 0, 1], 0).into()])?;
    let mut options = std::fs::OpenOptions::new();
    let mut part = options.write(true).create_new(true).mode(0o600).open(folder.join("part"))?;
    part.write_all(token.to_string().as_bytes())?;
    std::fs::rename(folder.join("part"), folder.join("token"))?;
    loop {
        let client = listener.accept()?;
        loop {
            let answered = match client.recv() {
                Ok(Some(message)) if message == b"stop" => return Ok(()),
                Ok(Some(message)) => client.send(&message),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = answered {
                println!("a client is gone: {error}");
                break;
            }
        }
    }
}

/// Connects by the token; a client that waits, or floods, ends when the server does.
fn visit(cl: &clump::Clump, folder: &Path, what: &str) -> Result<()> {
    let token: ServiceToken = std::fs::read_to_string(folder.join("token"))?.parse()?;
    let server = Connection::connect_to(cl, &token, Order::Ordered)?;
    if what == "stop" {
        return Ok(server.send(b"stop")?);
    }
    server.send(b"hello")?;
    assert_eq!(server.recv()?.as_deref(), Some(&b"hello"[..]));
    std::fs::write(folder.join(format!("ready-{}", cl.rank())), "")?;
    let ended = loop {
        let result = match what {
            "flood" => server.send(&[7; 100_000]),
            _ => server.recv().map(drop),
        };
        if let Err(error) = result {
            break error;
        }
    };
    println!("the server is gone: {ended}");
    let again =
        Connection::connect_between(cl, &token, Order::Ordered, SOON, &Between::configured()?);
    println!("and nobody else is there: {}", again.is_err());
    Ok(())
}

/// Kills rank 1 while it has connections from all others.
fn widow(cl: &clump::Clump) -> Result<()> {
    let node = u32::try_from(
        std::env::args_os().nth(2).ok_or("which node?")?.to_string_lossy().parse::<u64>()?,
    )?;
    if cl.rank() == 1 {
        let listener = Listener::bind(cl, PORT)?;
        cl.barrier()?;
        let all: Vec<_> = (1..cl.nranks()).map(|_| listener.accept()).collect();
        for connection in &all {
            connection.as_ref().map(Connection::recv).map_err(ToString::to_string)??;
        }
        process::signal(std::process::id(), signal::KILL)?;
    }
    cl.barrier()?;
    let connection = Connection::connect(cl, node, PORT, Order::Ordered)?;
    connection.send(b"hello")?;
    match connection.recv() {
        Err(error) => println!("rank {} goes on: {error}", cl.rank()),
        Ok(message) => println!("rank {} received {message:?}", cl.rank()),
    }
    Ok(())
}
