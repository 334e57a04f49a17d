use super::*;
use crate::frame::read_key;
use clump_os::process::{self, Child};
use std::fs::File;
use std::io::pipe;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Returns an agent behind two pipes, as a remote shell connects one, and its ends of them.
fn remote() -> (AgentHandle, std::io::PipeReader, std::io::PipeWriter) {
    let (from_agent, their_output) = pipe().unwrap();
    let (their_input, to_agent) = pipe().unwrap();
    // Not a child: another test waits for whatever child of this process ends.
    let own = process::own_pid();
    let pidfd = process::pidfd(own).unwrap();
    let client = Child { pid: own, pidfd, input: None, output: None, errors: None };
    let streams =
        ControlStreams::new(from_agent.into(), Box::new(File::from(OwnedFd::from(to_agent))));
    let started = StartedAgent { process: AgentProcess::Child(client), streams };
    (AgentHandle::new(started, Some("b".into()), Vec::new()).unwrap(), their_input, their_output)
}

#[test]
fn an_agent_behind_pipes_says_hello_gets_the_key_then_its_job_and_is_heard() {
    let key = Key::random().unwrap();
    let (mut handle, mut input, mut output) = remote();
    let poller = Poller::new().unwrap();
    handle.watch(&poller, (7, 8, 9)).unwrap();
    let mut said = b"Welcome!\n".to_vec();
    said.extend(Hello::own().encode());
    Frame::Notice("early".into()).append_to(&mut said);
    output.write_all(&said).unwrap();
    assert_eq!(handle.receive(&poller).unwrap(), [Frame::Notice("early".into())]);
    assert_eq!(handle.hello(), Some(&Hello::own()));
    let life = StreamWatch::new(2000, 5, clock::now_ns());
    handle.start(&poller, Some(&key), &Frame::Interrupt(2), life).unwrap();
    assert_eq!(read_key(&mut input).unwrap().unwrap()[..], key[..]);
    let mut assembler = Assembler::default();
    let mut piece = [0; 4096];
    let bytes = input.read(&mut piece).unwrap();
    assembler.handle_bytes(&piece[..bytes]);
    assert_eq!(assembler.poll_frame().unwrap(), Some(Frame::Interrupt(2)));
    let mut said = Vec::new();
    Frame::Notice("here".into()).append_to(&mut said);
    output.write_all(&said).unwrap();
    assert_eq!(handle.receive(&poller).unwrap(), [Frame::Notice("here".into())]);
    drop(output);
    assert_eq!(handle.receive(&poller).unwrap(), []);
    handle.on_ended(&poller, Exit::Code(0)).unwrap();
    assert!(handle.end().unwrap().contains("the connection to b exited with code 0"));
}

#[test]
fn what_does_not_fit_into_a_pipe_is_sent_when_there_is_room() {
    let (mut handle, input, output) = remote();
    let poller = Poller::new().unwrap();
    handle.watch(&poller, (7, 8, 9)).unwrap();
    let long = Frame::Notice("x".repeat(1 << 20));
    handle.say(&poller, &long).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut input = input;
        input.read_to_end(&mut bytes).map(|_| bytes.len())
    });
    while !handle.backlog.is_empty() {
        let ready = poller.wait(Some(Duration::from_secs(10))).unwrap();
        assert!(!ready.is_empty(), "there is room in time");
        if ready.iter().any(|ready| ready.token == 7 && ready.writable) {
            handle.flush(&poller).unwrap();
        }
    }
    handle.streams.close_output();
    assert!(reader.join().unwrap().unwrap() > 1 << 20);
    drop(output);
}

#[test]
fn an_agent_that_reads_no_more_ends_the_stream_to_it_alone() {
    let (mut handle, input, output) = remote();
    let poller = Poller::new().unwrap();
    handle.watch(&poller, (7, 8, 9)).unwrap();
    drop(input);
    handle.say(&poller, &Frame::Kill).unwrap();
    handle.say(&poller, &Frame::Kill).unwrap();
    assert!(handle.backlog.is_empty());
    drop(output);
    assert_eq!(handle.receive(&poller).unwrap(), []);
    assert!(handle.heard_all);
}
