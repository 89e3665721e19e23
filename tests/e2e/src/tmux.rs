//! A real terminal: a program in tmux, pressed keys, and the screen as a person sees it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{skip, wait};

/// A program in a separate terminal. It is killed at the end.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Starts a command in a terminal of this size; the tmux server listens on a socket in `directory`. Returns `None`,
    /// and says so, if tmux is not installed.
    ///
    /// # Errors
    /// Returns an error if it does not start, or if `CI=true` says that tmux must be there.
    pub fn start(directory: &Path, (width, height): (u16, u16), command: &Command) -> Result<Option<Self>> {
        let version = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
        if version.is_err() {
            skip::for_lack("there is no tmux: apt-get install tmux")?;
            return Ok(None);
        }
        // The server of an earlier terminal may still be ending.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self {
            socket: directory.join(format!("tmux{number}")),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let mut start = terminal.tmux([
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
        ]);
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                let mut variable = name.to_os_string();
                variable.push("=");
                variable.push(value);
                start.arg("-e").arg(variable);
            }
        }
        // The shell prints the exit status, and the state in which the terminal was left.
        start.arg("--").args([
            "sh",
            "-c",
            "\"$@\"; echo \"ended with $?\"; stty -a | tr ' ' '\\n' | grep -e echo$ -e icanon; exec cat",
            "sh",
        ]);
        start.arg(command.get_program()).args(command.get_args());
        let output = start.output().context("cannot start tmux")?;
        ensure!(
            output.status.success(),
            "tmux: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Some(terminal))
    }

    fn tmux<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color");
        tmux.arg("-S").arg(&self.socket).args(arguments);
        tmux
    }

    fn ask<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let output = self.tmux(arguments).output()?;
        ensure!(
            output.status.success(),
            "tmux: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Presses keys, as tmux names them.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        self.ask([&["send-keys"], keys].concat()).map(drop)
    }

    /// Gives the terminal another size.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn resize(&self, width: u16, height: u16) -> Result<()> {
        let (width, height) = (width.to_string(), height.to_string());
        self.ask(["resize-window", "-x", &width, "-y", &height]).map(drop)
    }

    /// Returns the process that runs in the terminal: a shell, whose child is the program.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn shell(&self) -> Result<u32> {
        Ok(self
            .ask(["display-message", "-p", "#{pane_pid}"])?
            .trim()
            .parse()?)
    }

    /// Returns the text on the screen.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn screen(&self) -> Result<String> {
        self.ask(["capture-pane", "-p"])
    }

    /// Waits until the screen has every one of these texts, and returns it.
    ///
    /// # Errors
    /// Returns an error if they do not appear.
    pub fn until(&self, texts: &[&str]) -> Result<String> {
        let mut last = String::new();
        let shown = wait::until(&format!("{texts:?} on the screen"), || {
            last = self.screen()?;
            Ok(texts.iter().all(|text| last.contains(text)).then(|| last.clone()))
        });
        match shown {
            Ok(screen) => Ok(screen),
            Err(error) => bail!("{error:#}; the screen:\n{last}"),
        }
    }
}

impl Drop for Terminal {
    /// Kills the terminal; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.tmux(["kill-server"]).output());
    }
}
