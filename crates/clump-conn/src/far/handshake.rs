//! The handshake by which two jobs that share a token's secret agree on a key: two packets each
//! way, of which the first two prove that the client receives packets at its address.
//!
//! ```text
//! client -> listener  mark | client's key | order, incarnation, port   | cookie, or zeros | code
//! listener -> client  mark | its key      | verdict, incarnation, port | cookie, or zeros | code
//!
//! The code of the listener covers both packets.
//!
//! key = HKDF-SHA256 (RFC 5869) of X25519 (RFC 7748) of the two keys, and the secret,
//!       salted by both packets
//! ```
//! The codes are HMAC-SHA256 under keys derived from the secret, one for each direction. The secret
//! admits; the keys exist for this handshake only, so a holder of the token, now or later, cannot
//! read the traffic of other holders (as in TLS 1.3's psk_dhe_ke, RFC 8446, 4.2.9). A hello that
//! was not made with the secret costs a code to be checked and a counter; no answer, no state. A
//! hello without a valid cookie gets one and leaves no state either ([`super::cookie`]). Only an
//! answer that admits the client has a key in it. An answer is as long as the hello, so a listener
//! amplifies no flood. Nothing in the packets is secret.

use crate::token::SECRET_BYTES;
use clump_net::seal::JobKey;
use clump_os::secret::{scrubbed, wipe};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;

/// Separates these keys from any other use of the same secret.
const SALT: &[u8] = b"clump connection, version 2";
const FOR_MEETING: &[u8] = b"clump meeting";
const HELLO: &[u8; 8] = b"clumphi2";
const ANSWER: &[u8; 8] = b"clumpok2";
/// Bytes of a public key.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of a cookie.
pub(crate) const COOKIE_BYTES: usize = 24;
/// A cookie; zeros where there is none.
pub(crate) type Cookie = [u8; COOKIE_BYTES];
const WORDS_BYTES: usize = 8;
/// Offset of the cookie in a packet.
const COOKIE_AT: usize = 8 + KEY_BYTES + WORDS_BYTES;
const SAID_BYTES: usize = 8 + KEY_BYTES + WORDS_BYTES + COOKIE_BYTES;
/// Bytes of either packet.
pub(crate) const PACKET_BYTES: usize = SAID_BYTES + 32;
/// A packet.
pub(crate) type Packet = [u8; PACKET_BYTES];

/// The words of a hello or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    /// In a hello: the order of messages. In an answer: the verdict, one of the constants below.
    pub(crate) code: u8,
    /// The incarnation of the sender's stack.
    pub(crate) epoch: u32,
    /// In a hello: the port of the listener. In an answer: the UDP port of the stack, at the
    /// address that answers.
    pub(crate) port: u16,
}

/// Verdicts.
pub(crate) const WELCOME: u8 = 1;
pub(crate) const FULL: u8 = 2;
pub(crate) const NOBODY: u8 = 3;
/// Repeat the hello with this cookie.
pub(crate) const RETRY: u8 = 4;
/// Repeat the hello with this cookie later: other clients are being admitted.
pub(crate) const BUSY: u8 = 5;

/// The packet is not from the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignPacket;

/// Effect of an answer on the client.
#[derive(Debug)]
pub(crate) enum Told {
    /// It is admitted: the answer's words, and the key of the handshake.
    HandshakeReply(Words, JobKey),
    /// It is refused, with this verdict.
    Refused(u8),
    /// The hello has changed, and is to be sent again at once.
    Again,
    /// The hello has changed, and is to be sent again later, with this verdict.
    Later(u8),
}

/// A handshake as the client sees it. The client sends hellos to several handshake sockets with one
/// key; the hello for each has its own cookie.
#[derive(Debug)]
pub(crate) struct Handshake {
    own: Option<EphemeralPrivateKey>,
    public: [u8; KEY_BYTES],
    words: Words,
    hellos: Vec<Packet>,
}

impl Handshake {
    /// Begins a handshake with `handshake_sockets` sockets. `None` when there are no random
    /// numbers.
    pub(crate) fn begin(
        secret: &[u8; SECRET_BYTES],
        words: Words,
        handshake_sockets: usize,
    ) -> Option<Self> {
        let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).ok()?;
        let public = own.compute_public_key().ok()?.as_ref().try_into().ok()?;
        let hello = write(HELLO, (&public, words, &[0; COOKIE_BYTES]), secret, &[])?;
        Some(Self { own: Some(own), public, words, hellos: vec![hello; handshake_sockets] })
    }

    /// Returns the hello for a handshake socket.
    pub(crate) fn hello(&self, handshake_socket: usize) -> &[u8] {
        self.hellos.get(handshake_socket).map_or(&[], |hello| hello)
    }

    /// Handles the answer of a handshake socket. Another packet changes nothing.
    ///
    /// # Errors
    /// It is not the socket's answer to its current hello.
    pub(crate) fn handle_answer(
        &mut self,
        secret: &[u8; SECRET_BYTES],
        handshake_socket: usize,
        packet: &[u8],
    ) -> Result<Told, ForeignPacket> {
        let hello = self.hellos.get_mut(handshake_socket).ok_or(ForeignPacket)?;
        let answer = read(ANSWER, packet, secret, hello)?;
        match answer.words.code {
            WELCOME => {
                let own = self.own.take().ok_or(ForeignPacket)?;
                let key = agree(own, &answer.key, secret, (hello, &answer.packet))?;
                Ok(Told::HandshakeReply(answer.words, key))
            }
            code @ (RETRY | BUSY) => {
                // A hello that has a cookie already waits, so that no answer keeps the client
                // sending.
                let first = hello[COOKIE_AT..COOKIE_AT + COOKIE_BYTES] == [0; COOKIE_BYTES];
                let said = (&self.public, self.words, &answer.cookie);
                *hello = write(HELLO, said, secret, &[]).ok_or(ForeignPacket)?;
                Ok(if code == RETRY && first { Told::Again } else { Told::Later(code) })
            }
            code => Ok(Told::Refused(code)),
        }
    }
}

/// A hello that was made with the secret.
#[derive(Debug)]
pub(crate) struct Hello {
    said: AuthenticatedPacket,
}

impl Hello {
    /// Reads a hello.
    ///
    /// # Errors
    /// It was not made with the secret.
    pub(crate) fn read(secret: &[u8; SECRET_BYTES], packet: &[u8]) -> Result<Self, ForeignPacket> {
        Ok(Self { said: read(HELLO, packet, secret, &[])? })
    }

    pub(crate) fn words(&self) -> Words {
        self.said.words
    }

    /// Returns the client's key, which identifies the handshake.
    pub(crate) fn key(&self) -> &[u8; KEY_BYTES] {
        &self.said.key
    }

    /// Returns the cookie that it came with; zeros without one.
    pub(crate) fn cookie(&self) -> &Cookie {
        &self.said.cookie
    }

    /// Returns the answer that admits the client, and the key of the handshake.
    ///
    /// # Errors
    /// The other side's key is invalid, or there are no random numbers.
    pub(crate) fn answer(
        self,
        secret: &[u8; SECRET_BYTES],
        words: Words,
    ) -> Result<(Packet, JobKey), ForeignPacket> {
        let AuthenticatedPacket { packet: hello, key, .. } = self.said;
        let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
        let own = own.map_err(|_| ForeignPacket)?;
        let public = own.compute_public_key().map_err(|_| ForeignPacket)?;
        let public = public.as_ref().try_into().map_err(|_| ForeignPacket)?;
        let said = (&public, words, &[0; COOKIE_BYTES]);
        let answer = write(ANSWER, said, secret, &hello).ok_or(ForeignPacket)?;
        let key = agree(own, &key, secret, (&hello, &answer))?;
        Ok((answer, key))
    }

    /// Returns the answer that tells the client to repeat the hello with `cookie`.
    pub(crate) fn put_off(
        &self,
        secret: &[u8; SECRET_BYTES],
        verdict: u8,
        cookie: Cookie,
    ) -> Option<Packet> {
        let words = Words { code: verdict, epoch: 0, port: 0 };
        write(ANSWER, (&[0; KEY_BYTES], words, &cookie), secret, &self.said.packet)
    }

    /// Returns the answer that refuses it.
    pub(crate) fn refuse(&self, secret: &[u8; SECRET_BYTES], verdict: u8) -> Option<Packet> {
        self.put_off(secret, verdict, [0; COOKIE_BYTES])
    }
}

/// A packet whose code is right.
#[derive(Debug)]
struct AuthenticatedPacket {
    packet: Packet,
    key: [u8; KEY_BYTES],
    words: Words,
    cookie: Cookie,
}

/// Returns the key that makes and checks the codes of one direction.
fn code_key(secret: &[u8; SECRET_BYTES], mark: &[u8; 8]) -> Option<hmac::Key> {
    scrubbed(|| {
        let extracted = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let info: [&[u8]; 1] = [mark];
        extracted.expand(&info, HMAC_SHA256).ok().map(hmac::Key::from)
    })
}

fn write(
    mark: &[u8; 8],
    (public, words, cookie): (&[u8; KEY_BYTES], Words, &Cookie),
    secret: &[u8; SECRET_BYTES],
    before: &[u8],
) -> Option<Packet> {
    let mut packet = Vec::with_capacity(PACKET_BYTES);
    packet.extend_from_slice(mark);
    packet.extend_from_slice(public);
    packet.extend_from_slice(&[words.code, 0]);
    packet.extend_from_slice(&words.epoch.to_le_bytes());
    packet.extend_from_slice(&words.port.to_le_bytes());
    packet.extend_from_slice(cookie);
    let tag = hmac::sign(&code_key(secret, mark)?, &[before, &packet].concat());
    packet.extend_from_slice(tag.as_ref());
    packet.try_into().ok()
}

fn read(
    mark: &[u8; 8],
    packet: &[u8],
    secret: &[u8; SECRET_BYTES],
    before: &[u8],
) -> Result<AuthenticatedPacket, ForeignPacket> {
    let packet: Packet = packet.try_into().map_err(|_| ForeignPacket)?;
    let (said, tag) = packet.split_at(SAID_BYTES);
    // The mark first: a packet that comes by mistake costs nothing.
    let body = said.strip_prefix(mark).ok_or(ForeignPacket)?;
    let key = code_key(secret, mark).ok_or(ForeignPacket)?;
    hmac::verify(&key, &[before, said].concat(), tag).map_err(|_| ForeignPacket)?;
    let (key, rest) = body.split_first_chunk::<KEY_BYTES>().ok_or(ForeignPacket)?;
    let (words, cookie) = rest.split_first_chunk::<WORDS_BYTES>().ok_or(ForeignPacket)?;
    let cookie = cookie.try_into().map_err(|_| ForeignPacket)?;
    let &[code, _, e0, e1, e2, e3, p0, p1] = words;
    let (epoch, port) = (u32::from_le_bytes([e0, e1, e2, e3]), u16::from_le_bytes([p0, p1]));
    Ok(AuthenticatedPacket { packet, key: *key, words: Words { code, epoch, port }, cookie })
}

struct HandshakeKey;

impl KeyType for HandshakeKey {
    fn len(&self) -> usize {
        clump_net::seal::JOB_KEY_BYTES
    }
}

/// Returns the key that both sides have after the exchange of the two packets.
fn agree(
    own: EphemeralPrivateKey,
    theirs: &[u8; KEY_BYTES],
    secret: &[u8; SECRET_BYTES],
    (hello, answer): (&Packet, &Packet),
) -> Result<JobKey, ForeignPacket> {
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
            extracted.expand(&[FOR_MEETING], HandshakeKey).and_then(|okm| okm.fill(&mut key))
        });
        wipe(&mut material);
        let made = JobKey::new(&mut key);
        filled.ok().and(made.ok())
    });
    made.ok().flatten().ok_or(ForeignPacket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [9; SECRET_BYTES];
    const ASKS: Words = Words { code: 1, epoch: 77, port: 7 };
    const TOLD: Words = Words { code: WELCOME, epoch: 88, port: 4000 };

    /// Begins a handshake with one socket; returns it and the hello that the listener reads.
    fn begun() -> (Handshake, Hello) {
        let meeting = Handshake::begin(&SECRET, ASKS, 1).unwrap();
        let hello = Hello::read(&SECRET, meeting.hello(0)).unwrap();
        (meeting, hello)
    }

    fn met(told: Result<Told, ForeignPacket>) -> (Words, u32) {
        match told {
            Ok(Told::HandshakeReply(words, key)) => (words, key.job_tag()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_sides_get_one_key_and_each_meeting_another() {
        let (mut meeting, heard) = begun();
        assert_eq!((heard.words(), heard.cookie()), (ASKS, &[0; COOKIE_BYTES]));
        let (answer, theirs) = heard.answer(&SECRET, TOLD).unwrap();
        let (told, mine) = met(meeting.handle_answer(&SECRET, 0, &answer));
        assert_eq!((told, mine), (TOLD, theirs.job_tag()));
        let (_, key) = begun().1.answer(&SECRET, TOLD).unwrap();
        assert_ne!(key.job_tag(), mine);
    }

    #[test]
    fn another_secret_and_changed_packets_are_strangers_and_disturb_nothing() {
        let (mut meeting, heard) = begun();
        let hello: Packet = meeting.hello(0).try_into().unwrap();
        assert!(Hello::read(&[8; SECRET_BYTES], &hello).is_err());
        let retry = heard.put_off(&SECRET, RETRY, [5; COOKIE_BYTES]).unwrap();
        let (answer, _) = heard.answer(&SECRET, TOLD).unwrap();
        for at in 0..PACKET_BYTES {
            let mut bad = [hello, answer, retry];
            bad.iter_mut().for_each(|packet| packet[at] ^= 1);
            assert!(Hello::read(&SECRET, &bad[0]).is_err(), "byte {at}");
            for bad in &bad[1..] {
                assert!(meeting.handle_answer(&SECRET, 0, bad).is_err(), "byte {at}");
            }
        }
        for len in 0..PACKET_BYTES {
            assert!(Hello::read(&SECRET, &hello[..len]).is_err());
            assert!(meeting.handle_answer(&SECRET, 0, &answer[..len]).is_err());
        }
        assert_eq!(met(meeting.handle_answer(&SECRET, 0, &answer)).0, TOLD);
    }

    #[test]
    fn a_cookie_changes_the_hello_of_its_gate_and_what_answered_the_old_one_is_void() {
        let mut meeting = Handshake::begin(&SECRET, ASKS, 2).unwrap();
        let hello = Hello::read(&SECRET, meeting.hello(0)).unwrap();
        let retry = hello.put_off(&SECRET, RETRY, [5; COOKIE_BYTES]).unwrap();
        let late = hello.refuse(&SECRET, FULL).unwrap();
        assert!(matches!(meeting.handle_answer(&SECRET, 0, &retry), Ok(Told::Again)));
        let again = Hello::read(&SECRET, meeting.hello(0)).unwrap();
        assert_eq!((again.cookie(), again.key()), (&[5; COOKIE_BYTES], hello.key()));
        assert_eq!(Hello::read(&SECRET, meeting.hello(1)).unwrap().cookie(), &[0; COOKIE_BYTES]);
        for old in [&retry, &late] {
            assert!(meeting.handle_answer(&SECRET, 0, old).is_err(), "it answers another hello");
        }
        // After the second such answer the client waits before it sends.
        let retry = again.put_off(&SECRET, RETRY, [6; COOKIE_BYTES]).unwrap();
        assert!(matches!(meeting.handle_answer(&SECRET, 0, &retry), Ok(Told::Later(RETRY))));
        let again = Hello::read(&SECRET, meeting.hello(0)).unwrap();
        let full = again.refuse(&SECRET, FULL).unwrap();
        assert!(matches!(meeting.handle_answer(&SECRET, 0, &full), Ok(Told::Refused(FULL))));
    }
}
