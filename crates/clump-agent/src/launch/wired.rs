//! The launcher's side of network namespaces for virtual nodes.

use super::fork_starter::start_self;
use crate::frame::{Frame, write_key};
use crate::hello::Hello;
use crate::spec::{JobSpec, Namespaces};
use crate::wiring::MADE;
use anyhow::{Context, bail};
use clump_boot::boot::VARIABLES;
use clump_os::epoll::{Interest, Poller};
use clump_os::netns::Networks;
use clump_os::process::{self, Input};
use clump_os::scm_message;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest time for creating namespaces: it is a matter of milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The network namespaces of a job's nodes.
#[derive(Debug)]
pub(super) struct NodeNetworks {
    places: Vec<Namespaces>,
    /// Those that this launcher had made, held until the end: an empty namespace exists as long as
    /// a descriptor holds it.
    _made: Option<Networks>,
}

impl NodeNetworks {
    /// Returns the namespaces of a job: those `handed` over (`Networks::handed_over`), which a job
    /// of one node or on machines does not use, else those that it asks for, which are made.
    ///
    /// # Errors
    /// They cannot be made, or those that are handed over do not fit the job.
    pub(super) fn of_job(spec: &JobSpec, handed: &str) -> anyhow::Result<Option<Self>> {
        if !handed.is_empty() && spec.nodes > 1 && spec.machines.is_empty() {
            return Self::of_text(spec, handed).map(Some);
        }
        let made = spec.netns.then(|| made(spec.nodes, spec.cables)).transpose()?;
        let of_each = |all: &Networks| all.nets.len() == spec.nodes as usize;
        debug_assert!(made.as_ref().is_none_or(of_each), "a namespace for each node");
        Ok(made.map(|networks| {
            let holder = process::own_pid();
            let user = networks.user.as_ref().map(AsRawFd::as_raw_fd);
            let place = |net: &OwnedFd| Namespaces { holder, user, net: net.as_raw_fd() };
            Self { places: networks.nets.iter().map(place).collect(), _made: Some(networks) }
        }))
    }

    fn of_text(spec: &JobSpec, handed: &str) -> anyhow::Result<Self> {
        debug_assert!(spec.nodes > 1 && spec.machines.is_empty(), "nodes of this machine");
        let places = parse(handed)
            .with_context(|| format!("`{handed}` (CLUMP_NETNS) are no network namespaces"))?;
        if spec.cables > 1 || !spec.addresses.is_empty() {
            bail!(
                "a node has one address on the path of `clump lab path`: no --cables, --addresses"
            );
        }
        if spec.nodes as usize > places.len() {
            let (nodes, most) = (spec.nodes, places.len());
            bail!("the path joins {most} nodes, not {nodes}: `clump lab path --nodes {nodes}`");
        }
        debug_assert!(places.len() >= 2, "a job of one node uses no network");
        Ok(Self { places, _made: None })
    }

    /// Returns the namespaces of `node`.
    pub(super) fn of(&self, node: u32) -> Option<Namespaces> {
        debug_assert!(!self.places.is_empty(), "there are some, or no networks at all");
        self.places.get(node as usize).copied()
    }
}

/// Reads the text of `Networks::handed_over`.
fn parse(text: &str) -> Option<Vec<Namespaces>> {
    let mut words = text.split(':');
    let holder = words.next()?.parse().ok()?;
    let user = match words.next()? {
        "" => None,
        number => Some(number.parse().ok()?),
    };
    let nets = words.next()?.split(',').map(|net| net.parse().ok());
    let place = |net: Option<i32>| Some(Namespaces { holder, user, net: net? });
    let places: Vec<_> = nets.map(place).collect::<Option<_>>()?;
    debug_assert!(!places.is_empty(), "a text has one part at least");
    debug_assert!(places.iter().all(|place| place.holder == holder), "one process holds all");
    Some(places)
}

/// Has a process of its own create network namespaces, joined by so many cables each.
fn made(count: u32, cables: u32) -> anyhow::Result<Networks> {
    const WHAT: &str = "nodes cannot have network namespaces of their own (--netns)";
    let (_maker, ours) =
        start_self(Input::Empty, &VARIABLES.map(OsString::from), true).context(WHAT)?;
    let mut stream = UnixStream::from(ours);
    let mut request = Vec::new();
    Frame::Wire(count, cables).append_to(&mut request);
    write_key(&mut stream, None).and_then(|()| stream.write_all(&request)).context(WHAT)?;
    Hello::read(&mut stream).context(WHAT)?;
    let poller = Poller::new()?;
    poller.add(&stream, 0, Interest::Read)?;
    poller.wait(Some(TIME_LIMIT))?;
    let (mut head, mut why) = ([0; 2], [0; 400]);
    let parcel = scm_message::receive(&stream, &mut [&mut head, &mut why]).context(WHAT)?;
    let Some(parcel) = parcel else { bail!("{WHAT}: their maker ended without a word") };
    let mut made = parcel.descriptors.into_iter();
    if head[0] != MADE || made.len() != count as usize + usize::from(head[1]) {
        let why = String::from_utf8_lossy(&why[..parcel.bytes.saturating_sub(2)]);
        bail!("{WHAT}: {why}; it takes root, or user namespaces (`clump doctor` looks for them)");
    }
    let user = if head[1] == 1 { made.next() } else { None };
    Ok(Networks { user, nets: made.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_handed_over_as_text() {
        let (user, net) = (Some(5), 6);
        let place = |net| Namespaces { holder: 7, user, net };
        assert_eq!(parse("7:5:6,8").unwrap(), [place(net), place(8)]);
        assert_eq!(parse("7::6").unwrap(), [Namespaces { user: None, ..place(6) }]);
        for text in ["", "7", "7:", "7::", "x::6", "7:x:6", "7::6,"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn handed_namespaces_must_fit_the_job() {
        let job =
            |nodes, cables| JobSpec { nodes, cables, ..JobSpec::new("prog", Vec::new(), nodes) };
        let of = |spec: &JobSpec| NodeNetworks::of_job(spec, "7::6,8");
        assert!(of(&job(1, 1)).unwrap().is_none(), "a job of one node uses no network");
        let two = of(&job(2, 1)).unwrap().unwrap();
        assert_eq!((two.of(1).unwrap().net, two.of(2)), (8, None));
        assert!(of(&job(3, 1)).unwrap_err().to_string().contains("--nodes 3"));
        assert!(of(&job(2, 2)).unwrap_err().to_string().contains("--cables"));
        assert!(NodeNetworks::of_job(&job(2, 1), "7").is_err());
    }
}
