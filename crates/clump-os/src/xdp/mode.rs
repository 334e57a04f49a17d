//! Position of a program that takes frames.

/// Position of the program in the receive path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver of the device.
    Native,
    /// Behind it, where the kernel has made packets of its own: any device.
    Generic,
}
