//! Constructors of a few drivers of each kind that can reach each other.

use clump_driver::{
    Clock, Driver, DriverError, Fault, FaultPlan, Hub, Timestamps, Trace, TraceLimits, Udp,
    UdpOptions,
};

pub use crate::answered::several_over_udp;
pub use crate::wired::{
    packet_from_cold, packet_over_loopback, packet_over_veth, xdp_generic, xdp_native,
};

/// Drivers that reach each other, or the reason why this machine has none.
pub type Made = Result<Vec<Box<dyn Driver>>, String>;

fn udp(address: &str, count: usize, options: UdpOptions) -> Result<Vec<Udp>, String> {
    let bound = |_| Udp::bind(address.parse().unwrap(), options);
    (0..count).map(bound).collect::<Result<_, DriverError>>().map_err(|e| e.to_string())
}

fn boxed<D: Driver + 'static>(drivers: impl IntoIterator<Item = D>) -> Made {
    Ok(drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn Driver>).collect())
}

fn over_udp<D: Driver + 'static>(count: usize, wrap: fn(Udp) -> D) -> Made {
    boxed(udp("127.0.0.1:0", count, UdpOptions::default())?.into_iter().map(wrap))
}

fn over_loopback<D: Driver + 'static>(count: usize, wrap: fn(clump_driver::Loopback) -> D) -> Made {
    let hub = Hub::default();
    let address = |i| format!("10.0.0.{}:1", i + 1).parse().unwrap();
    boxed((0..count).map(|i| wrap(hub.attach(address(i)).unwrap())).collect::<Vec<_>>())
}

fn faultless<D: Driver>(inner: D) -> Fault<D> {
    Fault::new(inner, 1, FaultPlan::default(), Clock::Steady)
}

/// Wraps a driver with a fault that changes nothing but queues every datagram for a moment.
fn delayed<D: Driver>(inner: D) -> Fault<D> {
    Fault::new(inner, 1, FaultPlan { delay_ns: 1, ..FaultPlan::default() }, Clock::Steady)
}

fn traced<D: Driver>(inner: D) -> Trace<D> {
    Trace::new(inner, Box::new(std::io::sink()), TraceLimits::default(), Clock::Steady)
}

pub fn udp_v4(count: usize) -> Made {
    boxed(udp("127.0.0.1:0", count, UdpOptions::default())?)
}

pub fn udp_v6(count: usize) -> Made {
    boxed(udp("[::1]:0", count, UdpOptions::default())?)
}

pub fn udp_without_runs(count: usize) -> Made {
    let options = UdpOptions { gso: false, gro: false, ..UdpOptions::default() };
    boxed(udp("127.0.0.1:0", count, options)?)
}

pub fn udp_never_adaptive(count: usize) -> Made {
    let options = UdpOptions { adaptive: false, ..UdpOptions::default() };
    boxed(udp("127.0.0.1:0", count, options)?)
}

pub fn udp_with_timestamps(count: usize) -> Made {
    let options = UdpOptions { timestamps: Timestamps::Always, ..UdpOptions::default() };
    boxed(udp("127.0.0.1:0", count, options)?)
}

pub fn udp_of_connections(count: usize) -> Made {
    // Fewer than there are destinations.
    let options = UdpOptions { connections: 2, ..UdpOptions::default() };
    boxed(udp("127.0.0.1:0", count, options)?)
}

pub fn udp_of_several_sockets(count: usize) -> Made {
    let sockets = || {
        let any = "127.0.0.1:0".parse().unwrap();
        let bound: Result<Vec<_>, _> = (0..3).map(|_| clump_os::udp::bind(any)).collect();
        Udp::new(bound.map_err(DriverError::from)?, UdpOptions::default())
    };
    let made: Result<Vec<_>, DriverError> = (0..count).map(|_| sockets()).collect();
    boxed(made.map_err(|e| e.to_string())?)
}

pub fn loopback(count: usize) -> Made {
    over_loopback(count, |driver| driver)
}

pub fn fault_over_udp(count: usize) -> Made {
    over_udp(count, faultless)
}

pub fn fault_over_loopback(count: usize) -> Made {
    over_loopback(count, faultless)
}

pub fn trace_over_udp(count: usize) -> Made {
    over_udp(count, traced)
}

pub fn trace_over_loopback(count: usize) -> Made {
    over_loopback(count, traced)
}

pub fn trace_over_fault_over_udp(count: usize) -> Made {
    over_udp(count, |driver| traced(delayed(driver)))
}
