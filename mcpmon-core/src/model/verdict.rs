//! What is to become of a message.

/// What is to become of a message. How a layer carries it out is `rewrite`'s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it came.
    #[default]
    Allow,
    /// A listing goes on without the items at these positions, ascending.
    Hide(Vec<usize>),
    /// An introduction goes on without its instructions.
    StripInstructions,
    /// It does not go on; whoever waits for it gets a valid answer that says why.
    Block(Denial),
}

/// Why something was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The rule that decided, by its configured or built-in name.
    pub rule: String,
    /// Why, in a sentence without a full stop.
    pub reason: String,
    /// What to do about it: a command that exists.
    pub remedy: Option<String>,
}
