//! Registry of tools and addresses: the servers that offer a tool, and the server of an address. Several
//! servers may offer tools of one name.

use std::collections::BTreeMap;

use mcpmon_model::{Digest, ServerId, ServerType, Timestamp};
use mcpmon_policy::{Policy, RemoteHost, Transport};

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredTool {
    /// The server that offers it.
    pub server: ServerId,
    /// The transport.
    pub server_type: ServerType,
    /// `host:port`, if the server is declared as a remote one.
    pub server_addr: Option<String>,
    /// The digest of the tool.
    pub tool_hash: Digest,
    /// The time it was registered with this digest.
    pub registered_at: Timestamp,
}

/// Tools by name, and addresses of declared servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    tools: BTreeMap<String, Vec<RegisteredTool>>,
    addresses: BTreeMap<String, ServerId>,
    /// Number of entries of all tools together.
    entries: usize,
    /// The number of changes.
    version: u64,
}

/// Most registered tools of all servers together.
const MAX_ENTRIES: usize = 1 << 17;

impl Registry {
    /// Returns a registry with only the addresses of the servers that `policy` declares.
    pub fn new(policy: &Policy) -> Self {
        let mut registry = Self::default();
        registry.declare(policy);
        registry
    }

    /// Replaces the declared addresses by those of the servers that `policy` declares.
    pub fn declare(&mut self, policy: &Policy) {
        let remote = policy
            .servers
            .iter()
            .filter_map(|server| match &server.transport {
                Transport::Remote {
                    host: RemoteHost::Name(name),
                    port,
                    ..
                } => Some((format!("{name}:{port}"), &server.id)),
                Transport::Remote {
                    host: RemoteHost::Address(address),
                    port,
                    ..
                } => Some((std::net::SocketAddr::new(*address, *port).to_string(), &server.id)),
                Transport::Stdio { .. } => None,
            });
        self.addresses = remote.map(|(address, id)| (address, id.clone())).collect();
    }

    /// Registers a tool of `server`, in place of its earlier tool of that name.
    pub fn register(
        &mut self,
        now: Timestamp,
        server: &ServerId,
        server_type: ServerType,
        tool: &str,
        tool_hash: Digest,
    ) {
        if let Some(entry) = self
            .tools
            .get_mut(tool)
            .and_then(|entries| of_server_mut(entries, server))
        {
            if entry.tool_hash != tool_hash {
                self.version += 1;
                entry.tool_hash = tool_hash;
                entry.registered_at = now;
            }
            entry.server_type = server_type;
            return;
        }
        if self.entries >= MAX_ENTRIES {
            return;
        }
        let entry = RegisteredTool {
            server: server.clone(),
            server_type,
            server_addr: self.address_of(server).map(str::to_owned),
            tool_hash,
            registered_at: now,
        };
        self.tools.entry(tool.to_owned()).or_default().push(entry);
        self.entries += 1;
        self.version += 1;
    }

    /// Removes `tool` of `server`, which no longer offers it.
    pub fn remove(&mut self, server: &ServerId, tool: &str) {
        let Some(entries) = self.tools.get_mut(tool) else {
            return;
        };
        let before = entries.len();
        entries.retain(|entry| entry.server != *server);
        self.entries -= before - entries.len();
        self.version += 1;
        if entries.is_empty() {
            self.tools.remove(tool);
        }
    }

    /// Removes all tools of `server`.
    pub fn remove_server(&mut self, server: &ServerId) {
        for entries in self.tools.values_mut() {
            entries.retain(|entry| entry.server != *server);
        }
        self.tools.retain(|_, entries| !entries.is_empty());
        self.entries = self.tools.values().map(Vec::len).sum();
        self.version += 1;
    }

    /// Returns the number of changes.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the servers that offer `tool`, in the order of registration; there may be several.
    pub fn lookup(&self, tool: &str) -> &[RegisteredTool] {
        self.tools.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Returns the `host:port` of every declared remote server.
    pub const fn server_addrs(&self) -> &BTreeMap<String, ServerId> {
        &self.addresses
    }

    /// Returns the `host:port` of a server that is declared as a remote one.
    pub fn address_of(&self, server: &ServerId) -> Option<&str> {
        let mut addresses = self.addresses.iter();
        let (address, _) = addresses.find(|(_, id)| *id == server)?;
        Some(address)
    }

    /// Returns every tool with the servers that offer it, by name.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &[RegisteredTool])> {
        self.tools
            .iter()
            .map(|(name, entries)| (name.as_str(), entries.as_slice()))
    }

    /// Returns the names of tools that servers other than `server` offer.
    pub fn tools_of_others(&self, server: &ServerId) -> impl Iterator<Item = &str> {
        self.tools()
            .filter(move |(_, entries)| entries.iter().any(|entry| entry.server != *server))
            .map(|(name, _)| name)
    }
}

fn of_server_mut<'e>(entries: &'e mut [RegisteredTool], server: &ServerId) -> Option<&'e mut RegisteredTool> {
    entries.iter_mut().find(|entry| entry.server == *server)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ServerId {
        ServerId::new(name).expect("an id")
    }

    fn register(registry: &mut Registry, server: &str, tool: &str, content: &str) {
        let hash = Digest::of(content.as_bytes());
        registry.register(Timestamp(1), &id(server), ServerType::Stdio, tool, hash);
    }

    fn servers(registry: &Registry, tool: &str) -> Vec<String> {
        let entries = registry.lookup(tool).iter();
        entries.map(|entry| entry.server.to_string()).collect()
    }

    #[test]
    fn a_tool_can_have_several_servers() {
        let mut registry = Registry::default();
        register(&mut registry, "fs", "read", "a");
        register(&mut registry, "evil", "read", "b");
        register(&mut registry, "fs", "read", "c");
        register(&mut registry, "fs", "write", "d");
        assert_eq!(servers(&registry, "read"), ["fs", "evil"]);
        assert_eq!(registry.lookup("read")[0].tool_hash, Digest::of(b"c"));
        assert_eq!(servers(&registry, "delete"), [""; 0]);
        assert_eq!(registry.tools_of_others(&id("fs")).collect::<Vec<_>>(), ["read"]);
    }

    #[test]
    fn what_is_not_offered_is_forgotten() {
        let mut registry = Registry::default();
        for (server, tool) in [("fs", "read"), ("fs", "write"), ("evil", "read")] {
            register(&mut registry, server, tool, "");
        }
        registry.remove(&id("fs"), "read");
        registry.remove(&id("fs"), "nothing");
        assert_eq!(servers(&registry, "read"), ["evil"]);
        registry.remove_server(&id("evil"));
        assert_eq!(
            registry.tools().map(|(tool, _)| tool).collect::<Vec<_>>(),
            ["write"]
        );
        registry.remove_server(&id("fs"));
        assert_eq!((registry.tools().count(), registry.entries), (0, 0));
    }

    #[test]
    fn addresses_come_from_the_policy() {
        let server = |name: &str, host| mcpmon_policy::Server {
            id: id(name),
            transport: Transport::Remote {
                server_type: ServerType::Http,
                url: String::new(),
                host,
                port: 443,
                tls_fingerprint: None,
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: Default::default(),
            egress: None,
            on_change: None,
        };
        let address = |text: &str| RemoteHost::Address(text.parse().expect("an address"));
        let policy = Policy {
            servers: vec![
                server("four", address("192.0.2.1")),
                server("six", address("2001:db8::1")),
            ],
            ..Policy::default()
        };
        let mut registry = Registry::new(&policy);
        let told: Vec<String> = registry
            .server_addrs()
            .iter()
            .map(|(address, id)| format!("{address} {id}"))
            .collect();
        assert_eq!(told, ["192.0.2.1:443 four", "[2001:db8::1]:443 six"]);
        register(&mut registry, "four", "read", "");
        assert_eq!(
            registry.lookup("read")[0].server_addr.as_deref(),
            Some("192.0.2.1:443")
        );
    }
}
