//! Stores of commands: the choice of the store to read, and the advice when it cannot be read.

use std::path::{Path, PathBuf};

use mcpmon_store::{OpenError, StoreReader, users_store};

use super::{CliError, ErrorKind, Globals, daemon::explain as explain_daemon};
use crate::app::{
    control::{self, AskError, DEFAULT_SOCKET},
    daemon::DEFAULT_STORE,
};

/// Opens the store of the options, or an existing one.
pub(super) fn open(globals: &Globals) -> Result<StoreReader, CliError> {
    let surroundings = StorePlaces::look();
    if globals.db.is_none() && surroundings.asks_daemon() {
        match control::own_records(Path::new(DEFAULT_SOCKET)) {
            Ok(records) => {
                return StoreReader::of_own_records(&records)
                    .map_err(|error| CliError::new(ErrorKind::Environment, error));
            }
            Err(AskError::NotRunning(_) | AskError::Permission(_)) => {}
            Err(error) => return Err(explain_daemon(error)),
        }
    }
    let path = match &globals.db {
        Some(path) => path.clone(),
        None => choose(&surroundings),
    };
    StoreReader::open(&path).map_err(|error| match &surroundings.own_store {
        Some((own, Presence::Missing)) if globals.db.is_none() => explain(error, Some(own), &user_name()),
        Some(_) | None => explain(error, None, &user_name()),
    })
}

/// The environment that decides which store is read by default.
#[derive(Clone, Debug)]
struct StorePlaces {
    is_root: bool,
    daemon_store: Presence,
    /// The user's own store, if there is a place for one, and whether it exists.
    own_store: Option<(PathBuf, Presence)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Readable,
    Denied,
    Missing,
}

fn choose(surroundings: &StorePlaces) -> PathBuf {
    let daemon = PathBuf::from(DEFAULT_STORE);
    if surroundings.is_root || surroundings.daemon_store == Presence::Readable {
        return daemon;
    }
    match &surroundings.own_store {
        Some((own, Presence::Readable | Presence::Denied)) => own.clone(),
        // The reason why the daemon's store cannot be read is more helpful than that there is no other one.
        Some((_, Presence::Missing)) | None if surroundings.daemon_store == Presence::Denied => daemon,
        Some((own, Presence::Missing)) => own.clone(),
        None => daemon,
    }
}

/// Explains that no store can be read; `missing` is the user's own store, if it does not exist yet.
fn explain(error: OpenError, missing: Option<&Path>, user: &str) -> CliError {
    if let (OpenError::Denied(path), Some(own)) = (&error, missing)
        && path == Path::new(DEFAULT_STORE)
    {
        let error = anyhow::anyhow!(
            "there is no store of your own at {}, and {DEFAULT_STORE}, the daemon's, is for root and the group mcpmon",
            own.display()
        );
        return CliError::new(ErrorKind::Environment, error)
            .with_hint("start a server with `mcpmon wrap -- COMMAND`: without a daemon that makes a store of your own")
            .with_hint(to_join(user))
            .with_hint("or run the command with sudo");
    }
    let hints = match &error {
        OpenError::Missing(_) => vec![
            "nothing was recorded there yet: start `mcpmon daemon`, or a server with `mcpmon wrap -- COMMAND`"
                .to_owned(),
            "or name a store with --db FILE".to_owned(),
        ],
        OpenError::Denied(path) if path == Path::new(DEFAULT_STORE) => {
            vec![to_join(user), "or run the command with sudo".to_owned()]
        }
        OpenError::Denied(_) => {
            vec![
                "run the command as the owner of the store, as a member of its group, or with sudo"
                    .to_owned(),
            ]
        }
        OpenError::Io { .. } => Vec::new(),
        OpenError::Schema { .. } => vec!["name a store with --db FILE".to_owned()],
    };
    CliError {
        kind: ErrorKind::Environment,
        source: error.into(),
        hints,
    }
}

fn to_join(user: &str) -> String {
    format!("join the group mcpmon: sudo usermod -aG mcpmon {user}, then log in again")
}

impl StorePlaces {
    /// Returns whether this user may not read the daemon's store, and so gets the own records from the daemon.
    fn asks_daemon(&self) -> bool {
        !self.is_root && self.daemon_store != Presence::Readable
    }

    fn look() -> Self {
        Self {
            is_root: nix::unistd::geteuid().is_root(),
            daemon_store: Presence::of(Path::new(DEFAULT_STORE)),
            own_store: users_store(|name| std::env::var_os(name).map(PathBuf::from)).map(|path| {
                let presence = Presence::of(&path);
                (path, presence)
            }),
        }
    }
}

impl Presence {
    fn of(path: &Path) -> Self {
        match nix::unistd::access(path, nix::unistd::AccessFlags::R_OK) {
            Ok(()) => Self::Readable,
            Err(nix::errno::Errno::EACCES) => Self::Denied,
            Err(_) => Self::Missing,
        }
    }
}

/// Returns the user's name from the environment: a static binary cannot load the modules that getpwuid(3) needs.
fn user_name() -> String {
    std::env::var("USER").unwrap_or_else(|_| "$USER".to_owned())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const OWN: &str = "/home/me/.local/state/mcpmon/mcpmon.db";

    #[test_case(true, Presence::Missing, Some(Presence::Readable) => DEFAULT_STORE; "root")]
    #[test_case(false, Presence::Readable, Some(Presence::Readable) => DEFAULT_STORE; "member of the group")]
    #[test_case(false, Presence::Denied, Some(Presence::Readable) => OWN; "own store beside a closed one")]
    #[test_case(false, Presence::Denied, Some(Presence::Missing) => DEFAULT_STORE; "only a closed one")]
    #[test_case(false, Presence::Missing, Some(Presence::Missing) => OWN; "neither")]
    #[test_case(false, Presence::Missing, None => DEFAULT_STORE; "no home")]
    fn the_store_that_is_there_is_read(
        is_root: bool,
        daemon_store: Presence,
        own: Option<Presence>,
    ) -> String {
        let surroundings = StorePlaces {
            is_root,
            daemon_store,
            own_store: own.map(|presence| (OWN.into(), presence)),
        };
        choose(&surroundings).display().to_string()
    }

    fn explained(error: OpenError, missing: Option<&str>) -> String {
        let mut stderr = Vec::new();
        let code = explain(error, missing.map(Path::new), "ann").report(&mut stderr);
        format!("{}{code:?}", String::from_utf8(stderr).unwrap())
    }

    #[test]
    fn each_refusal_comes_with_its_remedy() {
        insta::assert_snapshot!(explained(OpenError::Missing(DEFAULT_STORE.into()), Some(OWN)), @"
        error: there is no store at /var/lib/mcpmon/mcpmon.db
        hint: nothing was recorded there yet: start `mcpmon daemon`, or a server with `mcpmon wrap -- COMMAND`
        hint: or name a store with --db FILE
        ExitCode(unix_exit_status(3))
        ");
        insta::assert_snapshot!(explained(OpenError::Denied(DEFAULT_STORE.into()), Some(OWN)), @"
        error: there is no store of your own at /home/me/.local/state/mcpmon/mcpmon.db, and /var/lib/mcpmon/mcpmon.db, the daemon's, is for root and the group mcpmon
        hint: start a server with `mcpmon wrap -- COMMAND`: without a daemon that makes a store of your own
        hint: join the group mcpmon: sudo usermod -aG mcpmon ann, then log in again
        hint: or run the command with sudo
        ExitCode(unix_exit_status(3))
        ");
        insta::assert_snapshot!(explained(OpenError::Denied(DEFAULT_STORE.into()), None), @"
        error: no permission to read the store /var/lib/mcpmon/mcpmon.db
        hint: join the group mcpmon: sudo usermod -aG mcpmon ann, then log in again
        hint: or run the command with sudo
        ExitCode(unix_exit_status(3))
        ");
        insta::assert_snapshot!(explained(OpenError::Denied("/srv/mcpmon.db".into()), Some(OWN)), @"
        error: no permission to read the store /srv/mcpmon.db
        hint: run the command as the owner of the store, as a member of its group, or with sudo
        ExitCode(unix_exit_status(3))
        ");
    }
}
