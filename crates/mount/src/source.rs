//! `HOST:/EXPORT`: where to mount from.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use client::options::{Family, MountOptions};

use crate::error::MountError;

/// Where to mount from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Host name or address; an IPv6 address in brackets.
    pub host: String,
    /// Path of the export.
    pub export: String,
}

impl Source {
    /// Reads `HOST:/EXPORT` as mount.nfs(8) does: `server:/data`, `[::1]:/data`.
    ///
    /// # Errors
    /// [`MountError::Source`].
    pub fn parse(text: &str) -> Result<Self, MountError> {
        let bad = |why: &str| MountError::Source {
            source_text: text.to_owned(),
            why: why.to_owned(),
        };
        let (host, export) = match text.strip_prefix('[') {
            Some(rest) => rest
                .split_once("]:")
                .ok_or_else(|| bad("an IPv6 address ends with ']:', as in [::1]:/export"))?,
            None => text
                .split_once(":/")
                .map(|(host, rest)| (host, &text[text.len() - rest.len() - 1..]))
                .ok_or_else(|| bad("no HOST:/EXPORT, as in server:/data"))?,
        };
        if host.is_empty() || !export.starts_with('/') {
            return Err(bad("no HOST:/EXPORT, as in server:/data"));
        }
        Ok(Source {
            host: host.to_owned(),
            export: export.to_owned(),
        })
    }

    /// The host's address; of several the first one that the options allow.
    ///
    /// # Errors
    /// [`MountError::Source`] if there is none.
    pub fn address(&self, options: &MountOptions) -> Result<IpAddr, MountError> {
        let bad = |why: String| MountError::Source {
            source_text: self.host.clone(),
            why,
        };
        let found = (self.host.as_str(), 0).to_socket_addrs();
        let found = found.map_err(|error| bad(format!("no address is known: {error}")))?;
        let mut usable = found
            .map(|address: SocketAddr| address.ip())
            .filter(|address| options.family == Family::Any || address.is_ipv6());
        usable
            .next()
            .ok_or_else(|| bad("has no address of the kind that 'proto' asks for".to_owned()))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.export)
        } else {
            write!(out, "{}:{}", self.host, self.export)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_mount_nfs_does() {
        for (text, host, export) in [
            ("server:/data", "server", "/data"),
            ("192.0.2.1:/", "192.0.2.1", "/"),
            ("[::1]:/a:/b", "::1", "/a:/b"),
            ("host:/a:/b", "host", "/a:/b"),
        ] {
            let source = Source::parse(text).unwrap();
            assert_eq!(
                (source.host.as_str(), source.export.as_str()),
                (host, export)
            );
            assert_eq!(source.to_string(), text);
        }
        for text in ["", "server", ":/data", "server:data", "[::1]/data", "/data"] {
            assert!(Source::parse(text).is_err(), "{text}");
        }
    }
}
