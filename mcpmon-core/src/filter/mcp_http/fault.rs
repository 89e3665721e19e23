//! Why a response does not go on as it came.

/// Why a response does not go on as it came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is longer than what is held.
    #[error("the server's answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// It is no message.
    #[error("the server's answer is no JSON-RPC message")]
    NoMessage,
    /// Its head says that it is to be read as something else than UTF-8.
    #[error("the server's answer names another charset than UTF-8")]
    Charset,
    /// The server names an address for messages that is not its own.
    #[error("the server wants messages sent to another place: {cause}")]
    Endpoint {
        /// What is wrong with it.
        cause: &'static str,
    },
    /// It does not come, or not to its end.
    #[error("{cause}")]
    Broken {
        /// Why.
        cause: String,
    },
}
