//! Tokens: the addresses, the port and the secret that a server hands to another job, so that it
//! may connect.

use crate::error::Error;
use crate::port::Port;
use clump_os::secret::{Secret, wipe};
use clump_os::udp;
use clump_wire::Security;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of the secret.
pub(crate) const SECRET_BYTES: usize = 32;
/// Maximum number of addresses of one token.
pub(crate) const MAX_ADDRESSES: usize = 8;
const PREFIX: &str = "clump1";

/// The right to connect to a listener of another job, for any holder, until the listener is
/// dropped.
///
/// It names all addresses at which the listener's process is reached (paper 002, section 2.3) and
/// carries a secret that was made for it. A holder can connect, and can pretend to be the listener
/// towards clients that connect with it; existing connections stay private, also from other
/// holders. So it goes where the right should go: through a pipe or a file that only its user
/// reads, not onto a command line.
///
/// `Display` writes it, `FromStr` reads it: `clump1:PORT:SECURITY:ADDRESS[,ADDRESS]:SECRET`.
/// `Debug` leaves the secret out.
#[derive(Clone)]
pub struct Token {
    pub(crate) port: Port,
    pub(crate) security: Security,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) secret: Arc<Secret<[u8; SECRET_BYTES]>>,
}

impl Token {
    /// Returns the port of the listener, on its node.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Returns the addresses at which the listener is reached.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:{}:{}:", self.port.0, self.security.name())?;
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        f.write_char(':')?;
        self.secret.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        f.write_str(":..")
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = Error::BadToken;
        let text = text.trim();
        let rest = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(':'));
        let rest = rest.ok_or(bad("it does not begin with clump1:"))?;
        let (port, rest) = rest.split_once(':').ok_or(bad("it is cut short"))?;
        let (security, rest) = rest.split_once(':').ok_or(bad("it is cut short"))?;
        let (addresses, digits) = rest.rsplit_once(':').ok_or(bad("it is cut short"))?;
        let port = port.parse().ok().filter(|&port| port != 0).map(Port);
        let port = port.ok_or(bad("its port is none"))?;
        let security = [Security::Aead, Security::Crc].into_iter().find(|s| s.name() == security);
        let security = security.ok_or(bad("its security is unknown"))?;
        let addresses: Result<Vec<SocketAddr>, _> = addresses.split(',').map(str::parse).collect();
        let addresses = addresses.map_err(|_| bad("an address in it is none"))?;
        if addresses.iter().any(|address| udp::not_one_machine(address.ip()).is_some()) {
            return Err(bad("an address in it is not that of one machine"));
        }
        if addresses.len() > MAX_ADDRESSES {
            return Err(bad("it has too many addresses"));
        }
        let mut bytes = [0; SECRET_BYTES];
        let read = read_hex(digits.as_bytes(), &mut bytes);
        let secret = Secret::taking(&mut bytes);
        wipe(&mut bytes);
        if !read {
            return Err(bad("its secret is damaged"));
        }
        let secret = Arc::new(secret.map_err(|e| Error::Between(e.to_string()))?);
        Ok(Self { port, security, addresses, secret })
    }
}

/// Reads one pair of digits for each byte; false if there are more or fewer, or other characters.
fn read_hex(digits: &[u8], bytes: &mut [u8]) -> bool {
    let (pairs, odd) = digits.as_chunks::<2>();
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    odd.is_empty()
        && pairs.len() == bytes.len()
        && pairs.iter().zip(bytes).all(|(&[high, low], byte)| match (value(high), value(low)) {
            (Some(high), Some(low)) => {
                *byte = high << 4 | low;
                true
            }
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token() -> Token {
        Token {
            port: Port(7),
            security: Security::Aead,
            addresses: vec!["127.0.0.1:4000".parse().unwrap(), "[::1]:4001".parse().unwrap()],
            secret: Arc::new(Secret::taking(&mut [0xa5; SECRET_BYTES]).unwrap()),
        }
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_debug_hides_its_secret() {
        let text = token().to_string();
        let read: Token = format!("{text}\n").parse().unwrap();
        assert_eq!((read.port(), read.addresses()), (Port(7), token().addresses()));
        assert_eq!(**read.secret, [0xa5; SECRET_BYTES]);
        assert_eq!(read.to_string(), text);
        assert_eq!(format!("{:?}", token()), "clump1:7:aead:127.0.0.1:4000,[::1]:4001:..");
    }

    #[test]
    fn what_is_no_token_is_refused_with_a_reason() {
        let text = token().to_string();
        let cut = &text[..text.len() - 1];
        for bad in ["", "clump1", "clump1:0:aead:127.0.0.1:1:aa", "clump2:1:x", cut] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
        assert!(text.replace("aead", "none").parse::<Token>().is_err());
        assert!(text.replace("4000", "99999").parse::<Token>().is_err());
        for nobody in ["224.0.0.1", "255.255.255.255", "0.0.0.0"] {
            assert!(text.replace("127.0.0.1", nobody).parse::<Token>().is_err(), "{nobody}");
        }
        assert!(text.replacen("a5", "é", 1).parse::<Token>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(clump1:)?[0-9a-f:,é.]{0,120}") {
            let _ = text.parse::<Token>();
        }
    }
}
