//! The user at the other end of a connection.
//!
//! TCP carries no credentials. On Linux the kernel lists the sockets of this machine with their
//! users, so the user of a local client is known; elsewhere it is not. That matters for browsers: a
//! program of another user that listened at the port while the daemon was down has their cookies.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// The two ends of a connection, as the server sees them.
pub(crate) struct ConnectionPeer {
    client: SocketAddr,
    server: SocketAddr,
    /// Looked up once: a socket keeps its user.
    user: OnceLock<PeerUser>,
}

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerUser {
    /// The user of this program, or root, who can read the journal in any case.
    Own,
    Other(u32),
    /// The client has closed its end, so that its user is not listed any more.
    Closing,
    /// The system does not tell.
    Unknown,
}

impl ConnectionPeer {
    pub(crate) fn new(client: SocketAddr, server: SocketAddr) -> ConnectionPeer {
        ConnectionPeer { client, server, user: OnceLock::new() }
    }

    pub(crate) fn user(&self) -> PeerUser {
        *self.user.get_or_init(|| {
            let found =
                sockets::find(|socket| socket.local == self.client && socket.remote == self.server);
            match found.first() {
                Some(socket) if socket.is_connected => socket.user(),
                Some(_) => PeerUser::Closing,
                None => PeerUser::Unknown,
            }
        })
    }
}

/// Returns who listens at a port of this machine that could not be bound: another user if there is
/// one.
pub(crate) fn find_listener(port: u16) -> PeerUser {
    let found = sockets::find(|socket| {
        let ip = socket.local.ip();
        let is_here = ip.is_loopback() || ip.is_unspecified();
        socket.is_listening && is_here && socket.local.port() == port
    });
    let mut users = found.iter().map(|socket| socket.user());
    let first = users.clone().next().unwrap_or(PeerUser::Unknown);
    users.find(|user| matches!(user, PeerUser::Other(_))).unwrap_or(first)
}

#[cfg(target_os = "linux")]
mod sockets {
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use super::PeerUser;

    /// States of a socket in the kernel's table.
    const ESTABLISHED: &str = "01";
    const LISTEN: &str = "0A";

    pub(super) struct SocketEntry {
        pub(super) local: SocketAddr,
        pub(super) remote: SocketAddr,
        pub(super) is_connected: bool,
        pub(super) is_listening: bool,
        uid: u32,
    }

    impl SocketEntry {
        pub(super) fn user(&self) -> PeerUser {
            match self.uid {
                uid if uid == rustix::process::geteuid().as_raw() || uid == 0 => PeerUser::Own,
                uid => PeerUser::Other(uid),
            }
        }
    }

    pub(super) fn find(is_wanted: impl Fn(&SocketEntry) -> bool) -> Vec<SocketEntry> {
        let mut found = Vec::new();
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let Ok(file) = File::open(table) else { continue };
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            // The first line has the headings, which are no socket.
            found.extend(lines.filter_map(|line| parse_line(&line)).filter(&is_wanted));
        }
        found
    }

    /// Reads `0: 0100007F:10AB 0100007F:D2C4 01 00000000:00000000 00:00000000 00000000 1000 …`.
    fn parse_line(line: &str) -> Option<SocketEntry> {
        let mut words = line.split_ascii_whitespace();
        let local = parse_address(words.nth(1)?)?;
        let remote = parse_address(words.next()?)?;
        let state = words.next()?;
        let uid = words.nth(3)?.parse().ok()?;
        // A socket whose program has closed it loses its user and is listed as one of root.
        let (is_connected, is_listening) = (state == ESTABLISHED, state == LISTEN);
        Some(SocketEntry { local, remote, is_connected, is_listening, uid })
    }

    /// Reads an address as the kernel prints it: words of 32 bits in the order of this machine.
    fn parse_address(text: &str) -> Option<SocketAddr> {
        let (ip, port) = text.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let mut bytes = Vec::with_capacity(16);
        for at in (0..ip.len()).step_by(8) {
            let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
            bytes.extend(word.to_ne_bytes());
        }
        let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(octets) => IpAddr::V4(Ipv4Addr::from(octets)),
            Err(_) => {
                let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?);
                // A client that speaks IPv4 through a socket for both is listed here.
                address.to_canonical()
            }
        };
        Some(SocketAddr::new(ip, port))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn addresses_are_read_as_the_kernel_prints_them() {
            for (printed, meant) in [
                ("0100007F:10AB", "127.0.0.1:4267"),
                ("00000000000000000000000001000000:10AB", "[::1]:4267"),
                ("0000000000000000FFFF00000100007F:10AB", "127.0.0.1:4267"),
            ] {
                // The table is in the order of this machine, the row above in that of most.
                if cfg!(target_endian = "little") {
                    assert_eq!(parse_address(printed), Some(meant.parse().unwrap()), "{printed}");
                }
            }
            for printed in ["", ":", "0100007F", "0100007F:", "0100:10AB", "zz00007F:10AB", "é:1"]
            {
                assert_eq!(parse_address(printed), None, "{printed}");
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod sockets {
    use std::net::SocketAddr;

    use super::PeerUser;

    pub(super) struct SocketEntry {
        pub(super) local: SocketAddr,
        pub(super) remote: SocketAddr,
        pub(super) is_connected: bool,
        pub(super) is_listening: bool,
    }

    impl SocketEntry {
        pub(super) fn user(&self) -> PeerUser {
            PeerUser::Unknown
        }
    }

    /// No table of sockets can be read here without `unsafe`.
    pub(super) fn find(_is_wanted: impl Fn(&SocketEntry) -> bool) -> Vec<SocketEntry> {
        Vec::new()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn own_connection_and_listener_are_recognised() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let server = listener.local_addr().unwrap();
            assert_eq!(find_listener(server.port()), PeerUser::Own);
            let client = TcpStream::connect(server).unwrap();
            let (_accepted, from) = listener.accept().unwrap();
            assert_eq!(ConnectionPeer::new(from, server).user(), PeerUser::Own);
            let (stranger, here) = (SocketAddr::new(from.ip(), 1), server);
            assert_eq!(ConnectionPeer::new(stranger, here).user(), PeerUser::Unknown);
            let peer = ConnectionPeer::new(from, server);
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(peer.user(), PeerUser::Closing);
        }
    }
}
