//! Peers that are not installed.

/// A peer that is not installed.
#[derive(Debug, Clone)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The way to install it.
    pub remedy: String,
}

impl Missing {
    /// Returns a peer whose packages of Debian are not installed.
    pub fn uninstalled(name: &'static str, packages: &str) -> Self {
        Self { name, remedy: format!("not installed (Debian: apt-get install {packages})") }
    }
}
