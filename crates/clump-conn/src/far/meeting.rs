//! How two jobs that share a token's secret agree on a key: one packet each way.
//!
//! ```text
//! client -> listener   mark | client's key | order, incarnation, port    | code
//! listener -> client   mark | its key      | verdict, incarnation, port  | code, of both packets
//!
//! key = HKDF-SHA256 (RFC 5869) of X25519 (RFC 7748) of the two keys, and the secret, salted by both packets
//! ```
//! The codes are HMAC-SHA256 under keys made of the secret, one for each direction. The secret admits; the keys
//! exist for this meeting only, so who has the token, or gets it later, cannot read what others with it say
//! (as in TLS 1.3's psk_dhe_ke, RFC 8446, 4.2.9). A hello that was not made with the secret costs a code to be
//! checked and a counter; no answer, no state. An answer is as long as the hello, so nobody is flooded through
//! a listener. Nothing in the packets is secret.

use crate::token::SECRET_BYTES;
use clump_net::seal::JobKey;
use clump_os::secret::{scrubbed, wipe};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;

/// Tells these keys from any other use of the same secret.
const SALT: &[u8] = b"clump connection, version 1";
const FOR_MEETING: &[u8] = b"clump meeting";
const HELLO: &[u8; 8] = b"clumphi1";
const ANSWER: &[u8; 8] = b"clumpok1";
const KEY_BYTES: usize = 32;
const WORDS_BYTES: usize = 8;
const SAID_BYTES: usize = 8 + KEY_BYTES + WORDS_BYTES;
/// Bytes of either packet.
pub(crate) const PACKET_BYTES: usize = SAID_BYTES + 32;
/// A packet.
pub(crate) type Packet = [u8; PACKET_BYTES];

/// What either side tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    /// Of a hello: the order of messages. Of an answer: the verdict, see below.
    pub(crate) code: u8,
    /// The incarnation of the sender's stack.
    pub(crate) epoch: u32,
    /// Of a hello: the port that it wants. Of an answer: the UDP port of the stack, at the address that
    /// answers.
    pub(crate) port: u16,
}

/// Verdicts.
pub(crate) const WELCOME: u8 = 1;
pub(crate) const FULL: u8 = 2;
pub(crate) const NOBODY: u8 = 3;

/// The packet is not the other side's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stranger;

/// A meeting as the client sees it.
#[derive(Debug)]
pub(crate) struct Meeting {
    own: Option<EphemeralPrivateKey>,
    hello: Packet,
}

impl Meeting {
    /// Begins one: the meeting, and the hello to send. `None` when there are no random numbers.
    pub(crate) fn begin(secret: &[u8; SECRET_BYTES], words: Words) -> Option<(Self, Packet)> {
        let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).ok()?;
        let hello = write(HELLO, &own, words, secret, &[])?;
        Some((Self { own: Some(own), hello }, hello))
    }

    /// Takes the answer: what it says, and the key of the meeting. Another packet changes nothing.
    ///
    /// # Errors
    /// It is not the listener's answer to this hello.
    pub(crate) fn handle_answer(
        &mut self,
        secret: &[u8; SECRET_BYTES],
        packet: &[u8],
    ) -> Result<(Words, JobKey), Stranger> {
        let answer = read(ANSWER, packet, secret, &self.hello)?;
        let own = self.own.take().ok_or(Stranger)?;
        let key = agree(own, &answer.key, secret, (&self.hello, &answer.packet))?;
        Ok((answer.words, key))
    }
}

/// A hello that was made with the secret.
#[derive(Debug)]
pub(crate) struct Hello {
    said: Said,
}

impl Hello {
    /// Reads a hello.
    ///
    /// # Errors
    /// It was not made with the secret.
    pub(crate) fn read(secret: &[u8; SECRET_BYTES], packet: &[u8]) -> Result<Self, Stranger> {
        Ok(Self { said: read(HELLO, packet, secret, &[])? })
    }

    pub(crate) fn words(&self) -> Words {
        self.said.words
    }

    /// The answer to send, and the key of the meeting.
    ///
    /// # Errors
    /// The other side's key is no key, or there are no random numbers.
    pub(crate) fn answer(
        self,
        secret: &[u8; SECRET_BYTES],
        words: Words,
    ) -> Result<(Packet, JobKey), Stranger> {
        let Said { packet: hello, key, .. } = self.said;
        let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
        let own = own.map_err(|_| Stranger)?;
        let answer = write(ANSWER, &own, words, secret, &hello).ok_or(Stranger)?;
        let key = agree(own, &key, secret, (&hello, &answer))?;
        Ok((answer, key))
    }
}

/// A packet whose code is right.
#[derive(Debug)]
struct Said {
    packet: Packet,
    key: [u8; KEY_BYTES],
    words: Words,
}

/// What makes and checks the codes of one direction.
fn code_key(secret: &[u8; SECRET_BYTES], mark: &[u8; 8]) -> Option<hmac::Key> {
    scrubbed(|| {
        let extracted = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let info: [&[u8]; 1] = [mark];
        extracted.expand(&info, HMAC_SHA256).ok().map(hmac::Key::from)
    })
}

fn write(
    mark: &[u8; 8],
    own: &EphemeralPrivateKey,
    words: Words,
    secret: &[u8; SECRET_BYTES],
    before: &[u8],
) -> Option<Packet> {
    let public = own.compute_public_key().ok()?;
    let mut packet = Vec::with_capacity(PACKET_BYTES);
    packet.extend_from_slice(mark);
    packet.extend_from_slice(public.as_ref());
    packet.extend_from_slice(&[words.code, 0]);
    packet.extend_from_slice(&words.epoch.to_le_bytes());
    packet.extend_from_slice(&words.port.to_le_bytes());
    let tag = hmac::sign(&code_key(secret, mark)?, &[before, &packet].concat());
    packet.extend_from_slice(tag.as_ref());
    packet.try_into().ok()
}

fn read(
    mark: &[u8; 8],
    packet: &[u8],
    secret: &[u8; SECRET_BYTES],
    before: &[u8],
) -> Result<Said, Stranger> {
    let packet: Packet = packet.try_into().map_err(|_| Stranger)?;
    let (said, tag) = packet.split_at(SAID_BYTES);
    // The mark first: what comes by mistake costs nothing.
    let body = said.strip_prefix(mark).ok_or(Stranger)?;
    let key = code_key(secret, mark).ok_or(Stranger)?;
    hmac::verify(&key, &[before, said].concat(), tag).map_err(|_| Stranger)?;
    let (key, words) = body.split_first_chunk::<KEY_BYTES>().ok_or(Stranger)?;
    let &[code, _, e0, e1, e2, e3, p0, p1] = words else { return Err(Stranger) };
    let (epoch, port) = (u32::from_le_bytes([e0, e1, e2, e3]), u16::from_le_bytes([p0, p1]));
    Ok(Said { packet, key: *key, words: Words { code, epoch, port } })
}

struct MeetingKey;

impl KeyType for MeetingKey {
    fn len(&self) -> usize {
        clump_net::seal::JOB_KEY_BYTES
    }
}

/// The key that both sides have when the two packets were exchanged.
fn agree(
    own: EphemeralPrivateKey,
    theirs: &[u8; KEY_BYTES],
    secret: &[u8; SECRET_BYTES],
    (hello, answer): (&Packet, &Packet),
) -> Result<JobKey, Stranger> {
    let salt = Salt::new(HKDF_SHA256, [&hello[..], &answer[..]].concat().as_slice());
    let theirs = UnparsedPublicKey::new(&X25519, theirs);
    let made = agree_ephemeral(own, &theirs, |shared| {
        let mut material = [0; KEY_BYTES + SECRET_BYTES];
        let (front, back) = material.split_at_mut(shared.len().min(KEY_BYTES));
        front.copy_from_slice(shared.get(..KEY_BYTES).unwrap_or_default());
        back.copy_from_slice(secret);
        let mut key = [0; clump_net::seal::JOB_KEY_BYTES];
        let filled = scrubbed(|| {
            let extracted = salt.extract(&material);
            extracted.expand(&[FOR_MEETING], MeetingKey).and_then(|okm| okm.fill(&mut key))
        });
        wipe(&mut material);
        let made = JobKey::new(&mut key);
        filled.ok().and(made.ok())
    });
    made.ok().flatten().ok_or(Stranger)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [9; SECRET_BYTES];
    const ASKS: Words = Words { code: 1, epoch: 77, port: 7 };
    const TOLD: Words = Words { code: WELCOME, epoch: 88, port: 4000 };

    #[test]
    fn both_sides_get_one_key_and_each_meeting_another() {
        let (mut meeting, hello) = Meeting::begin(&SECRET, ASKS).unwrap();
        let heard = Hello::read(&SECRET, &hello).unwrap();
        assert_eq!(heard.words(), ASKS);
        let (answer, theirs) = heard.answer(&SECRET, TOLD).unwrap();
        let (told, mine) = meeting.handle_answer(&SECRET, &answer).unwrap();
        assert_eq!((told, mine.job_tag()), (TOLD, theirs.job_tag()));
        let (_, other) = Meeting::begin(&SECRET, ASKS).unwrap();
        let (_, key) = Hello::read(&SECRET, &other).unwrap().answer(&SECRET, TOLD).unwrap();
        assert_ne!(key.job_tag(), mine.job_tag());
    }

    #[test]
    fn another_secret_and_changed_packets_are_strangers_and_disturb_nothing() {
        let (mut meeting, hello) = Meeting::begin(&SECRET, ASKS).unwrap();
        assert!(Hello::read(&[8; SECRET_BYTES], &hello).is_err());
        let (answer, _) = Hello::read(&SECRET, &hello).unwrap().answer(&SECRET, TOLD).unwrap();
        for at in 0..PACKET_BYTES {
            let (mut bad_hello, mut bad_answer) = (hello, answer);
            bad_hello[at] ^= 1;
            bad_answer[at] ^= 1;
            assert!(Hello::read(&SECRET, &bad_hello).is_err(), "byte {at}");
            assert!(meeting.handle_answer(&SECRET, &bad_answer).is_err(), "byte {at}");
        }
        for len in 0..PACKET_BYTES {
            assert!(Hello::read(&SECRET, &hello[..len]).is_err());
            assert!(meeting.handle_answer(&SECRET, &answer[..len]).is_err());
        }
        assert_eq!(meeting.handle_answer(&SECRET, &answer).unwrap().0, TOLD);
    }
}
