//! Keys of a job, and the sealing and opening of packets with them.
//!
//! A stack has one [`Sealer`] and one [`Opener`] for each peer that it talks to, made on first use
//! from the [`JobKey`] that its rank was given at start. With [`Security::Aead`] a packet's body is
//! encrypted, and header, selective acks and body are authenticated (AES-128-GCM, RFC 5116); with
//! [`Security::Crc`], for links that no attacker reaches, CRC-32C (RFC 3720, B.4) guards against
//! damage only.
//!
//! ```text
//! job key, 32 random bytes --HKDF-SHA256 (RFC 5869)--> a key for each (source, source epoch,
//! target) nonce: 4 zero bytes | packet number, 8 bytes, little endian
//! ```
//! A direction has a key of its own, so both sides count from the same number without ever using a
//! nonce twice; so has an epoch, because a stack that starts again counts from the beginning.
//! AES-GCM and not a bare authenticator: through ring it is the cheaper of the two from 256 bytes
//! up.
//!
//! Cost (`examples/seal_cost.rs`, virtual AMD EPYC, ns for a body of 64 B / 1400 B / 60 KiB): seal
//! 160 / 430 / 10600, open 170 / 460 / 10800, checksum 32 / 145 / 3000. Of the 160, about 65 are
//! ring's for an empty packet, 10 go into each 16 bytes of the head, 3 into the registers. Lengths
//! of head and body that are multiples of 16 save about 25 each.
//!
//! # Invariants
//! 1. Keys and all that they can be computed from live in [`Secret`]s: no core dump, log or debug
//!    output shows them, and nothing of them stays on the stack or in vector registers after a
//!    call.
//! 2. A key encrypts under each number at most once. The caller ensures this: numbers of a path
//!    only grow.
//! 3. [`Opener::open`] of a packet that was changed anywhere gives `None`, does not panic, and
//!    changes nothing but the packet. (Crc: changed by accident, with a chance of 2^-32 where it is
//!    much.)
//! 4. Sealing and opening allocate nothing and make no system call; only [`Sealer::reopen`]
//!    allocates.
//! ```
//! use clump_net::seal::JobKey;
//! use clump_wire::Security;
//! let job = JobKey::new(&mut [7; 32]).unwrap();
//! let sealer = job.sealer(Security::Aead, 0, 1, 5).unwrap();
//! let opener = job.opener(Security::Aead, 0, 1, 5).unwrap();
//! let (mut body, mut tag) = (*b"words", [0; 16]);
//! sealer.seal(1, b"head", &mut body, &mut tag);
//! let mut sealed = [&body[..], &tag].concat();
//! assert_eq!(opener.open(1, b"head", &mut sealed).unwrap(), b"words");
//! ```

mod packet;
mod record;

pub use packet::{Opener, Sealer};
pub use record::{RecordCipher, StreamKeys, StreamPath};

use clump_driver::PROBE_KEY_BYTES;
use clump_os::secret::{Secret, scrubbed, wipe};
use clump_wire::Security;
use ring::aead::{AES_128_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use std::sync::Arc;

/// Bytes of the key of a job.
pub const JOB_KEY_BYTES: usize = 32;

/// Separates the keys of this format from those of any other use of the same secret.
const SALT: &[u8] = b"clump job key, version 1";
/// Purposes of derived keys.
const FOR_PACKETS: &[u8] = b"clump packets";
const FOR_TAG: &[u8] = b"clump job tag";
const FOR_PROBES: &[u8] = b"clump driver probes";
const FOR_STREAMS: &[u8] = b"clump streams";

/// Reason for which there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system gave no memory for it.
    #[error(
        "no memory for a key of the job: {0}; a limit on mappings or address space may be in the way (ulimit -v)"
    )]
    Memory(#[from] clump_os::OsError),
    /// The library refused the requested length: a fault of clump.
    #[error("deriving a key of the job failed; this is a fault of clump, please report it")]
    Derivation,
}

/// The key of a job, from which those of its paths are derived. It keeps the extracted form, which
/// clones share; the 32 bytes themselves are forgotten.
#[derive(Debug, Clone)]
pub struct JobKey {
    extracted: Arc<Secret<Prk>>,
    tag: u32,
}

impl JobKey {
    /// Takes the key: `bytes` are zeros afterwards, also after an error.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(bytes: &mut [u8; JOB_KEY_BYTES]) -> Result<Self, KeyError> {
        let extracted = Secret::new(|| Salt::new(HKDF_SHA256, SALT).extract(bytes));
        wipe(bytes);
        let extracted = Arc::new(extracted?);
        debug_assert!(bytes.iter().all(|byte| *byte == 0), "the key itself is forgotten");
        let tag = scrubbed(|| job_tag(&extracted))?;
        Ok(Self { extracted, tag })
    }

    /// Returns a number that distinguishes packets of this job from those of others. Derived from
    /// the key, which it does not reveal; it goes over the wire in the clear.
    pub fn job_tag(&self) -> u32 {
        self.tag
    }

    /// Returns the key that authenticates the path probes of this job's drivers
    /// (`Driver::set_probe_key`).
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn probe_key(&self) -> Result<Secret<[u8; PROBE_KEY_BYTES]>, KeyError> {
        Secret::try_new(|| {
            let mut key = [0; PROBE_KEY_BYTES];
            let derived = self.extracted.expand(&[FOR_PROBES], ProbeKey);
            derived.and_then(|okm| okm.fill(&mut key)).map_err(|_| KeyError::Derivation)?;
            Ok(key)
        })
    }

    /// Returns the secret from which the keys of streams are derived.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn stream_keys(&self) -> Result<StreamKeys, KeyError> {
        let derive = || {
            let derived = self.extracted.expand(&[FOR_STREAMS], HKDF_SHA256);
            derived.map(Prk::from).map_err(|_| KeyError::Derivation)
        };
        Ok(StreamKeys::new(Secret::try_new(derive)?))
    }

    /// Returns the sealer of packets from stack `from`, in its incarnation `from_epoch`, to stack
    /// `to`.
    ///
    /// # Errors
    /// There is no memory for its key, or the key cannot be derived.
    pub fn sealer(
        &self,
        security: Security,
        from: u32,
        from_epoch: u32,
        to: u32,
    ) -> Result<Sealer, KeyError> {
        Ok(Sealer::new(self.path_key(security, from, from_epoch, to)?))
    }

    /// Returns the opener of packets that [`JobKey::sealer`] with the same arguments sealed.
    ///
    /// # Errors
    /// As for [`JobKey::sealer`].
    pub fn opener(
        &self,
        security: Security,
        from: u32,
        from_epoch: u32,
        to: u32,
    ) -> Result<Opener, KeyError> {
        Ok(Opener::new(self.path_key(security, from, from_epoch, to)?))
    }

    /// Derives the key of one path; `None` where packets are not encrypted.
    fn path_key(
        &self,
        security: Security,
        from: u32,
        from_epoch: u32,
        to: u32,
    ) -> Result<Option<Secret<LessSafeKey>>, KeyError> {
        match security {
            Security::Crc => Ok(None),
            Security::Aead => Secret::try_new(|| {
                let path = [from, from_epoch, to].map(u32::to_le_bytes);
                let info = [FOR_PACKETS, path.as_flattened()];
                let derived = self.extracted.expand(&info, &AES_128_GCM);
                Ok(LessSafeKey::new(UnboundKey::from(derived.map_err(|_| KeyError::Derivation)?)))
            })
            .map(Some),
        }
    }
}

struct ProbeKey;

impl KeyType for ProbeKey {
    fn len(&self) -> usize {
        PROBE_KEY_BYTES
    }
}

fn job_tag(extracted: &Prk) -> Result<u32, KeyError> {
    struct TagBytes;
    impl KeyType for TagBytes {
        fn len(&self) -> usize {
            size_of::<u32>()
        }
    }
    let mut tag = [0; size_of::<u32>()];
    let derived = extracted.expand(&[FOR_TAG], TagBytes).map_err(|_| KeyError::Derivation)?;
    derived.fill(&mut tag).map_err(|_| KeyError::Derivation)?;
    Ok(u32::from_le_bytes(tag))
}
