//! Names of tools: the schemes by which clients rename tools before a model sees them, as data; and the tool that a
//! name used by a model means.

mod guess;
mod index;

pub use self::{
    guess::{Guess, guesses, joined, parts},
    index::{Candidate, Names},
};

/// A client that talks to models, and has its own scheme of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamingClient {
    /// Claude Code.
    ClaudeCode,
    /// Codex; the name of a namespace joined with that of a tool in it.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// opencode.
    Opencode,
    /// fast-agent.
    FastAgent,
    /// Copilot in VS Code.
    Copilot,
    /// Copilot CLI.
    CopilotCli,
    /// Cline.
    Cline,
    /// Roo and Kilo.
    Roo,
    /// `LibreChat`.
    LibreChat,
    /// goose.
    Goose,
    /// OpenAI Agents SDK and `LangChain` adapters without prefixes, and every other client that does not change names.
    Bare,
    /// OpenAI Agents SDK with prefixes.
    AgentsSdk,
    /// `LangChain` adapters and Pydantic AI with prefixes.
    Prefixed,
    /// A client that puts a colon between server and tool.
    Colon,
}

/// The scheme by which a client makes a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The client.
    pub client: NamingClient,
    prefix: &'static str,
    between: &'static str,
    order: Order,
    /// Characters besides letters and digits that stay in a server's name.
    server_keeps: &'static str,
    /// Characters besides letters and digits that stay in a tool's name.
    tool_keeps: &'static str,
    /// The replacement of a character that is not kept.
    instead: &'static str,
    /// Longest name of a server, characters.
    server_length: usize,
    /// The treatment of a name that is too long.
    length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    ServerFirst,
    ToolFirst,
    ToolOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// The name stays as it is.
    Any,
    /// The beginning of the name stays.
    Cut(usize),
    /// The beginning and the end of the name stay, with `...` between them.
    Middle(usize),
}

/// Every character stays.
const ALL: &str = "*";

/// Returns a scheme of `PREFIX SERVER BETWEEN TOOL`, whose names may have these characters besides letters and digits.
const fn scheme(
    client: NamingClient,
    prefix: &'static str,
    between: &'static str,
    server_keeps: &'static str,
    tool_keeps: &'static str,
) -> Scheme {
    Scheme {
        client,
        prefix,
        between,
        order: Order::ServerFirst,
        server_keeps,
        tool_keeps,
        instead: "_",
        server_length: usize::MAX,
        length: Length::Any,
    }
}

/// Every scheme, one per client.
pub const SCHEMES: [Scheme; 15] = {
    use NamingClient as Client;
    [
        scheme(Client::ClaudeCode, "mcp__", "__", "_-", "_-"),
        scheme(Client::Codex, "mcp__", "__", "_", "_"),
        Scheme {
            length: Length::Middle(63),
            ..scheme(Client::GeminiCli, "mcp_", "_", "_-.:", "_-.:")
        },
        scheme(Client::Opencode, "", "_", "_-", "_-"),
        Scheme {
            length: Length::Cut(64),
            ..scheme(Client::FastAgent, "", "__", ALL, ALL)
        },
        Scheme {
            server_length: 18,
            length: Length::Cut(64),
            ..scheme(Client::Copilot, "mcp_", "_", "_-", "_-")
        },
        scheme(Client::Cline, "", "0mcp0", ALL, ALL),
        Scheme {
            instead: "___",
            ..scheme(Client::Roo, "mcp--", "--", "_", "_")
        },
        Scheme {
            order: Order::ToolFirst,
            length: Length::Cut(64),
            ..scheme(Client::LibreChat, "", "_mcp_", ALL, ALL)
        },
        scheme(Client::Goose, "", "__", "_-", ALL),
        Scheme {
            order: Order::ToolOnly,
            ..scheme(Client::Bare, "", "", ALL, ALL)
        },
        Scheme {
            length: Length::Cut(64),
            ..scheme(Client::AgentsSdk, "mcp_", "__", "_-", "_-")
        },
        scheme(Client::Prefixed, "", "_", ALL, ALL),
        scheme(Client::CopilotCli, "", "-", "_-", "_-"),
        scheme(Client::Colon, "", ":", ALL, ALL),
    ]
};

impl NamingClient {
    /// Returns the client that calls itself `name` in `initialize`; `None` if its scheme is not known.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let (_, client) = CLIENTS.iter().find(|(known, _)| name.starts_with(known))?;
        Some(*client)
    }

    /// Returns the client that identifies itself so in a `User-Agent`; `None` if its scheme is not known.
    pub fn of_agent(agent: &str) -> Option<Self> {
        let agent = agent.to_lowercase();
        agent.split_whitespace().take(MAX_PRODUCTS).find_map(|product| {
            let (_, client) = AGENTS.iter().find(|(known, _)| product.starts_with(known))?;
            Some(*client)
        })
    }
}

impl NamingClient {
    /// Returns whether the client's names of MCP tools have a mark that no name of its own tools has.
    pub fn marks_names(self) -> bool {
        let mut own = SCHEMES.iter().filter(|scheme| scheme.client == self);
        own.all(Scheme::is_marked)
    }
}

/// Most products of a `User-Agent` that are compared.
const MAX_PRODUCTS: usize = 16;

/// Beginnings of products in a `User-Agent`, as in `CLIENTS`: libraries are not among them.
const AGENTS: [(&str, NamingClient); 11] = [
    ("claude-cli/", NamingClient::ClaudeCode),
    ("claude-code/", NamingClient::ClaudeCode),
    ("codex", NamingClient::Codex),
    ("geminicli", NamingClient::GeminiCli),
    ("opencode/", NamingClient::Opencode),
    ("cline/", NamingClient::Cline),
    ("roocode/", NamingClient::Roo),
    ("kilo-code/", NamingClient::Roo),
    ("librechat/", NamingClient::LibreChat),
    ("goose/", NamingClient::Goose),
    ("githubcopilotchat/", NamingClient::Copilot),
];

/// The prefixes in lower case of clients' own names. Libraries that any client may be built with are not
/// among them, because their users may put prefixes in front, or not.
const CLIENTS: [(&str, NamingClient); 14] = [
    ("claude-code", NamingClient::ClaudeCode),
    ("claude-ai", NamingClient::ClaudeCode),
    ("codex", NamingClient::Codex),
    ("gemini-cli", NamingClient::GeminiCli),
    ("opencode", NamingClient::Opencode),
    ("fast-agent", NamingClient::FastAgent),
    ("visual studio code", NamingClient::Copilot),
    ("vscode", NamingClient::Copilot),
    ("cursor", NamingClient::Copilot),
    ("cline", NamingClient::Cline),
    ("roo", NamingClient::Roo),
    ("kilo", NamingClient::Roo),
    ("@librechat", NamingClient::LibreChat),
    ("goose", NamingClient::Goose),
];

impl Scheme {
    /// Returns whether names of this scheme have a mark. Without one, many other names look like those of the scheme.
    fn is_marked(&self) -> bool {
        // No API lets a function of an agent have a colon in its name.
        !self.prefix.is_empty() || self.between.len() > 1 || self.between == ":"
    }

    /// Returns whether a name of this scheme has its server in it.
    fn has_server(&self) -> bool {
        self.order != Order::ToolOnly
    }

    /// Returns whether this scheme may have made a name for `client`: a scheme with a mark for any client, one without
    /// a mark for its own client and, if its names contain the server, for an unknown client.
    fn may_be_of(&self, client: Option<NamingClient>) -> bool {
        self.is_marked() || self.has_server() && client.is_none() || client == Some(self.client)
    }

    /// Returns the name that a model sees for `tool` of `server`.
    pub fn visible(&self, server: &str, tool: &str) -> String {
        let server = self.server(server);
        let tool = kept(tool, self.tool_keeps, self.instead);
        let (prefix, between) = (self.prefix, self.between);
        let name = match self.order {
            Order::ServerFirst => format!("{prefix}{server}{between}{tool}"),
            Order::ToolFirst => format!("{prefix}{tool}{between}{server}"),
            Order::ToolOnly => tool,
        };
        self.length.applied(name)
    }

    /// Returns the form of `server` in the names of this scheme.
    fn server(&self, server: &str) -> String {
        let kept = kept(server, self.server_keeps, self.instead);
        kept.chars().take(self.server_length).collect()
    }
}

impl Length {
    fn applied(self, name: String) -> String {
        let length = name.chars().count();
        match self {
            Self::Cut(most) if length > most => name.chars().take(most).collect(),
            Self::Middle(most) if length > most => {
                let half = (most - 3) / 2;
                let (first, last) = (name.chars().take(half), name.chars().skip(length - half));
                first.chain("...".chars()).chain(last).collect()
            }
            Self::Any | Self::Cut(_) | Self::Middle(_) => name,
        }
    }
}

fn kept(name: &str, keeps: &str, instead: &str) -> String {
    if keeps == ALL {
        return name.to_owned();
    }
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_ascii_alphanumeric() || keeps.contains(character) {
            text.push(character);
        } else {
            text.push_str(instead);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn scheme(client: NamingClient) -> Scheme {
        *SCHEMES
            .iter()
            .find(|scheme| scheme.client == client)
            .expect("every client has one")
    }

    #[test_case(NamingClient::ClaudeCode => "mcp__my_srv_v1__admin_tools_list")]
    #[test_case(NamingClient::Codex => "mcp__my_srv_v1__admin_tools_list")]
    #[test_case(NamingClient::GeminiCli => "mcp_my.srv_v1_admin.tools.list")]
    #[test_case(NamingClient::Opencode => "my_srv_v1_admin_tools_list")]
    #[test_case(NamingClient::FastAgent => "my.srv v1__admin.tools.list")]
    #[test_case(NamingClient::Copilot => "mcp_my_srv_v1_admin_tools_list")]
    #[test_case(NamingClient::Cline => "my.srv v10mcp0admin.tools.list")]
    #[test_case(NamingClient::LibreChat => "admin.tools.list_mcp_my.srv v1")]
    #[test_case(NamingClient::Bare => "admin.tools.list")]
    fn names_as_the_model_sees_them(client: NamingClient) -> String {
        scheme(client).visible("my.srv v1", "admin.tools.list")
    }

    #[test_case("claude-code" => Some(NamingClient::ClaudeCode))]
    #[test_case("Visual Studio Code - Insiders" => Some(NamingClient::Copilot))]
    #[test_case("codex-mcp-client" => Some(NamingClient::Codex))]
    #[test_case("mcp" => None; "a library")]
    #[test_case("" => None; "nothing")]
    fn clients_call_themselves(name: &str) -> Option<NamingClient> {
        NamingClient::of(name)
    }

    #[test_case("claude-cli/2.1.329 (external, cli)" => Some(NamingClient::ClaudeCode))]
    #[test_case("codex_cli_rs/0.169.0 (Debian 13.0.0; x86_64) xterm" => Some(NamingClient::Codex))]
    #[test_case("GeminiCLI/0.61.0/gemini-3-pro (linux; x64)" => Some(NamingClient::GeminiCli))]
    #[test_case("ai-sdk/openai/2.0.1 opencode/1.18.33" => Some(NamingClient::Opencode); "behind a library")]
    #[test_case("Anthropic/Python 2.11.0" => None; "a library alone")]
    #[test_case("notclaude-cli/1" => None; "another beginning")]
    #[test_case("" => None; "none given")]
    fn agents_call_themselves(agent: &str) -> Option<NamingClient> {
        NamingClient::of_agent(agent)
    }

    #[test]
    fn codex_takes_hyphens_for_underscores_and_roo_for_three() {
        assert_eq!(scheme(NamingClient::Codex).visible("s", "a-b_c"), "mcp__s__a_b_c");
        assert_eq!(
            scheme(NamingClient::ClaudeCode).visible("s", "a-b_c"),
            "mcp__s__a-b_c"
        );
        assert_eq!(scheme(NamingClient::Roo).visible("s", "a-b"), "mcp--s--a___b");
    }

    #[test]
    fn long_names_are_cut_as_the_client_does() {
        let tool = "t".repeat(90);
        assert_eq!(scheme(NamingClient::ClaudeCode).visible("s", &tool).len(), 98);
        assert_eq!(scheme(NamingClient::FastAgent).visible("s", &tool).len(), 64);
        let gemini = scheme(NamingClient::GeminiCli).visible("s", &tool);
        assert_eq!((gemini.len(), gemini.contains("...")), (63, true));
        assert_eq!(
            scheme(NamingClient::Copilot).visible(&"s".repeat(30), "t"),
            format!("mcp_{}_t", "s".repeat(18))
        );
    }
}
