//! Lock files: a policy that allows exactly what was used in a session, as commented YAML in a stable order.

use std::net::SocketAddr;

use mcpmon_model::{Digest, Package, ServerId, Timestamp};
use mcpmon_policy::{
    EnvironmentRules, SandboxPath, makes_sandbox, network::EgressDestination, starts_container,
};

use super::written::{remark, scalar};

/// Everything that was used in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The session.
    pub session: String,
    /// The time from its first event to its last.
    pub provenance: Provenance,
    /// Its servers, by id.
    pub servers: Vec<SeenServer>,
    /// Tools that were called, by server, name and hash.
    pub tools: Vec<UsedTool>,
    /// Tools whose calls were all blocked, or that were hidden.
    pub blocked: Vec<UsedTool>,
    /// Tools that were listed but not called.
    pub listed: Vec<UsedTool>,
    /// Resources that were read, each with its server.
    pub resources: Vec<(String, String, Provenance)>,
    /// LLM calls that servers requested and were allowed.
    pub sampling: Option<Provenance>,
}

/// The number of occurrences, and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The number of occurrences.
    pub count: u64,
    /// The time of the first.
    pub first: Timestamp,
    /// The time of the last.
    pub last: Timestamp,
}

/// A server of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenServer {
    /// Its id.
    pub id: ServerId,
    /// The refusal, if all uses were refused.
    pub denied: Option<String>,
    /// The latest start; `None` if it was not seen.
    pub start: Option<SessionStart>,
    /// The destinations of its processes' connections.
    pub connections: Vec<SessionConnections>,
    /// The files that its command and its calls named.
    pub files: Vec<SeenFile>,
}

/// A file or directory that was named to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// The path, absolute or below `~`; of a written file its directory.
    pub path: String,
    /// True if it was written.
    pub is_written: bool,
    /// True if it contains secrets, decides what runs, or is a directory with much other content.
    pub is_protected: bool,
    /// The calls that named it; `None` if the command did.
    pub calls: Option<Provenance>,
}

/// A start of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStart {
    /// The time.
    pub at: Timestamp,
    /// The package of the program, if it was recorded.
    pub package: Option<Package>,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<CommandArgument>,
    /// The files that ran, each with its path and its hash.
    pub files: Vec<(&'static str, String, Option<Digest>)>,
    /// Names of the variables in its environment; empty if they were not recorded.
    pub environment: Vec<String>,
    /// True if the kernel sensor recorded its connections.
    pub has_connections_recorded: bool,
}

/// An argument of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandArgument {
    /// The recorded text.
    pub text: String,
    /// True if a secret in it was not recorded.
    pub is_masked: bool,
}

/// Connections to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConnections {
    /// The address.
    pub address: SocketAddr,
    /// Its name, if known.
    pub name: Option<String>,
    /// True if they were refused.
    pub refused: bool,
    /// The number of occurrences, and their times.
    pub provenance: Provenance,
}

/// A tool of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedTool {
    /// Its server.
    pub server: String,
    /// Its name.
    pub tool: String,
    /// The hash of its definition, if known.
    pub hash: Option<Digest>,
    /// Its calls; `None` if there were none.
    pub calls: Option<Provenance>,
    /// Further remarks, a sentence each.
    pub remarks: Vec<String>,
}

impl Provenance {
    /// One occurrence.
    pub const fn once(at: Timestamp) -> Self {
        Self {
            count: 1,
            first: at,
            last: at,
        }
    }

    /// Adds other occurrences.
    pub fn add(&mut self, other: Self) {
        *self = match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => *self,
            (known, more) => Self {
                count: known.saturating_add(more),
                first: self.first.min(other.first),
                last: self.last.max(other.last),
            },
        };
    }

    /// Returns a text like `# Provenance: 2 calls (10:30:17 - 10:30:18 UTC)`, without the mark of a comment.
    fn told(self, thing: &str) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        format!(
            "Provenance: {} {thing}{plural} ({})",
            self.count,
            span(self.first, self.last)
        )
    }
}

/// Returns a text like `10:30:17 - 10:30:18 UTC`, with the days if they differ.
fn span(first: Timestamp, last: Timestamp) -> String {
    let [(first_day, first), (last_day, last)] = [first, last].map(day_and_time);
    match (first_day == last_day, first == last) {
        (true, true) => format!("{first} UTC"),
        (true, false) => format!("{first} - {last} UTC"),
        (false, _) => format!("{first_day} {first} - {last_day} {last} UTC"),
    }
}

fn day_and_time(at: Timestamp) -> (String, String) {
    let instant = jiff::Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let text = |format| instant.strftime(format).to_string();
    (text("%Y-%m-%d"), text("%H:%M:%S"))
}

impl Profile {
    /// Returns the policy.
    pub fn policy(&self) -> String {
        let mut page = Page(String::new());
        self.head(&mut page);
        page.line(0, "version: 1");
        page.line(0, "mode: enforce");
        page.line(0, "");
        page.line(0, "mcp:");
        self.declared(&mut page);
        self.allowed_servers(&mut page);
        self.allowed_tools(&mut page);
        self.requests(&mut page);
        for line in [
            "version_pinning:",
            "  enabled: true",
            "  on_change: block",
            "  auto_trust_first: true",
            "cross_server:",
            "  enabled: true",
        ] {
            page.line(2, line);
        }
        page.0
    }

    fn head(&self, page: &mut Page) {
        let Provenance { first, last, .. } = self.provenance;
        let (day, _) = day_and_time(first);
        let (last_day, _) = day_and_time(last);
        let day = if day == last_day { day + " " } else { String::new() };
        for line in [
            &format!(
                "Generated by `mcpmon policy generate` from the session {}, {day}{}.",
                self.session,
                span(first, last)
            ),
            "What was used in it is allowed as it was; other servers and tools are blocked. Read it before you use it:",
            "what an attack did in the session is in it too. Rules of other files are not: beside it in conf.d they hold on.",
        ] {
            page.remark(0, line);
        }
    }

    /// Writes `mcp.servers`: the servers that were started, and the destinations of their connections.
    fn declared(&self, page: &mut Page) {
        let started = self.servers.iter().filter(|server| server.denied.is_none());
        let started: Vec<_> = started
            .filter_map(|server| Some((server, server.start.as_ref()?)))
            .filter(|(_, start)| !start.command.trim().is_empty())
            .collect();
        if started.is_empty() {
            return;
        }
        page.line(2, "servers:");
        for (server, start) in started {
            let (day, time) = day_and_time(start.at);
            page.remark(4, &format!("Started {day} {time} UTC."));
            for (part, path, digest) in &start.files {
                let digest = digest.map_or("not hashed".to_owned(), |digest| digest.to_string());
                page.remark(4, &format!("{part} {path}: {digest}"));
            }
            page.line(4, &format!("- id: {}", scalar(server.id.as_str())));
            page.line(6, "type: stdio");
            page.line(6, &format!("command: {}", scalar(&start.command)));
            arguments(page, &start.arguments);
            environment(page, start);
            egress(page, &server.connections);
            sandbox(page, server, start);
        }
    }

    fn allowed_servers(&self, page: &mut Page) {
        page.line(2, "server_policy: allowlist");
        let (denied, allowed): (Vec<_>, Vec<_>) =
            self.servers.iter().partition(|server| server.denied.is_some());
        page.list(2, "allowed_servers", allowed.is_empty());
        for server in allowed {
            page.line(4, &format!("- id: {}", scalar(&literal(server.id.as_str()))));
            let package = server.start.as_ref().and_then(|start| start.package.as_ref());
            if let Some(package) = package {
                page.remark(4, "The same server, however it is started:");
                page.line(4, &format!("- package: {}", scalar(&literal(package.as_str()))));
            }
        }
        if !denied.is_empty() {
            page.remark(4, "--- Refused servers (uncomment to allow) ---");
        }
        for server in denied {
            let cause = server.denied.iter().filter(|cause| !cause.is_empty());
            cause.for_each(|cause| page.remark(4, &format!("Refused: {cause}")));
            page.comment(4, &format!("- id: {}", scalar(&literal(server.id.as_str()))));
        }
    }

    fn allowed_tools(&self, page: &mut Page) {
        page.line(2, "tool_policy: allowlist");
        page.list(2, "allowed_tools", self.tools.is_empty());
        for tool in &self.tools {
            tool.entry(page, Page::line);
        }
        for (title, tools) in [
            ("Blocked tools", &self.blocked),
            ("Listed and not called", &self.listed),
        ] {
            if !tools.is_empty() {
                page.remark(4, &format!("--- {title} (uncomment to allow) ---"));
            }
            for tool in tools {
                tool.entry(page, Page::comment);
            }
        }
    }

    /// Writes the section on requests other than tool calls.
    fn requests(&self, page: &mut Page) {
        if let Some(provenance) = self.sampling {
            page.remark(
                2,
                "LLM calls that servers asked for; by default they are blocked.",
            );
            page.remark(2, &provenance.told("request"));
            page.line(2, "sampling: audit");
        }
        if !self.resources.is_empty() {
            page.remark(2, "Resources that were read. To allow no others: `defaults: {decision: BLOCK}` and `resource_rules`.");
        }
        for (server, uri, provenance) in &self.resources {
            page.remark(2, &format!("  {server} {uri}: {}", provenance.told("read")));
        }
    }
}

impl UsedTool {
    fn entry(&self, page: &mut Page, write: fn(&mut Page, usize, &str)) {
        if let Some(calls) = self.calls {
            page.remark(4, &calls.told("call"));
        }
        for line in &self.remarks {
            page.remark(4, line);
        }
        let named = [&self.server, &self.tool].map(|name| literal(name));
        let [server, tool] = &named;
        if tool.trim().is_empty() {
            page.remark(
                4,
                &format!("A tool without a name, of {server}: no policy can name it."),
            );
            return;
        }
        if *server != self.server || *tool != self.tool {
            page.remark(4, "`?` stands for the character that would be a pattern.");
        }
        if self.hash.is_none() {
            page.remark(4, "Its definition was not recorded: with any definition.");
        }
        write(page, 4, &format!("- server: {}", scalar(server)));
        write(page, 4, &format!("  tool: {}", scalar(tool)));
        if let Some(hash) = self.hash {
            write(page, 4, &format!("  content_hash: {}", scalar(&hash.to_string())));
        }
    }
}

fn arguments(page: &mut Page, arguments: &[CommandArgument]) {
    let is_empty = arguments.iter().all(|argument| argument.is_masked);
    if arguments.is_empty() {
        return;
    }
    page.list(6, "args", is_empty);
    for argument in arguments {
        let text = format!("- {}", scalar(&argument.text));
        match argument.is_masked {
            false => page.line(8, &text),
            true => page.comment(8, &format!("{text}  # a secret that is not recorded: fill it in")),
        }
    }
}

/// Writes `env_allow`: the variables that the server got at its last start. Variables that every server gets are not
/// listed, unless there are no others: an empty list would allow all.
fn environment(page: &mut Page, start: &SessionStart) {
    let is_own = |name: &&String| !EnvironmentRules::is_standard(name);
    let named: Vec<&str> = start
        .environment
        .iter()
        .filter(is_own)
        .map(String::as_str)
        .collect();
    if start.environment.is_empty() {
        page.remark(6, "Which variables it got was not recorded: it gets all of them.");
        return;
    }
    let (_, time) = day_and_time(start.at);
    page.remark(
        6,
        &format!(
            "Provenance: variables that it got at {time} UTC, by name; remove those that it does not need."
        ),
    );
    page.line(6, "env_allow:");
    let names = if named.is_empty() { vec!["PATH"] } else { named };
    for name in names {
        page.line(8, &format!("- {}", scalar(name)));
    }
}

/// Writes `egress`: if connections of the server were seen, all other addresses are refused.
fn egress(page: &mut Page, connections: &[SessionConnections]) {
    if connections.is_empty() {
        return;
    }
    let (refused, allowed): (Vec<_>, Vec<_>) = connections.iter().partition(|connection| connection.refused);
    page.line(6, "egress:");
    page.line(8, "default: deny");
    page.list(8, "allow", allowed.is_empty());
    for connection in allowed {
        connection.entry(page, Page::line);
    }
    if !refused.is_empty() {
        page.remark(10, "--- Refused connections (uncomment to allow) ---");
    }
    for connection in refused {
        connection.entry(page, Page::comment);
    }
}

/// Writes `sandbox`: the files that were named to the server, and no network if it used none.
fn sandbox(page: &mut Page, server: &SeenServer, start: &SessionStart) {
    if makes_sandbox(&start.command) {
        page.remark(
            6,
            "It makes a sandbox of its own, and cannot start in another one.",
        );
        return;
    }
    if starts_container(&start.command) {
        page.remark(
            6,
            "It is a container that a daemon starts: a sandbox would hold for its client alone.",
        );
        return;
    }
    page.remark(
        6,
        "Drawn from its command and its calls: which files a server opens is not recorded. Add what else it needs.",
    );
    page.line(6, "sandbox:");
    page.line(8, "default: strict");
    let (written, read): (Vec<_>, Vec<_>) = server.files.iter().partition(|file| file.is_written);
    for (key, files) in [("read", read), ("write", written)] {
        let (files, unnameable): (Vec<&SeenFile>, Vec<&SeenFile>) = files
            .into_iter()
            .partition(|file| file.path.parse::<SandboxPath>().is_ok());
        for file in unnameable {
            page.remark(
                8,
                &format!("It was told of {}, which no grant can name.", file.path),
            );
        }
        if files.is_empty() {
            continue;
        }
        let (kept, granted): (Vec<&SeenFile>, Vec<&SeenFile>) =
            files.into_iter().partition(|file| file.is_protected);
        page.list(8, key, granted.is_empty());
        for file in granted {
            file.entry(page, Page::line);
        }
        if !kept.is_empty() {
            page.remark(
                10,
                "--- Protected files, and directories with much else in them (uncomment to grant) ---",
            );
        }
        for file in kept {
            file.entry(page, Page::comment);
        }
    }
    match (server.connections.is_empty(), start.has_connections_recorded) {
        (true, true) => page.line(8, "network: off"),
        (true, false) => page.remark(
            8,
            "Its connections were not recorded, which needs the daemon: it may use the network.",
        ),
        (false, _) => {}
    }
}

impl SeenFile {
    fn entry(&self, page: &mut Page, write: fn(&mut Page, usize, &str)) {
        match self.calls {
            Some(calls) => page.remark(10, &calls.told("call")),
            None => page.remark(10, "Provenance: an argument of its command"),
        }
        write(page, 10, &format!("- {}", scalar(&self.path)));
    }
}

impl SessionConnections {
    fn entry(&self, page: &mut Page, write: fn(&mut Page, usize, &str)) {
        let (ip, port) = (self.address.ip(), self.address.port());
        let with_port = |host: String| match port {
            0 => host,
            _ => format!("{host}:{port}"),
        };
        let address = match ip.is_ipv6() && port != 0 {
            true => with_port(format!("[{ip}]")),
            false => with_port(ip.to_string()),
        };
        // A name remains valid longer than an address.
        let named = self.name.clone().map(with_port);
        let named = named.filter(|name| name.parse::<EgressDestination>().is_ok());
        page.remark(10, &self.provenance.told("connection"));
        if named.is_some() {
            page.remark(10, &format!("It was at {address}."));
        }
        write(page, 10, &format!("- {}", scalar(&named.unwrap_or(address))));
    }
}

/// Returns a glob that matches a name. Nothing can be escaped, but `?` matches less than `*`.
fn literal(name: &str) -> String {
    match name.trim().is_empty() {
        true => "?".repeat(name.chars().count()),
        false => name.replace('*', "?"),
    }
}

/// The text that was written so far.
struct Page(String);

impl Page {
    fn line(&mut self, indent: usize, text: &str) {
        if !text.is_empty() {
            self.0.push_str(&" ".repeat(indent));
        }
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// Writes YAML that becomes effective when its comment mark is removed.
    fn comment(&mut self, indent: usize, text: &str) {
        self.line(indent, &format!("# {text}"));
    }

    /// Writes a comment with words from elsewhere.
    fn remark(&mut self, indent: usize, text: &str) {
        self.line(indent, &format!("# {}", remark(text)));
    }

    /// Writes the key of a list.
    fn list(&mut self, indent: usize, key: &str, is_empty: bool) {
        let empty = if is_empty { " []" } else { "" };
        self.line(indent, &format!("{key}:{empty}"));
    }
}

#[cfg(test)]
mod tests;
