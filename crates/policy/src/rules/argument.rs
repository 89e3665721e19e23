//! Paths to arguments: `amount`, `order.amount`, `items[].price`, `*.path`.

use std::fmt;

use mcpmon_model::fold;

/// The path to members of a call's arguments. The items of a list have the path of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPath {
    written: String,
    steps: Vec<PatternStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternStep {
    Named { written: String, folded: String },
    Any,
}

/// The reason why a text is not a valid argument path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentPathError {
    /// The path is empty, or has an empty name.
    #[error("a name is missing: expected for example `amount`, `order.amount` or `items[].price`")]
    Empty,
    /// The path has an index in brackets.
    #[error("items of a list cannot be picked: `items[].price` is the price of every item")]
    Index,
    /// The path has a `*` within a name.
    #[error("`*` stands for a whole name, as in `*.amount`")]
    Wildcard,
}

impl ArgumentPath {
    /// Reads `text`.
    ///
    /// # Errors
    /// Returns an error if a name is missing, an item is selected, or a `*` is within a name.
    pub fn new(text: &str) -> Result<Self, ArgumentPathError> {
        let step = |part: &str| {
            let name = part.trim_end_matches("[]");
            match name {
                "" => Err(ArgumentPathError::Empty),
                "*" => Ok(PatternStep::Any),
                _ if name.contains(['[', ']']) => Err(ArgumentPathError::Index),
                _ if name.contains('*') => Err(ArgumentPathError::Wildcard),
                _ => Ok(PatternStep::Named {
                    written: name.to_owned(),
                    folded: folded(name),
                }),
            }
        };
        Ok(Self {
            written: text.to_owned(),
            steps: text.split('.').map(step).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the path as it is written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns whether this path names the value at the end of `members`, or a value that contains it. A single name
    /// matches at any depth, because a server may look for it in a part of its arguments. The case of names is ignored,
    /// as by servers written in Go, and a name with points in it counts as several names.
    pub fn covers<'n>(&self, members: impl Iterator<Item = &'n str>) -> bool {
        match &*self.steps {
            [PatternStep::Named { folded, .. }] => members
                .flat_map(|member| member.split('.'))
                .any(|member| is_named(folded, member)),
            _ => self.leads(members),
        }
    }

    /// Returns whether the names of this path are the first of `members`.
    fn leads<'n>(&self, members: impl Iterator<Item = &'n str>) -> bool {
        let mut members = members.flat_map(|member| member.split('.'));
        self.steps.iter().all(|step| {
            members.next().is_some_and(|member| match step {
                PatternStep::Named { folded, .. } => is_named(folded, member),
                PatternStep::Any => true,
            })
        })
    }
}

impl ArgumentPath {
    /// Returns whether this path leads to exactly the value at the end of `members`, with names in the same case: a
    /// rule that allows a value must not match any other value.
    pub fn is_at<'n>(&self, mut members: impl Iterator<Item = &'n str>) -> bool {
        self.steps.iter().all(|step| {
            members.next().is_some_and(|member| match step {
                PatternStep::Named { written, .. } => written == member,
                PatternStep::Any => true,
            })
        })
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn is_named(folded: &str, member: &str) -> bool {
    member.chars().flat_map(fold).eq(folded.chars())
}

fn folded(name: &str) -> String {
    name.chars().flat_map(fold).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("amount", &["amount"] => (true, true); "a name")]
    #[test_case("amount", &["order", "amount"] => (true, false); "a name further down")]
    #[test_case("amount", &["amount", "value"] => (true, true); "what lies within")]
    #[test_case("amount", &["amounts"] => (false, false); "another name")]
    #[test_case("amount", &["AMOUNT"] => (true, false); "case")]
    #[test_case("task", &["taſK"] => (true, false); "case beyond ascii")]
    #[test_case("order.amount", &["order", "amount"] => (true, true); "a way")]
    #[test_case("order.amount", &["order.amount"] => (true, false); "one name with a point")]
    #[test_case("order.amount", &["amount"] => (false, false); "part of the way")]
    #[test_case("order.amount", &["big", "order", "amount"] => (false, false); "a way from elsewhere")]
    #[test_case("items[].price", &["items", "price"] => (true, true); "items")]
    #[test_case("*.price", &["x", "price"] => (true, true); "any name")]
    #[test_case("*.price", &["price"] => (false, false); "any name, but one")]
    #[test_case("price", &[] => (false, false); "the arguments themselves")]
    fn ways(path: &str, members: &[&str]) -> (bool, bool) {
        let path = ArgumentPath::new(path).expect("a way");
        (
            path.covers(members.iter().copied()),
            path.is_at(members.iter().copied()),
        )
    }

    #[test_case("" => ArgumentPathError::Empty; "empty")]
    #[test_case("a..b" => ArgumentPathError::Empty; "nothing between points")]
    #[test_case("[]" => ArgumentPathError::Empty; "items of nothing")]
    #[test_case("a[0]" => ArgumentPathError::Index; "an item")]
    #[test_case("a[].b[x]" => ArgumentPathError::Index; "a key in brackets")]
    #[test_case("a*" => ArgumentPathError::Wildcard; "part of a name")]
    fn mistakes(path: &str) -> ArgumentPathError {
        ArgumentPath::new(path).expect_err("a mistake")
    }
}
