//! Members by name, as every reader finds them.

use std::borrow::Cow;

use super::ApiViolation;
use crate::decode::json::{Value, ValueKind};

/// The members with these names; `None` where one is missing or `null`.
///
/// # Errors
/// Returns an error if it is no object, or has a name that some readers take for one of these although it is
/// spelled otherwise.
pub(super) fn fields<'t, const N: usize>(
    object: Value<'t>,
    names: [&str; N],
) -> Result<[Option<Value<'t>>; N], ApiViolation> {
    if !object.is_object() {
        return Err(ApiViolation("a value is no object where one is expected"));
    }
    let picked = object
        .pick(names)
        .ok_or(ApiViolation("the name of a member is misspelled"))?;
    Ok(picked.map(|value| value.filter(|value| !value.is_null())))
}

/// Returns the decoded string; empty if there is none.
pub(super) fn text(value: Option<Value<'_>>) -> Result<Cow<'_, str>, ApiViolation> {
    value.map_or(Ok(Cow::Borrowed("")), |value| {
        value
            .string()
            .ok_or(ApiViolation("a value is no string where one is expected"))
    })
}

/// A number that counts something.
pub(super) fn count(value: Option<Value<'_>>) -> Result<Option<u64>, ApiViolation> {
    let read = |value: Value<'_>| value.text().parse().ok().ok_or(ApiViolation("an index is none"));
    value.map(read).transpose()
}

/// The items of an array; none where there is no array.
pub(super) fn items<'t>(value: Option<Value<'t>>) -> Result<impl Iterator<Item = Value<'t>>, ApiViolation> {
    match value {
        Some(value) if value.kind() != ValueKind::Array => {
            Err(ApiViolation("a value is no array where one is expected"))
        }
        array => Ok(array.into_iter().flat_map(Value::items)),
    }
}
