//! The store of an engine that speaks PMI on an inherited descriptor.

use crate::error::{Error, Result};
use crate::key_store::KeyStore;
use crate::wire::{Dialogue, EngineRequest, Reply, Version};
use clump_os::socket;
use std::fs::File;
use std::io::{Read, Write};

/// A connection to the engine.
#[derive(Debug)]
pub(crate) struct PmiStore {
    stream: File,
    dialogue: Dialogue,
    engine: &'static str,
    place: (u32, u32),
    /// MPI has said hello, and will take leave.
    is_shared: bool,
}

impl PmiStore {
    /// Opens the connection under descriptor `number`, and says hello, unless MPI has: in the
    /// second version of the protocol if the engine has named its job.
    ///
    /// # Errors
    /// Nothing is open there, or what answers is no such engine.
    pub(crate) fn open(
        number: i32,
        place: (u32, u32),
        job: Option<&str>,
        engine: &'static str,
        is_shared: bool,
    ) -> Result<Self> {
        let stream = socket::inherited(number).ok_or_else(|| Error::Engine {
            engine,
            why: format!("descriptor {number} (PMI_FD) is not open"),
        })?;
        let version = if job.is_some() { Version::Second } else { Version::First };
        let mut own = Self {
            stream: stream.into(),
            dialogue: Dialogue::new(version),
            engine,
            place,
            is_shared,
        };
        if !is_shared {
            own.ask(&EngineRequest::Hello)?;
        }
        match job {
            None => drop(own.ask(&EngineRequest::Space)?),
            Some(_) if is_shared => {}
            Some(job) => drop(own.ask(&EngineRequest::Join { job, rank: place.0 })?),
        }
        Ok(own)
    }

    fn ask(&mut self, request: &EngineRequest<'_>) -> Result<Reply> {
        let refused = |why: String| Error::Engine { engine: self.engine, why };
        let bytes = self.dialogue.request(request).map_err(|e| refused(e.to_string()))?;
        self.stream.write_all(&bytes).map_err(|e| refused(format!("it does not listen ({e})")))?;
        let mut piece = [0; 4096];
        loop {
            if let Some(reply) = self.dialogue.poll_reply().map_err(|e| refused(e.to_string()))? {
                return Ok(reply);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(refused("it has closed the connection".into())),
                Ok(bytes) => self.dialogue.handle_bytes(&piece[..bytes]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(refused(e.to_string())),
            }
        }
    }
}

impl KeyStore for PmiStore {
    fn place(&self) -> (u32, u32) {
        self.place
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.ask(&EngineRequest::Put { key: &of_rank(self.place.0, key), value }).map(drop)
    }

    fn fence(&mut self) -> Result<()> {
        self.ask(&EngineRequest::Fence).map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String> {
        let key = of_rank(rank, key);
        let reply = self.ask(&EngineRequest::Get { key: &key })?;
        let value = reply.value("value").map(str::to_owned);
        value.ok_or_else(|| Error::Engine {
            engine: self.engine,
            why: format!("it has no value of {key}"),
        })
    }

    fn finish(&mut self) -> Result<()> {
        if self.is_shared {
            return Ok(());
        }
        self.ask(&EngineRequest::Leave).map(drop)
    }
}

/// Returns the key of one rank: those of all are in one space.
fn of_rank(rank: u32, key: &str) -> String {
    format!("clump-{key}-{rank}")
}
