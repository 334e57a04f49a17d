//! An engine for tests: starts ranks as MPICH's `mpiexec` or Slurm's `srun --mpi=pmi2` does, and
//! answers them. It shares no code with clump's side of the protocol.
//!
//! `fake-mpiexec [--second] [--spoil WHAT] N PROGRAM ARGUMENTS`; it ends with the first code of a
//! rank that is not zero, and kills no rank.

use anyhow::{Context, Result};
use clump_os::socket;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode};
use std::sync::{Arc, Barrier, Mutex};

/// State that all ranks share.
struct Shared {
    keys: Mutex<HashMap<String, String>>,
    fence: Barrier,
    /// An answer that is wrong on purpose: to `get`, or to `init`.
    spoil: String,
}

fn main() -> Result<ExitCode> {
    let mut words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let second = words.first().is_some_and(|word| word == "--second");
    words.drain(..usize::from(second));
    let spoils = words.first().is_some_and(|word| word == "--spoil");
    let spoil = if spoils { words.drain(..2).nth(1).unwrap_or_default() } else { String::new() };
    let size: usize = words.first().context("how many?")?.parse()?;
    let (program, args) = words[1..].split_first().context("which program?")?;
    let shared = Arc::new(Shared { keys: Mutex::default(), fence: Barrier::new(size), spoil });
    let mut children: Vec<Child> = Vec::new();
    for rank in 0..size {
        let (ours, theirs) = socket::stream_pair()?;
        socket::pass_on(&theirs)?;
        let mut command = Command::new(program);
        command.args(args);
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", size.to_string());
        if second {
            command.env("PMI_JOBID", "1.0").env("SLURM_STEP_ID", "0");
        }
        children.push(command.spawn()?);
        drop(theirs);
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || serve(UnixStream::from(ours), second, &shared));
    }
    let mut code = 0;
    for mut child in children {
        let status = child.wait()?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let one = status.code().unwrap_or(128 + signal.unwrap_or(0));
        code = if code == 0 { one } else { code };
    }
    Ok(ExitCode::from(u8::try_from(code)?))
}

/// Answers one rank until it leaves.
fn serve(mut rank: UnixStream, second: bool, shared: &Shared) -> Result<()> {
    let mut messages = false;
    loop {
        let asked = if messages { message(&mut rank)? } else { line(&mut rank)? };
        let separator = if messages { ';' } else { ' ' };
        let mut fields = HashMap::new();
        for word in asked.trim_end().split(separator) {
            if let Some((name, value)) = word.split_once('=') {
                fields.insert(name, value);
            }
        }
        let of = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let command = of("cmd");
        let answer = match command.as_str() {
            "init" if shared.spoil == "init" => "cmd=response_to_init rc=-1 msg=too-old".into(),
            "init" => {
                let version = of("pmi_version");
                format!("cmd=response_to_init pmi_version={version} pmi_subversion=0 rc=0")
            }
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0".into(),
            "put" | "kvs-put" => {
                shared.keys.lock().ok().context("keys")?.insert(of("key"), of("value"));
                if messages { "cmd=kvs-put-response;rc=0;" } else { "cmd=put_result rc=0" }.into()
            }
            "barrier_in" | "kvs-fence" => {
                shared.fence.wait();
                if messages { "cmd=kvs-fence-response;rc=0;" } else { "cmd=barrier_out" }.into()
            }
            "get" | "kvs-get" if shared.spoil == "get" => "cmd=get_result rc=0 value=zz".into(),
            "get" | "kvs-get" => {
                let keys = shared.keys.lock().ok().context("keys")?;
                let value = keys.get(&of("key")).cloned().unwrap_or_default();
                if messages {
                    format!("cmd=kvs-get-response;rc=0;found=TRUE;value={value};")
                } else {
                    format!("cmd=get_result rc=0 value={value}")
                }
            }
            "fullinit" if of("pmijobid") != "1.0" => "cmd=fullinit-response;rc=3;".into(),
            "fullinit" => {
                let rank = of("pmirank");
                format!("cmd=fullinit-response;rc=0;pmi-version=2;rank={rank};size=1;")
            }
            "finalize" if messages => "cmd=finalize-response;rc=0;".into(),
            "finalize" => "cmd=finalize_ack".into(),
            other => anyhow::bail!("`{other}` is unknown"),
        };
        if messages {
            rank.write_all(format!("{:6}{answer}", answer.len()).as_bytes())?;
        } else {
            rank.write_all(format!("{answer}\n").as_bytes())?;
        }
        messages = second;
        if command == "finalize" {
            return Ok(());
        }
    }
}

fn line(rank: &mut UnixStream) -> Result<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while text.last() != Some(&b'\n') {
        rank.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    Ok(String::from_utf8(text)?)
}

fn message(rank: &mut UnixStream) -> Result<String> {
    let mut length = [0; 6];
    rank.read_exact(&mut length)?;
    let mut text = vec![0; std::str::from_utf8(&length)?.trim().parse()?];
    rank.read_exact(&mut text)?;
    Ok(String::from_utf8(text)?)
}
