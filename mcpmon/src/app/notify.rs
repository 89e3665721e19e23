//! Notifications to the service manager: `sd_notify(3)`, datagrams to `$NOTIFY_SOCKET`.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// Longest wait for a service manager that does not read.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Longest status line, in characters.
const STATUS_MAX: usize = 256;

/// The service manager's socket, if there is a service manager.
#[derive(Debug)]
pub struct Notifier(Option<Manager>);

#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

/// The reason why the service manager was not notified.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The address is neither a path nor an abstract name.
    #[error("NOTIFY_SOCKET is `{}`: expected a path, or `@` and an abstract name", .0.display())]
    Address(OsString),
    /// No socket can be made for `address`.
    #[error("cannot use NOTIFY_SOCKET `{}`", address.display())]
    Socket {
        /// The address in `NOTIFY_SOCKET`.
        address: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The datagram could not be sent.
    #[error("the service manager did not take the message")]
    Send(#[source] io::Error),
}

impl Notifier {
    /// Opens the socket for `address`, in the form of `$NOTIFY_SOCKET`. `None` or an empty address means that there is
    /// no service manager.
    ///
    /// # Errors
    /// Returns an error if the address is neither a path nor an abstract name, or is too long.
    pub fn new(address: Option<&OsStr>) -> Result<Self, NotifyError> {
        let Some(text) = address.filter(|text| !text.is_empty()) else {
            return Ok(Self(None));
        };
        let failed = |source| NotifyError::Socket {
            address: text.to_owned(),
            source,
        };
        let address = match text.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(text),
            _ => return Err(NotifyError::Address(text.to_owned())),
        };
        let address = address.map_err(failed)?;
        let socket = UnixDatagram::unbound().map_err(failed)?;
        socket.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Self(Some(Manager { socket, address })))
    }

    /// Reports that the daemon enforces from now on.
    ///
    /// # Errors
    /// Returns an error if the message cannot be sent.
    pub fn ready(&self) -> Result<(), NotifyError> {
        self.send("READY=1")
    }

    /// Reports that the daemon is about to stop.
    ///
    /// # Errors
    /// Returns an error if the message cannot be sent.
    pub fn stopping(&self) -> Result<(), NotifyError> {
        self.send("STOPPING=1")
    }

    /// Reports that the daemon still works. A service manager that does not hear this for the time of `WatchdogSec=`
    /// ends and restarts the daemon.
    ///
    /// # Errors
    /// Returns an error if the message cannot be sent.
    pub fn watchdog(&self) -> Result<(), NotifyError> {
        self.send("WATCHDOG=1")
    }

    /// Sets the line that `systemctl status` shows. Control characters become spaces, and a long line is cut.
    ///
    /// # Errors
    /// Returns an error if the message cannot be sent.
    pub fn status(&self, line: &str) -> Result<(), NotifyError> {
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = line.chars().map(printable).take(STATUS_MAX).collect();
        self.send(&format!("STATUS={line}"))
    }

    fn send(&self, message: &str) -> Result<(), NotifyError> {
        let Some(Manager { socket, address }) = &self.0 else {
            return Ok(());
        };
        let sent = socket.send_to_addr(message.as_bytes(), address);
        sent.map(drop).map_err(NotifyError::Send)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn messages_arrive_at_a_path() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("socket");
        let notifier = Notifier::new(Some(path.as_os_str())).expect("notifier");
        notifier.ready().expect("ready");
        assert_eq!(received(&manager), "READY=1");
        notifier.watchdog().expect("watchdog");
        assert_eq!(received(&manager), "WATCHDOG=1");
        notifier.stopping().expect("stopping");
        assert_eq!(received(&manager), "STOPPING=1");
    }

    #[test]
    fn messages_arrive_at_an_abstract_name() {
        let name = format!("mcpmon-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("address");
        let manager = UnixDatagram::bind_addr(&address).expect("socket");
        let notifier = Notifier::new(Some(format!("@{name}").as_ref())).expect("notifier");
        notifier.status("enforcing\nREADY=1").expect("status");
        assert_eq!(received(&manager), "STATUS=enforcing READY=1");
        notifier.status(&"é".repeat(1000)).expect("status");
        assert_eq!(received(&manager), format!("STATUS={}", "é".repeat(STATUS_MAX)));
    }

    #[test_case(None; "unset")]
    #[test_case(Some(""); "empty")]
    fn without_a_service_manager_nothing_is_sent(address: Option<&str>) {
        let notifier = Notifier::new(address.map(OsStr::new)).expect("notifier");
        notifier.ready().expect("nothing to do");
    }

    #[test_case("vsock:2:9999" => "NOTIFY_SOCKET is `vsock:2:9999`: expected a path, or `@` and an abstract name")]
    #[test_case("relative" => "NOTIFY_SOCKET is `relative`: expected a path, or `@` and an abstract name")]
    fn other_addresses_are_refused(address: &str) -> String {
        Notifier::new(Some(address.as_ref()))
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn a_manager_that_is_gone_is_an_error() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("notify");
        let notifier = Notifier::new(Some(path.as_os_str())).expect("notifier");
        let error = notifier.ready().expect_err("nobody there");
        assert!(matches!(error, NotifyError::Send(source) if source.kind() == io::ErrorKind::NotFound));
    }

    fn received(manager: &UnixDatagram) -> String {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).expect("message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}
